//! The scoreboard: each worker's state and counters, for supervisor, lab and `top`.
//!
//! Each worker, thread or process, has one padded slot in shared memory. A worker writes its own
//! slot by plain loads and stores, so counting costs almost nothing. Observers read all slots; each
//! number is consistent by itself and a moment old.

mod settings;
mod shortage;
mod slot;
mod throttle;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use seam::{SHARDS_MAX, Share, WorkerId};
use sys::process::Pid;

use crate::padded::Padded;

pub use settings::Settings;
pub use slot::{Doing, LATE_EDGES_NS, Refusal, Slot, SlotState, Tally};
pub use throttle::Throttle;

/// The phase of the whole server. It only advances; draining workers read it each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display(rename_all = "lowercase")]
#[repr(u32)]
pub enum Phase {
    /// Not every worker is ready.
    Starting,
    /// Serving.
    Ready,
    /// Another server takes the new connections; this one still serves its own as before.
    Leaving,
    /// No new connections; the open ones are told to finish.
    Draining,
    /// The deadline is over: connections are cut.
    Forced,
    /// No worker serves any more.
    Done,
}

impl Phase {
    fn of(number: u32) -> Self {
        let all = [Self::Starting, Self::Ready, Self::Leaving, Self::Draining, Self::Forced];
        all.get(number as usize).copied().unwrap_or(Self::Done)
    }
}

/// The scoreboard. It is a state like any other: place it in a [`crate::Region`]. It takes 1.5 MiB
/// of addresses and pages only for slots in use.
///
/// All-zero bytes are a board with every slot empty, in [`Phase::Starting`].
#[derive(Debug)]
#[repr(C)]
pub struct Board {
    /// Read by every worker each turn, written a few times in a server's life.
    word: Padded<Word>,
    settings: Padded<Settings>,
    /// Slots from here on are empty and need no look.
    used: Padded<AtomicU32>,
    /// The groups of slots of which one was ever taken, a bit each.
    groups: Padded<AtomicU64>,
    busy: Padded<Busy>,
    throttle: Padded<Throttle>,
    turnover: Padded<Turnover>,
    slots: [Padded<Slot>; SHARDS_MAX],
}

/// Slots in a group: as many as make 64 groups.
const GROUP: usize = SHARDS_MAX.div_ceil(u64::BITS as usize);

/// Orders from the supervisor to all workers.
#[derive(Debug, Default)]
#[repr(C)]
struct Word {
    phase: AtomicU32,
    edition: AtomicU32,
    deaf: AtomicU32,
    /// When memory became short, on `sys::clock`'s clock; 0: it is not.
    short_since_ns: AtomicU64,
}

/// Counts of processes, or separate workers, that started and ended.
/// Only the supervisor counts here.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Turnover {
    /// Started for any reason, those of the server's start included.
    pub spawned: Tally,
    /// Ended because more workers were idle than wanted.
    pub retired: Tally,
    /// Ended because they had served their maximum of connections.
    pub recycled: Tally,
    /// Ended without an order to leave.
    pub crashed: Tally,
}

/// The time from a first connection to the last disconnect.
#[derive(Debug)]
#[repr(C)]
struct Busy {
    /// When the first connection came; 0: none since the last [`Board::take_busy`].
    since_ns: AtomicU64,
    /// When the last connection so far ended.
    until_ns: AtomicU64,
}

// SAFETY: atomics only, for all of which zero is a value; no pointer, no destructor.
unsafe impl Share for Board {}

impl Board {
    /// Empties the slot of `dead` and removes the connections that died with it.
    pub fn heal(&self, dead: WorkerId) {
        let slot = &self.slots[dead.slot()];
        if slot.worker() == Some(dead) {
            slot.open.set(0);
            slot.held.set(0);
            self.throttle.heal(slot);
            slot.set_state(SlotState::Gone);
        }
    }

