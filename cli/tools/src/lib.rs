//! The tools around a server: its clients, path searches on maps, checks of machines and senders.
//!
//! Each command of `roundhouse` that is a separate program lives here with its arguments, and
//! `cli` calls it. Commands that only start a server or a measurement are in `cli`; what they need
//! of the machine is here.
//!
//! | module | what |
//! |---|---|
//! | `top` | a client of a server's administration, as a screen |
//! | `ctl` | the same in one line: why, status, orders |
//! | `course` | clients of the stock market, as the course has them |
//! | `play` | a receiver of media that measures it |
//! | `senders` | the ways in which packets leave, and the laboratory that compares them |
//! | `doctor` | what a machine can measure |
//! | `architectures` | the table of engines |
//! | `motion` | a recording of an engine, call by call, as a page |
//! | `path` | shortest paths: found, checked, drawn, edited in a browser |
//! | `demo` | a game to look at, in a browser |
//! | `progress` | the live view of a load |
//! | `scrape` | a load's counts for Prometheus while it runs |
//! | `race` | a race's book of stocks and directory; its view on a terminal |
//! | `serve` | files, access log and certificates for our services |
//! | `screen`, `interrupt` | the terminal and Ctrl-C, for all of them |

pub mod architectures;
pub mod course;
pub mod ctl;
pub mod demo;
pub mod doctor;
pub mod interrupt;
pub mod motion;
mod page;
pub mod path;
pub mod play;
pub mod progress;
pub mod race;
pub mod scrape;
pub mod screen;
pub mod senders;
pub mod serve;
pub mod top;

use std::fmt::Display;
use std::path::Path;

use anyhow::{Context, Result};

/// Exit codes (docs/exit-codes.md): a condition or a measurement has no result; one is met or
/// missed; Ctrl-C.
pub const UNKNOWN: u8 = 98;
/// See [`UNKNOWN`].
pub const MISSED: u8 = 99;
/// See [`UNKNOWN`].
pub const INTERRUPTED: u8 = 130;

/// An error of usage, after which a command ends with 2.
pub fn usage(why: impl Display) -> anyhow::Error {
    engines::Refused(format!("{why:#}")).into()
}

/// Writes a file.
pub fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
