//! The machine's side of our services: files, logs, clocks, and the figures of their
//! streams.

pub mod access_log;
mod open_files;
pub mod site;
pub mod streams;
pub mod tally;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use seam::WallClock;

/// The clock of the machine, for services.
pub const WALL_CLOCK: WallClock = WallClock::Asked(|at| sys::clock::wall_ns(at.ns()));

/// 16 random bytes from the kernel.
pub fn secret() -> Result<[u8; 16]> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut secret))
        .context("cannot read /dev/urandom, which names of sessions are drawn from")?;
    Ok(secret)
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