    /// Seats `worker` of process `pid` as [`SlotState::Starting`]. The slot must be free.
    pub fn sit(&self, worker: WorkerId, pid: Pid) -> &Slot {
        let slot = &self.slots[worker.slot()];
        debug_assert!(
            matches!(slot.state(), SlotState::Empty | SlotState::Gone),
            "expected a free slot for worker {worker}, found {:?}",
            slot.worker()
        );
        slot.take(worker, pid);
        self.used.fetch_max(worker.slot() as u32 + 1, Ordering::Release);
        self.groups.fetch_or(1 << (worker.slot() / GROUP), Ordering::Release);
        slot
    }

    /// The slot of number `slot`.
    ///
    /// # Panics
    /// If `slot` is not below [`SHARDS_MAX`].
    #[must_use]
    pub fn slot(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }

    /// All slots that were ever taken, and possibly empty ones between them.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = &Slot> {
        let used = self.used.load(Ordering::Acquire) as usize;
        self.slots[..used].iter().map(|slot| &slot.0)
    }

    /// The limit of requests that are executed at once, and those that are.
    #[inline]
    #[must_use]
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// The supervisor's counts of started and ended workers.
    #[must_use]
    pub fn turnover(&self) -> &Turnover {
        &self.turnover
    }

    /// Connections open now, over all slots.
    #[must_use]
    pub fn open_total(&self) -> u64 {
        self.slots().map(|slot| slot.open.read()).sum()
    }

    /// Whether no connection is open. Asked at every turn of the supervisor, so it looks at groups
    /// of slots in use, not at all slots below the last one in use.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let mut groups = self.groups.load(Ordering::Acquire);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize * GROUP;
            if self.slots[group..][..GROUP].iter().any(|slot| slot.open.read() > 0) {
                return false;
            }
            groups &= groups - 1;
        }
        true
    }

    /// Whether no connection is left. A worker asks after it has counted its own last disconnect:
    /// of several workers that do so at once, at least one gets `true`.
    #[must_use]
    pub fn is_empty_now(&self) -> bool {
        // Each worker stores before it loads here; no load may move
        // before the other workers' stores.
        fence(Ordering::SeqCst);
        self.is_idle()
    }

    /// A connection came at `now_ns` on `sys::clock`'s clock; the first of a busy time counts.
    pub fn began(&self, now_ns: u64) {
        if self.busy.since_ns.load(Ordering::Relaxed) == 0 {
            let since = &self.busy.since_ns;
            let _ = since.compare_exchange(0, now_ns, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// A worker's last connection has ended at `now_ns`.
    pub fn ended(&self, now_ns: u64) {
        self.busy.until_ns.fetch_max(now_ns, Ordering::AcqRel);
    }

    /// The finished busy time, reported once; `None` while a connection is
    /// open. Only the supervisor may ask.
    pub fn take_busy(&self) -> Option<Duration> {
        if !self.is_idle() {
            return None;
        }
        let since = self.busy.since_ns.swap(0, Ordering::AcqRel);
        if since == 0 {
            return None;
        }
        let until = self.busy.until_ns.load(Ordering::Acquire);
        // A connection counts as open before its busy time begins. So a connection whose time was
        // just taken shows here: it came after the check above, and the busy time continues.
        if !self.is_idle() {
            let ours = &self.busy.since_ns;
            if ours.compare_exchange(0, since, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                ours.fetch_min(since, Ordering::AcqRel);
            }
            return None;
        }
        Some(Duration::from_nanos(until.saturating_sub(since)))
    }

    /// The sums over all slots.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.slots().fold(Totals::default(), Totals::plus)
    }

    /// The settings that can change while the server runs.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of changes of the settings; workers compare it with the number they know.
    #[inline]
    #[must_use]
    pub fn edition(&self) -> u32 {
        self.word.edition.load(Ordering::Acquire)
    }

    /// Announces changed settings. Only the supervisor may call it.
    pub fn publish(&self) {
        self.word.edition.fetch_add(1, Ordering::Release);
    }

    /// The server's phase.
    #[inline]
    #[must_use]
    pub fn phase(&self) -> Phase {
        Phase::of(self.word.phase.load(Ordering::Acquire))
    }

    /// The listeners admit no new client from here on. Only the supervisor may call it.
    pub fn set_deaf(&self) {
        self.word.deaf.store(1, Ordering::Release);
    }

    /// Whether connections are accepted: until the server drains, and then those that wait in the
    /// queue of a deaf listener, which only this server can accept.
    #[inline]
    #[must_use]
    pub fn accepts(&self) -> bool {
        match self.phase() {
            Phase::Starting | Phase::Ready => true,
            Phase::Draining => self.word.deaf.load(Ordering::Acquire) != 0,
            Phase::Leaving | Phase::Forced | Phase::Done => false,
        }
    }

    /// Advances the server to `phase`, unless it is further already; returns the present phase.
    pub fn advance(&self, phase: Phase) -> Phase {
        let former = self.word.phase.fetch_max(phase as u32, Ordering::AcqRel);
        Phase::of(former).max(phase)
    }
}

/// The sums of a [`Board`]'s tallies; each as its [`Slot`] field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the slot's fields carry the words")]
pub struct Totals {
    pub open: u64,
    pub accepted: u64,
    pub answered: u64,
    pub refused: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub turns: u64,
    pub enobufs: u64,
    pub short_sends: u64,
    pub stack_switches: u64,
    pub panics: u64,
    pub pushes_dropped: u64,
    pub late_ns: u64,
    pub shed: u64,
    pub carried: u64,
    pub requests_refused: u64,
    pub inputs: u64,
    pub input_wait_ns: u64,
    pub measured: u64,
    pub wait_ns: u64,
    pub service_ns: u64,
}

impl Totals {
    /// The sums with the counts of one more slot.
    #[must_use]
    pub fn plus(self, slot: &Slot) -> Totals {
        Totals {
            open: self.open + slot.open.read(),
            accepted: self.accepted + slot.accepted.read(),
            answered: self.answered + slot.answered.read(),
            refused: self.refused + slot.refused.read(),
            bytes_in: self.bytes_in + slot.bytes_in.read(),
            bytes_out: self.bytes_out + slot.bytes_out.read(),
            turns: self.turns + slot.turns.read(),
            enobufs: self.enobufs + slot.enobufs.read(),
            short_sends: self.short_sends + slot.short_sends.read(),
            stack_switches: self.stack_switches + slot.stack_switches.read(),
            panics: self.panics + slot.panics.read(),
            pushes_dropped: self.pushes_dropped + slot.pushes_dropped.read(),
            late_ns: self.late_ns + slot.late_ns.read(),
            shed: self.shed + slot.shed.read(),
            carried: self.carried + slot.carried.read(),
            requests_refused: self.requests_refused + slot.requests_refused.read(),
            inputs: self.inputs + slot.inputs.read(),
            input_wait_ns: self.input_wait_ns + slot.input_wait_ns.read(),
            measured: self.measured + slot.measured.read(),
            wait_ns: self.wait_ns + slot.wait_ns.read(),
            service_ns: self.service_ns + slot.service_ns.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;

    fn board() -> Region<Board> {
        Region::<Board>::alone(&[])
    }

    #[test]
    fn an_empty_board_is_all_zero() {
        let board = board();
        assert_eq!((board.phase(), board.slots().len()), (Phase::Starting, 0));
        assert!(board.is_idle());
        assert_eq!((board.open_total(), board.totals()), (0, Totals::default()));
        let last = board.slot(SHARDS_MAX - 1);
        assert_eq!((last.state(), last.worker(), last.pid()), (SlotState::Empty, None, None));
    }

    #[test]
    fn a_connection_in_any_slot_is_an_open_one() {
        let board = board();
        for slot in [0, 1, GROUP - 1, GROUP, SHARDS_MAX / 2, SHARDS_MAX - 1] {
            let slot = board.sit(WorkerId::new(slot, 1), sys::process::this());
            assert!(board.is_idle());
            slot.open.add(1);
            assert!(!board.is_idle() && !board.is_empty_now());
            slot.open.sub(1);
        }
        assert!(board.is_empty_now());
    }

    #[test]
    fn totals_outlive_workers_and_open_connections_do_not() {
        let (board, pid) = (board(), sys::process::this());
        let (dead, living) = (WorkerId::new(3, 1), WorkerId::new(5, 1));
        for worker in [dead, living] {
            let slot = board.sit(worker, pid);
            assert_eq!(slot.state(), SlotState::Starting);
            slot.set_state(SlotState::Ready);
            slot.accepted.add(10);
            slot.open.add(7);
            slot.open.sub(2);
        }
        assert_eq!(board.open_total(), 10);
        board.heal(WorkerId::new(3, 9));
        assert_eq!(board.open_total(), 10, "a worker that is not placed cannot be healed");
        board.heal(dead);
        assert_eq!((board.open_total(), board.totals().accepted), (5, 20));
        assert_eq!(board.slot(3).state(), SlotState::Gone);
        let successor = WorkerId::new(3, 2);
        board.slot(3).dismiss();
        assert!(board.slot(3).is_dismissed());
        let slot = board.sit(successor, pid);
        assert!(!slot.is_dismissed(), "that was for the one before");
        slot.accepted.add(1);
        assert_eq!((slot.worker(), slot.pid()), (Some(successor), Some(pid)));
        assert_eq!((board.totals().accepted, board.slots().len()), (21, 6));
    }

    #[test]
    fn a_queue_is_emptied_only_where_no_client_can_join_it() {
        let accepts = |is_deaf: bool, phase: Phase| {
            let board = board();
            if is_deaf {
                board.set_deaf();
            }
            board.advance(phase);
            board.accepts()
        };
        use Phase::{Draining, Forced, Leaving, Ready};
        assert_eq!(
            [Ready, Leaving, Draining, Forced].map(|it| accepts(false, it)),
            [true, false, false, false]
        );
        assert_eq!(
            [Ready, Leaving, Draining, Forced].map(|it| accepts(true, it)),
            [true, false, true, false]
        );
    }

    #[test]
    fn a_busy_time_is_told_once() {
        let board = board();
        assert_eq!(board.take_busy(), None);
        for (began, ended) in [(100, 150), (120, 140)] {
            board.began(began);
            board.ended(ended);
        }
        let slot = board.sit(WorkerId::new(0, 1), sys::process::this());
        slot.open.add(1);
        assert_eq!(board.take_busy(), None, "somebody is there");
        slot.open.sub(1);
        assert_eq!(board.take_busy(), Some(Duration::from_nanos(50)));
        assert_eq!(board.take_busy(), None);
    }

    #[test]
    fn a_busy_time_that_begins_while_one_looks_is_not_cut_short() {
        let board = board();
        let rounds = 20_000;
        std::thread::scope(|threads| {
            let worker = threads.spawn(|| {
                let slot = board.sit(WorkerId::new(0, 1), sys::process::this());
                for now in 1..=rounds {
                    slot.open.add(1);
                    board.began(2 * now);
                    board.ended(2 * now + 1);
                    slot.open.sub(1);
                }
            });
            let mut found = 0;
            while !worker.is_finished() || board.busy.since_ns.load(Ordering::Relaxed) != 0 {
                if let Some(busy) = board.take_busy() {
                    assert!(busy > Duration::ZERO, "expected an end after the beginning");
                    found += 1;
                }
            }
            assert!((1..=rounds).contains(&found), "found {found} times");
        });
    }

    #[test]
    fn phases_only_go_forward() {
        let board = board();
        let all = [0, 1, 2, 3, 4, 5].map(Phase::of);
        for (index, phase) in all.into_iter().enumerate() {
            assert_eq!(board.advance(phase), phase);
            for earlier in &all[..index] {
                assert_eq!((board.advance(*earlier), board.phase()), (phase, phase));
            }
        }
    }

    #[test]
    fn a_slot_keeps_to_its_own_lines() {
        assert_eq!(size_of::<Padded<Slot>>(), 384);
        assert_eq!(size_of::<Board>(), 384 * SHARDS_MAX + 128 * 7);
    }
}
