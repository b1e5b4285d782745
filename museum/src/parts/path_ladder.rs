//! Jump point search is 31 to 542 times as fast as A*, because A* searched linked lists.
//!
//! On the published queries JPS expands 3 to 16 times fewer cells, and is 31 to 542 times as fast.
//! The rest is bookkeeping: a list is searched for every neighbour, so time grows with the square
//! of the cells. The ladder repairs it rung by rung, ends at this project's searches, and checks
//! every length; the published searches overestimate and do not find shortest paths. The number of
//! cells within which A* is ahead depends on the same bookkeeping.

use super::{Part, costs_of, range};
use crate::artefact::ladder::{Dense, Pooled, hashed, ordered};
use crate::artefact::search::{ALL, Estimate, Found, NONE, astar, jps};
use crate::contest::{Contest, Costs, each_of, ns_each};
use crate::draft::{Draft, one};
use crate::exhibit::{Effort, Fault};
use crate::portfolio::{self, QUERIES, Query};
use crate::stage::{Settings, Stage};
use document::{Mark, Series};
use grid::movingai::{Map, scenario};
use grid::{Cell, Corners, Grid, Jumps, Method, NoObstacle, OneObstacle, Rule, Searcher};
use stats::words;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The rungs on the published maps, from the foot.
const RUNGS: [&str; 11] = [
    "A* as published",
    "JPS as published",
    "A*, lists, right",
    "+ nodes from a pool",
    "ordered map, hash",
    "binary heap, hash",
    "heap, array by cell",
    "the same, Manhattan",
    "our A*",
    "our JPS",
    "our JPS+",
];
/// Rungs that overestimate and may return more than the shortest.
const INADMISSIBLE: [usize; 3] = [0, 1, 7];
const OURS: [usize; 3] = [8, 9, 10];
/// Steps in a straight line at which both are tried.
const TILES: [u16; 9] = [1, 2, 3, 5, 7, 10, 15, 20, 30];
/// Names of the searches that are tried in a straight line.
const STRAIGHT: [&str; 4] = ["A* as published", "JPS as published", "our A*", "our JPS"];
/// Queries of a map from a set, spread over its scenario.
const SAMPLE: usize = 12;
/// The variable that names the folder of maps.
const MAPS_AT: &str = "ROUNDHOUSE_MAPS";

/// The exhibit.
pub struct PathLadder;

impl Part for PathLadder {
    type Measured = Measured;
    const NAME: &'static str = "path-ladder";

    fn effort(settings: &Settings) -> Effort {
        let blocks = settings.rounds(9);
        let tiles = if settings.quick { 3 } else { TILES.len() };
        let maps = scenarios(settings).len();
        Effort::new(blocks * (QUERIES.len() + tiles) as u32, Duration::from_millis(140))
            .and(Effort::new(blocks * maps as u32, Duration::from_millis(150)))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let mut measured = Measured::default();
        for query in QUERIES {
            let Some(climbed) = climb(stage, query)? else { break };
            measured.climbed.push(climbed);
        }
        measured.straight = straight(stage)?;
        for file in scenarios(stage.settings()) {
            let Some(course) = course(stage, &file)? else { continue };
            measured.courses.push(course);
        }
        Ok(measured)
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        let climbed = measured.climbed.iter().map(|it| &it.costs);
        climbed
            .chain(costs_of(&measured.straight))
            .chain(measured.courses.iter().map(|it| &it.costs))
            .collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    climbed: Vec<Climbed>,
    straight: Vec<(u16, Costs)>,
    courses: Vec<Course>,
}

/// All rungs on one query.
struct Climbed {
    query: Query,
    costs: Costs,
    /// Length and cells gone on from, rung by rung.
    found: Vec<(Option<f64>, u32)>,
}

/// Searches on a map of a set.
struct Course {
    name: String,
    queries: usize,
    costs: Costs,
    /// Queries with the published length, by arm.
    optimal: [usize; 4],
}

const COURSE: [&str; 4] = ["heap, array by cell", "our A*", "our JPS", "our JPS+"];

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::File(format!("cannot use a map: {why}"))
}

