//! `cargo xtask maps [FOLDER]`: every query of every scenario, by each method, in both directions.
//!
//! `cargo test` checks a sample; this command checks all, through the user's command `roundhouse
//! path check`, which `maps.sh` starts for each scenario.

use crate::steps::{self, PROFILE};
use std::process::Command;
use std::time::Instant;

/// The variable that names the folder of maps by default.
const MAPS: &str = "ROUNDHOUSE_MAPS";

/// Checks all of them.
///
/// # Errors
/// If a scenario cannot be read, or a path is not legal or not optimal.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let build =
        ["build", "--quiet", "--profile", PROFILE, "-p", "roundhouse-cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let (roundhouse, begun) = (steps::binary("roundhouse", PROFILE)?, Instant::now());
    let folder = args.first().cloned().or_else(|| std::env::var(MAPS).ok());
    let mut check = Command::new("bash");
    check.arg("xtask/src/maps.sh").arg(roundhouse).args(folder).current_dir(crate::root());
    steps::run(&mut check, "bash and findutils")?;
    eprintln!("maps: all optimal and legal step by step, in {}", steps::elapsed(begun.elapsed()));
    Ok(())
}
