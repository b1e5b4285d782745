//! `cargo xtask ci`: all checks that a change must pass before it lands.
//!
//! The order is from cheap to expensive, and the first failure ends the run. `tidy`, a short race
//! of all servers, and the smoke tests of `bare/` and of `fuzz` have no step of their own because
//! they are tests. Packages and golden use the binary of the build step: building it alone
//! would compile half of the tree a second time, with the features of another set of packages. All
//! targets of the whole workspace are one set, the one that the tests need.

use crate::golden;
use crate::steps::{self, PROFILE};
use crate::suites;

use anyhow::Context;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit of the whole run on two cores; beyond it the last line complains.
const BUDGET: Duration = Duration::from_secs(15 * 60);

/// A run that is longer hangs, so it ends as a failure: before a service that runs it gives up
/// without a word.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// A step: its name and its function.
type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("clippy", || {
        let what = ["clippy", "--workspace", "--all-targets", "--profile", PROFILE];
        // clippy.toml says how long a function may be.
        cargo(&[&what[..], &["--", "-D", "warnings", "-D", "clippy::too_many_lines"]].concat())
    }),
    ("light", || {
        let what = ["clippy", "--package", "roundhouse-runtime", "--no-default-features"];
        cargo(&[&what[..], &["--profile", PROFILE, "--", "-D", "warnings"]].concat())
    }),
    ("build", || cargo(&["build", "--workspace", "--all-targets", "--profile", PROFILE])),
    ("test", suites::run),
    ("packages", packages),
    ("golden", || golden::run(&[])),
    ("dependencies", deny),
];

/// Runs all steps.
///
/// # Errors
/// The first step that failed.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    let start = Instant::now();
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        eprintln!("ci: FAILED: not at its end after {}; these run:", steps::elapsed(LIMIT));
        let _ = Command::new("ps").args(["-ww", "-eo", "pid,ppid,stat,etimes,args"]).status();
        std::process::exit(1);
    });
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

/// Every package once, from the binary that the tests used.
fn packages() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("a temporary directory")?;
    let binary = steps::binary("roundhouse", PROFILE)?;
    let [binary, out] = [&*binary, scratch.path()].map(|path| path.display().to_string());
    crate::package::run(&["all", "--binary", &binary, "--out", &out].map(str::to_owned))
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
    let is_ci = std::env::var("CI").is_ok_and(|it| it == "true");
    let checks = &what[..what.len() - usize::from(!is_ci)];
    cargo(&[&["deny", "--workspace"], checks].concat())
}
