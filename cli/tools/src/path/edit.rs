//! `path edit`: serves a page on which a user draws walls and compares two searches.
//!
//! ```text
//!   GET  /         the page
//!   POST /search   a grid and a question in JSON -> answers with all steps of the searches
//! ```
//!
//! The program searches, never the browser: the page animates what our searches recorded. Helper
//! threads answer, so a long search delays no other connection. A request whose body is longer than
//! that of the largest grid is refused before it is read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use grid::movingai::Map;
use grid::{Cell, Corners, Event, Grid};
use language::eprintln;
use roundhouse::{Http, HttpRequest, HttpResponse, Server, http_offload};
use serde::Deserialize;
use serde_json::{Value, json};

use super::solve::{Answer, Question};
use super::{Algorithm, corners, read_map};
use crate::page::{admits, give};

/// The longest side of a grid; it fits a screen, with cells large enough to click.
const SIDE_MAX: usize = 256;
/// How long a client may take to send a request, or be idle between two requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest grid, as rows of characters, and the JSON around it.
const BODY_MAX: usize = SIDE_MAX * (SIDE_MAX + 4) + 4096;
const HTML: &str = include_str!("edit.html");
const SCRIPT: &str = include_str!("edit.js");
/// Start and goal of the portfolio's longer experiments.
const PORTFOLIO: [Cell; 2] = [Cell::new(0, 0), Cell::new(70, 35)];

/// The arguments of `path edit`.
#[derive(clap::Args)]
pub struct Args {
    /// The first map, in the format of the MovingAI sets; at most 256 columns and rows
    map: Option<PathBuf>,
    /// The cell where paths begin
    #[arg(long, value_name = "X,Y")]
    from: Option<Cell>,
    /// The cell where they end
    #[arg(long, value_name = "X,Y")]
    to: Option<Cell>,
    /// When a diagonal step may pass corners: always, one-obstacle, no-obstacle or four (never)
    #[arg(long, value_parser = corners, default_value = "no-obstacle", value_name = "RULE")]
    rule: Corners,
    /// Where to serve the page; port 0 picks one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

/// Serves the page until it is interrupted. The address is printed as one line of JSON (stdout).
pub fn run(args: &Args) -> Result<ExitCode> {
    let page = html(&scenes(args)?, args.rule).into_bytes();
    let mut editor: Http<()> = http_offload(move |_: &(), request, response| {
        if admits(&request, response) {
            answer(&page, &request, response);
        }
    });
    (editor.patience, editor.body_max) = (PATIENCE, BODY_MAX);
    let server = Server::new(editor).listen(args.listen).on_ready(|listening| {
        let (listening, pid) = (listening.to_string(), std::process::id());
        println!("{}", json!({ "listening": listening, "service": "path", "pid": pid }));
        eprintln!("draw walls at http://{listening}/");
    });
    server.run().with_context(|| format!("cannot serve at {}", args.listen))?;
    Ok(ExitCode::SUCCESS)
}

fn answer(page: &[u8], request: &HttpRequest<'_>, response: &mut HttpResponse) {
    match (request.method, request.path) {
        ("GET", "/") => give(page, response),
        ("POST", "/search") => match Query::read(request.body).and_then(|query| query.answer()) {
            Ok(answer) => response.json(answer.to_string()),
            Err(error) => {
                let reason = json!({ "error": format!("{error:#}") });
                response.status(400).json(reason.to_string());
            }
        },
        (_, "/" | "/search") => {
            response.status(405).field("Allow", "GET, HEAD, POST");
            response.text("expected GET / or POST /search\n");
        }
        _ => response.status(404).text("expected GET / or POST /search\n"),
    }
}

/// A map to choose on the page, with its ends.
struct Scene {
    name: &'static str,
    grid: Grid,
    ends: [Cell; 2],
}

/// The given map, then those of the portfolio; the given ends are those of the first.
fn scenes(args: &Args) -> Result<Vec<Scene>> {
    let mut scenes = Vec::new();
    if let Some(file) = &args.map {
        let grid = read_map(file)?.grid()?;
        sides(usize::from(grid.width()), usize::from(grid.height()))?;
        let mut free = grid.cells().filter(|cell| grid.is_free(*cell));
        let first = free.next().context("expected a free cell in the map, found none")?;
        let ends = [first, free.last().unwrap_or(first)];
        scenes.push(Scene { name: "the given map", grid, ends });
    }
    let [open, maze] = grid::PORTFOLIO_MAPS;
    for (name, bytes) in [("the portfolio's open map", open), ("the portfolio's maze", maze)] {
        scenes.push(Scene { name, grid: Map::parse(bytes)?.grid()?, ends: PORTFOLIO });
    }
    let Scene { grid, ends: [from, to], .. } = &mut scenes[0];
    (*from, *to) = (args.from.unwrap_or(*from), args.to.unwrap_or(*to));
    if let Some(end) = [*from, *to].into_iter().find(|end| !grid.is_free(*end)) {
        bail!("expected a free cell of the map, found {end}");
    }
    Ok(scenes)
}

fn html(scenes: &[Scene], corners: Corners) -> String {
    let map = |Scene { name, grid, ends: [from, to] }: &Scene| {
        let (from, to) = ([from.x, from.y], [to.x, to.y]);
        json!({ "name": name, "rows": rows(grid), "from": from, "to": to })
    };
    let maps: Vec<Value> = scenes.iter().map(map).collect();
    let data = json!({ "rule": corners.name(), "maps": maps });
    // Only `</` could end a script early.
    let data = data.to_string().replace('<', "\\u003c");
    crate::page::page("two searches side by side", &HTML.replace("{{DATA}}", &data), SCRIPT)
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
struct Query {
    rows: Vec<String>,
    from: [u16; 2],
    to: [u16; 2],
    rule: String,
    algorithms: Vec<String>,
}

impl Query {
    fn read(bytes: &[u8]) -> Result<Query> {
        serde_json::from_slice(bytes).context("expected a question in JSON")
    }

    fn answer(&self) -> Result<Value> {
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
            let known = Algorithm::value_variants().iter().find(|it| it.name() == name);
            algorithms.push(*known.with_context(|| format!("expected a method, found `{name}`"))?);
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
        told.insert(algorithm.name().to_owned(), record(&question.answer()?));
    }
    let nearest = grid.nearest_joined(corners, from, to).map(|cell| [cell.x, cell.y]);
    let joined = grid.is_joined(corners, from, to);
    Ok(json!({"joined": joined, "nearest": nearest, "answers": told}))
}

/// An answer with all steps of its search.
fn record(answer: &Answer) -> Value {
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
            algorithms: vec!["astar".to_owned(), "jps".to_owned()],
        }
    }

    #[test]
    fn a_question_is_answered_by_each_method() {
        let told = query(&["...", ".@.", "..."], [0, 0], [2, 2]).answer().unwrap();
        assert_eq!(told["joined"], true);
        for method in ["astar", "jps"] {
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
}
