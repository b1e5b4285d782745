//! `path check`: every length and every step of a scenario, in both directions.
//!
//! A path through walls can have the right length, and a legal path can be too long. So both are
//! checked, by code that shares nothing with the searches. Scenarios do not name their corner rule:
//! if the lengths fit another rule, the check names that rule.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use language::{eprintln, info};
use serde_json::json;

use super::{Algorithm, Task, corners, read_map, under};
use grid::movingai::{Query, scenario};
use grid::{Cell, Corners, Cost, Grid, Jumps, Method, Rule, Searcher, oracle};
use stats::words::time;

/// Errors that are printed in full.
const SHOWN_MAX: usize = 10;

/// The arguments of `path check`.
#[derive(clap::Args)]
pub struct Args {
    /// A scenario in either dialect of the MovingAI sets
    #[arg(long, value_name = "FILE")]
    scen: PathBuf,
    /// The map [default: found next to the scenario]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// How to search
    #[arg(long, value_enum, default_value = "jps")]
    algorithm: Algorithm,
    /// The scenario's rule for diagonal steps past corners: always, one-obstacle, no-obstacle or
    /// four (never)
    #[arg(long, value_parser = corners, default_value = "no-obstacle", value_name = "RULE")]
    rule: Corners,
    /// Check at most this many queries, spread over the scenario
    #[arg(long, value_name = "COUNT")]
    sample: Option<usize>,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// The results of all queries.
#[derive(Clone, Debug, Default)]
struct Tally {
    searches: usize,
    optimal: usize,
    wrong_length: usize,
    illegal: usize,
    missing: usize,
    /// The largest difference between a computed length and one in the scenario.
    apart_max: f64,
    took: Duration,
    errors: Vec<String>,
}

/// Checks a scenario. A wrong path is exit code 1.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bytes = sys::input::read(&args.scen, sys::input::LARGE)
        .with_context(|| format!("expected a scenario, cannot read {}", args.scen.display()))?;
    let mut queries =
        scenario(&bytes).with_context(|| format!("{} is not a scenario", args.scen.display()))?;
    let map = map_of(args, &queries)?;
    let terrain = read_map(&map)?;
    let grid = terrain.grid()?;
    fits(&grid, &queries, &map)?;
    if let Some(query) = queries.iter().find(|it| terrain.terrain(it.from) == b'W') {
        bail!(
            "line {}: expected a start on land (`.`, `G` or swamp, `S`), found water (`W`) at {}: \
             scenarios of swimming agents cannot be checked",
            query.line,
            query.from
        );
    }
    if let Some(sample) = args.sample {
        let every = queries.len().div_ceil(sample.max(1)).max(1);
        // From the end, because the long paths are there.
        queries = queries.into_iter().rev().step_by(every).collect();
    }
    let tally = under(args.rule, Checking { args, grid: &grid, queries: &queries });
    say(args, &grid, &queries, &tally)?;
    let right = tally.optimal == tally.searches;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The map of a scenario: the one of `--map`; or next to the scenario, under its name without the
/// extension, or under the name in the scenario, with or without an extension.
fn map_of(args: &Args, queries: &[Query]) -> Result<PathBuf> {
    if let Some(map) = &args.map {
        return Ok(map.clone());
    }
    let beside = args.scen.with_extension("");
    let named = queries.first().map(|query| PathBuf::from(query.map.replace('\\', "/")));
    let named =
        named.as_deref().and_then(Path::file_name).map(|name| args.scen.with_file_name(name));
    let ended = named.as_ref().map(|name| name.with_extension("map"));
    let places: Vec<PathBuf> = [Some(beside), named, ended].into_iter().flatten().collect();
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => {
            let places: Vec<_> = places.iter().map(|it| it.display().to_string()).collect();
            bail!("expected the map as {}, found none: name it by --map", places.join(" or "))
        }
    }
}

/// Checks that the scenario is about a map of this size.
fn fits(grid: &Grid, queries: &[Query], map: &Path) -> Result<()> {
    let sides = (usize::from(grid.width()), usize::from(grid.height()));
    for query in queries {
        let named = (query.width, query.height);
        // In old files 1 by 1 means an unscaled map.
        if named != sides && named != (1, 1) {
            bail!(
                "line {}: expected a map of {} by {} cells, found {} by {} in {}: a scaled map \
                 cannot be checked",
                query.line,
                named.0,
                named.1,
                sides.0,
                sides.1,
                map.display()
            );
        }
    }
    Ok(())
}

/// The whole check under one rule.
struct Checking<'a> {
    args: &'a Args,
    grid: &'a Grid,
    queries: &'a [Query],
}

