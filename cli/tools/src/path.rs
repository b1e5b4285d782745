//! `roundhouse path`: finds and draws shortest paths on maps, and animates searches in a browser.
//!
//! ```text
//!   find    one path, over the map in the terminal
//!   edit    serves a page to draw walls and compare two searches
//! ```

mod draw;
mod edit;
mod find;
mod solve;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use grid::movingai::Map;
use grid::{Corners, Method};

/// The commands of `path`.
#[derive(Subcommand)]
pub enum Command {
    /// Find a shortest path and draw it over the map
    Find(find::Args),
    /// Serve a page to draw walls and watch two searches side by side
    Edit(edit::Args),
}

/// Runs a command.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Find(args) => find::run(&args),
        Command::Edit(args) => edit::run(&args),
    }
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, derive_more::Display)]
pub enum Algorithm {
    /// Cell by cell
    #[display("A*")]
    #[value(name = "astar", alias = "a*")]
    AStar,
    /// Jump point search: 64 cells at a time
    #[display("JPS")]
    Jps,
}

impl Algorithm {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::AStar => "astar",
            Algorithm::Jps => "jps",
        }
    }

    /// The search of that name.
    fn method(self) -> Method {
        match self {
            Algorithm::AStar => Method::AStar,
            Algorithm::Jps => Method::Jps,
        }
    }
}

/// Reads a corner rule by its name.
fn corners(name: &str) -> Result<Corners, String> {
    let known = Corners::ALL.into_iter().find(|corners| corners.name() == name);
    known.ok_or_else(|| {
        let names = Corners::ALL.map(Corners::name).join(", ");
        format!("expected one of {names}, found `{name}`")
    })
}

pub(crate) fn read_map(path: &Path) -> Result<Map> {
    language::debug!("reading {}", path.display());
    let bytes = sys::input::read(path, sys::input::LARGE)
        .with_context(|| format!("expected a map in {}, cannot read it", path.display()))?;
    Map::parse(&bytes).with_context(|| format!("{} is not a map", path.display()))
}
