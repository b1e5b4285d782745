//! Jump point search is 31 to 542 times as fast as A*: because A* went through linked lists.
//!
//! On the published queries JPS goes on from 3 to 16 times fewer cells, and is 31 to 542 times as
//! fast. The rest is bookkeeping: a list is gone through for every neighbour, so time grows with
//! the square of the cells. The ladder repairs it rung by rung, ends at this project's searches,
//! and checks every length; the published searches overestimate and do not find shortest paths.
//! Within how many cells A* is ahead turns out to depend on the same bookkeeping.

use super::range;
use crate::artefact::ladder::{Dense, Pooled, hashed, ordered};
use crate::artefact::search::{ALL, Estimate, Found, NONE, astar, jps};
use crate::contest::{Contest, Told, ns_each};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::portfolio::{self, MAPS, QUERIES, Query};
use crate::showing::{Axis, Drawn, Finding, Grid as Table, Place, Plot, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use grid::movingai::{Map, scenario};
use grid::{Cell, Corners, Grid, Jumps, Method, NoObstacle, OneObstacle, Rule, Searcher};
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
/// Where maps of a set are, if anywhere.
const MAPS_AT: &str = "ROUNDHOUSE_MAPS";

/// The exhibit.
pub struct PathLadder;

impl Exhibit for PathLadder {
    fn name(&self) -> &'static str {
        "path-ladder"
    }

    fn title(&self) -> &'static str {
        "From linked lists to JPS+"
    }

    fn about(&self) -> &'static str {
        "JPS beat A* 542 times because A* searched linked lists, and neither was right"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let blocks = settings.rounds(9);
        let tiles = if settings.quick { 3 } else { TILES.len() };
        let maps = scenarios(settings).len();
        Effort::new(blocks * (QUERIES.len() + tiles) as u32, Duration::from_millis(140))
            .and(Effort::new(blocks * maps as u32, Duration::from_millis(150)))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let mut seen = Seen::default();
        for query in QUERIES {
            let Some(climbed) = climb(stage, query)? else { break };
            seen.climbed.push(climbed);
        }
        seen.straight = straight(stage)?;
        for file in scenarios(stage.settings()) {
            let Some(course) = course(stage, &file)? else { continue };
            seen.courses.push(course);
        }
        Ok(told(stage, &seen))
    }
}

/// What was measured.
#[derive(Default)]
struct Seen {
    climbed: Vec<Climbed>,
    straight: Vec<(u16, Told)>,
    courses: Vec<Course>,
}

/// All rungs on one query.
struct Climbed {
    query: Query,
    told: Told,
    /// Length and cells gone on from, rung by rung.
    found: Vec<(Option<f64>, u32)>,
}

/// Searches on a map of a set.
struct Course {
    name: String,
    queries: usize,
    told: Told,
    /// Queries whose length is the published one, by arm.
    optimal: [usize; 4],
}

const COURSE: [&str; 4] = ["heap, array by cell", "our A*", "our JPS", "our JPS+"];

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::File(format!("cannot use a map: {why}"))
}

/// A search of ours, as the others tell what they found.
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

/// A search that is kept from query to query.
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
    let map = Map::parse(MAPS[usize::from(query.maze)]).map_err(bad)?;
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
        // The quick ones are repeated until they can be timed.
        let times = settings.amount(if OURS.contains(&at) { 500 } else { 1 }, 10)
            * if found[at].1 < 150 { 10 } else { 1 };
        contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
    }
    let told = stage.contest(contest)?;
    Ok(told.map(|told| Climbed { query, told, found }))
}

fn repeat(times: u64, find: &mut Find<'_>, from: Cell, to: Cell) {
    for _ in 0..times {
        black_box(find(black_box(from), to));
    }
}

