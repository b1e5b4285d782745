//! The records of a run in progress: its timeline, and snapshots for observers.

use super::Driver;
use crate::Instant;
use crate::rows::RowQueue;
use crate::snapshot::{Board, INTERVAL, Phase, Snapshot};
use crate::timeline::Timeline;

/// The timeline and the snapshots, if requested.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    timeline: Option<Timeline>,
    live: Option<Live>,
    /// The way to the file of all requests.
    pub(super) rows: Option<RowQueue>,
}

/// The snapshot in progress.
#[derive(Debug)]
struct Live {
    board: Board,
    snapshot: Snapshot,
    /// Whether the snapshot was to be published, and a reader held the board.
    is_kept: bool,
    next: Instant,
    /// CPU time of this thread at the start of the snapshot (ns).
    cpu_ns: u64,
}

impl Recorder {
    /// Records right replies that arrived at `now` after `ns`, measured or not.
    #[inline]
    pub(super) fn replied(&mut self, now: Instant, count: u64, ns: u64, measured: bool) {
        if let Some(timeline) = &mut self.timeline {
            timeline.replied(now, count, measured.then_some(ns));
        }
        if let Some(live) = &mut self.live {
            live.snapshot.done += count;
            live.snapshot.times.record(ns, count);
        }
    }

    /// Records requests that failed about now.
    pub(super) fn failed(&mut self, count: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.failed(count);
        }
        if let Some(live) = &mut self.live {
            live.snapshot.failed += count;
        }
    }

    /// Records an arrival that was noticed `ns` late.
    #[inline]
    pub(super) fn noticed(&mut self, ns: u64) {
        if let Some(live) = &mut self.live {
            live.snapshot.tardiness.record(ns, 1);
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.live.as_ref().is_some_and(|live| now >= live.next)
    }
}

impl Driver {
    /// Makes this thread, numbered `part`, publish snapshots on `board` from now on.
    pub fn publish_to(&mut self, board: &Board, part: usize) {
        let now = super::now();
        let snapshot = Snapshot { part, start: now, ..Snapshot::default() };
        let (board, cpu_ns) = (board.clone(), sys::clock::thread_cpu_ns());
        self.record.recorder.live =
            Some(Live { board, snapshot, is_kept: false, next: now + INTERVAL, cpu_ns });
    }

    /// Puts a row into `rows` for each request from now on.
    pub(crate) fn write_rows(&mut self, rows: RowQueue) {
        self.record.recorder.rows = Some(rows);
    }

    /// Starts a phase of the run; only the window has a timeline.
    pub fn enter(&mut self, phase: Phase, start: Instant) {
        self.snapshot(super::now());
        self.record.recorder.timeline = (phase == Phase::Window).then(|| Timeline::new(start));
        if let Some(live) = &mut self.record.recorder.live {
            live.snapshot.phase = phase;
        }
        if let Some(rows) = &mut self.record.recorder.rows {
            rows.enter(phase);
        }
    }

    /// Takes the timeline and ends it.
    pub fn take_timeline(&mut self) -> Option<Timeline> {
        self.record.recorder.timeline.take()
    }

    /// Publishes the last snapshot, also if an observer reads the board.
    pub(super) fn last_snapshot(&mut self) {
        self.snapshot(super::now());
        if let Some(live) = self.record.recorder.live.take().filter(|live| live.is_kept) {
            live.board.extend(vec![live.snapshot]);
        }
    }

    /// Publishes the snapshot, if there is one.
    pub(super) fn snapshot(&mut self, now: Instant) {
        let outstanding = self.outstanding();
        let Some(live) = &mut self.record.recorder.live else { return };
        let cpu_ns = sys::clock::thread_cpu_ns();
        let (part, phase) = (live.snapshot.part, live.snapshot.phase);
        let snapshot = Snapshot {
            end: now,
            cpu_ns: cpu_ns.saturating_sub(live.cpu_ns),
            outstanding,
            connections: self.net.up,
            answered: self.counts.answered,
            statuses: self.script.statuses(),
            delays: self.counts.delays.clone(),
            faults: self.counts.faults.clone(),
            stress: self.counts.stress,
            ..std::mem::take(&mut live.snapshot)
        };
        live.next = now + INTERVAL;
        let kept = live.board.leave(snapshot);
        live.is_kept = kept.is_some();
        match kept {
            // A reader holds the board, so the next snapshot will include this one.
            Some(kept) => live.snapshot = kept,
            None => {
                live.cpu_ns = cpu_ns;
                live.snapshot = Snapshot { part, phase, start: now, ..Snapshot::default() };
            }
        }
    }
}
