//! Maps and scenarios in the formats of the MovingAI benchmark sets.
//!
//! The format is Sturtevant's ("Benchmarks for Grid-Based Pathfinding", IEEE Transactions on
//! Computational Intelligence and AI in Games, 2012; movingai.com/benchmarks/formats.html). The
//! parser reads both dialects in use: scenarios that begin with `version 1`, `version 1.0` or no
//! such line, with tabs or blanks between their columns; lengths with six significant digits or,
//! under `version 1.0` with blanks, a fixed number of decimals, mostly two. The tolerance of a
//! printed length follows from the digits of its dialect ([`Query::tolerance`]).
//!
//! The surprising thing is water. Agents already in the water may cross a `W`, but agents on land
//! cannot enter it. The searches are for agents on land ([`Map::grid`]).

use crate::cell::Cell;
use crate::error::GridError;
use crate::grid::{Grid, SIDE_MAX};
use std::fmt;
use std::slice::SplitInclusive;

/// Errors quote up to this many bytes of the text found.
const QUOTED_MAX: usize = 40;
/// Significant digits that C++ streams print by default.
const DIGITS: i32 = 6;
/// The fewest decimals where their number is fixed.
const FIXED_DECIMALS: i32 = 2;

/// A map: the terrain of each cell, as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    width: u16,
    height: u16,
    terrain: Vec<u8>,
}

impl Map {
    /// Reads a map. Lines may end with CR LF; all text after the last row must be blank.
    ///
    /// # Errors
    /// [`GridError::Parse`] with the first malformed line.
    pub fn parse(bytes: &[u8]) -> Result<Map, GridError> {
        let mut lines = Lines::of(bytes);
        let mut sides = [None; 2];
        let mut typed = false;
        loop {
            let line = lines.wanted("a header: type, height, width, then map")?;
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            match (words.next(), words.next()) {
                (Some(b"map"), None) => break,
                (Some(b"type"), Some(b"octile" | b"tile")) => typed = true,
                (Some(name @ (b"height" | b"width")), Some(number)) => {
                    let side = decimal(number).filter(|side| (1..=SIDE_MAX).contains(side));
                    let side = side.ok_or_else(|| lines.fault("a side from 1 to 4096", line))?;
                    sides[usize::from(name == b"width")] = Some(side);
                }
                _ => return Err(lines.fault("`type octile`, `height N`, `width N` or `map`", line)),
            }
        }
        let [Some(height), Some(width)] = sides else {
            return Err(lines.fault("a height and a width before `map`", b"map"));
        };
        if !typed {
            return Err(lines.fault("`type octile` before `map`", b"map"));
        }
        let mut terrain = Vec::with_capacity(width * height);
        for _ in 0..height {
            let row = lines.wanted("as many rows as `height` says")?;
            if row.len() != width {
                return Err(lines.fault("a row as long as `width` says", row));
            }
            if let Some(strange) = row.iter().position(|cell| !b".G@OTSW".contains(cell)) {
                return Err(lines.fault("cells of `.G@OTSW`", &row[strange..]));
            }
            terrain.extend_from_slice(row);
        }
        while let Some(line) = lines.next() {
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Err(lines.fault("nothing after the last row", line));
            }
        }
        Ok(Map { width: width as u16, height: height as u16, terrain })
    }

    /// A map with `.` for each free cell of a grid and `@` for each blocked one.
    pub fn of(grid: &Grid) -> Map {
        let terrain = grid.cells().map(|cell| if grid.is_free(cell) { b'.' } else { b'@' });
        Map { width: grid.width(), height: grid.height(), terrain: terrain.collect() }
    }

    /// Columns.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u16 {
        self.height
    }

    /// The terrain of `cell`: one of `.G@OTSW`; `@` beyond the map.
    pub fn terrain(&self, cell: Cell) -> u8 {
        if cell.x >= self.width {
            return b'@';
        }
        let at = usize::from(cell.y) * usize::from(self.width) + usize::from(cell.x);
        self.terrain.get(at).copied().unwrap_or(b'@')
    }

    /// The grid for walking agents: `.`, `G` and `S` are free.
    ///
    /// # Errors
    /// Never for a map that was read: its sides were checked.
    pub fn grid(&self) -> Result<Grid, GridError> {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        Grid::from_fn(width, height, |cell| b".GS".contains(&self.terrain(cell)))
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "type octile\nheight {}\nwidth {}\nmap", self.height, self.width)?;
        for row in self.terrain.chunks(usize::from(self.width).max(1)) {
            writeln!(f, "{}", String::from_utf8_lossy(row))?;
        }
        Ok(())
    }
}