/// Both kinds of search over so many cells in a row, with nothing in the way.
fn straight(stage: &mut Stage<'_>) -> Result<Vec<(u16, Told)>, Fault> {
    let grid = Grid::new(80, 40).map_err(bad)?;
    let table = Jumps::<OneObstacle>::of(&grid);
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(9), settings.amount(400, 10));
    let tiles = if settings.quick { &TILES[2..5] } else { &TILES[..] };
    let mut all = Vec::new();
    for &tiles in tiles {
        let (from, to) = (Cell::new(20, 20), Cell::new(20 + tiles, 20));
        let mut contest = Contest::new(format!("{tiles} tiles in a row"), blocks);
        let mut finds = rungs(&grid, &table);
        finds.truncate(10);
        let pairs = finds.split_off(8);
        finds.truncate(2);
        for (name, mut find) in STRAIGHT.into_iter().zip(finds.into_iter().chain(pairs)) {
            contest.arm(name, move || ns_each(times, || repeat(times, &mut find, from, to)));
        }
        let Some(told) = stage.contest(contest)? else { break };
        all.push((tiles, told));
    }
    Ok(all)
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
    let told = stage.contest(contest)?;
    Ok(told.map(|told| Course { name, queries: queries.len(), told, optimal }))
}

impl Seen {
    fn all(&self) -> Vec<&Told> {
        let climbed = self.climbed.iter().map(|it| &it.told);
        let straight = self.straight.iter().map(|it| &it.1);
        climbed.chain(straight).chain(self.courses.iter().map(|it| &it.told)).collect()
    }

    /// A* over JPS, at every query, for two rungs.
    fn factors(&self, astar: usize, jps: usize) -> (f64, f64) {
        range(
            self.climbed
                .iter()
                .filter_map(|it| Some(it.told.against(RUNGS[astar], RUNGS[jps])?.ratio)),
        )
    }

    /// How many queries an arm answers with more than the shortest, and by how much at worst.
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
            .filter(|(_, told)| told.against(astar, jps).is_some_and(|it| it.ratio < 1.0));
        cheaper.map(|it| it.0).max()
    }
}

fn ahead_words(it: Option<u16>) -> String {
    it.map_or("at no distance".to_string(), |tiles| format!("up to {tiles} tiles"))
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let (least, most) = seen.factors(0, 1);
    let (own_least, own_most) = seen.factors(8, 9);
    let (wrong, worst) = seen.too_long(1);
    let headline = format!(
        "The published A* takes {} to {} the time of the published JPS here (published: 31 to \
         542 times); with sound bookkeeping for both it is {} to {}. The published JPS returns a \
         path that is too long in {wrong} of {} queries, by {} at worst.",
        words::ratio(least),
        words::ratio(most),
        words::ratio(own_least),
        words::ratio(own_most),
        seen.climbed.len(),
        words::percent((worst - 1.0).max(0.0)),
    );
    let mut facts = vec![
        ("Rule".to_string(), "a diagonal step past at most one obstacle".to_string()),
        (
            "Maps of a set".to_string(),
            match seen.courses.len() {
                0 => format!("none: name a folder of them by {MAPS_AT}"),
                count => format!("{count} of {MAPS_AT}, {SAMPLE} queries each, no corner cut"),
            },
        ),
    ];
    facts.extend(stage.contest_facts(&seen.all()));
    let rows = QUERIES.map(|it| (it.name, [it.us[0], it.us[1], it.us[0] / it.us[1]]));
    Showing {
        headline,
        published: portfolio::table(
            "JPS is 31 to 542 times as fast as A*, the more so the farther the goal; within about \
             seven tiles in a straight line A* is faster.",
            portfolio::source(2, "path finding"),
            &["query", "A*, µs", "JPS, µs", "A* / JPS"],
            rows,
        ),
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(seen),
        lesson: "Check that both searches find the shortest path, and count what they look at, \
                 before comparing their times."
            .to_string(),
        together: Some(ladder(seen)),
        findings: findings(seen),
        facts,
        doubts: Vec::new(),
    }
}

