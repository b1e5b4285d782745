//! The loop of the cycle soak: it prints its number of rounds, and uses only idle time.
//!
//! The laboratory gives it its rank (SCHED_IDLE) and its core, and reads its lines.

use std::hint::black_box;
use std::io::{self, Write};

/// Between two lines, nanoseconds.
const LINE_EVERY: u64 = 20_000_000;
/// Rounds between two looks at the clock: some microseconds.
const ROUNDS: u64 = 4_096;

/// Spins until its output is closed; prints time and rounds.
pub fn run() {
    let mut out = io::stdout().lock();
    let (mut rounds, mut line_at) = (0_u64, 0);
    loop {
        for round in 0..ROUNDS {
            black_box(round);
        }
        rounds += ROUNDS;
        let now = sys::clock::now_ns();
        if now >= line_at {
            line_at = now + LINE_EVERY;
            if writeln!(out, "{now} {rounds}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }
}
