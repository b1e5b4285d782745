//! `roundhouse artefact`: a flawed arm of the museum that needs a process of its own.

use anyhow::{Result, anyhow};
use std::process::ExitCode;

/// The arguments of `artefact`.
#[derive(clap::Args)]
pub struct Args {
    /// The artefact, and what it is to do
    #[arg(required = true)]
    words: Vec<String>,
}

/// Runs it; it ends with its input.
pub fn run(args: &Args) -> Result<ExitCode> {
    // What the museum started must not outlive it.
    sys::process::set_parent_death_signal(sys::signal::Signal::TERM)?;
    ::museum::artefact::program::run(&args.words).map_err(|why| anyhow!(why))?;
    Ok(ExitCode::SUCCESS)
}
