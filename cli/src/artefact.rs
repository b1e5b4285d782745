//! `roundhouse artefact`: a flawed arm of the museum that needs its own process.

use anyhow::{Result, anyhow};
use std::process::ExitCode;

/// The arguments of `artefact`.
#[derive(clap::Args)]
pub struct Args {
    /// The artefact and its arguments
    #[arg(required = true)]
    words: Vec<String>,
}

/// Runs it until its input ends.
pub fn run(args: &Args) -> Result<ExitCode> {
    // An artefact must not outlive the museum.
    sys::process::set_parent_death_signal(sys::signal::Signal::TERM)?;
    ::museum::artefact(&args.words).map_err(|why| anyhow!(why))?;
    Ok(ExitCode::SUCCESS)
}
