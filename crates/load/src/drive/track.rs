//! What is noted of a run while it goes on: its time line, and beats for whoever looks on.

use super::Drive;
use crate::beat::{BEAT, Beat, Board, Phase};
use crate::timeline::Timeline;
use crate::watch;
use seam::Instant;

/// Both, if they are wanted.
#[derive(Debug, Default)]
pub(super) struct Track {
    timeline: Option<Timeline>,
    live: Option<Live>,
}

/// The beat that goes on.
#[derive(Debug)]
struct Live {
    board: Board,
    beat: Beat,
    next: Instant,
    /// CPU time of this thread when the beat began (ns).
    cpu_ns: u64,
}

impl Track {
    /// Right replies came at `now` that had taken so long (ns), measured or not.
    #[inline]
    pub(super) fn replied(&mut self, now: Instant, count: u64, ns: u64, measured: bool) {
        if let Some(timeline) = &mut self.timeline {
            timeline.replied(now, count, measured.then_some(ns));
        }
        if let Some(live) = &mut self.live {
            live.beat.done += count;
            live.beat.times.record(ns, count);
        }
    }

    /// Requests failed, about now.
    pub(super) fn failed(&mut self, count: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.failed(count);
        }
        if let Some(live) = &mut self.live {
            live.beat.failed += count;
        }
    }

    /// An arrival was noticed so late (ns).
    #[inline]
    pub(super) fn noticed(&mut self, ns: u64) {
        if let Some(live) = &mut self.live {
            live.beat.tardiness.record(ns, 1);
        }
    }

    /// Whether it is time for a beat.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.live.as_ref().is_some_and(|live| now >= live.next)
    }
}

impl Drive {
    /// From now on this thread, numbered `part`, leaves beats on `board`.
    pub fn beat_on(&mut self, board: &Board, part: usize) {
        let now = super::now();
        let beat = Beat { part, start: now, ..Beat::default() };
        let (board, cpu_ns) = (board.clone(), watch::own_cpu_ns());
        self.track.live = Some(Live { board, beat, next: now + BEAT, cpu_ns });
    }

    /// A phase of the run begins; its window is the one that has a time line.
    pub fn enter(&mut self, phase: Phase, start: Instant) {
        self.beat(super::now());
        self.track.timeline = (phase == Phase::Window).then(|| Timeline::new(start));
        if let Some(live) = &mut self.track.live {
            live.beat.phase = phase;
        }
    }

    /// Takes the time line, which ends with that.
    pub fn take_timeline(&mut self) -> Option<Timeline> {
        self.track.timeline.take()
    }

    /// Ends the beat, if there is one.
    pub(super) fn beat(&mut self, now: Instant) {
        let outstanding = self.outstanding();
        let Some(live) = &mut self.track.live else { return };
        let cpu_ns = watch::own_cpu_ns();
        let (part, phase) = (live.beat.part, live.beat.phase);
        let beat = Beat {
            end: now,
            cpu_ns: cpu_ns.saturating_sub(live.cpu_ns),
            outstanding,
            connections: self.up,
            pulse: self.pulse.clone(),
            faults: self.faults.clone(),
            strain: self.strain,
            ..std::mem::take(&mut live.beat)
        };
        live.next = now + BEAT;
        match live.board.leave(beat) {
            // The board is being read: more comes with the next beat.
            Some(kept) => live.beat = kept,
            None => {
                live.cpu_ns = cpu_ns;
                live.beat = Beat { part, phase, start: now, ..Beat::default() };
            }
        }
    }
}
