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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use seam::{Instant, WallClock};
use sys::clock::now_ns;

/// The clock of the machine, for services.
pub const WALL_CLOCK: WallClock = WallClock::Asked(wall_ns);

/// How long the difference between the two clocks of the machine is believed: a step of its clock
/// is seen after this time, and a request costs no further reading of a clock.
const BELIEF_NS: u64 = 10_000_000;

/// Nanoseconds since 1970 at a moment of the engine's clock.
fn wall_ns(at: Instant) -> u64 {
    /// The time since 1970 at the start of the engine's clock, and when it was read; both in ns.
    static START: AtomicU64 = AtomicU64::new(0);
    static READ_AT: AtomicU64 = AtomicU64::new(0);
    let read_at = READ_AT.load(Ordering::Relaxed);
    if read_at == 0 || at.ns() > read_at.saturating_add(BELIEF_NS) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (wall, now) = (u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), now_ns());
        // Two threads may read at the same time: each value is right.
        START.store(wall.wrapping_sub(now), Ordering::Relaxed);
        READ_AT.store(now.max(1), Ordering::Relaxed);
    }
    START.load(Ordering::Relaxed).wrapping_add(at.ns())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn services_have_the_clock_of_the_machine() {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for _ in 0..3 {
            let before = wall();
            let found = Duration::from_nanos(WALL_CLOCK.ns_at(Instant::from_ns(now_ns())));
            let slack = Duration::from_secs(1);
            assert!(found + slack >= before && found <= wall() + slack, "{found:?}");
            std::thread::sleep(Duration::from_millis(15));
        }
    }
}