/// A search of ours, with its result in the form of the others.
fn ours<R: Rule>(
    searcher: &mut Searcher<R>,
    grid: &Grid,
    method: Method<'_, R>,
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

fn rungs<'g>(grid: &'g Grid, table: &'g Jumps<OneObstacle>) -> Vec<Find<'g>> {
    let rule = Corners::OneObstacle;
    let mut pooled = Pooled::default();
    let mut dense = Dense::new(grid, Estimate::Octile);
    let mut hasty = Dense::new(grid, Estimate::Manhattan);
    let [mut plain, mut jumping, mut looking] = [(); 3].map(|()| Searcher::<OneObstacle>::new());
    vec![
        Box::new(move |from, to| astar(grid, rule, from, to, NONE)),
        Box::new(move |from, to| jps(grid, rule, from, to)),
        Box::new(move |from, to| astar(grid, rule, from, to, ALL)),
        Box::new(move |from, to| pooled.find(grid, rule, from, to)),
        Box::new(move |from, to| ordered(grid, rule, from, to)),
        Box::new(move |from, to| hashed(grid, rule, from, to)),
        Box::new(move |from, to| dense.find(grid, rule, from, to)),
        Box::new(move |from, to| hasty.find(grid, rule, from, to)),
        Box::new(move |from, to| ours(&mut plain, grid, Method::AStar, (from, to))),
        Box::new(move |from, to| ours(&mut jumping, grid, Method::Jps, (from, to))),
        Box::new(move |from, to| ours(&mut looking, grid, Method::JpsPlus(table), (from, to))),
    ]
}

fn climb(stage: &mut Stage<'_>, query: Query) -> Result<Option<Climbed>, Fault> {
    let map = Map::parse(grid::PORTFOLIO_MAPS[usize::from(query.maze)]).map_err(bad)?;
    let grid = map.grid().map_err(bad)?;
    let (from, to) = (Cell::new(0, 0), Cell::new(query.goal.0, query.goal.1));
    let table = Jumps::<OneObstacle>::of(&grid);
    let rule = Corners::OneObstacle;
    let mut found = Vec::new();
    for mut find in rungs(&grid, &table) {
        let it = find(from, to);
        found.push((it.length(&grid, rule), it.expanded));
    }
    let settings = stage.settings();
    let mut contest = Contest::new(format!("ladder, {}", query.name), settings.rounds(9));
    for (at, (name, mut find)) in RUNGS.into_iter().zip(rungs(&grid, &table)).enumerate() {
        // Quick searches are repeated until they can be timed.
        let times = settings.amount(if OURS.contains(&at) { 500 } else { 1 }, 10)
            * if found[at].1 < 150 { 10 } else { 1 };
        contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
    }
    let costs = stage.contest(contest)?;
    Ok(costs.map(|costs| Climbed { query, costs, found }))
}

fn repeat(times: u64, find: &mut Find<'_>, from: Cell, to: Cell) {
    for _ in 0..times {
        black_box(find(black_box(from), to));
    }
}

/// Both kinds of search in a straight line without obstacles.
fn straight(stage: &mut Stage<'_>) -> Result<Vec<(u16, Costs)>, Fault> {
    let grid = Grid::new(80, 40).map_err(bad)?;
    let table = Jumps::<OneObstacle>::of(&grid);
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(9), settings.amount(400, 10));
    let tiles = if settings.quick { &TILES[2..5] } else { &TILES[..] };
    each_of(tiles.iter().copied(), |tiles| {
        let (from, to) = (Cell::new(20, 20), Cell::new(20 + tiles, 20));
        let mut contest = Contest::new(format!("{tiles} tiles in a row"), blocks);
        let mut finds = rungs(&grid, &table);
        finds.truncate(10);
        let pairs = finds.split_off(8);
        finds.truncate(2);
        for (name, mut find) in STRAIGHT.into_iter().zip(finds.into_iter().chain(pairs)) {
            contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
        }
        stage.contest(contest)
    })
}

/// The scenarios of the folder that the environment names.
fn scenarios(settings: &Settings) -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os(MAPS_AT) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
    files.retain(|it| it.extension().is_some_and(|ending| ending == "scen"));
    files.sort();
    files.truncate(if settings.quick { 1 } else { 32 });
    files
}

