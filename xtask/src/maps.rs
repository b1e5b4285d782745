//! `cargo xtask maps [FOLDER]`: every query of every scenario, by each method, in both directions.
//!
//! `cargo test` checks a sample; this command checks all, through the user's command `roundhouse
//! path check`. One check runs on each core.

use crate::steps::{self, PROFILE};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

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
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match check(&roundhouse, job) {
                Ok(line) => println!("{line}"),
                Err(error) => {
                    wrong.fetch_add(1, Ordering::Relaxed);
                    eprintln!("{error:#}");
                }
            }
        }
    };
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner();
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

/// Runs one job; its result as one line.
fn check(roundhouse: &Path, job: &Job) -> anyhow::Result<String> {
    let name = job.scenario.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(roundhouse);
    command.args(["path", "check", "--json", "--rule", job.rule, "--algorithm", job.method]);
    let output = command.arg("--scen").arg(&job.scenario).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", roundhouse.display()))?;
    let last = output.stdout.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let result: serde_json::Value = serde_json::from_slice(last.unwrap_or_default())
        .with_context(|| format!("{name}, {}: no result, {}", job.method, output.status))?;
    let number = |key: &str| result[key].as_u64().unwrap_or(0);
    let line = format!(
        "{name:<28} {:<6} {:>6} of {:>6} optimal and legal, {:>9.1} us a search, map {}",
        job.method,
        number("optimal"),
        number("searches"),
        result["us"].as_f64().unwrap_or(0.0),
        result["fingerprint"].as_str().unwrap_or_default(),
    );
    if !output.status.success() || number("optimal") != 2 * job.queries {
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
