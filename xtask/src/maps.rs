//! `cargo xtask maps [FOLDER]`: every query of every scenario, by each method, in both directions.
//!
//! `cargo test` checks a sample; this command checks all, through the user's command `roundhouse
//! path check`. One check runs on each core; one bar counts the queries of all of them.

use crate::steps::{self, PROFILE};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The variable that names the folder of maps by default.
const MAPS: &str = "ROUNDHOUSE_MAPS";
/// The methods, and the rule of the MovingAI sets.
const METHODS: &[&str] = &["astar", "jps", "jps+"];
const RULE: &str = "no-obstacle";
/// The maps that belong to the repository, and the rule of their lengths.
const OWN: (&str, &str) = ("data/maps", "one-obstacle");

/// One run of the command.
#[derive(Clone, Debug)]
struct Job {
    scenario: PathBuf,
    method: &'static str,
    rule: &'static str,
    queries: u64,
}

/// Checks all of them.
///
/// # Errors
/// If no folder of maps is known, or a path is not legal or not optimal.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let own = crate::root().join(OWN.0);
    let mut jobs = jobs(&own, OWN.1)?;
    match args.first().map(PathBuf::from).or_else(|| std::env::var_os(MAPS).map(PathBuf::from)) {
        Some(folder) => jobs.extend(self::jobs(&folder, RULE)?),
        None => eprintln!("maps: no folder named and {MAPS} not set: only {}", own.display()),
    }
    let build =
        ["build", "--quiet", "--profile", PROFILE, "-p", "roundhouse-cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let roundhouse = steps::binary("roundhouse", PROFILE)?;
    let (start, searches) = (Instant::now(), jobs.iter().map(|job| job.queries).sum::<u64>() * 2);
    let bar = bar(searches / 2);
    let told = all(&roundhouse, jobs, &bar);
    bar.finish_and_clear();
    let mut wrong = 0;
    for line in told {
        match line {
            Ok(line) => println!("{line}"),
            Err(error) => {
                wrong += 1;
                eprintln!("{error:#}");
            }
        }
    }
    if wrong > 0 {
        bail!("expected optimal and legal paths only, found {wrong} checks that failed");
    }
    let took = steps::elapsed(start.elapsed());
    eprintln!("maps: {searches} searches, all optimal and legal step by step, in {took}");
    Ok(())
}

/// One job for each scenario and method, the largest first, so that no core is left with one at the
/// end.
fn jobs(folder: &Path, rule: &'static str) -> anyhow::Result<Vec<Job>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("expected a folder of maps, cannot list {}", folder.display()))?;
    let mut jobs = Vec::new();
    for entry in entries {
        let scenario = entry?.path();
        if scenario.extension().is_none_or(|ending| ending != "scen") {
            continue;
        }
        let text = std::fs::read_to_string(&scenario)
            .with_context(|| format!("cannot read {}", scenario.display()))?;
        let rows = text.lines().filter(|line| !line.trim().is_empty());
        let queries = rows.filter(|line| !line.starts_with("version")).count() as u64;
        jobs.extend(METHODS.iter().map(|method| {
            let scenario = scenario.clone();
            Job { scenario, method, rule, queries }
        }));
    }
    if jobs.is_empty() {
        bail!("expected scenarios (*.scen) in {}, found none", folder.display());
    }
    // A* takes longest by far.
    jobs.sort_by_key(|job| (job.method != "astar", std::cmp::Reverse(job.queries)));
    Ok(jobs)
}

fn bar(queries: u64) -> ProgressBar {
    let bar = ProgressBar::new(queries);
    let style = "{bar:40} {pos}/{len} queries · {elapsed} · {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Runs all jobs, one on each core; their results in the order of their end.
fn all(roundhouse: &Path, jobs: Vec<Job>, bar: &ProgressBar) -> Vec<anyhow::Result<String>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(jobs.into_iter());
    let told = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(job) = next() {
                    let line = check(roundhouse, &job, bar);
                    if let Ok(mut told) = told.lock() {
                        told.push(line);
                    }
                }
            });
        }
    });
    told.into_inner().unwrap_or_default()
}

/// Runs one job; its result as one line.
fn check(roundhouse: &Path, job: &Job, bar: &ProgressBar) -> anyhow::Result<String> {
    let name = job.scenario.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut child = Command::new(roundhouse)
        .args(["path", "check", "--json", "--rule", job.rule, "--algorithm", job.method, "--scen"])
        .arg(&job.scenario)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", roundhouse.display()))?;
    let output = child.stdout.take().context("the output is piped")?;
    let (mut seen, mut result) = (0, None);
    for line in BufReader::new(output).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?).context("a line of JSON")?;
        if line["event"] == "progress" {
            let done = line["done"].as_u64().unwrap_or(seen);
            bar.inc(done.saturating_sub(seen));
            seen = done;
        } else {
            result = Some(line);
        }
    }
    bar.inc(job.queries.saturating_sub(seen));
    let status = child.wait()?;
    let Some(result) = result else { bail!("{name}, {}: no result, {status}", job.method) };
    let number = |key: &str| result[key].as_u64().unwrap_or(0);
    let line = format!(
        "{name:<28} {:<6} {:>6} of {:>6} optimal and legal, {:>9.1} us a search, map {}",
        job.method,
        number("optimal"),
        number("searches"),
        result["us"].as_f64().unwrap_or(0.0),
        result["fingerprint"].as_str().unwrap_or_default(),
    );
    if !status.success() || number("optimal") != 2 * job.queries {
        bail!("{line}\n  {}", result["said"]);
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_jobs_come_first() {
        let jobs = jobs(&crate::root().join(OWN.0), OWN.1).unwrap();
        assert_eq!(jobs.len(), 2 * METHODS.len());
        assert!(jobs.iter().all(|job| job.queries == 2));
        assert!(jobs[..2].iter().all(|job| job.method == "astar"));
        assert!(super::jobs(&crate::root().join("docs"), RULE).is_err(), "no scenario there");
    }
}
