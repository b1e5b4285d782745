//! One connection: its outstanding requests and the bytes in flight.
//!
//! A link outlives its sockets: it is the slot of one user or one connection of the plan, and is
//! dialled again after a failure, with a pause that doubles from 10 ms to 1 s until a reply
//! arrives. Requests that left together form a run with one due time and one send time, so a batch
//! of any depth costs one entry. Replies come in the order of requests, and the front run is the
//! next to be answered, unless the script names the answered ones
//! ([`Script::order`](crate::Script::order)). `outstanding` is the sum over the runs.

use super::wire::Wire;
use crate::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The pause before a failed connection is made again; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A server may close a connection on which nothing has moved for this long just as the next
/// request is on its way (RFC 9112 section 9.3.1).
const REST: Duration = Duration::from_secs(1);

/// Whether there is a connection.
#[derive(Debug)]
pub(super) enum State {
    /// No connection, and none will be made before `again`.
    Down { again: Instant },
    /// A connection exists, or will exist once the server's kernel has answered.
    Up(Wire),
}

/// Requests that went out together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) due: Instant,
    pub(super) sent: Instant,
    pub(super) left: u32,
    is_late: bool,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) state: State,
    /// Unanswered requests, oldest first.
    runs: VecDeque<Run>,
    /// The number of unanswered requests.
    pub(super) outstanding: u32,
    /// The number of requests sent on this connection so far.
    pub(super) asked: u64,
    /// The due time of the user's next batch; nothing is outstanding since then.
    pub(super) due: Instant,
    /// The number of batches that the user has left, [`u64::MAX`] if there is no end; 0: no user.
    pub(super) rounds: u64,
    /// Whether it is in the list of connections with room.
    pub(super) listed: bool,
    pub(super) alarm: Option<Instant>,
    /// The time when it was made.
    pub(super) opened: Instant,
    /// While it is being made and that is timed apart: since when.
    pub(super) dialled: Option<Instant>,
    /// Greetings of the server that were counted.
    pub(super) greetings: u32,
    /// Whether it was counted as missing its greeting.
    pub(super) unlogged: bool,
    /// When a reply was complete for the last time.
    pub(super) replied: Instant,
    /// When bytes or requests last moved on the connection.
    pub(super) moved: Instant,
    /// Whether its unanswered requests were sent after a rest.
    has_rested: bool,
    /// Received bytes that the script could not use yet.
    pub(super) held: Vec<u8>,
    /// Encoded requests; the first `sent` bytes are sent.
    pub(super) unsent: Vec<u8>,
    pub(super) sent: usize,
    /// Whether the epoll watches for room to send.
    pub(super) watching_room: bool,
    /// The last pause before it was made again, doubled; zero after a reply.
    pause: Duration,
    /// Connections that failed so far; it chooses the next address.
    pub(super) failed: usize,
}

impl Default for State {
    fn default() -> Self {
        State::Down { again: Instant::ZERO }
    }
}

impl Link {
    /// Takes a fresh connection.
    pub(super) fn open(&mut self, wire: Wire, now: Instant) {
        // Through layers the client speaks first, as soon as it can.
        self.watching_room = matches!(wire, Wire::Layered(_));
        self.state = State::Up(wire);
        (self.asked, self.moved, self.has_rested) = (0, now, false);
        (self.opened, self.greetings, self.unlogged) = (now, 0, false);
    }

    /// Closes the connection and keeps what is outstanding; closing the descriptor also removes it
    /// from the epoll.
    pub(super) fn close(&mut self, now: Instant) {
        self.state = State::Down { again: now };
        self.dialled = None;
        self.held.clear();
        self.unsent.clear();
        self.sent = 0;
        self.watching_room = false;
    }

    /// Postpones the next attempt, longer each time until a reply arrives.
    pub(super) fn back_off(&mut self, now: Instant) {
        let pause = self.pause.max(PAUSE_MIN);
        self.state = State::Down { again: now + pause };
        self.pause = (pause * 2).min(PAUSE_MAX);
        self.failed += 1;
    }

    /// Notes `count` requests that are sent now.
    pub(super) fn asked(&mut self, count: u32, due: Instant, sent: Instant) {
        if self.outstanding == 0 {
            self.has_rested = self.asked > 0 && sent.since(self.moved) >= REST;
        }
        self.runs.push_back(Run { due, sent, left: count, is_late: false });
        self.outstanding += count;
        self.asked += u64::from(count);
        self.moved = sent;
    }

    /// The requests so far are sent at this moment, not earlier.
    pub(super) fn sent_at(&mut self, now: Instant) {
        self.runs.iter_mut().for_each(|run| run.sent = now);
        self.moved = now;
    }

    /// Takes up to `most` answered requests off the run that has the one at `place`, where 0 is the
    /// oldest; returns the run and the count. `None` if there is no such request.
    pub(super) fn answered(&mut self, place: u32, most: u32) -> Option<(Run, u32)> {
        let mut behind = 0;
        let at = self.runs.iter().position(|run| {
            behind += run.left;
            place < behind
        })?;
        let run = &mut self.runs[at];
        let (found, count) = (*run, run.left.min(most));
        run.left -= count;
        if run.left == 0 {
            self.runs.remove(at);
        }
        self.outstanding -= count;
        self.pause = Duration::ZERO;
        Some((found, count))
    }

