//! The page on which a user draws walls and compares two searches: its questions and its answers.
//!
//! The program searches, never the browser: the page animates what our searches recorded. So the
//! page has two forms. The one served by `path edit` requests a search for each new grid. The one
//! written by `path page` is a single file that works offline, with recorded searches and without
//! drawing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use language::info;
use serde::Deserialize;
use serde_json::{Value, json};

use super::solve::{Answer, Question};
use super::{Algorithm, corners, read_map};
use grid::movingai::Map;
use grid::{Cell, Corners, Event, Grid};

/// The longest side of a grid; it fits a screen, with cells large enough to click.
pub const SIDE_MAX: usize = 256;
const HTML: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
/// Start and goal of the portfolio's longer experiments.
const PORTFOLIO: [Cell; 2] = [Cell::new(0, 0), Cell::new(70, 35)];

/// The arguments of `path page`.
#[derive(clap::Args)]
pub struct Args {
    /// The file to write
    file: PathBuf,
    /// A map to show first, besides the two of the portfolio; at most 256 columns and rows
    map: Option<PathBuf>,
    /// The cell where its path begins
    #[arg(long, value_name = "X,Y", requires = "map")]
    from: Option<Cell>,
    /// The cell where it ends
    #[arg(long, value_name = "X,Y", requires = "map")]
    to: Option<Cell>,
    /// When a diagonal step may pass corners: always, one-obstacle, no-obstacle or four (never)
    #[arg(long, value_parser = corners, default_value = "one-obstacle", value_name = "RULE")]
    rule: Corners,
}

/// Writes the page.
pub fn run(args: &Args) -> Result<ExitCode> {
    let map = args.map.as_deref().map(read_map).transpose()?;
    let given = Given { map, from: args.from, to: args.to, corners: args.rule };
    let html = html(&given, true)?;
    std::fs::write(&args.file, html)
        .with_context(|| format!("cannot write {}", args.file.display()))?;
    info!("wrote {}", args.file.display());
    Ok(ExitCode::SUCCESS)
}

/// The page's first map.
pub struct Given {
    /// A map in addition to those of the portfolio.
    pub map: Option<Map>,
    /// The start of its path; by default the first free cell.
    pub from: Option<Cell>,
    /// The end of its path; by default the last free cell.
    pub to: Option<Cell>,
    /// Which corners may be cut.
    pub corners: Corners,
}

/// The page as `path edit` serves it.
///
/// # Errors
/// A map that is too large or has no free cell.
pub fn live(given: &Given) -> Result<String> {
    html(given, false)
}

/// A map to choose on the page, with its ends.
struct Scene {
    name: &'static str,
    grid: Grid,
    ends: [Cell; 2],
}

fn scenes(given: &Given) -> Result<Vec<Scene>> {
    let mut scenes = Vec::new();
    if let Some(map) = &given.map {
        let grid = map.grid()?;
        sides(usize::from(grid.width()), usize::from(grid.height()))?;
        let free: Vec<Cell> = grid.cells().filter(|cell| grid.is_free(*cell)).collect();
        let (Some(first), Some(last)) = (free.first(), free.last()) else {
            bail!("expected a free cell in the map, found none")
        };
        let ends = [given.from.unwrap_or(*first), given.to.unwrap_or(*last)];
        for end in ends {
            if !grid.is_free(end) {
                bail!("expected a free cell of the map, found {end}");
            }
        }
        scenes.push(Scene { name: "the given map", grid, ends });
    }
    let [open, maze] = grid::PORTFOLIO_MAPS;
    let portfolio = [("the portfolio's open map", open), ("the portfolio's maze", maze)];
    for (name, bytes) in portfolio {
        scenes.push(Scene { name, grid: Map::parse(bytes)?.grid()?, ends: PORTFOLIO });
    }
    if given.map.is_none()
        && let Some(scene) = scenes.first_mut()
    {
        scene.ends = [given.from.unwrap_or(scene.ends[0]), given.to.unwrap_or(scene.ends[1])];
    }
    Ok(scenes)
}

fn html(given: &Given, recorded: bool) -> Result<String> {
    let mut maps = Vec::new();
    for Scene { name, grid, ends } in scenes(given)? {
        let [from, to] = ends;
        let mut told = json!({
            "name": name, "rows": rows(&grid), "from": [from.x, from.y], "to": [to.x, to.y],
        });
        if recorded {
            told["answer"] = answers(&grid, given.corners, [from, to], &Algorithm::ALL)?;
        }
        maps.push(told);
    }
    let data = json!({"live": !recorded, "rule": given.corners.name(), "maps": maps});
    // Only `</` could end a script early.
    let data = data.to_string().replace('<', "\\u003c");
    Ok(crate::page::page("two searches side by side", &HTML.replace("{{DATA}}", &data), SCRIPT))
}

/// The rows of a grid, as in a map file.
fn rows(grid: &Grid) -> Vec<String> {
    let sign = |cell: Cell| if grid.is_free(cell) { '.' } else { '@' };
    let row = |y| (0..grid.width()).map(|x| sign(Cell::new(x, y))).collect();
    (0..grid.height()).map(row).collect()
}

fn sides(width: usize, height: usize) -> Result<()> {
    if width == 0 || height == 0 || width > SIDE_MAX || height > SIDE_MAX {
        bail!("expected 1 to {SIDE_MAX} columns and rows, found {width} by {height}");
    }
    Ok(())
}

/// A question that the page sends.
#[derive(Debug, Deserialize)]
pub struct Query {
    rows: Vec<String>,
    from: [u16; 2],
    to: [u16; 2],
    rule: String,
    algorithms: Vec<String>,
}

