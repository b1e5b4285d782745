//! Waiting with a limit.

use std::time::{Duration, Instant};

/// The limit for steps that a healthy program does at once. It is long because the machine is
/// shared; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `is_true` holds, and returns how long that took.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut is_true: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    wait_for(what, limit, || is_true().then_some(()));
    begin.elapsed()
}

/// Waits until `look` returns something.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(begin.elapsed() < limit, "expected within {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// `short`, or `long` where `cargo xtask soak` lengthens the tests (`ROUNDHOUSE_SOAK=1`).
pub fn soak<T>(short: T, long: T) -> T {
    if std::env::var_os("ROUNDHOUSE_SOAK").is_some_and(|word| word == "1") { long } else { short }
}

/// 0, 1, 2, ...: `count` rounds of a storm, or as many as fit in the `ROUNDHOUSE_STORM` seconds
/// that `cargo xtask soak storms` gives.
pub fn rounds(count: usize) -> impl Iterator<Item = usize> {
    let length = std::env::var("ROUNDHOUSE_STORM").ok().map(|text| {
        Duration::from_secs(text.parse().expect("ROUNDHOUSE_STORM is a number of seconds"))
    });
    let begin = Instant::now();
    (0..).take_while(move |at| length.map_or(*at < count, |length| begin.elapsed() < length))
}

/// Milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
