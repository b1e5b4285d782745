//! The log of workers that started and ended: counts by reason since the start, and the last events
//! as text.
//!
//! The supervisor is the only writer and calls `born`, `died` and `note`. Counts are kept for every
//! worker; events only if an administration exists to read them, and only the last 200. A worker
//! that lives for one connection adds to the counts but makes no event, or a fork per connection
//! would push everything else out. A `Death` is the supervisor's reason if it ordered the end, else
//! what the kernel reported. The administration reports both.

use std::collections::VecDeque;

use seam::Instant;
use sys::process::Pid;

use super::crew::End;
use crate::status::Happening;

/// The number of events kept.
const EVENTS_MAX: usize = 200;

/// Why a worker was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display(rename_all = "lowercase")]
pub(super) enum Birth {
    Start,
    /// More spare workers were wanted.
    Demand,
    /// To replace a worker that has failed.
    Respawn,
    /// To replace a worker that has served enough.
    Recycle,
    /// For one connection.
    Visit,
}

/// Why a worker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display(rename_all = "lowercase")]
pub(super) enum Death {
    /// Its connection has ended.
    Visit,
    /// Spare control retired it.
    Spare,
    /// It had served enough.
    Recycle,
    /// The server drained.
    Shutdown,
    /// The server was forced to end.
    Forced,
    /// It left without an order to leave.
    Unbidden,
    #[display("code_{_0}")]
    Code(i32),
    #[display("signal_{_0}")]
    Signal(i32),
    /// Its thread panicked.
    Panic,
    /// It could not continue.
    Failed,
    /// The kernel does not report it.
    Lost,
}

impl Death {
    /// The reason for an end that was not requested.
    pub(super) fn of(end: &End) -> Death {
        match end {
            End::Left => Death::Unbidden,
            End::Code(code) => Death::Code(*code),
            End::Signal(signal) => Death::Signal(signal.number()),
            End::Panicked(_) => Death::Panic,
            End::Failed(_) => Death::Failed,
            End::Lost(_) => Death::Lost,
        }
    }

    fn is_fault(self) -> bool {
        !matches!(self, Death::Visit | Death::Spare | Death::Recycle | Death::Shutdown)
    }
}

/// Starts, ends and other events of the workers.
#[derive(Debug)]
pub(super) struct EventLog {
    born: Vec<(Birth, u64)>,
    dead: Vec<(Death, u64)>,
    events: VecDeque<(Instant, Happening)>,
    /// Whether an administration client may read the events.
    is_read: bool,
}

impl EventLog {
    /// An empty log. Events are kept only if `is_read`, that is, if a client may come to read them.
    pub(super) fn new(is_read: bool) -> EventLog {
        EventLog { born: Vec::new(), dead: Vec::new(), events: VecDeque::new(), is_read }
    }

    /// Records that a worker was started.
    pub(super) fn born(&mut self, now: Instant, entry: usize, pid: Option<Pid>, why: Birth) {
        add(&mut self.born, why);
        if why != Birth::Visit {
            self.note(now, "spawned", Some((entry, pid)), why.to_string(), why == Birth::Respawn);
        }
    }

    /// Records that a worker has ended; `words` say more than the reason.
    pub(super) fn died(
        &mut self,
        now: Instant,
        (entry, pid): (usize, Option<Pid>),
        why: Death,
        words: &End,
    ) {
        add(&mut self.dead, why);
        if why != Death::Visit {
            let words = match words {
                End::Left => why.to_string(),
                other => other.to_string(),
            };
            self.note(now, "exited", Some((entry, pid)), words, why.is_fault());
        }
    }

    /// Records another event.
    pub(super) fn note(
        &mut self,
        now: Instant,
        what: &str,
        whose: Option<(usize, Option<Pid>)>,
        why: String,
        is_fault: bool,
    ) {
        if !self.is_read {
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let worker = whose.map(|(entry, _)| entry);
        let pid = whose.and_then(|(_, pid)| pid).map(Pid::number);
        let what = what.to_owned();
        self.events.push_back((now, Happening { ago_ns: 0, what, worker, pid, why, is_fault }));
    }

    /// The number of workers started, by reason.
    pub(super) fn spawned(&self) -> Vec<(String, u64)> {
        self.born.iter().map(|(why, count)| (why.to_string(), *count)).collect()
    }

    /// The number of workers ended, by reason.
    pub(super) fn exited(&self) -> Vec<(String, u64)> {
        self.dead.iter().map(|(why, count)| (why.to_string(), *count)).collect()
    }

    /// The last events, oldest first.
    pub(super) fn events(&self, now: Instant) -> Vec<Happening> {
        let with_age = |(at, event): &(Instant, Happening)| Happening {
            ago_ns: now.since(*at).as_nanos() as u64,
            ..event.clone()
        };
        self.events.iter().map(with_age).collect()
    }
}

fn add<T: PartialEq>(counts: &mut Vec<(T, u64)>, what: T) {
    match counts.iter_mut().find(|(known, _)| *known == what) {
        Some((_, count)) => *count += 1,
        None => counts.push((what, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::signal::Signal;

    #[test]
    fn counts_are_by_reason_and_events_are_the_last_ones() {
        let mut log = EventLog::new(true);
        let at = |seconds: u64| Instant::from_ns(seconds * 1_000_000_000);
        for second in 0..300 {
            log.born(at(second), 0, Pid::of(7), Birth::Respawn);
            let end = End::Signal(Signal::KILL);
            log.died(at(second), (0, Pid::of(7)), Death::of(&end), &end);
        }
        log.born(at(300), 1, None, Birth::Visit);
        assert_eq!(log.spawned(), [("respawn".to_owned(), 300), ("visit".to_owned(), 1)]);
        assert_eq!(log.exited(), [("signal_9".to_owned(), 300)]);
        let events = log.events(at(301));
        assert_eq!(events.len(), EVENTS_MAX);
        let last = events.last().expect("there are some");
        assert_eq!((last.what.as_str(), last.pid, last.is_fault), ("exited", Some(7), true));
        assert_eq!(
            (last.why.as_str(), last.ago_ns),
            ("was killed by signal SIGKILL", 2_000_000_000)
        );
    }

    #[test]
    fn without_a_reader_no_event_is_kept() {
        let mut log = EventLog::new(false);
        log.born(Instant::ZERO, 0, None, Birth::Start);
        assert_eq!((log.spawned().len(), log.events(Instant::ZERO).len()), (1, 0));
    }
}
