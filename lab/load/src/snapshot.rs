//! Progress of a run: a snapshot of each thread, ten times a second.
//!
//! Publishing a snapshot costs its thread a few microseconds and never blocks: the thread only
//! tries the lock of the [`Board`]. If a reader holds it, the snapshot grows until the next
//! attempt, so observers never delay an arrival.

use crate::Instant;
use crate::drive::{Delays, StressCounts};
use crate::faults::Faults;
use meter::Spectrum;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval at which a thread publishes.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// The most unread snapshots; further ones are merged into the last.
const UNREAD_MAX: usize = 1024;

/// The phases of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Load that is not measured.
    #[default]
    Warmup,
    /// Measured load.
    Window,
    /// Waiting for the last replies.
    Drain,
}

impl Phase {
    /// Its name in files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Warmup => "warmup",
            Phase::Window => "window",
            Phase::Drain => "drain",
        }
    }
}

/// The events in a thread since its last snapshot.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The thread's number, from 0.
    pub part: usize,
    /// Its phase.
    pub phase: Phase,
    /// Its beginning.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// Right replies.
    pub done: u64,
    /// Requests that failed: answered wrongly, lost with their connection, or dropped.
    pub failed: u64,
    /// Times of the right replies (ns): response times, in a closed loop service times.
    pub times: Spectrum,
    /// The delays (ns) with which scheduled arrivals were noticed.
    pub tardiness: Spectrum,
    /// CPU time of the thread (ns).
    pub cpu_ns: u64,
    /// Requests unanswered at its end, including those queued for a connection.
    pub outstanding: u64,
    /// Connections that were up at its end.
    pub connections: usize,
    /// The thread's own delays since its phase began.
    pub delays: Delays,
    /// The thread's replies since the run began.
    pub answered: u64,
    /// The same by status, of HTTP.
    pub statuses: BTreeMap<u16, u64>,
    /// The thread's faults since the run began.
    pub faults: Faults,
    /// The counts of a stress client since the run began.
    pub stress: StressCounts,
}

/// The place where threads publish snapshots and observers take them.
#[derive(Clone, Debug, Default)]
pub struct Board {
    snapshots: Arc<Mutex<Vec<Snapshot>>>,
}

impl Board {
    /// Takes all snapshots since the last call, in order of arrival.
    pub fn take(&self) -> Vec<Snapshot> {
        std::mem::take(&mut self.lock())
    }

    /// Adds snapshots, after a wait if the board is being read.
    pub fn extend(&self, snapshots: Vec<Snapshot>) {
        self.lock().extend(snapshots);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Snapshot>> {
        // A thread that panicked while holding the lock has left complete snapshots.
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a snapshot; returns it if the board is being read.
    pub(crate) fn leave(&self, snapshot: Snapshot) -> Option<Snapshot> {
        let Ok(mut snapshots) = self.snapshots.try_lock() else { return Some(snapshot) };
        let full = snapshots.len() >= UNREAD_MAX;
        let same = |it: &&mut Snapshot| (it.part, it.phase) == (snapshot.part, snapshot.phase);
        match snapshots.iter_mut().rev().find(same).filter(|_| full) {
            Some(last) => last.add(snapshot),
            None => snapshots.push(snapshot),
        }
        None
    }
}

impl Snapshot {
    /// Merges a later snapshot of the same thread and phase.
    fn add(&mut self, later: Snapshot) {
        let mut times = std::mem::take(&mut self.times);
        times.merge(&later.times);
        let mut tardiness = std::mem::take(&mut self.tardiness);
        tardiness.merge(&later.tardiness);
        *self = Self {
            start: self.start,
            done: self.done + later.done,
            failed: self.failed + later.failed,
            cpu_ns: self.cpu_ns + later.cpu_ns,
            times,
            tardiness,
            ..later
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(done: u64) -> Snapshot {
        let mut times = Spectrum::default();
        times.record(1000 * done, done);
        Snapshot { done, times, end: Instant::from_ns(done), ..Snapshot::default() }
    }

    #[test]
    fn nothing_is_lost_without_a_reader() {
        let board = Board::default();
        for done in 0..3 * UNREAD_MAX as u64 {
            assert!(board.leave(snapshot(done)).is_none());
        }
        let snapshots = board.take();
        assert_eq!(snapshots.len(), UNREAD_MAX);
        let all = 3 * UNREAD_MAX as u64;
        assert_eq!(snapshots.iter().map(|it| it.done).sum::<u64>(), all * (all - 1) / 2);
        assert_eq!(snapshots.iter().map(|it| it.times.count()).sum::<u64>(), all * (all - 1) / 2);
        assert_eq!(snapshots[UNREAD_MAX - 1].end, Instant::from_ns(all - 1));
        assert!(board.take().is_empty());
    }

    #[test]
    fn a_reader_never_blocks_a_writer() {
        let board = Board::default();
        let held = board.snapshots.lock().expect("no thread has panicked");
        assert_eq!(board.leave(snapshot(7)).map(|it| it.done), Some(7));
        drop(held);
        assert!(board.leave(snapshot(7)).is_none());
    }
}
