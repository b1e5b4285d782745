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

/// Name, description and command.
type Soak = (&'static str, &'static str, fn() -> Command);

/// `chaos.py` with the binary of our profile; it says what the machine lacks. All soaks build the
/// workspace as CI does; one package alone would be compiled again with other features.
const ORDERS: &str = "cargo build --profile $0 --workspace --bin roundhouse; \
    python3 experiments/programs/chaos.py ${CARGO_TARGET_DIR:-target}/$0/roundhouse 600 \
    $(mktemp -d)/chaos";

const SOAKS: &[Soak] = &[
    ("suite", "the whole suite with more seeds, more kills and all variants", || {
        steps::cargo(["test", "--workspace", "--profile", PROFILE])
    }),
    ("storms", "every engine for ten minutes under short connections and under resets", || {
        let mut command =
            steps::cargo(["test", "--workspace", "--test", "it", "--profile", PROFILE]);
        // All at the same time: a storm waits for its server most of the time.
        command.args(["--", "--test-threads=64", "storm", "churn"]);
        command.env("ROUNDHOUSE_STORM", "600");
        command
    }),
    ("frames", "TCP in user space for ten minutes under resets and slow readers (root)", || {
        let words = ["test", "--workspace", "--test", "experiments", "--profile", PROFILE];
        let mut command = steps::cargo(words);
        command.args(["--", "--nocapture", "storm"]).env("ROUNDHOUSE_STORM", "600");
        command
    }),
    ("web", "20 hand-overs, 5,000 slow clients", || {
        let mut command = steps::cargo(["test", "--workspace", "--test", "web"]);
        // Passing tests print their measurements; parallel tests would disturb each other.
        command.args(["--profile", PROFILE, "--", "--nocapture", "--test-threads=1"]);
        command
    }),
    ("orders", "a market on three nodes for ten minutes under kills, pauses and cuts", || {
        // A shell, because the binary comes first.
        let mut command = Command::new("sh");
        command.current_dir(crate::root()).args(["-ec", ORDERS, PROFILE]);
        command
    }),
    ("fuzz", "each fuzz function for ten minutes", || {
        let mut command =
            steps::cargo(["run", "--profile", PROFILE, "-p", "fuzz", "--bin", "fuzz"]);
        command.args(["--", "soak", "600"]);
        command
    }),
    ("loom", "every interleaving of locks and tables", || {
        let line = "test -p roundhouse-memory --release loom";
        let mut command = steps::cargo(line.split(' '));
        // Another flag rebuilds everything, so it gets a separate directory.
        let target = crate::root().join("target/loom");
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
        command
    }),
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
    for (name, what, command) in SOAKS {
        if wanted.is_none_or(|wanted| wanted == *name) {
            steps::step(&format!("{name}: {what}"), || {
                steps::run(command().env(SOAK, "1"), "cargo")
            })?;
        }
    }
    Ok(())
}
