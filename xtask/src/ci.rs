//! `cargo xtask ci`: all checks that a change must pass before it lands.
//!
//! The order is from cheap to expensive, and the first failure ends the run. `tidy` and the smoke
//! test of `bare/` have no step of their own because they are tests. Fuzz, race and golden start
//! the binaries of the build step: running one of them through cargo would compile half of the tree
//! a second time, with the features of another set of packages. All targets of the whole workspace
//! are one set, the one that the tests need.

use crate::golden;
use crate::steps::{self, PROFILE};
use crate::suites;
use crate::times::Times;

use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit of the whole run on two cores; beyond it the last line complains.
const BUDGET: Duration = Duration::from_secs(15 * 60);

/// The arguments of the race in CI: the shortest race that still writes its report.
pub const RACE_SMOKE: &[&str] = &["race", "--blocks", "1", "--warmup", "50ms", "--window", "100ms"];

/// The files that a race must leave in its working directory.
const RACE_WRITES: &[&str] = &["report.html", "report.jsonl"];

/// A step: its name and its function.
type Step = (&'static str, fn(&mut Times) -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", |_| cargo(&["fmt", "--all", "--check"])),
    ("clippy", |_| {
        let what = ["clippy", "--workspace", "--all-targets", "--profile", PROFILE];
        cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
    }),
    ("build", |_| cargo(&["build", "--workspace", "--all-targets", "--profile", PROFILE])),
    ("test", suites::run),
    ("fuzz smoke", |_| {
        let mut fuzz = Command::new(steps::binary("fuzz", PROFILE)?);
        steps::run(fuzz.arg("smoke").stdin(Stdio::null()), "the build step makes it")
    }),
    ("race smoke", |_| race()),
    ("packages", |_| packages()),
    ("site", |_| site()),
    ("golden", |_| golden::run(&[])),
    ("dependencies", |_| deny()),
];

/// Runs all steps.
///
/// # Errors
/// The first step that failed.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut times = Times::default();
    for (name, body) in STEPS {
        let begin = Instant::now();
        let result = steps::step(name, || body(&mut times));
        times.steps.push((name, begin.elapsed().as_secs_f64()));
        if let Err(error) = result {
            tell(&times)?;
            eprintln!("ci: FAILED at `{name}` after {}", steps::elapsed(start.elapsed()));
            return Err(error);
        }
    }
    tell(&times)?;
    let took = start.elapsed();
    eprintln!("ci: ok, {} steps in {}", STEPS.len(), steps::elapsed(took));
    if took > BUDGET {
        eprintln!("ci: that is more than the {} it may take", steps::elapsed(BUDGET));
    }
    Ok(())
}

/// Prints where the time went, and keeps it.
fn tell(times: &Times) -> anyhow::Result<()> {
    let path = times.keep(&steps::target_dir()?)?;
    eprintln!("── times, kept as {}\n{}", path.display(), times.table());
    Ok(())
}

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    steps::run(&mut steps::cargo(args), "cargo")
}

/// Every package once, from the binary that the tests used.
fn packages() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("a temporary directory")?;
    let binary = steps::binary("roundhouse", PROFILE)?;
    let [binary, out] = [&*binary, scratch.path()].map(|path| path.display().to_string());
    crate::package::run(&["all", "--binary", &binary, "--out", &out].map(str::to_owned))
}

/// The documents as a site, every link checked. Without mdBook and without a registry to install it
/// from there is none: it is a tool, not a part of the product.
fn site() -> anyhow::Result<()> {
    if let Err(missing) = crate::site::mdbook(&steps::target_dir()?) {
        eprintln!("   no site: {missing:#}");
        return Ok(());
    }
    let binary = steps::binary("roundhouse", PROFILE)?.display().to_string();
    crate::site::run(&["--quick", "--binary", &binary].map(str::to_owned))
}

/// A short race in an empty directory; its two files must be there afterwards and hold something.
fn race() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("a temporary directory")?;
    let mut race = Command::new(steps::binary("roundhouse", PROFILE)?);
    race.args(RACE_SMOKE).current_dir(scratch.path()).stdin(Stdio::null());
    steps::run(&mut race, "the build step makes it")?;
    written(scratch.path())
}

/// Checks that a race has left its report in `dir`.
///
/// # Errors
/// If a file is missing or empty.
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

/// Runs cargo-deny if it is installed: licences, bans and sources, and where `CI` is set, which
/// promises a network, advisories. It is optional, because the tidy test already checks the list of
/// direct dependencies.
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
    let what = ["check", "--hide-inclusion-graph", "licenses", "bans", "sources", "advisories"];
    let checks = if std::env::var("CI").is_ok_and(|it| it == "true") {
        &what[..]
    } else {
        &what[..what.len() - 1]
    };
    cargo(&[&["deny", "--workspace"], checks].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_without_its_report_is_a_failure() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(written(scratch.path()).is_err(), "nothing was written");
        std::fs::write(scratch.path().join("report.html"), "<p>").unwrap();
        std::fs::write(scratch.path().join("report.jsonl"), "").unwrap();
        let error = written(scratch.path()).unwrap_err();
        assert!(error.to_string().contains("report.jsonl"), "an empty file is no report: {error}");
        std::fs::write(scratch.path().join("report.jsonl"), "{}").unwrap();
        written(scratch.path()).unwrap();
    }
}