fn ladder(seen: &Seen) -> Plot {
    let ladder = seen.climbed.iter().map(|climbed| {
        let places = RUNGS
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some(((at + 1) as f64, climbed.told.median(name)? / 1e3)));
        Series::measured(climbed.query.name, places.collect())
    });
    let mut series: Vec<Series> = QUERIES
        .iter()
        .map(|it| {
            let places = vec![(1.0, it.us[0]), (2.0, it.us[1])];
            let name = format!("published, {}", it.name);
            Series { drawn: Drawn::Marks, ..Series::published(name, places) }
        })
        .collect();
    series.extend(ladder);
    Plot {
        title: "The ladder, on the four published queries".to_string(),
        caption: "Medians over blocks; the published times are marks. Rungs 3 to 7 and the \
                  last three find shortest paths."
            .to_string(),
        x: Axis::named("rung", RUNGS),
        y: Axis::log("µs a query"),
        series,
    }
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers =
        Table::new(&["query", "search", "µs", "cells gone on from", "length", "shortest"]);
    for it in &seen.climbed {
        for rung in [0, 1, 7] {
            let (length, expanded) = it.found[rung];
            numbers.row([
                it.query.name.to_string(),
                RUNGS[rung].to_string(),
                words::or_none(it.told.median(RUNGS[rung]).map(|ns| ns / 1e3), words::number),
                words::count(expanded),
                words::or_none(length, |it| format!("{it:.3}")),
                format!("{:.3}", it.query.shortest),
            ]);
        }
    }
    let (least, most) = seen.factors(0, 1);
    let wrong: Vec<String> = INADMISSIBLE
        .iter()
        .map(|rung| {
            let (count, worst) = seen.too_long(*rung);
            let worst = words::percent((worst - 1.0).max(0.0));
            format!("{} in {count} (worst {worst})", RUNGS[*rung])
        })
        .collect();
    Side {
        setup: "Both searches as published, on the published maps and queries: linked lists gone \
                through for each neighbour, a node from the heap each, the Manhattan distance as \
                estimate, an end when the goal is first seen. And the estimate alone, in a search \
                whose bookkeeping is sound."
            .to_string(),
        finding: format!(
            "A* takes {} to {} the time of JPS. Too long were: {}.",
            words::ratio(least),
            words::ratio(most),
            wrong.join(", ")
        ),
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Table::new(&["map or query", "search", "µs", "of our A*'s time", "lengths"]);
    for it in &seen.climbed {
        for rung in (2..RUNGS.len()).filter(|rung| *rung != 7) {
            let right =
                it.found[rung].0.is_some_and(|found| (found - it.query.shortest).abs() < 1e-3);
            numbers.row([
                it.query.name.to_string(),
                RUNGS[rung].to_string(),
                words::or_none(it.told.median(RUNGS[rung]).map(|ns| ns / 1e3), words::number),
                it.told.judged(RUNGS[rung], RUNGS[8]),
                if right { "shortest" } else { "NOT the shortest" }.to_string(),
            ]);
        }
    }
    for it in &seen.courses {
        for (at, name) in COURSE.iter().enumerate() {
            numbers.row([
                it.name.clone(),
                name.to_string(),
                words::or_none(it.told.median(name).map(|ns| ns / 1e3), words::number),
                it.told.judged(name, COURSE[1]),
                format!("{} of {} shortest", it.optimal[at], it.queries),
            ]);
        }
    }
    let line = |name: &str, arms: (&str, &str)| {
        super::ratios(name, arms, seen.straight.iter().map(|it| (f64::from(it.0), &it.1)))
    };
    let one = seen.straight.iter().map(|it| Place { x: f64::from(it.0), y: 1.0, range: None });
    let even = Series {
        name: "as fast".to_string(),
        published: true,
        places: one.collect(),
        ..Series::default()
    };
    Side {
        setup: "One repair at a time: the estimate and the end of the search, nodes from a pool, \
                an ordered map as open list, a heap, an array by cell, and then our searches. All \
                lengths are checked. In the open both kinds are also tried over so many tiles in a \
                row."
            .to_string(),
        finding: format!(
            "In a straight line the published A* is ahead of the published JPS {}, ours of \
             ours {}.",
            ahead_words(seen.ahead(STRAIGHT[0], STRAIGHT[1])),
            ahead_words(seen.ahead(STRAIGHT[2], STRAIGHT[3])),
        ),
        plot: Some(Plot {
            title: "A* against JPS over so many tiles in a row".to_string(),
            caption: "Below 1 A* is faster. Exact 95 % intervals of the median over blocks; \
                      published was: A* up to 7 tiles."
                .to_string(),
            x: Axis::log("tiles in a straight line"),
            y: Axis::log("time of A* / time of JPS"),
            series: vec![
                even,
                line("as published", (STRAIGHT[0], STRAIGHT[1])),
                line("ours", (STRAIGHT[2], STRAIGHT[3])),
            ],
        }),
        numbers,
    }
}

