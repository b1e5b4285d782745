//! One slot of the scoreboard: a worker's own account of itself.
//!
//! A worker writes its slot, and observers read it: the supervisor, `/status.json`, `top`, the
//! governor. Since there is one writer, a `Tally` adds by a load and a store, without a locked
//! instruction. Each number is exact, but two numbers of a slot may be from different moments. A
//! worker that dies leaves its numbers: its successor in the slot counts on, so totals never
//! shrink, and the supervisor resets only what belonged to the dead worker, such as its open
//! connections.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use seam::WorkerId;
use sys::process::Pid;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SlotState {
    /// Never used.
    Empty,
    /// A worker that does not serve yet.
    Starting,
    /// A worker that serves.
    Ready,
    /// A worker that takes no new connection.
    Draining,
    /// The worker has ended.
    Gone,
}

impl SlotState {
    fn of(number: u32) -> Self {
        let all = [Self::Empty, Self::Starting, Self::Ready, Self::Draining];
        all.get(number as usize).copied().unwrap_or(Self::Gone)
    }
}

/// A number that one worker changes and every observer reads.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Adds `count`. Only the slot's worker may: two writers at a time would lose an addition.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.read().wrapping_add(count), Ordering::Release);
    }

    /// Subtracts `count`, under the same condition. A reader of the new number sees
    /// what the worker wrote before.
    #[inline]
    pub fn sub(&self, count: u64) {
        self.0.store(self.read().wrapping_sub(count), Ordering::Release);
    }

    /// Replaces the number, under the same condition.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Release);
    }

    /// The present value.
    #[inline]
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The worker's activity, for the letter that the scoreboard shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Doing {
    /// Nothing has happened: it waits for a connection, or for its connections to move.
    Waiting,
    /// It has one connection and waits for bytes of that.
    Reading,
    /// It steps sessions, sends or accepts.
    Working,
    /// It has one connection, and that connection takes no bytes at the moment.
    Writing,
    /// It waits for a peer that was told goodbye to finish.
    Closing,
}

impl Doing {
    fn of(number: u32) -> Self {
        let all = [Self::Waiting, Self::Reading, Self::Working, Self::Writing];
        all.get(number as usize).copied().unwrap_or(Self::Closing)
    }
}

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Refusal {
    /// The peer was gone before it was accepted.
    Gone,
    /// No descriptor or memory was left; the connection waits in the
    /// kernel's queue for another try.
    Exhausted,
    /// The descriptor number is beyond what the engine can watch.
    Unwatchable,
    /// No worker could be started or reached for the connection.
    NoWorker,
}

impl Refusal {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Gone, Self::Exhausted, Self::Unwatchable, Self::NoWorker];

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["gone", "fd_limit", "unwatchable", "no_worker"][self as usize]
    }
}

/// Upper edges of the lateness buckets, in ns; the last bucket has none.
pub const LATE_EDGES_NS: [u64; 7] =
    [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 500_000_000];

/// One worker's slot. Its tallies go on counting under the next worker, so that totals never
/// shrink; only `open` belongs to one worker.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    state: AtomicU32,
    worker: AtomicU32,
    pid: AtomicI32,
    dismissed: AtomicU32,
    doing: AtomicU32,
    /// The last worker ended by a fault and has no successor yet.
    failed: AtomicU32,
    /// Connections open now.
    pub open: Tally,
    /// Turns of the worker's loop.
    pub turns: Tally,
    /// The worker's last sign of life, on `sys::clock`'s clock; 0: never.
    pub beat_ns: Tally,
    /// Bytes received.
    pub bytes_in: Tally,
    /// Bytes that the kernel took for sending.
    pub bytes_out: Tally,
    /// Requests, or the service's equivalent messages, that were answered.
    pub answered: Tally,
    /// Connections accepted.
    pub accepted: Tally,
    /// Connections refused, for any reason.
    pub refused: Tally,
    /// Receives that found no buffer in the ring (`ENOBUFS`).
    pub enobufs: Tally,
    /// Sends of which the kernel took only a part.
    pub short_sends: Tally,
    /// Switches from the loop's stack to a coroutine's and back.
    pub stack_switches: Tally,
    /// Sessions that ended by a panic of their service.
    pub panics: Tally,
    /// Bytes for another session that found it gone or its output full, counted by pushes.
    pub pushes_dropped: Tally,
    /// Connections that it attends to now but that belong to another slot.
    pub serving: Tally,
    /// Bytes that connections hold, by the changes that this worker made: where workers share
    /// connections, only the sum over all slots is a number of bytes.
    pub held: Tally,
    /// Connections that were closed because memory was short.
    pub shed: Tally,
    /// Requests that the worker executes now, where a governor watches.
    pub running: Tally,
    /// Requests that it has executed there.
    pub carried: Tally,
    /// Requests refused because the server was overloaded.
    pub requests_refused: Tally,
    /// Waits of input for the worker that were measured.
    pub inputs: Tally,
    /// The sum of these waits.
    pub input_wait_ns: Tally,
    /// Requests of which the wait for a core or a helper and the service time were measured.
    pub measured: Tally,
    /// The sum of these waits.
    pub wait_ns: Tally,
    /// The sum of these service times.
    pub service_ns: Tally,
    /// When the present worker took the slot, on `sys::clock`'s clock.
    pub since_ns: Tally,
    /// The sum of all recorded lateness.
    pub late_ns: Tally,
    refusals: [Tally; Refusal::ALL.len()],
    /// Counts of deadlines and sweeps by lateness.
    late: [AtomicU32; LATE_EDGES_NS.len() + 1],
}

