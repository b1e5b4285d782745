//! The machine's side of our services: files, logs, live sources, clocks, and the
//! figures of their streams.

pub mod access_log;
pub mod site;
pub mod source;
pub mod streams;
pub mod tally;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use seam::Instant;

/// This moment by the engine's clock, and the same in nanoseconds since 1970.
pub fn wall_clock() -> (Instant, u64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    (Instant::from_ns(sys::clock::now_ns()), wall_ns)
}

/// 16 random bytes from the kernel.
///
/// # Errors
/// There is no /dev/urandom.
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