fn findings(seen: &Seen) -> Vec<Finding> {
    let mut found = Vec::new();
    let far = seen.climbed.iter().find(|it| it.query.name == "maze, far");
    if let Some(it) = far.and_then(|it| it.told.against(RUNGS[0], RUNGS[1])) {
        let expected = "on the far query of the maze the published A* takes at least 50 times as \
                        long as the published JPS";
        found.push(Finding::new("as-published", it.ratio >= 50.0, it.ratio, expected));
    }
    let longer = seen.too_long(1).0.max(seen.too_long(0).0);
    let expected = "the published searches return a path that is too long at least once";
    found.push(Finding::new("too-long", longer > 0, longer as f64, expected));
    let right = seen.climbed.iter().flat_map(|it| {
        let rungs = (0..RUNGS.len()).filter(|rung| !INADMISSIBLE.contains(rung));
        rungs.map(|rung| (it.found[rung].0.unwrap_or(0.0) - it.query.shortest).abs())
    });
    let (_, off) = range(right);
    let expected = "every other rung finds the shortest path of every query";
    found.push(Finding::new("shortest", off < 1e-3, off, expected));
    let missed: usize = seen
        .courses
        .iter()
        .map(|it| it.optimal.iter().map(|n| it.queries - n).sum::<usize>())
        .sum();
    if !seen.courses.is_empty() {
        let expected = "on the maps of a set every length is the published one";
        found.push(Finding::new("set-shortest", missed == 0, missed as f64, expected));
    }
    if let Some(it) = far.and_then(|it| it.told.against(RUNGS[0], RUNGS[8])) {
        let expected = "on that query our A*, which is right, is at least 20 times as fast as the \
                        published one";
        found.push(Finding::new("bookkeeping", it.ratio >= 20.0, it.ratio, expected));
    }
    found
}

fn why(seen: &Seen) -> Vec<String> {
    let cells = |rung: usize| {
        let all = seen.climbed.iter().map(|it| it.found[rung].1);
        all.map(words::count).collect::<Vec<_>>().join(", ")
    };
    vec![
        format!(
            "On the four queries the published A* goes on from {} cells and the published JPS from \
             {}. Each neighbour of each of these cells is looked for in two linked lists, so the \
             time grows with the square of these numbers: that squares the advantage of JPS, and \
             on top of it comes a node from the heap for each cell.",
            cells(0),
            cells(1)
        ),
        "With an array by cell a neighbour is found at once, and the advantage of JPS is what it \
         spares: fewer cells in the open list, against scanning. How much that is depends on the \
         map. In open rooms it is much, on random obstacles little."
            .to_string(),
        "Where diagonal steps cost the root of two, the Manhattan distance says more than remains. \
         A* is then no longer bound to find the shortest path, and a JPS that never corrects a \
         cell even less. Both look faster by it."
            .to_string(),
        "That A* wins within a few tiles is true in its way: a search that walks straight to its \
         goal has nothing to jump over, and JPS scans the board first. Where the two meet is a \
         property of the scan, not of the idea."
            .to_string(),
    ]
}
