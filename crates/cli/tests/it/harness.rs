//! What the tests stand on: the real binary in a directory of its own, clients with deadlines, and
//! what /proc tells about the server's processes.
//!
//! Nothing here can hang: each wait has an end, and who reaches it panics with what the server
//! said.

mod cage;
mod client;
mod family;
mod folder;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use cage::Cage;
pub use client::Client;
pub use family::{Family, data_bytes, is_alive, is_stopped, numbers};
pub use folder::Folder;
pub use server::{BINARY, Ended, Plan, Server};

/// How long anything may take that a healthy server does at once. Wide, because the machine is
/// shared; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// `short`, or `long` where storms may last (`ROUNDHOUSE_SOAK=1`).
pub fn soak<T>(short: T, long: T) -> T {
    if std::env::var_os("ROUNDHOUSE_SOAK").is_some_and(|word| word == "1") { long } else { short }
}

/// Milliseconds, which tests are full of.
pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until `is_true`, at most `limit`, and says how long it took.
///
/// # Panics
/// If it does not become true.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut is_true: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < limit, "expected within {limit:?}: {what}");
        std::thread::sleep(ms(5));
    }
    begin.elapsed()
}

/// Raises a flag when it goes out of scope, also by a panic, so that no thread of a test waits for
/// ever.
pub struct Raise<'a>(pub &'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Says that a test cannot be made on this machine. `what` has a row in `tests/skips.toml`, for
/// nothing is left out without a reason that somebody has read.
///
/// # Panics
/// If there is no such row.
pub fn skip(what: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/skips.toml");
    let rows = std::fs::read_to_string(path).expect("the list of skips");
    let row = format!("what = \"{what}\"");
    assert!(rows.lines().any(|line| line == row), "expected a row {row} in tests/skips.toml");
    println!("skipped: {what}");
}
