//! `cargo xtask soak`: the checks that take too long for every change.
//!
//! The soak has no separate tests: the usual tests read `ROUNDHOUSE_SOAK` and
//! `ROUNDHOUSE_STORM` from the environment and take longer. Only the rest of the full
//! set of rare variants (modules `soak` of `cli::it`) runs here and not in `cargo xtask ci`.

use crate::steps::{self, PROFILE};
use anyhow::bail;
use std::process::Command;

/// Set to 1, tests lengthen their storms (more seeds, more connections, more kills).
pub const SOAK: &str = "ROUNDHOUSE_SOAK";

/// Name, description and a script of the shell, whose `$0` is our profile. All build the workspace
/// as CI does; one package alone would be compiled again with other features.
type Soak = (&'static str, &'static str, &'static str);

const SOAKS: &[Soak] = &[
    (
        "suite",
        "the whole suite with more seeds, more kills and all variants",
        "cargo test --workspace --profile $0",
    ),
    (
        "storms",
        "every engine for ten minutes under short connections and under resets",
        // All at the same time: a storm waits for its server most of the time.
        "ROUNDHOUSE_STORM=600 cargo test --workspace --test it --profile $0 -- \
            --test-threads=64 storm churn",
    ),
    (
        "frames",
        "TCP in user space for ten minutes under resets and slow readers (root)",
        "ROUNDHOUSE_STORM=600 cargo test --workspace --test experiments --profile $0 -- \
            --nocapture storm",
    ),
    (
        "web",
        "5,000 slow clients",
        // Passing tests print their measurements; parallel tests would disturb each other.
        "cargo test --workspace --test web --profile $0 -- --nocapture --test-threads=1",
    ),
    (
        "orders",
        "a market on three nodes for ten minutes under kills, pauses and cuts",
        "cargo build --profile $0 --workspace --bin roundhouse; \
            python3 experiments/programs/chaos.py ${CARGO_TARGET_DIR:-target}/$0/roundhouse 600 \
            $(mktemp -d)/chaos",
    ),
    (
        "fuzz",
        "each fuzz function for ten minutes",
        "cargo run --profile $0 -p fuzz --bin fuzz -- soak 600",
    ),
    (
        "loom",
        "every interleaving of locks and tables",
        // Another flag rebuilds everything, so it gets a separate directory.
        "RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom \
            cargo test -p roundhouse-memory --release loom",
    ),
];

/// Runs the soak named by the first argument, or all of them.
///
/// # Errors
/// If the name is unknown or a soak fails.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let wanted = args.first().map(String::as_str);
    if let Some(name) = wanted
        && !SOAKS.iter().any(|(known, ..)| *known == name)
    {
        let names: Vec<&str> = SOAKS.iter().map(|(name, ..)| *name).collect();
        bail!("expected one of {names:?}, found `{name}`");
    }
    for (name, what, script) in SOAKS {
        if wanted.is_none_or(|wanted| wanted == *name) {
            steps::step(&format!("{name}: {what}"), || {
                let mut shell = Command::new("sh");
                shell.args(["-ec", script, PROFILE]).current_dir(crate::root()).env(SOAK, "1");
                steps::run(&mut shell, "a shell")
            })?;
        }
    }
    Ok(())
}