fn course(stage: &mut Stage<'_>, file: &Path) -> Result<Option<Course>, Fault> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|why| bad(format!("{}: {why}", path.display())));
    let grid = Map::parse(&read(&file.with_extension(""))?).map_err(bad)?.grid().map_err(bad)?;
    let mut queries = scenario(&read(file)?).map_err(bad)?;
    let every = queries.len().div_ceil(SAMPLE).max(1);
    queries = queries.into_iter().rev().step_by(every).collect();
    let table = Jumps::<NoObstacle>::of(&grid);
    let mut dense = Dense::new(&grid, Estimate::Octile);
    let [mut plain, mut jumping, mut looking] = [(); 3].map(|()| Searcher::<NoObstacle>::new());
    let (grid, table) = (&grid, &table);
    let finds: [Find<'_>; 4] = [
        Box::new(move |from, to| dense.find(grid, Corners::NoObstacle, from, to)),
        Box::new(move |from, to| ours(&mut plain, grid, Method::AStar, (from, to))),
        Box::new(move |from, to| ours(&mut jumping, grid, Method::Jps, (from, to))),
        Box::new(move |from, to| ours(&mut looking, grid, Method::JpsPlus(table), (from, to))),
    ];
    let name = file.file_name().unwrap_or_default().to_string_lossy().replace(".map.scen", "");
    let mut contest = Contest::new(format!("ladder, {name}"), stage.settings().rounds(6));
    let mut optimal = [0; 4];
    for (at, (arm, mut find)) in COURSE.into_iter().zip(finds).enumerate() {
        for query in &queries {
            let length = find(query.from, query.to).length(grid, Corners::NoObstacle);
            let is_right = |it: f64| (it - query.length).abs() <= query.tolerance;
            optimal[at] += usize::from(length.is_some_and(is_right));
        }
        let queries = &queries;
        contest.arm(arm, move || {
            ns_each(queries.len() as u64, || {
                for query in queries {
                    black_box(find(query.from, query.to));
                }
            })
        });
    }
    let costs = stage.contest(contest)?;
    Ok(costs.map(|costs| Course { name, queries: queries.len(), costs, optimal }))
}

impl Measured {
    /// The factor of A* over JPS at every query, for two rungs.
    fn factors(&self, astar: usize, jps: usize) -> (f64, f64) {
        range(
            self.climbed
                .iter()
                .filter_map(|it| Some(it.costs.against(RUNGS[astar], RUNGS[jps])?.ratio)),
        )
    }

    /// The number of queries that an arm answers with too long a path, and the worst excess.
    fn too_long(&self, rung: usize) -> (usize, f64) {
        let over = self.climbed.iter().filter_map(|it| {
            let factor = it.found[rung].0? / it.query.shortest;
            (factor > 1.0001).then_some(factor)
        });
        let over: Vec<f64> = over.collect();
        (over.len(), range(over).1)
    }

    /// The most cells in a row at which the first is cheaper, in the sense of the verdict's ratio.
    fn ahead(&self, astar: &str, jps: &str) -> Option<u16> {
        let cheaper = self
            .straight
            .iter()
            .filter(|(_, costs)| costs.against(astar, jps).is_some_and(|it| it.ratio < 1.0));
        cheaper.map(|it| it.0).max()
    }
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let (least, most) = measured.factors(0, 1);
    let (own_least, own_most) = measured.factors(8, 9);
    let excess = |worst: f64| words::percent((worst - 1.0).max(0.0));
    let (wrong, worst) = measured.too_long(1);
    it.set("source", portfolio::source(2, "path finding"));
    it.set("queries", measured.climbed.len());
    it.set("factors", [least, most].map(words::ratio));
    it.set("own_factors", [own_least, own_most].map(words::ratio));
    it.set("wrong", wrong);
    it.set("worst", excess(worst));
    let too_long = INADMISSIBLE.map(|rung| {
        let (count, worst) = measured.too_long(rung);
        format!("{} in {count} (worst {})", RUNGS[rung], excess(worst))
    });
    it.set("too_long", too_long);
    it.set("ahead_published", measured.ahead(STRAIGHT[0], STRAIGHT[1]));
    it.set("ahead_ours", measured.ahead(STRAIGHT[2], STRAIGHT[3]));
    let cells = |rung: usize| {
        let all = measured.climbed.iter().map(|it| words::count(it.found[rung].1));
        all.collect::<Vec<_>>()
    };
    it.set("cells_astar", cells(0));
    it.set("cells_jps", cells(1));
    it.set("maps_at", MAPS_AT);
    it.set("maps", measured.courses.len());
    it.set("sample", SAMPLE);
    let published = QUERIES.map(|it| (it.name, [it.us[0], it.us[1], it.us[0] / it.us[1]]));
    it.published.rows = portfolio::table(published);
    rows(&mut it, measured);
    plots(&mut it, measured);
    findings(&mut it, measured);
    it
}

