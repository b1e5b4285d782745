//! `cargo xtask soak`: what takes too long for every change.
//!
//! A long test is not another test: the same tests read `ROUNDHOUSE_SOAK` from the environment
//! and lengthen their storms, so nothing can rot for being run once a week.

use crate::steps::{self, PROFILE};
use anyhow::bail;
use std::process::Command;

/// Set to 1, tests lengthen their storms (more seeds, more connections, more kills).
pub const SOAK: &str = "ROUNDHOUSE_SOAK";

/// Name, what it is, and the command that does it.
type Soak = (&'static str, &'static str, fn() -> Command);

const SOAKS: &[Soak] = &[
    ("storms", "the whole suite with longer storms", || {
        steps::cargo(["test", "--workspace", "--profile", PROFILE])
    }),
    ("fuzz", "each fuzz function for ten minutes", || {
        let mut command =
            steps::cargo(["run", "--profile", PROFILE, "-p", "fuzz", "--bin", "fuzz"]);
        command.args(["--", "soak", "600"]);
        command
    }),
    ("loom", "every interleaving of the lock and the gate", || {
        let mut command = steps::cargo(["test", "-p", "memory", "--release", "loom"]);
        // Another flag is another build of everything; it must not throw away the usual one.
        let target = crate::root().join("target/loom");
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
        command
    }),
];

/// Runs the soak named by the first argument, or all of them.
///
/// # Errors
/// Where the name is unknown or a soak fails.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let wanted = args.first().map(String::as_str);
    if let Some(name) = wanted
        && !SOAKS.iter().any(|(known, ..)| *known == name)
    {
        let names: Vec<&str> = SOAKS.iter().map(|(name, ..)| *name).collect();
        bail!("expected one of {names:?}, found `{name}`");
    }
    for (name, what, command) in SOAKS {
        if wanted.is_none_or(|wanted| wanted == *name) {
            steps::step(&format!("{name}: {what}"), || {
                steps::run(command().env(SOAK, "1"), "cargo")
            })?;
        }
    }
    Ok(())
}