impl Task for Checking<'_> {
    type Output = Tally;

    fn run<R: Rule>(self) -> Tally {
        let Checking { args, grid, queries } = self;
        let table = (args.algorithm == Algorithm::JpsPlus).then(|| Jumps::of(grid));
        let method: Method<'_, R> = match (args.algorithm, &table) {
            (Algorithm::JpsPlus, Some(table)) => Method::JpsPlus(table),
            (Algorithm::AStar, _) => Method::AStar,
            _ => Method::Jps,
        };
        let mut searcher = Searcher::<R>::new();
        let mut tally = Tally::default();
        for query in queries {
            for ends in [(query.from, query.to), (query.to, query.from)] {
                tally.query(&mut searcher, grid, method, query, ends);
            }
        }
        tally
    }
}

impl Tally {
    fn query<R: Rule>(
        &mut self,
        searcher: &mut Searcher<R>,
        grid: &Grid,
        method: Method<'_, R>,
        query: &Query,
        (from, to): (Cell, Cell),
    ) {
        self.searches += 1;
        let at = format!("line {}: {from} to {to}", query.line);
        let begin = Instant::now();
        let found = searcher.find(grid, method, from, to);
        self.took += begin.elapsed();
        let path = match found {
            Ok(Some(path)) => path,
            Ok(None) => {
                self.missing += 1;
                return self.say(format!("{at}: expected {}, found no path", query.length));
            }
            Err(error) => {
                self.missing += 1;
                return self.say(format!("{at}: {error}"));
            }
        };
        let ends = path.turns().first() == Some(&from) && path.turns().last() == Some(&to);
        let walked = oracle::walk(grid, R::CORNERS, path.steps());
        match walked.map(|sum| Cost::of(sum.straight, sum.diagonal)) {
            Ok(cost) if ends && cost == path.cost() => {
                let apart = (cost.length() - query.length).abs();
                self.apart_max = self.apart_max.max(apart);
                if apart <= query.tolerance {
                    self.optimal += 1;
                } else {
                    self.wrong_length += 1;
                    let (wanted, found) = (query.length, cost.length());
                    self.say(format!("{at}: expected length {wanted}, found {found:.6}"));
                }
            }
            Ok(_) => {
                self.illegal += 1;
                self.say(format!("{at}: the path has other ends, or another cost than it claims"));
            }
            Err(illegal) => {
                self.illegal += 1;
                self.say(format!("{at}: {illegal}"));
            }
        }
    }

    fn say(&mut self, what: String) {
        if self.errors.len() < SHOWN_MAX {
            self.errors.push(what);
        }
    }
}

fn say(args: &Args, grid: &Grid, queries: &[Query], tally: &Tally) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (name, rule) = (args.scen.display(), args.rule.name());
    let us = tally.took.as_secs_f64() * 1e6 / tally.searches.max(1) as f64;
    let fitting = (tally.wrong_length > 0).then(|| fitting(grid, queries)).flatten();
    if args.json {
        let result = json!({
            "event": "result", "schema": "roundhouse.path.check/1", "scen": name.to_string(),
            "fingerprint": format!("{:016x}", grid.fingerprint()), "rule": rule,
            "algorithm": args.algorithm.name(), "queries": queries.len(),
            "searches": tally.searches, "optimal": tally.optimal,
            "wrong_length": tally.wrong_length, "illegal": tally.illegal,
            "missing": tally.missing, "apart_max": tally.apart_max, "us": us,
            "said": tally.errors, "fitting_rule": fitting.map(Corners::name),
        });
        writeln!(out, "{result}")?;
        return Ok(());
    }
    for line in &tally.errors {
        eprintln!("{name}: {line}");
    }
    if let Some(fitting) = fitting {
        info!("{name}: the lengths are those of the rule {fitting}: try --rule {fitting}");
    }
    writeln!(
        out,
        "{name}: {}, rule {rule}: {} queries, both directions: {} of {} optimal and legal step by \
         step, {} of another length, {} illegal, {} without a path; {} a search, map \
         {:016x}, lengths at most {:.1e} apart",
        args.algorithm.title(),
        queries.len(),
        tally.optimal,
        tally.searches,
        tally.wrong_length,
        tally.illegal,
        tally.missing,
        time(us * 1e3),
        grid.fingerprint(),
        tally.apart_max,
    )?;
    Ok(())
}

/// The rule under which the longest few queries have their lengths.
fn fitting(grid: &Grid, queries: &[Query]) -> Option<Corners> {
    let longest: Vec<&Query> = queries.iter().rev().take(SHOWN_MAX).collect();
    Corners::ALL.into_iter().find(|corners| {
        longest.iter().all(|query| {
            let question = super::solve::Question {
                grid,
                corners: *corners,
                algorithm: Algorithm::Jps,
                from: query.from,
                to: query.to,
            };
            let found = question.answer().ok().filter(|answer| !answer.cells.is_empty());
            found.is_some_and(|it| (it.cost.length() - query.length).abs() <= query.tolerance)
        })
    })
}
