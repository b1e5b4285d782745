//! One connection: what was asked on it and when, and the bytes on their way.

use seam::Instant;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The pause before a failed connection is made again; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether there is a connection.
#[derive(Debug)]
pub(super) enum State {
    /// None, and none is to be made before `again`.
    Down {
        /// The moment.
        again: Instant,
    },
    /// There is one, or there will be once the server's kernel has answered.
    Up(OwnedFd),
}

/// Requests that went out together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) due: Instant,
    pub(super) sent: Instant,
    left: u32,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: State,
    /// Unanswered requests, oldest first.
    runs: VecDeque<Run>,
    /// Their number.
    pub(super) outstanding: u32,
    /// Requests asked on this connection so far.
    pub(super) asked: u64,
    /// Since when nothing is outstanding.
    pub(super) idle_since: Instant,
    /// When something last moved on it.
    pub(super) moved: Instant,
    /// Bytes received that the script could not use yet.
    pub(super) held: Vec<u8>,
    /// Requests as bytes, of which the first `sent` are sent.
    pub(super) unsent: Vec<u8>,
    pub(super) sent: usize,
    /// Whether the epoll tells when there is room to send.
    pub(super) watching_room: bool,
    pause: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            state: State::Down { again: Instant::ZERO },
            runs: VecDeque::new(),
            outstanding: 0,
            asked: 0,
            idle_since: Instant::ZERO,
            moved: Instant::ZERO,
            held: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            watching_room: false,
            pause: PAUSE_MIN,
        }
    }
}

impl Link {
    /// Takes a fresh connection.
    pub(super) fn open(&mut self, fd: OwnedFd, now: Instant) {
        self.state = State::Up(fd);
        (self.asked, self.idle_since, self.moved) = (0, now, now);
    }

    /// Lets the connection go; closing the descriptor takes it off the epoll.
    pub(super) fn close(&mut self, now: Instant) {
        self.state = State::Down { again: now };
        self.runs.clear();
        self.outstanding = 0;
        self.held.clear();
        self.unsent.clear();
        self.sent = 0;
        self.watching_room = false;
    }

    /// Puts off the next attempt, by more each time until a reply comes.
    pub(super) fn back_off(&mut self, now: Instant) {
        self.state = State::Down { again: now + self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Notes `count` requests that go out now.
    pub(super) fn asked(&mut self, count: u32, due: Instant, sent: Instant) {
        self.runs.push_back(Run { due, sent, left: count });
        self.outstanding += count;
        self.asked += u64::from(count);
        self.moved = sent;
    }

    /// Notes that the `done` oldest requests are answered and tells `record` of each run how many
    /// of it. Gives back how many those were in all.
    pub(super) fn credit(
        &mut self,
        done: u32,
        now: Instant,
        mut record: impl FnMut(Run, u64),
    ) -> u64 {
        self.moved = now;
        let mut left = done;
        while left > 0 {
            let Some(run) = self.runs.front_mut() else { break };
            let count = run.left.min(left);
            record(*run, u64::from(count));
            run.left -= count;
            left -= count;
            if run.left == 0 {
                self.runs.pop_front();
            }
        }
        let credited = done - left;
        debug_assert_eq!(left, 0, "a script answers only what was asked");
        self.outstanding -= credited;
        if credited > 0 {
            self.pause = PAUSE_MIN;
        }
        if self.outstanding == 0 {
            self.idle_since = now;
        }
        u64::from(credited)
    }

    /// Whether requests wait for room in the socket.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.unsent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn replies_are_credited_to_the_oldest_run_first() {
        let mut link = Link::default();
        link.asked(3, at(1), at(2));
        link.asked(2, at(5), at(6));
        let mut seen = Vec::new();
        let credited = link.credit(4, at(9), |run, count| seen.push((run.sent.ns(), count)));
        assert_eq!((credited, link.outstanding), (4, 1));
        assert_eq!(seen, [(2, 3), (6, 1)]);
        assert_eq!(link.idle_since, Instant::ZERO);
        link.credit(1, at(11), |run, count| seen.push((run.due.ns(), count)));
        assert_eq!(seen[2..], [(5, 1)]);
        assert_eq!((link.outstanding, link.idle_since), (0, at(11)));
    }

    #[test]
    fn pauses_double_until_a_reply_comes() {
        let mut link = Link::default();
        let pause = |link: &mut Link| {
            link.back_off(at(0));
            let State::Down { again } = link.state else { panic!("it is down") };
            again.ns() / 1_000_000
        };
        let found: Vec<u64> = (0..9).map(|_| pause(&mut link)).collect();
        assert_eq!(found, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        link.asked(1, at(0), at(0));
        link.credit(1, at(1), |_, _| {});
        assert_eq!(pause(&mut link), 10);
    }
}
