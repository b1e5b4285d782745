//! A* and jump point search as published, repaired rung by rung up to this project's searches; all
//! lengths are checked.
//!
//! A rung changes one thing against the rung below it, so each step shows its own effect; the top
//! two rungs are this project's searches. Lengths and numbers of expanded nodes are recorded next
//! to the times, because a search that returns a longer path is not faster.

use super::{blocks, list, whole};
use crate::artefact::ladder::{Dense, ordered};
use crate::artefact::search::{ALL, Estimate, Found, NONE, astar, jps};
use crate::contest::{Contest, ns_each};
use crate::exhibit::Fault;
use crate::query::{float, items};
use crate::results::{Figures, Results};
use crate::scope::Scope;
use crate::stage::Stage;
use grid::movingai::Map;
use grid::{Cell, Corners, Grid, Method, OneObstacle, Searcher};
use minijinja::Value;
use std::hint::black_box;

/// The rungs on the published maps, from the foot.
const RUNGS: [&str; 8] = [
    "A* as published",
    "JPS as published",
    "A*, lists, right",
    "ordered map, hash",
    "heap, array by cell",
    "the same, Manhattan",
    "our A*",
    "our JPS",
];
const OURS: [usize; 2] = [6, 7];
/// Names of the searches that are tried in a straight line.
const STRAIGHT: [&str; 4] = ["A* as published", "JPS as published", "our A*", "our JPS"];

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let blocks = blocks(scope)?;
    for query in items(&scope.eval("portfolio.queries")?) {
        climb(stage, &Query::of(&query), (blocks, whole(scope, "again")?), results)?;
    }
    straight(stage, &list(scope, "tiles")?, (blocks, whole(scope, "times_straight")?), results)
}

struct Query {
    name: String,
    is_maze: bool,
    goal: Cell,
}

impl Query {
    fn of(query: &Value) -> Query {
        let of = |name: &str| query.get_attr(name).unwrap_or_default();
        let goal: Vec<f64> = items(&of("goal")).iter().filter_map(float).collect();
        let goal = Cell::new(goal[0] as u16, goal[1] as u16);
        Query { name: of("name").to_string(), is_maze: of("maze").is_true(), goal }
    }
}

/// A count of a search next to its times: the same in every block.
fn note(results: &mut Results, arm: &str, point: &str, name: &str, value: f64) {
    results.add(arm, point, 0, Figures::from([(name.to_string(), value)]));
}

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::File(format!("cannot use a map: {why}"))
}

/// A search of ours, with its result in the form of the others.
fn ours(
    searcher: &mut Searcher<OneObstacle>,
    grid: &Grid,
    method: Method,
    (from, to): (Cell, Cell),
) -> Found {
    let cells = match searcher.find(grid, method, from, to) {
        Ok(Some(path)) => path.steps().collect(),
        Ok(None) | Err(_) => Vec::new(),
    };
    Found { cells, expanded: searcher.stats().expanded }
}

/// A search that persists from query to query.
type Find<'g> = Box<dyn FnMut(Cell, Cell) -> Found + 'g>;

fn rungs(grid: &Grid) -> Vec<Find<'_>> {
    let rule = Corners::OneObstacle;
    let mut dense = Dense::new(grid, Estimate::Octile);
    let mut hasty = Dense::new(grid, Estimate::Manhattan);
    let [mut plain, mut jumping] = [(); 2].map(|()| Searcher::new());
    vec![
        Box::new(move |from, to| astar(grid, rule, from, to, NONE)),
        Box::new(move |from, to| jps(grid, rule, from, to)),
        Box::new(move |from, to| astar(grid, rule, from, to, ALL)),
        Box::new(move |from, to| ordered(grid, rule, from, to)),
        Box::new(move |from, to| dense.find(grid, rule, from, to)),
        Box::new(move |from, to| hasty.find(grid, rule, from, to)),
        Box::new(move |from, to| ours(&mut plain, grid, Method::AStar, (from, to))),
        Box::new(move |from, to| ours(&mut jumping, grid, Method::Jps, (from, to))),
    ]
}

fn climb(
    stage: &mut Stage<'_>,
    query: &Query,
    (blocks, again): (u32, u64),
    results: &mut Results,
) -> Result<(), Fault> {
    let map = Map::parse(grid::PORTFOLIO_MAPS[usize::from(query.is_maze)]).map_err(bad)?;
    let grid = map.grid().map_err(bad)?;
    let (from, to) = (Cell::new(0, 0), query.goal);
    let rule = Corners::OneObstacle;
    let mut contest = Contest::new(query.name.clone(), blocks);
    for (at, (name, mut find)) in RUNGS.into_iter().zip(rungs(&grid)).enumerate() {
        let found = find(from, to);
        if let Some(length) = found.length(&grid, rule) {
            note(results, name, &query.name, "length", length);
        }
        note(results, name, &query.name, "expanded", f64::from(found.expanded));
        // Quick searches are repeated until they can be timed.
        let times = if OURS.contains(&at) { again } else { 1 };
        let times = times * if found.expanded < 150 { 10 } else { 1 };
        contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
    }
    stage.contest(contest, results)
}

fn repeat(times: u64, find: &mut Find<'_>, from: Cell, to: Cell) {
    for _ in 0..times {
        black_box(find(black_box(from), to));
    }
}

/// Both kinds of search in a straight line without obstacles.
fn straight(
    stage: &mut Stage<'_>,
    tiles: &[usize],
    (blocks, times): (u32, u64),
    results: &mut Results,
) -> Result<(), Fault> {
    let grid = Grid::new(80, 40).map_err(bad)?;
    for &tiles in tiles {
        let (from, to) = (Cell::new(20, 20), Cell::new(20 + tiles as u16, 20));
        let mut contest = Contest::new(format!("{tiles} tiles in a row"), blocks);
        for (name, mut find) in RUNGS.into_iter().zip(rungs(&grid)) {
            if STRAIGHT.contains(&name) {
                contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
            }
        }
        stage.contest(contest, results)?;
    }
    Ok(())
}
