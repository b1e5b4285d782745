//! `roundhouse serve`: a service on an engine, from the command line to the last save.

mod house;
mod stock;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// The services that can be served.
#[derive(Subcommand)]
pub enum Command {
    /// The stock market: show, buy, sell over lines of text
    Stock(stock::Args),
}

/// Serves until the server is stopped.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Stock(args) => stock::run(args),
    }
}
