//! Real maps: every length of a scenario, and every step of every path, for each method and both
//! directions. The test takes a sample of the queries, or all if `ROUNDHOUSE_SOAK` is set.

use grid::movingai::{Map, Query, scenario};
use grid::{Cell, Cost, Grid, Method, NoObstacle, OneObstacle, Rule, Searcher, oracle};
use std::path::{Path, PathBuf};

/// The sample size, in queries a map: with A*, and with jump points.
const SAMPLE: [usize; 2] = [8, 40];

/// The map and queries of a scenario; the map lies in the same folder.
fn read(file: &Path) -> (Grid, Vec<Query>) {
    let bytes = std::fs::read(file).expect("a scenario that was listed can be read");
    let map = std::fs::read(file.with_extension("")).expect("its map lies next to it");
    let map = Map::parse(&map).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let queries = scenario(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    (map.grid().expect("a map that was read is a grid"), queries)
}

/// Finds one path and checks it against its length and the rule.
fn check<R: Rule>(
    (searcher, grid): (&mut Searcher<R>, &Grid),
    method: Method,
    query: &Query,
    (from, to): (Cell, Cell),
) {
    let at = format!("{} line {}, {from} to {to}", query.map, query.line);
    let found = searcher.find(grid, method, from, to).unwrap_or_else(|it| panic!("{at}: {it}"));
    let path = found.unwrap_or_else(|| panic!("{at}: expected a path, found none"));
    let sum = oracle::walk(grid, R::CORNERS, path.steps());
    let sum = sum.unwrap_or_else(|illegal| panic!("{at}: {illegal}"));
    assert_eq!(path.cost(), Cost::of(sum.straight, sum.diagonal), "{at}");
    let (found, printed) = (path.cost().length(), query.length);
    assert!((found - printed).abs() <= query.tolerance, "{at}: {found} for {printed}");
}

fn check_all<R: Rule>(file: &Path) {
    let (grid, queries) = read(file);
    let mut searcher = Searcher::<R>::new();
    let all = std::env::var_os("ROUNDHOUSE_SOAK").is_some();
    for (method, sample) in [(Method::AStar, SAMPLE[0]), (Method::Jps, SAMPLE[1])] {
        let every = if all { 1 } else { queries.len().div_ceil(sample) };
        for query in queries.iter().rev().step_by(every) {
            check((&mut searcher, &grid), method, query, (query.from, query.to));
            check((&mut searcher, &grid), method, query, (query.to, query.from));
        }
    }
}

fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of maps can be listed");
    let files = entries.map(|entry| entry.expect("its entries can be read").path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "scen")).collect();
    files.sort();
    files
}

#[test]
fn published_lengths_are_met_by_legal_paths() {
    let Some(folder) = std::env::var_os("ROUNDHOUSE_MAPS") else {
        println!("skipped: maps");
        return;
    };
    let files = scenarios(Path::new(&folder));
    assert!(!files.is_empty(), "ROUNDHOUSE_MAPS names a folder without a scenario");
    for file in files {
        check_all::<NoObstacle>(&file);
    }
}

#[test]
fn the_portfolio_s_lengths_are_met_under_its_own_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/maps");
    let files = scenarios(&folder);
    assert_eq!(files.len(), 2, "an open map and a maze");
    for file in files {
        check_all::<OneObstacle>(&file);
    }
}

#[test]
fn a_stricter_rule_makes_longer_paths() {
    let maze =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/maps/portfolio-maze.map.scen");
    let (grid, queries) = read(&maze);
    let mut searcher = Searcher::<NoObstacle>::new();
    // Computed by an independent program, under the rule that cuts no corner.
    for (query, length) in queries.iter().zip([39.3137, 110.3553]) {
        let path = searcher.find(&grid, Method::Jps, query.from, query.to);
        let found = path.expect("both cells are free").expect("there is a path").cost().length();
        assert!((found - length).abs() < 1e-4, "{found} for {length}");
    }
}
