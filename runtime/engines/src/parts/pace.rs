//! Whether a peer takes its output, and fast enough: the bound on slow readers, the same in every
//! loop.
//!
//! Bytes that are sent are not yet taken by the peer. The kernel reports room only when a third of
//! its buffer is empty, which takes long for a slow peer. So the measure is the number of bytes
//! that the peer's kernel has acknowledged (`SIOCOUTQ`).

use std::time::Duration;

use seam::{Instant, Taking};

use super::transport::ByteStream;

/// A peer that was given this many bytes has taken nearly as many. From then on the kernel may hold
/// a whole send buffer for it, so that the server sends less often. (Until then, sending a file of
/// 10 MiB over loopback costs up to twice the CPU.)
const PROOF: u64 = 1 << 20;

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

    /// Records that the socket was given `bytes` more.
    #[inline]
    pub fn give(&mut self, socket: &impl ByteStream, bytes: usize) {
        self.given += bytes as u64;
        if self.given >= self.proof {
            self.trust(socket);
        }
    }

    #[cold]
    fn trust(&mut self, socket: &impl ByteStream) {
        self.proof = u64::MAX;
        socket.trust();
    }

    /// Ends the window, because no output waits for the peer.
    #[inline]
    pub fn rest(&mut self) {
        self.window = None;
    }

    /// Output waits: looks how much of it the peer's kernel has acknowledged on `socket`.
    /// `stall` is the stall time, and `rate` the least rate in bytes a second.
    pub fn look(
        &mut self,
        socket: &impl ByteStream,
        now: Instant,
        (stall, rate): (Duration, u64),
    ) -> Taking {
        let untaken = socket.unsent_bytes() as u64;
        self.judge(self.given.saturating_sub(untaken), now, (stall, rate))
    }

    fn judge(&mut self, taken: u64, now: Instant, (stall, rate): (Duration, u64)) -> Taking {
        let moved = taken > std::mem::replace(&mut self.taken, taken);
        let (since, before) = *self.window.get_or_insert((now, taken));
        let elapsed = now.since(since);
        if elapsed >= stall && !stall.is_zero() {
            self.window = Some((now, taken));
            let least = u128::from(rate) * elapsed.as_millis() / 1000;
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
        let bound = (Duration::from_secs(5), 100);
        let mut pace = Pace::new();
        assert_eq!(pace.judge(0, at(0), bound), Taking::Nothing);
        assert_eq!(pace.judge(10, at(1000), bound), Taking::Some);
        assert_eq!(pace.judge(10, at(4999), bound), Taking::Nothing);
        assert_eq!(pace.judge(500, at(5000), bound), Taking::Some, "100 a second");
        assert_eq!(pace.judge(999, at(10_000), bound), Taking::TooLittle);
        let mut pace = Pace::new();
        pace.judge(0, at(0), bound);
        pace.rest();
        assert_eq!(pace.judge(0, at(60_000), bound), Taking::Nothing, "a rest does not count");
        let short = (Duration::from_millis(400), 100);
        assert_eq!(pace.judge(39, at(60_400), short), Taking::TooLittle);
        assert_eq!(pace.judge(79, at(60_800), short), Taking::Some);
        assert_eq!(pace.judge(79, at(99_000), (bound.0, 0)), Taking::Nothing);
    }

    /// A peer that pauses within the stall time is not cut, however short its windows are.
    #[test]
    fn a_pause_shorter_than_the_stall_time_is_none() {
        let mut pace = Pace::new();
        let bound = (Duration::from_secs(60), 256);
        for second in 0..59 {
            assert_ne!(pace.judge(0, at(second * 1000), bound), Taking::TooLittle, "{second}");
        }
        assert_eq!(pace.judge(60 * 256, at(60_000), bound), Taking::Some);
    }
}
