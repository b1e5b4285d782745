//! Whether a peer takes its output, and fast enough: the bound on slow readers, the same in every
//! loop.
//!
//! Bytes that are sent are not yet taken by the peer. The kernel reports room only when a third of
//! its buffer is empty, which takes long for a slow peer. So the measure is the number of bytes
//! that the peer's kernel has acknowledged (`SIOCOUTQ`).

use std::os::fd::AsFd;
use std::time::Duration;

use seam::Instant;
use sys::socket;

use crate::knobs::Knobs;

/// The window over which the rate is measured, unless the stall time is shorter.
const WINDOW: Duration = Duration::from_secs(5);

/// A peer that was given this many bytes has taken nearly as many. From then on the kernel may hold
/// a whole send buffer for it, so that the server sends less often. (Until then, sending a file of
/// 10 MiB over loopback costs up to twice the CPU.)
const PROOF: u64 = 1 << 20;

/// The peer's progress since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// The peer has taken some bytes.
    Some,
    /// The peer has taken no bytes.
    Nothing,
    /// Over the last window the peer has taken less than it must.
    TooLittle,
}

/// The pace at which one peer takes its output.
#[derive(Debug)]
pub struct Pace {
    /// The number of bytes given to the kernel for the peer.
    given: u64,
    /// The number of given bytes that proves that the peer reads.
    proof: u64,
    /// The number of given bytes that the peer's kernel had at the last check.
    taken: u64,
    /// The beginning of the window, and the bytes that the peer had then.
    window: Option<(Instant, u64)>,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { given: 0, proof: PROOF, taken: 0, window: None }
    }

    /// Records that the kernel was given `bytes` more on `fd`.
    #[inline]
    pub fn give(&mut self, fd: impl AsFd, bytes: usize) {
        self.given += bytes as u64;
        if self.given >= self.proof {
            self.trust(fd);
        }
    }

    #[cold]
    fn trust(&mut self, fd: impl AsFd) {
        self.proof = u64::MAX;
        // If this fails, the bound stays.
        let _ = socket::set_unsent_max(fd, None);
    }

    /// Ends the window, because no output waits for the peer.
    #[inline]
    pub fn rest(&mut self) {
        self.window = None;
    }

    /// Checks how much of the waiting output the peer's kernel has acknowledged on `fd`.
    pub fn look(&mut self, fd: impl AsFd, now: Instant, knobs: &Knobs) -> Taking {
        let untaken = socket::unsent_bytes(fd).unwrap_or(0) as u64;
        self.judge(self.given.saturating_sub(untaken), now, knobs)
    }

    fn judge(&mut self, taken: u64, now: Instant, knobs: &Knobs) -> Taking {
        let moved = taken > std::mem::replace(&mut self.taken, taken);
        let (since, before) = *self.window.get_or_insert((now, taken));
        let length = WINDOW.min(knobs.write_stall);
        let elapsed = now.since(since);
        if elapsed >= length && !length.is_zero() {
            self.window = Some((now, taken));
            let least = u128::from(knobs.write_rate) * elapsed.as_millis() / 1000;
            if u128::from(taken - before.min(taken)) < least {
                return Taking::TooLittle;
            }
        }
        if moved { Taking::Some } else { Taking::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_peer_must_take_its_rate_in_each_window_while_output_waits() {
        let knobs = Knobs { write_rate: 100, ..Knobs::default() };
        let mut pace = Pace::new();
        assert_eq!(pace.judge(0, at(0), &knobs), Taking::Nothing);
        assert_eq!(pace.judge(10, at(1000), &knobs), Taking::Some);
        assert_eq!(pace.judge(10, at(4999), &knobs), Taking::Nothing);
        assert_eq!(pace.judge(500, at(5000), &knobs), Taking::Some, "100 a second");
        assert_eq!(pace.judge(999, at(10_000), &knobs), Taking::TooLittle);
        let mut pace = Pace::new();
        pace.judge(0, at(0), &knobs);
        pace.rest();
        assert_eq!(pace.judge(0, at(60_000), &knobs), Taking::Nothing, "a rest does not count");
        let short = Knobs { write_stall: Duration::from_millis(400), ..knobs.clone() };
        assert_eq!(pace.judge(39, at(60_400), &short), Taking::TooLittle);
        assert_eq!(pace.judge(79, at(60_800), &short), Taking::Some);
        let any = Knobs { write_rate: 0, ..knobs };
        assert_eq!(pace.judge(79, at(99_000), &any), Taking::Nothing);
    }
}