/// One query of a scenario, with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The line in the file, from 1.
    pub line: usize,
    /// Paths of about the same length share a bucket.
    pub bucket: u32,
    /// The name of the map, as in the file.
    pub map: String,
    /// Columns of the map.
    pub width: usize,
    /// Rows of the map.
    pub height: usize,
    /// The first cell of the path.
    pub from: Cell,
    /// The last cell of the path.
    pub to: Cell,
    /// The length of the shortest path, as printed.
    pub length: f64,
    /// The allowed difference between the printed length and the true one: half a unit of the last
    /// digit, plus the error of a sum in single precision.
    pub tolerance: f64,
}

/// Reads a scenario.
///
/// # Errors
/// [`GridError::Parse`] with the first malformed line.
pub fn scenario(bytes: &[u8]) -> Result<Vec<Query>, GridError> {
    const ROW: &str = "bucket, map, width, height, start x y, goal x y, length";
    let mut lines = Lines::of(bytes);
    let mut queries = Vec::new();
    let (mut is_fixed, mut decimals_max) = (false, FIXED_DECIMALS);
    while let Some(line) = lines.next() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let text = std::str::from_utf8(line).map_err(|_| lines.fault(ROW, line))?;
        if lines.number == 1 && text.starts_with("version") {
            match text["version".len()..].trim().parse::<f64>() {
                Ok(1.0) => {
                    is_fixed = text.contains('.');
                    continue;
                }
                _ => return Err(lines.fault("`version 1` or `version 1.0`", line)),
            }
        }
        let query = query(text, lines.number).ok_or_else(|| lines.fault(ROW, line))?;
        is_fixed &= !text.contains('\t');
        decimals_max = decimals_max.max(decimals(text.trim_end()));
        queries.push(query);
    }
    if is_fixed {
        queries.iter_mut().for_each(|it| it.tolerance = unit_half(decimals_max, it.length));
    }
    Ok(queries)
}

fn query(text: &str, line: usize) -> Option<Query> {
    // Where tabs separate the columns, a map's name may hold blanks.
    let columns: Vec<&str> = if text.contains('\t') {
        text.split('\t').map(str::trim).collect()
    } else {
        text.split_ascii_whitespace().collect()
    };
    let [bucket, map, width, height, x, y, to_x, to_y, printed] = columns[..] else { return None };
    let length: f64 = printed.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0)?;
    Some(Query {
        line,
        bucket: bucket.parse().ok()?,
        map: map.to_owned(),
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        from: Cell::new(x.parse().ok()?, y.parse().ok()?),
        to: Cell::new(to_x.parse().ok()?, to_y.parse().ok()?),
        length,
        tolerance: tolerance(printed, length),
    })
}

/// The tolerance of a length that a stream printed, with six significant digits or more.
fn tolerance(printed: &str, length: f64) -> f64 {
    let whole = if length < 1.0 { 0 } else { length.log10().floor() as i32 + 1 };
    // Streams omit trailing zeros, so a short number does not mean a coarse one.
    unit_half(decimals(printed).max(DIGITS - whole), length)
}

/// The decimals of the number at the end of `text`.
fn decimals(text: &str) -> i32 {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    if text[..text.len() - digits].ends_with('.') { digits as i32 } else { 0 }
}

/// Half a unit of the last decimal, plus a part in a million.
fn unit_half(decimals: i32, length: f64) -> f64 {
    0.5 * 10f64.powi(-decimals) + length * 1e-6
}

/// The lines of a file, with a line counter.
struct Lines<'a> {
    rest: SplitInclusive<'a, u8, fn(&u8) -> bool>,
    number: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        let line = self.rest.next()?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8]) -> Lines<'a> {
        Lines { rest: bytes.split_inclusive(|byte| *byte == b'\n'), number: 0 }
    }

    fn wanted(&mut self, expected: &'static str) -> Result<&'a [u8], GridError> {
        let found = "the end of the file".to_owned();
        self.next().ok_or(GridError::Parse { line: self.number, expected, found })
    }

    /// The error for the line that was read last.
    fn fault(&self, expected: &'static str, found: &[u8]) -> GridError {
        let found = String::from_utf8_lossy(&found[..found.len().min(QUOTED_MAX)]);
        GridError::Parse { line: self.number, expected, found: format!("`{found}`") }
    }
}