impl Query {
    /// Reads a question.
    ///
    /// # Errors
    /// The bytes are not a question in JSON.
    pub fn read(bytes: &[u8]) -> Result<Query> {
        serde_json::from_slice(bytes).context("expected a question in JSON")
    }

    /// Searches for the answers.
    ///
    /// # Errors
    /// The grid, an end, the rule or a method is invalid.
    pub fn answer(&self) -> Result<Value> {
        let width = self.rows.first().map_or(0, String::len);
        sides(width, self.rows.len())?;
        if let Some(row) = self.rows.iter().find(|row| row.len() != width) {
            bail!("expected rows of {width} cells, found one of {}", row.len());
        }
        let is_free =
            |cell: Cell| self.rows[usize::from(cell.y)].as_bytes()[usize::from(cell.x)] == b'.';
        let grid = Grid::from_fn(width, self.rows.len(), is_free)?;
        let corners = corners(&self.rule).map_err(anyhow::Error::msg)?;
        let mut algorithms = Vec::new();
        for name in &self.algorithms {
            let known = Algorithm::ALL.into_iter().find(|it| it.name() == name);
            algorithms.push(known.with_context(|| format!("expected a method, found `{name}`"))?);
        }
        let ends = [self.from, self.to].map(|[x, y]| Cell::new(x, y));
        answers(&grid, corners, ends, &algorithms)
    }
}

/// The answer of each method, and whether there is a path at all.
fn answers(
    grid: &Grid,
    corners: Corners,
    [from, to]: [Cell; 2],
    algorithms: &[Algorithm],
) -> Result<Value> {
    let mut told = serde_json::Map::new();
    for algorithm in algorithms {
        let question = Question { grid, corners, algorithm: *algorithm, from, to };
        told.insert(algorithm.name().to_owned(), answer(&question.answer()?));
    }
    let nearest = grid.nearest_joined(corners, from, to).map(|cell| [cell.x, cell.y]);
    let joined = grid.is_joined(corners, from, to);
    Ok(json!({"joined": joined, "nearest": nearest, "answers": told}))
}

fn answer(answer: &Answer) -> Value {
    let (straight, diagonal) = answer.cost.steps();
    let path: Vec<u16> = answer.cells.iter().flat_map(|cell| [cell.x, cell.y]).collect();
    // Five numbers an event: kind, cell, origin. The list is flat, because there are very many
    // events.
    let mut trace = Vec::with_capacity(answer.events.len() * 5);
    for event in &answer.events {
        match event {
            Event::Opened { cell, from } => trace.extend([0, cell.x, cell.y, from.x, from.y]),
            Event::Expanded(cell) => trace.extend([1, cell.x, cell.y, cell.x, cell.y]),
        }
    }
    json!({
        "found": !answer.cells.is_empty(),
        "length": answer.cost.length(),
        "straight": straight,
        "diagonal": diagonal,
        "path": path,
        "trace": trace,
        "expanded": answer.stats.expanded,
        "opened": answer.stats.opened,
        "scanned": answer.stats.scanned,
        "us": answer.took.as_secs_f64() * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(rows: &[&str], from: [u16; 2], to: [u16; 2]) -> Query {
        Query {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            from,
            to,
            rule: "no-obstacle".to_owned(),
            algorithms: vec!["astar".to_owned(), "jps".to_owned(), "jps+".to_owned()],
        }
    }

    #[test]
    fn a_question_is_answered_by_each_method() {
        let told = query(&["...", ".@.", "..."], [0, 0], [2, 2]).answer().unwrap();
        assert_eq!(told["joined"], true);
        for method in ["astar", "jps", "jps+"] {
            assert_eq!(told["answers"][method]["straight"], 4, "{method}");
            assert_eq!(told["answers"][method]["path"].as_array().unwrap().len(), 10);
            let trace = told["answers"][method]["trace"].as_array().unwrap();
            assert!(trace.len() >= 15 && trace.len().is_multiple_of(5), "{method}");
        }
    }

    #[test]
    fn a_goal_that_is_cut_off_has_a_nearest_cell() {
        let told = query(&["..@."], [0, 0], [3, 0]).answer().unwrap();
        assert_eq!((&told["joined"], &told["nearest"]), (&json!(false), &json!([1, 0])));
        assert_eq!(told["answers"]["jps"]["found"], false);
    }

    #[test]
    fn a_wrong_question_is_refused_in_words() {
        let check = |query: &Query, says: &str| {
            let error = format!("{:#}", query.answer().unwrap_err());
            assert!(error.contains(says), "{error}");
        };
        check(&query(&[], [0, 0], [0, 0]), "columns and rows");
        check(&query(&["..", "."], [0, 0], [0, 0]), "rows of 2");
        check(&query(&[".@"], [0, 0], [1, 0]), "obstacle at 1,0");
        check(&query(&[".."], [0, 0], [2, 0]), "outside");
        let strange = Query { rule: "any".to_owned(), ..query(&[".."], [0, 0], [1, 0]) };
        check(&strange, "one of always");
        let strange = Query { algorithms: vec!["x".into()], ..query(&[".."], [0, 0], [1, 0]) };
        check(&strange, "a method");
        assert!(Query::read(b"{\"rows\": 3}").is_err());
    }

    #[test]
    fn the_page_holds_its_maps_and_no_open_ends() {
        let given = Given { map: None, from: None, to: None, corners: Corners::OneObstacle };
        let (served, written) = (live(&given).unwrap(), html(&given, true).unwrap());
        for page in [&served, &written] {
            assert!(page.contains("the portfolio's maze") && !page.contains("{{"), "unfilled");
        }
        assert!(written.contains("84.497") && !served.contains("84.497"), "recorded or not");
    }
}
