//! `cargo xtask ci`: everything that must hold before a change lands.
//!
//! The order is from cheap to dear, and the first failure ends the run. `tidy` and the smoke test
//! of `bare/` have no step of their own because they are tests. The surprising thing: fuzz and
//! race start the binaries that the build step has left behind. Asking cargo to run one of them
//! would compile half of the tree a second time, with the features of another set of packages;
//! all targets of the whole workspace are one set, and the one that the tests need.

use crate::steps::{self, PROFILE, Scratch};
use crate::suites;

use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the whole run may take on two cores; past it the last line complains.
const BUDGET: Duration = Duration::from_secs(25 * 60);

/// How the race is run in CI: as short as it can be and still write its report.
pub const RACE_SMOKE: &[&str] = &["race", "--blocks", "1", "--warmup", "50ms", "--window", "100ms"];

/// What a race must leave in its working directory.
const RACE_WRITES: &[&str] = &["report.html", "report.jsonl"];

/// A step: its name and what it runs.
type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("clippy", || {
        let what = ["clippy", "--workspace", "--all-targets", "--profile", PROFILE];
        cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
    }),
    ("build", || cargo(&["build", "--workspace", "--all-targets", "--profile", PROFILE])),
    ("test", suites::run),
    ("fuzz smoke", || {
        let mut fuzz = Command::new(steps::binary("fuzz", PROFILE)?);
        steps::run(fuzz.arg("smoke").stdin(Stdio::null()), "the build step makes it")
    }),
    ("race smoke", race),
    ("dependencies", deny),
];

/// Runs all steps.
///
/// # Errors
/// The first step that failed.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    let start = Instant::now();
    for (name, body) in STEPS {
        if let Err(error) = steps::step(name, body) {
            eprintln!("ci: FAILED at `{name}` after {}", steps::elapsed(start.elapsed()));
            return Err(error);
        }
    }
    let took = start.elapsed();
    eprintln!("ci: ok, {} steps in {}", STEPS.len(), steps::elapsed(took));
    if took > BUDGET {
        eprintln!("ci: that is more than the {} it may take", steps::elapsed(BUDGET));
    }
    Ok(())
}

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    steps::run(&mut steps::cargo(args), "cargo")
}

/// A short race in an empty directory; its two files must be there afterwards and hold something.
fn race() -> anyhow::Result<()> {
    let scratch = Scratch::new("race-smoke")?;
    let mut race = Command::new(steps::binary("roundhouse", PROFILE)?);
    race.args(RACE_SMOKE).current_dir(scratch.path()).stdin(Stdio::null());
    steps::run(&mut race, "the build step makes it")?;
    written(scratch.path())
}

/// Holds that a race has left its report in `dir`.
///
/// # Errors
/// Where a file is missing or empty.
pub fn written(dir: &Path) -> anyhow::Result<()> {
    for name in RACE_WRITES {
        let path = dir.join(name);
        let len = std::fs::metadata(&path).map(|found| found.len()).unwrap_or(0);
        if len == 0 {
            bail!("expected the race to write {name}, found nothing in {}", dir.display());
        }
    }
    Ok(())
}

/// cargo-deny where it is present: licences, bans and sources. It is not required, because the
/// tidy test already holds the list of direct dependencies; advisories need the network.
fn deny() -> anyhow::Result<()> {
    let present = steps::cargo(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start cargo")?
        .success();
    if !present {
        eprintln!("skipped: cargo-deny is not installed (`cargo install cargo-deny`)");
        return Ok(());
    }
    let what = ["check", "--hide-inclusion-graph", "licenses", "bans", "sources"];
    cargo(&[&["deny", "--workspace"], &what[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_without_its_report_is_a_failure() {
        let scratch = Scratch::new("race-written").unwrap();
        assert!(written(scratch.path()).is_err(), "nothing was written");
        std::fs::write(scratch.path().join("report.html"), "<p>").unwrap();
        std::fs::write(scratch.path().join("report.jsonl"), "").unwrap();
        let error = written(scratch.path()).unwrap_err();
        assert!(error.to_string().contains("report.jsonl"), "an empty file is no report: {error}");
        std::fs::write(scratch.path().join("report.jsonl"), "{}").unwrap();
        written(scratch.path()).unwrap();
    }
}