fn decimal(bytes: &[u8]) -> Option<usize> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "type octile\nheight 2\nwidth 3\nmap\n.G@\nSWT\n";

    #[test]
    fn a_map_is_read_with_either_ending_of_lines() {
        let map = Map::parse(SMALL.as_bytes()).unwrap();
        assert_eq!(Map::parse(SMALL.replace('\n', "\r\n").as_bytes()), Ok(map.clone()));
        assert_eq!(Map::parse(format!("{SMALL}\n \n").as_bytes()), Ok(map.clone()));
        assert_eq!(map.to_string(), SMALL);
        let free = |grid: Grid| grid.cells().filter(|it| grid.is_free(*it)).collect::<Vec<_>>();
        let walk = [Cell::new(0, 0), Cell::new(1, 0), Cell::new(0, 1)];
        assert_eq!(free(map.grid().unwrap()), walk);
        assert_eq!(map.terrain(Cell::new(2, 1)), b'T');
        assert_eq!(map.terrain(Cell::new(3, 0)), b'@');
    }

    #[test]
    fn a_wrong_map_is_refused_by_its_line() {
        let check = |text: &str, line: usize, says: &str| {
            let error = Map::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, GridError::Parse { line: at, .. } if at == line), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        };
        check("", 1, "the end of the file");
        check("type hexagonal\n", 1, "hexagonal");
        check("type octile\nheight 0\n", 2, "a side");
        check("type octile\nheight 5000\n", 2, "a side");
        check("type octile\nmap\n", 2, "a height and a width");
        check("height 1\nwidth 1\nmap\n.\n", 3, "type octile");
        check(&SMALL.replace("SWT", "SW"), 6, "as long as");
        check(&SMALL.replace("SWT\n", ""), 6, "the end of the file");
        check(&SMALL.replace("SWT", "S?T"), 6, "?T");
        check(&format!("{SMALL}..."), 7, "nothing after");
    }

    #[test]
    fn both_dialects_of_scenarios_are_read() {
        let tabs = "version 1\n3\tmaps/a b.map\t9\t8\t1\t2\t3\t4\t2.82843\n\n\n";
        let blanks = "version 1.0\r\n3 a.map 9 8 1 2 3 4 2.82842712\r\n";
        let bare = "3 a.map 9 8 1 2 3 4 4";
        let read = |text: &str| scenario(text.as_bytes()).unwrap().remove(0);
        assert_eq!(read(tabs).map, "maps/a b.map");
        assert_eq!((read(tabs).from, read(tabs).to), (Cell::new(1, 2), Cell::new(3, 4)));
        assert_eq!((read(blanks).width, read(blanks).height, read(blanks).bucket), (9, 8, 3));
        assert!(read(tabs).tolerance > 5e-6 && read(tabs).tolerance < 1e-5);
        assert!(read(blanks).tolerance < 4e-6, "{}", read(blanks).tolerance);
        assert_eq!(read(bare).length, 4.0);
        assert!(read(bare).tolerance < 1e-5, "a short number is not a coarse one");
    }

    /// A rounded length of the second dialect, as 203.2671 in two decimals.
    #[test]
    fn a_length_is_judged_by_the_digits_of_its_dialect() {
        let tolerance = |head: &str, lengths: &[&str]| {
            let row = |length: &&str| format!("3 a.map 9 8 1 2 3 4 {length}\n");
            let text = head.to_owned() + &lengths.iter().map(row).collect::<String>();
            scenario(text.as_bytes()).unwrap()[0].tolerance
        };
        let check = |head, lengths: &[&str], unit: f64| {
            let found = tolerance(head, lengths);
            assert!((unit / 2.0..unit).contains(&found), "{head} {lengths:?}: {found}");
        };
        check("version 1.0\n", &["203.27", "4.00"], 1e-2);
        check("version 1.0\n", &["4", "203.2"], 1e-2);
        check("version 1.0\n", &["203.27", "4.24264"], 1e-5 * 41.0);
        check("version 1\n", &["203.27", "4"], 1e-3);
        check("", &["203.27", "4"], 1e-3);
    }

    #[test]
    fn a_wrong_scenario_is_refused_by_its_line() {
        for (text, line) in [
            ("version 2\n", 1),
            ("version 1\nversion 1\n", 2),
            ("1 a 9 9 1 1 2\n", 1),
            ("\n1 a 9 9 1 1 2 2 -3\n", 2),
            ("1 a 9 9 1 1 2 2 inf", 1),
            ("1 a 9 9 1 1 70000 2 3", 1),
        ] {
            let error = scenario(text.as_bytes()).unwrap_err();
            assert!(matches!(error, GridError::Parse { line: at, .. } if at == line), "{error}");
        }
    }
}