impl Slot {
    /// The slot's state.
    #[must_use]
    pub fn state(&self) -> SlotState {
        SlotState::of(self.state.load(Ordering::Acquire))
    }

    /// Sets the slot's state.
    pub fn set_state(&self, state: SlotState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// The present worker, or the last one.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        WorkerId::from_bits(self.worker.load(Ordering::Relaxed))
    }

    /// Seats `worker` of process `pid`.
    pub(super) fn take(&self, worker: WorkerId, pid: Pid) {
        self.open.set(0);
        self.serving.set(0);
        self.held.set(0);
        self.running.set(0);
        self.beat_ns.set(0);
        self.since_ns.set(sys::clock::now_ns());
        self.dismissed.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.doing.store(Doing::Waiting as u32, Ordering::Relaxed);
        self.worker.store(worker.bits(), Ordering::Relaxed);
        self.pid.store(pid.number(), Ordering::Relaxed);
        self.set_state(SlotState::Starting);
    }

    /// The worker's activity; meaningful while it is ready or drains.
    #[must_use]
    pub fn doing(&self) -> Doing {
        Doing::of(self.doing.load(Ordering::Relaxed))
    }

    /// Sets the worker's activity: one plain store.
    #[inline]
    pub fn set_doing(&self, doing: Doing) {
        self.doing.store(doing as u32, Ordering::Relaxed);
    }

    /// Records that the last worker ended by a fault.
    pub fn set_failed(&self) {
        self.failed.store(1, Ordering::Relaxed);
    }

    /// The slot's letter, as servers have shown it for thirty years: `_` waits, `R` reads, `B` is
    /// busy, `W` cannot write on, `C` closes, `S` starts, `G` leaves, `!` died and is not replaced
    /// yet, `-` has left, `.` was never taken.
    #[must_use]
    pub fn letter(&self) -> char {
        match self.state() {
            SlotState::Empty => '.',
            SlotState::Starting => 'S',
            SlotState::Gone if self.failed.load(Ordering::Relaxed) != 0 => '!',
            SlotState::Gone => '-',
            SlotState::Draining => 'G',
            SlotState::Ready if self.is_dismissed() => 'G',
            SlotState::Ready => match self.doing() {
                Doing::Waiting => '_',
                Doing::Reading => 'R',
                Doing::Working => 'B',
                Doing::Writing => 'W',
                Doing::Closing => 'C',
            },
        }
    }

    /// Counts a connection that was not served. Only the slot's worker may.
    pub fn refuse(&self, why: Refusal) {
        self.refused.add(1);
        self.refusals[why as usize].add(1);
    }

    /// The number of refusals for that reason; [`Slot::refused`] counts all.
    #[must_use]
    pub fn refusals(&self, why: Refusal) -> u64 {
        self.refusals[why as usize].read()
    }

    /// Counts an action that was due `late_ns` ago and is done now. Only the slot's worker may.
    pub fn note_late(&self, late_ns: u64) {
        let at = LATE_EDGES_NS.iter().position(|edge| late_ns <= *edge);
        let bucket = &self.late[at.unwrap_or(LATE_EDGES_NS.len())];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.late_ns.add(late_ns);
    }

    /// What [`Slot::note_late`] has counted, in the buckets below [`LATE_EDGES_NS`] and one above.
    #[must_use]
    pub fn late(&self) -> [u32; LATE_EDGES_NS.len() + 1] {
        self.late.each_ref().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    /// Asks the worker to take no new connection and to leave with its last one.
    pub fn dismiss(&self) {
        self.dismissed.store(1, Ordering::Release);
    }

    /// Whether the present or the last worker was asked to leave.
    #[inline]
    #[must_use]
    pub fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::Relaxed) != 0
    }

    /// The process of the present worker, or of the last one.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        Pid::of(self.pid.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_has_its_state() {
        let slot = Slot::default();
        let letters = |slot: &Slot| {
            [Doing::Waiting, Doing::Reading, Doing::Working, Doing::Writing, Doing::Closing].map(
                |doing| {
                    slot.set_doing(doing);
                    assert_eq!(slot.doing(), doing);
                    slot.letter()
                },
            )
        };
        assert_eq!(letters(&slot), ['.'; 5], "nobody ever");
        slot.take(WorkerId::new(0, 1), sys::process::this());
        assert_eq!(letters(&slot), ['S'; 5]);
        slot.set_state(SlotState::Ready);
        assert_eq!(letters(&slot), ['_', 'R', 'B', 'W', 'C']);
        slot.dismiss();
        assert_eq!(letters(&slot), ['G'; 5]);
        slot.set_state(SlotState::Gone);
        assert_eq!(slot.letter(), '-');
        slot.set_failed();
        assert_eq!(slot.letter(), '!');
        slot.take(WorkerId::new(0, 2), sys::process::this());
        assert_eq!(slot.letter(), 'S', "that was the one before");
    }

    #[test]
    fn refusals_and_lateness_are_counted_by_kind() {
        let slot = Slot::default();
        slot.refuse(Refusal::Gone);
        slot.refuse(Refusal::Exhausted);
        slot.refuse(Refusal::Exhausted);
        let counts: Vec<u64> = Refusal::ALL.iter().map(|why| slot.refusals(*why)).collect();
        assert_eq!((counts, slot.refused.read()), (vec![1, 2, 0, 0], 3));
        for late in [0, LATE_EDGES_NS[0], LATE_EDGES_NS[0] + 1, u64::MAX] {
            slot.note_late(late);
        }
        assert_eq!(slot.late(), [2, 1, 0, 0, 0, 0, 0, 1]);
    }
}
