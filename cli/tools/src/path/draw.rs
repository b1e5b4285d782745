//! A map with a path as text: blocks of colour on a terminal, characters elsewhere.
//!
//! On a terminal one character shows two cells, one above the other, which makes cells square. A
//! map that is wider than the terminal is scaled down: each square of cells shows its most
//! important one, so that a path never vanishes between walls.

use std::fmt::Write as _;

use grid::{Cell, Event, Grid};

/// The kinds of cells, the least important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Beyond,
    Free,
    Wall,
    Expanded,
    Path,
    Goal,
    Start,
}

impl Shown {
    fn sign(self) -> char {
        match self {
            Shown::Beyond => ' ',
            Shown::Free => '.',
            Shown::Wall => '#',
            Shown::Expanded => 'o',
            Shown::Path => '*',
            Shown::Goal => 'G',
            Shown::Start => 'S',
        }
    }

    /// Its number among a terminal's 256 colours.
    fn colour(self) -> u8 {
        match self {
            Shown::Beyond => 0,
            Shown::Free => 255,
            Shown::Wall => 240,
            Shown::Expanded => 153,
            Shown::Path => 202,
            Shown::Goal => 160,
            Shown::Start => 28,
        }
    }
}

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// With colours, two cells a character.
    pub colours: bool,
    /// The number of available columns; a wider map is drawn smaller.
    pub columns: usize,
}

/// The map with a path and the expanded cells.
pub fn draw(grid: &Grid, path: &[Cell], events: &[Event], style: Style) -> String {
    let picture = Picture::new(grid, path, events, style.columns.max(1));
    if style.colours { picture.coloured() } else { picture.plain() }
}

/// The squares, row by row.
struct Picture {
    shown: Vec<Shown>,
    columns: usize,
}

impl Picture {
    fn new(grid: &Grid, path: &[Cell], events: &[Event], columns_max: usize) -> Picture {
        let (width, height) = (usize::from(grid.width()), usize::from(grid.height()));
        let side = width.div_ceil(columns_max);
        let (columns, rows) = (width.div_ceil(side), height.div_ceil(side));
        let mut walls = vec![0; columns * rows];
        let at = |cell: Cell| usize::from(cell.y) / side * columns + usize::from(cell.x) / side;
        for cell in grid.cells().filter(|cell| !grid.is_free(*cell)) {
            walls[at(cell)] += 1;
        }
        // A square is a wall if most of its cells are walls.
        let most = side * side / 2 + side * side % 2;
        let solid = |count: usize| if count >= most { Shown::Wall } else { Shown::Free };
        let mut shown: Vec<Shown> = walls.into_iter().map(solid).collect();
        let mut show = |cell: Cell, what: Shown| {
            let square = &mut shown[at(cell)];
            *square = what.max(*square);
        };
        for event in events {
            if let Event::Expanded(cell) = event {
                show(*cell, Shown::Expanded);
            }
        }
        path.iter().for_each(|cell| show(*cell, Shown::Path));
        if let [start, .., goal] | [start @ goal] = path {
            show(*start, Shown::Start);
            show(*goal, Shown::Goal);
        }
        Picture { shown, columns }
    }

    fn plain(&self) -> String {
        let mut text = String::new();
        for row in self.shown.chunks(self.columns) {
            let line: String = row.iter().map(|square| square.sign()).collect();
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// The upper half of each character is the foreground, the lower the background.
    fn coloured(&self) -> String {
        let mut text = String::new();
        let rows: Vec<&[Shown]> = self.shown.chunks(self.columns).collect();
        for pair in rows.chunks(2) {
            let mut last = None;
            for (at, upper) in pair[0].iter().enumerate() {
                let lower = pair.get(1).map_or(Shown::Beyond, |row| row[at]);
                if last != Some((*upper, lower)) {
                    last = Some((*upper, lower));
                    let _ = write!(text, "\x1b[38;5;{}m", upper.colour());
                    let _ = match lower {
                        Shown::Beyond => write!(text, "\x1b[49m"),
                        _ => write!(text, "\x1b[48;5;{}m", lower.colour()),
                    };
                }
                text.push('▀');
            }
            text.push_str("\x1b[0m\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> (Grid, Vec<Cell>) {
        let grid = Grid::from_fn(4, 3, |cell| cell != Cell::new(1, 1)).unwrap();
        (grid, vec![Cell::new(0, 0), Cell::new(1, 0), Cell::new(2, 1), Cell::new(3, 2)])
    }

    #[test]
    fn signs_stand_for_cells() {
        let (grid, path) = room();
        let style = Style { colours: false, columns: 80 };
        assert_eq!(draw(&grid, &path, &[], style), "S*..\n.#*.\n...G\n");
        let seen = [Event::Expanded(Cell::new(0, 2)), Event::Expanded(Cell::new(0, 0))];
        assert_eq!(draw(&grid, &path, &seen, style), "S*..\n.#*.\no..G\n");
        assert_eq!(draw(&grid, &path[..1], &[], style), "S...\n.#..\n....\n");
    }

    #[test]
    fn a_wide_map_is_drawn_smaller_and_keeps_its_path() {
        let (grid, path) = room();
        let style = Style { colours: false, columns: 2 };
        assert_eq!(draw(&grid, &path, &[], style), "S*\n.G\n");
    }

    #[test]
    fn colours_take_half_the_lines_and_are_switched_off_again() {
        let (grid, path) = room();
        let text = draw(&grid, &path, &[], Style { colours: true, columns: 80 });
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.ends_with("\x1b[0m")), "{text:?}");
        assert_eq!(text.matches('▀').count(), 8);
    }
}
