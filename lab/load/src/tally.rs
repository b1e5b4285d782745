//! The counts and histograms of a phase.
//!
//! Four histograms, in nanoseconds:
//!
//! - *response*: from the moment a request was due to its complete reply; the waiting time of a
//!   user.
//! - *service*: from sent to the complete reply.
//! - *lateness*: from due to sent; the server is the cause when a request waits for a busy
//!   connection.
//! - *tardiness*: from due to the moment the generator noticed; the generator alone is the cause,
//!   so its health is judged by it.
//!
//! A fifth histogram is internal. A request that was sent when it was due has response = service
//! and lateness zero, as most requests of a closed loop have. Such requests are recorded once and
//! merged into the three other histograms when the figures are read.

use crate::Instant;
use crate::faults::Faults;
use crate::script::Note;
use meter::{Histogram, Spectrum};

/// Counts of a phase; all begin at zero with it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Right replies.
    pub done: u64,
    /// Wrong replies.
    pub wrong: u64,
    /// Requests that the overloaded server refused.
    pub refused: u64,
    /// Right replies that are malformed, if such are taken.
    pub malformed: u64,
    /// Arrivals: users of a closed loop, requests of an open one, or sessions.
    pub arrived: u64,
    /// Arrivals dropped because too many requests were outstanding or queued.
    pub dropped: u64,
    /// Measured requests that will never have a right reply: wrong, refused, dropped, or lost with
    /// their connection. In percentiles they sort after every number.
    pub failed: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// From due to done (ns).
    pub response: Histogram,
    /// From sent to done (ns).
    pub service: Histogram,
    /// From due to sent (ns).
    pub lateness: Histogram,
    /// From due to noticed by the generator (ns).
    pub tardiness: Histogram,
    /// By kind of request, if kinds are counted separately ([`Settings::detailed`]); else empty.
    ///
    /// [`Settings::detailed`]: crate::drive::Settings::detailed
    pub kinds: Vec<KindTally>,
    /// Replies to requests that were sent when they were due.
    prompt: Histogram,
}

/// Counts of one kind of request, such as `buy`, or one path of a web server.
#[derive(Clone, Debug, Default)]
pub struct KindTally {
    /// Right replies.
    pub done: u64,
    /// Wrong replies.
    pub wrong: u64,
    /// Bytes of all its replies.
    pub bytes: u64,
    /// From due to done (ns), right replies only.
    pub response: Spectrum,
    /// From sent to done (ns), right replies only.
    pub service: Spectrum,
    /// Faults of its replies.
    pub faults: Faults,
}

/// Requests that were due and sent together.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The time when they should have been sent.
    pub due: Instant,
    /// The time when they were sent.
    pub sent: Instant,
    /// The time when the last byte of the reply arrived.
    pub done: Instant,
}

impl Tally {
    /// Records `count` right replies with the same times.
    pub(crate) fn record(&mut self, span: Span, count: u64) {
        let service = nanos(span.sent, span.done);
        if span.due == span.sent {
            return self.prompt.record(service, count);
        }
        self.service.record(service, count);
        self.response.record(nanos(span.due, span.done), count);
        self.lateness.record(nanos(span.due, span.sent), count);
    }

    /// Records one reply by its kind.
    pub(crate) fn detail(&mut self, note: Note, span: Span, measured: bool) {
        let at = usize::from(note.kind);
        if self.kinds.len() <= at {
            self.kinds.resize_with(at + 1, KindTally::default);
        }
        let kind = &mut self.kinds[at];
        kind.bytes += u64::from(note.bytes);
        if note.wrong {
            kind.wrong += 1;
            return;
        }
        kind.done += 1;
        if measured {
            kind.response.record(nanos(span.due, span.done), 1);
            kind.service.record(nanos(span.sent, span.done), 1);
        }
    }

    /// Merges the prompt replies into the histograms that they belong to.
    pub(crate) fn settle(&mut self) {
        let count = self.prompt.count();
        if count == 0 {
            return;
        }
        self.service.merge(&self.prompt);
        self.response.merge(&self.prompt);
        self.lateness.record(0, count);
        self.prompt.clear();
    }

    /// Adds the counts of another phase or thread.
    pub fn merge(&mut self, other: &Tally) {
        self.done += other.done;
        self.wrong += other.wrong;
        self.refused += other.refused;
        self.malformed += other.malformed;
        self.arrived += other.arrived;
        self.dropped += other.dropped;
        self.failed += other.failed;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (mine, theirs) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lateness, &other.lateness),
            (&mut self.tardiness, &other.tardiness),
            (&mut self.prompt, &other.prompt),
        ] {
            mine.merge(theirs);
        }
        if self.kinds.len() < other.kinds.len() {
            self.kinds.resize_with(other.kinds.len(), KindTally::default);
        }
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
    }
}

impl KindTally {
    fn merge(&mut self, other: &KindTally) {
        self.done += other.done;
        self.wrong += other.wrong;
        self.bytes += other.bytes;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.faults.merge(&other.faults);
    }
}

/// Nanoseconds from one moment to a later one.
pub(crate) fn nanos(from: Instant, to: Instant) -> u64 {
    to.ns().saturating_sub(from.ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(due: u64, sent: u64, done: u64) -> Span {
        let [due, sent, done] = [due, sent, done].map(Instant::from_ns);
        Span { due, sent, done }
    }

    #[test]
    fn what_is_recorded_once_counts_in_all_three() {
        let mut tally = Tally::default();
        tally.record(span(1000, 1000, 1500), 3);
        tally.record(span(1000, 1200, 1900), 2);
        assert_eq!((tally.service.count(), tally.response.count()), (2, 2));
        tally.settle();
        tally.settle();
        let counts = [&tally.service, &tally.response, &tally.lateness].map(Histogram::count);
        assert_eq!(counts, [5; 3]);
        assert_eq!((tally.service.max(), tally.response.max()), (700, 900));
        assert_eq!((tally.service.quantile(0.5), tally.lateness.quantile(0.5)), (500, 1));
    }

    #[test]
    fn merging_is_counting_in_one() {
        let note = |kind, wrong| Note { kind, bytes: 10, wrong, status: 0 };
        let (mut one, mut two) =
            (Tally { done: 1, failed: 2, ..Tally::default() }, Tally::default());
        one.detail(note(0, false), span(0, 1, 5), true);
        two.detail(note(2, true), span(0, 1, 5), true);
        two.detail(note(2, false), span(0, 1, 7), false);
        two.record(span(9, 9, 10), 1);
        one.merge(&two);
        one.settle();
        assert_eq!((one.done, one.failed, one.response.count()), (1, 2, 1));
        let found: Vec<_> =
            one.kinds.iter().map(|kind| (kind.done, kind.wrong, kind.bytes)).collect();
        assert_eq!(found, [(1, 0, 10), (0, 0, 0), (1, 1, 20)]);
        assert_eq!((one.kinds[0].response.count(), one.kinds[2].response.count()), (1, 0));
    }
}
