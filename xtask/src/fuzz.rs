//! `cargo xtask fuzz`: starts the fuzz binary, which has the registry.

use crate::steps::{self, PROFILE};

/// Builds and runs the registry; no argument means `smoke`.
///
/// # Errors
/// If the build fails or a fuzz function finds a fault (its seed is printed).
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let smoke = ["smoke".to_owned()];
    let args = if args.is_empty() { &smoke[..] } else { args };
    let mut command =
        steps::cargo(["run", "--quiet", "--profile", PROFILE, "-p", "fuzz", "--bin", "fuzz", "--"]);
    steps::run(command.args(args), "cargo")
}