fn rows(draft: &mut Draft, measured: &Measured) {
    for it in &measured.climbed {
        let us =
            |rung: &str| words::or_none(it.costs.median(rung).map(|ns| ns / 1e3), words::number);
        for rung in INADMISSIBLE {
            let (length, expanded) = it.found[rung];
            draft.flawed.row([
                it.query.name.to_string(),
                RUNGS[rung].to_string(),
                us(RUNGS[rung]),
                words::count(expanded),
                words::or_none(length, |it| format!("{it:.3}")),
                format!("{:.3}", it.query.shortest),
            ]);
        }
        for rung in (2..RUNGS.len()).filter(|rung| *rung != 7) {
            let right =
                it.found[rung].0.is_some_and(|found| (found - it.query.shortest).abs() < 1e-3);
            draft.corrected.row([
                it.query.name.to_string(),
                RUNGS[rung].to_string(),
                us(RUNGS[rung]),
                it.costs.judged(RUNGS[rung], RUNGS[8]),
                if right { "shortest" } else { "NOT the shortest" }.to_string(),
            ]);
        }
    }
    for it in &measured.courses {
        for (at, name) in COURSE.iter().enumerate() {
            draft.corrected.row([
                it.name.clone(),
                name.to_string(),
                words::or_none(it.costs.median(name).map(|ns| ns / 1e3), words::number),
                it.costs.judged(name, COURSE[1]),
                format!("{} of {} shortest", it.optimal[at], it.queries),
            ]);
        }
    }
}

fn plots(it: &mut Draft, measured: &Measured) {
    let tiles = || measured.straight.iter().map(|it| f64::from(it.0));
    it.corrected.series(one("as fast", tiles()));
    for (name, arms) in
        [("as published", (STRAIGHT[0], STRAIGHT[1])), ("ours", (STRAIGHT[2], STRAIGHT[3]))]
    {
        let all = tiles().zip(measured.straight.iter().map(|it| &it.1));
        it.corrected.series(super::ratios(name, arms, all));
    }
    it.together.named(RUNGS);
    for query in QUERIES {
        let points = [(1.0, query.us[0]), (2.0, query.us[1])];
        let series = Series::published(format!("published, {}", query.name), points);
        it.together.series(series.drawn_as(Mark::Point));
    }
    for climbed in &measured.climbed {
        let points = RUNGS
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some(((at + 1) as f64, climbed.costs.median(name)? / 1e3)));
        it.together.series(Series::measured(climbed.query.name, points));
    }
}

fn findings(it: &mut Draft, measured: &Measured) {
    let far = measured.climbed.iter().find(|it| it.query.name == "maze, far");
    let far = |other: usize| far.and_then(|it| it.costs.against(RUNGS[0], RUNGS[other]));
    it.expect_ratio("as-published", far(1).as_ref());
    it.expect("too-long", measured.too_long(1).0.max(measured.too_long(0).0) as f64);
    let right = measured.climbed.iter().flat_map(|it| {
        let rungs = (0..RUNGS.len()).filter(|rung| !INADMISSIBLE.contains(rung));
        rungs.map(|rung| (it.found[rung].0.unwrap_or(0.0) - it.query.shortest).abs())
    });
    it.expect("shortest", range(right).1);
    let missed =
        measured.courses.iter().map(|it| it.optimal.iter().map(|n| it.queries - n).sum::<usize>());
    let missed = missed.sum::<usize>() as f64;
    it.expect("set-shortest", (!measured.courses.is_empty()).then_some(missed));
    it.expect_ratio("bookkeeping", far(8).as_ref());
}