    /// The number of requests that have become older than `most` since the last check.
    pub(super) fn late(&mut self, now: Instant, most: Duration) -> u64 {
        // The oldest requests come first, so the first that is young enough ends the search.
        let old = self.runs.iter_mut().take_while(|run| now.since(run.sent) > most);
        let mut count = 0;
        for run in old.filter(|run| !run.is_late) {
            run.is_late = true;
            count += u64::from(run.left);
        }
        count
    }

    /// Takes the outstanding requests, to send them on another connection.
    pub(super) fn take_runs(&mut self) -> VecDeque<Run> {
        self.outstanding = 0;
        std::mem::take(&mut self.runs)
    }

    /// Unanswered requests, oldest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Restores what [`Link::take_runs`] took, once it was sent again.
    pub(super) fn restore_runs(&mut self, runs: VecDeque<Run>) {
        let count: u32 = runs.iter().map(|run| run.left).sum();
        self.outstanding = count;
        self.asked += u64::from(count);
        self.runs = runs;
    }

    /// Whether it has more to say, although its socket may be empty.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        matches!(&self.state, State::Up(wire) if wire.has_more())
    }

    /// How long the oldest unanswered request has waited for its reply, which can begin only after
    /// the one before it if replies have an order.
    pub(super) fn waits(&self, now: Instant) -> Duration {
        let sent = self.runs.front().map_or(now, |run| run.sent);
        now.since(sent.max(self.opened).max(self.replied))
    }

    /// Whether no byte has come since the oldest unanswered request was sent.
    pub(super) fn is_silent(&self) -> bool {
        self.runs.front().is_none_or(|run| self.moved <= run.sent)
    }

    /// Whether the server may have closed it before the unanswered requests arrived.
    pub(super) fn was_left(&self) -> bool {
        self.has_rested && self.outstanding > 0 && self.is_silent()
    }

    /// Whether a connection exists, or will exist once the kernel has answered.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn replies_belong_to_the_oldest_run_first() {
        let mut link = Link::default();
        link.asked(3, at(1), at(2));
        link.asked(2, at(5), at(6));
        let mut next = |most| link.answered(0, most).map(|(run, count)| (run.sent.ns(), count));
        let found: Vec<_> = [2, 4, 1, 9, 9].into_iter().map(&mut next).collect();
        assert_eq!(found, [Some((2, 2)), Some((2, 1)), Some((6, 1)), Some((6, 1)), None]);
        assert_eq!(link.outstanding, 0);
    }

    #[test]
    fn a_reply_out_of_order_belongs_to_its_own_run() {
        let mut link = Link::default();
        link.asked(2, at(1), at(2));
        link.asked(2, at(5), at(6));
        let mut next = |place| link.answered(place, 1).map(|(run, count)| (run.sent.ns(), count));
        let found: Vec<_> = [3, 2, 2, 0, 0, 0].into_iter().map(&mut next).collect();
        let (first, second) = (Some((2, 1)), Some((6, 1)));
        assert_eq!(found, [second, second, None, first, first, None]);
    }

    #[test]
    fn what_is_late_is_late_once() {
        let mut link = Link::default();
        let most = Duration::from_nanos(10);
        link.asked(3, at(1), at(1));
        link.asked(5, at(4), at(4));
        link.answered(0, 1);
        let found: Vec<u64> = [11, 12, 12, 14, 15, 90].map(|now| link.late(at(now), most)).into();
        assert_eq!(found, [0, 2, 0, 0, 5, 0]);
    }

    #[test]
    fn what_is_outstanding_moves_to_another_connection() {
        let mut link = Link::default();
        link.asked(3, at(1), at(2));
        link.answered(0, 1);
        let runs = link.take_runs();
        assert_eq!((link.outstanding, runs.len()), (0, 1));
        link.close(at(4));
        link.restore_runs(runs);
        assert_eq!((link.outstanding, link.runs().count()), (2, 1));
    }

    #[test]
    fn a_reply_has_its_time_from_the_end_of_the_one_before() {
        let mut link = Link::default();
        link.asked(2, at(0), at(100));
        assert_eq!(link.waits(at(350)), Duration::from_nanos(250));
        // Bytes of a reply that drips move the connection, not the wait.
        link.moved = at(340);
        assert_eq!(link.waits(at(350)), Duration::from_nanos(250));
        link.answered(0, 1);
        link.replied = at(300);
        assert_eq!(link.waits(at(350)), Duration::from_nanos(50));
        // A request that is sent again on a new connection waits from then on.
        link.opened = at(340);
        assert_eq!(link.waits(at(350)), Duration::from_nanos(10));
        link.answered(0, 1);
        assert_eq!(link.waits(at(350)), Duration::ZERO);
    }

    #[test]
    fn a_connection_is_left_after_a_rest_only() {
        let mut link = Link::default();
        let second = |count: u64| at(count * 1_000_000_000);
        link.asked(1, second(5), second(5));
        assert!(!link.was_left(), "it is new");
        link.answered(0, 1);
        link.moved = second(6);
        link.asked(1, second(6), at(6_999_999_999));
        assert!(!link.was_left(), "it has not rested");
        link.answered(0, 1);
        link.asked(1, second(8), second(8));
        assert!(link.was_left());
        link.moved = second(9);
        assert!(!link.was_left(), "part of a reply has come");
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
        link.answered(0, 1);
        assert_eq!(pause(&mut link), 10);
    }
}
