//! `roundhouse demo race`: the command `race` with few engines, on the terminal. The other
//! demonstrations are in `tools`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::FromArgMatches;
use tools::demo::RaceArgs;

use crate::race;

/// Servers that differ in what their workers are, and how they wait.
const ARMS: &str = "iterative,thread,epoll,uring";

/// Runs the race. Its report stays in a new folder.
pub fn race(args: &RaceArgs) -> Result<ExitCode> {
    let out = tempfile::Builder::new().prefix("roundhouse-demo-").tempdir();
    let out = out.context("cannot make a folder for the report")?.keep();
    let budget = format!("{}ms", args.time.as_millis());
    let out = out.display().to_string();
    let words = ["race", "--arms", ARMS, "--depths", "1", "--budget", &budget, "--out", &out];
    let grammar = <race::Args as clap::Args>::augment_args(clap::Command::new("race"));
    race::run(&race::Args::from_arg_matches(&grammar.try_get_matches_from(words)?)?)
}
