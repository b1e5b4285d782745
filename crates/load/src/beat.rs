//! What a run tells about itself while it goes on: a beat of each thread, ten times a second.
//!
//! A beat costs its thread a few microseconds and no waiting: it is left on a [`Board`] whose lock
//! is only tried, and where somebody reads the board at that very moment it grows until the next
//! time. Nobody who looks on can delay an arrival.

use crate::drive::{Pulse, Strain};
use crate::faults::Faults;
use meter::Spectrum;
use seam::Instant;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a thread tells.
pub const BEAT: Duration = Duration::from_millis(100);
/// Beats that nobody has read; further ones are added to the last.
const UNREAD_MAX: usize = 1024;

/// Which part of a run it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Load that is not measured.
    #[default]
    Warmup,
    /// Load that is.
    Window,
    /// Waiting for the last replies.
    Drain,
}

/// What happened in a thread since its last beat.
#[derive(Clone, Debug, Default)]
pub struct Beat {
    /// The thread, from 0.
    pub part: usize,
    /// In which phase.
    pub phase: Phase,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Right replies.
    pub done: u64,
    /// Requests that failed: answered wrongly, lost with their connection, or dropped.
    pub failed: u64,
    /// Times of the right replies (ns): response times, in a closed loop service times.
    pub times: Spectrum,
    /// How late arrivals with a schedule were noticed (ns).
    pub tardiness: Spectrum,
    /// CPU time of the thread (ns).
    pub cpu_ns: u64,
    /// Requests unanswered at its end, those included that wait for a connection.
    pub outstanding: u64,
    /// Connections that were up at its end.
    pub connections: usize,
    /// The thread's own delays since its phase began.
    pub pulse: Pulse,
    /// What went wrong in the thread since the run began.
    pub faults: Faults,
    /// What a stress client has counted since the run began.
    pub strain: Strain,
}

/// Where beats are left, and taken.
#[derive(Clone, Debug, Default)]
pub struct Board {
    beats: Arc<Mutex<Vec<Beat>>>,
}

impl Board {
    /// All beats since the last time, in the order in which they came.
    pub fn take(&self) -> Vec<Beat> {
        // A thread that panicked while it held the lock has left whole beats.
        let mut beats = self.beats.lock().unwrap_or_else(|panicked| panicked.into_inner());
        std::mem::take(&mut beats)
    }

    /// Leaves a beat, unless somebody is reading: then it is given back.
    pub(crate) fn leave(&self, beat: Beat) -> Option<Beat> {
        let Ok(mut beats) = self.beats.try_lock() else { return Some(beat) };
        let full = beats.len() >= UNREAD_MAX;
        let same = |it: &&mut Beat| (it.part, it.phase) == (beat.part, beat.phase);
        match beats.iter_mut().rev().find(same).filter(|_| full) {
            Some(last) => last.add(beat),
            None => beats.push(beat),
        }
        None
    }
}

impl Beat {
    /// Adds what came after it in the same thread and phase.
    fn add(&mut self, later: Beat) {
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

    fn beat(done: u64) -> Beat {
        let mut times = Spectrum::default();
        times.record(1000 * done, done);
        Beat { done, times, end: Instant::from_ns(done), ..Beat::default() }
    }

    #[test]
    fn nothing_is_lost_when_nobody_reads() {
        let board = Board::default();
        for done in 0..3 * UNREAD_MAX as u64 {
            assert!(board.leave(beat(done)).is_none());
        }
        let beats = board.take();
        assert_eq!(beats.len(), UNREAD_MAX);
        let all = 3 * UNREAD_MAX as u64;
        assert_eq!(beats.iter().map(|it| it.done).sum::<u64>(), all * (all - 1) / 2);
        assert_eq!(beats.iter().map(|it| it.times.count()).sum::<u64>(), all * (all - 1) / 2);
        assert_eq!(beats[UNREAD_MAX - 1].end, Instant::from_ns(all - 1));
        assert!(board.take().is_empty());
    }

    #[test]
    fn a_reader_keeps_nobody_waiting() {
        let board = Board::default();
        let held = board.beats.lock().expect("nobody has panicked");
        assert_eq!(board.leave(beat(7)).map(|it| it.done), Some(7));
        drop(held);
        assert!(board.leave(beat(7)).is_none());
    }
}
