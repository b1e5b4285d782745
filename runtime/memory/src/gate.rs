//! Many writers that announce themselves, and an occasional reader of the whole.
//!
//! A writer is inside while the low bit of its own slot is set; it has entered if the gate was open
//! after it had set the bit. A closer shuts the gate first and then waits until every slot is
//! quiet. Each writes its own word before it reads the other's, so at least one sees the other:
//! Dekker's argument, which needs the one sequentially consistent exchange of [`Gate::enter`].
//!
//! Closing means holding an owner-named [`Lock`], so a killed reader is healed like any other
//! owner. A slot belongs to one worker, so clearing its slot heals a killed writer. A slot also
//! counts finished sections; the sum over slots is the version of the whole.

use seam::{SHARDS_MAX, WorkerId};

use crate::lock::{Lock, mark};
use crate::padded::Padded;
use crate::sync::{AtomicU32, AtomicU64, Ordering, announce, fence, pause};

/// The low bit of a slot: its worker is writing. The other bits count finished sections.
const BUSY: u64 = 1;

#[cfg(not(loom))]
const SLOTS: usize = SHARDS_MAX;
/// The model has few workers, because it pays for every word.
#[cfg(loom)]
const SLOTS: usize = 3;
const _: () = assert!(SLOTS <= SHARDS_MAX);

/// A gate around a structure with atomic leaves: writers pass concurrently, a closer finds
/// everything at rest. It takes 512 KiB of addresses and pages only for worker slots in use.
///
/// The all-zero bytes are an open gate.
///
/// # Promises
/// While a [`Closed`] lives no [`Writing`] does. Everything a section wrote is visible to every
/// later closer. A worker killed at any instant blocks no other once [`Gate::heal`] was called.
#[derive(Debug)]
#[repr(C)]
pub struct Gate {
    /// Held by the closer. It shares its line with the number of slots: all
    /// workers read both and rarely write.
    closer: Padded<Shut>,
    slots: [Padded<AtomicU64>; SLOTS],
}

#[derive(Debug)]
#[repr(C)]
struct Shut {
    lock: Lock,
    /// Slots from here on were never used and need no look.
    worker_slots: AtomicU32,
}

impl Default for Gate {
    fn default() -> Self {
        let shut = Shut { lock: Lock::default(), worker_slots: AtomicU32::new(0) };
        let slots = std::array::from_fn(|_| Padded(AtomicU64::new(0)));
        Self { closer: Padded(shut), slots }
    }
}

impl Gate {
    /// Enters as a writer, after waiting while the gate is closed. Dropping the returned value
    /// finishes the section and counts it.
    ///
    /// Costs an exchange on `me`'s own line and a load of a shared one; dropping costs a store. So
    /// enter once for a batch of requests, and drop before their replies leave: a reader's older
    /// view could contradict a reply that is sent before its section is counted.
    ///
    /// # Panics
    /// If `me` keeps the gate closed; in debug builds also if it has entered already.
    #[inline]
    pub fn enter(&self, me: WorkerId) -> Writing<'_> {
        if me.slot() as u32 >= self.closer.worker_slots.load(Ordering::Relaxed) {
            self.take_worker_slot(me);
        }
        let slot = &self.slots[me.slot()];
        let quiet = slot.load(Ordering::Relaxed);
        debug_assert_eq!(quiet & BUSY, 0, "worker {me} enters a gate that it is in");
        announce(slot, quiet | BUSY);
        if self.closer.lock.is_held() {
            self.enter_closed(me, slot, quiet);
        }
        Writing { slot, after: quiet + 2 * BUSY }
    }

    #[cold]
    fn take_worker_slot(&self, me: WorkerId) {
        // Before the announcement: if a closer misses this, we see the closer.
        self.closer.worker_slots.fetch_max(me.slot() as u32 + 1, Ordering::SeqCst);
    }

    #[cold]
    fn enter_closed(&self, me: WorkerId, slot: &AtomicU64, quiet: u64) {
        while self.closer.lock.is_held() {
            slot.store(quiet, Ordering::Release);
            self.closer.lock.wait_until_free(mark(me));
            announce(slot, quiet | BUSY);
        }
    }

    /// Closes the gate for `me` and waits until no writer is inside.
    /// Dropping the returned value opens it.
    ///
    /// The wait polls the slots, because a leaving writer sends no notification. It lasts as long
    /// as the longest section in progress, and up to 0.1 ms longer if that one lasts.
    ///
    /// # Panics
    /// If `me` keeps the gate closed already; in debug builds also if `me` is inside as a writer,
    /// which in release builds waits for ever.
    pub fn close(&self, me: WorkerId) -> Closed<'_> {
        debug_assert_eq!(
            self.slots[me.slot()].load(Ordering::Relaxed) & BUSY,
            0,
            "worker {me} closes a gate that it is in"
        );
        let mark = mark(me);
        self.closer.lock.acquire(mark);
        // For every thread, our mark on the lock precedes our look at the slots.
        fence(Ordering::SeqCst);
        for slot in self.used() {
            let mut turn = 0;
            while slot.load(Ordering::Acquire) & BUSY != 0 {
                pause(turn);
                turn += 1;
            }
        }
        Closed { gate: self, mark }
    }

    /// Closes the gate as [`Gate::close`] does, but gives up after `looks` polls: a few hundred are
    /// some tens of milliseconds. It is for the process that heals dead workers, because
    /// [`Gate::close`] would wait for ever for a worker killed inside.
    ///
    /// # Panics
    /// In debug builds, if `me` is inside as a writer.
    pub fn try_close(&self, me: WorkerId, looks: u32) -> Option<Closed<'_>> {
        debug_assert_eq!(
            self.slots[me.slot()].load(Ordering::Relaxed) & BUSY,
            0,
            "worker {me} closes a gate that it is in"
        );
        let mut turns = 0..looks;
        let mut closed = None;
        while closed.is_none() {
            closed = self.closer.lock.try_lock(me).map(|locked| {
                // Opening wakes all sleepers, which the lock's own proof does not.
                std::mem::forget(locked);
                Closed { gate: self, mark: mark(me) }
            });
            if closed.is_none() {
                pause(turns.next()?);
            }
        }
        // As in `close`.
        fence(Ordering::SeqCst);
        for slot in self.used() {
            while slot.load(Ordering::Acquire) & BUSY != 0 {
                pause(turns.next()?);
            }
        }
        closed
    }

    /// The number of finished sections. A view of the whole that was taken under a [`Closed`] at
    /// this version holds every section that had finished before this call.
    #[must_use]
    pub fn version(&self) -> u64 {
        let count = |slot: &Padded<AtomicU64>| slot.load(Ordering::Acquire) / (2 * BUSY);
        self.used().iter().map(count).fold(0, u64::wrapping_add)
    }

    /// Undoes the state that `dead` left here: clears its announcement, and opens the gate if
    /// `dead` kept it closed. Writes of its section stay and count as a change. `dead` must have
    /// ended and have no successor in its worker slot yet.
    pub fn heal(&self, dead: WorkerId) {
        let slot = &self.slots[dead.slot()];
        let left = slot.load(Ordering::Acquire);
        // A busy slot becomes quiet and counts one more section; a quiet slot is unchanged.
        slot.store(left + (left & BUSY), Ordering::Release);
        self.closer.lock.force_release(dead);
    }

    fn used(&self) -> &[Padded<AtomicU64>] {
        &self.slots[..self.closer.worker_slots.load(Ordering::SeqCst) as usize]
    }
}

/// Proof that the worker is inside as a writer; dropping it finishes the section.
#[must_use = "a section ends when its proof is dropped"]
#[derive(Debug)]
pub struct Writing<'a> {
    slot: &'a AtomicU64,
    after: u64,
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(self.after, Ordering::Release);
    }
}

/// Proof that no worker writes; dropping it opens the gate.
#[must_use = "the gate opens when its proof is dropped"]
#[derive(Debug)]
pub struct Closed<'a> {
    gate: &'a Gate,
    mark: u32,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // All sleepers: writers enter together, and a closer among them may close again.
        self.gate.closer.lock.release(self.mark, u32::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn worker(slot: usize) -> WorkerId {
        WorkerId::new(slot, 1)
    }

    #[test]
    fn every_section_changes_the_version() {
        let gate = Gate::default();
        assert_eq!(gate.version(), 0);
        for (count, slot) in [0, SHARDS_MAX - 1, 7, 7].into_iter().enumerate() {
            let writing = gate.enter(worker(slot));
            assert_eq!(gate.version(), count as u64);
            drop(writing);
            assert_eq!(gate.version(), count as u64 + 1);
        }
        drop(gate.close(worker(1)));
        assert_eq!(gate.version(), 4, "reading is not a change");
    }

    #[test]
    fn who_gives_up_leaves_the_gate_as_it_was() {
        let gate = Gate::default();
        let writing = gate.enter(worker(0));
        assert!(gate.try_close(worker(1), 50).is_none(), "a writer is in");
        drop(writing);
        drop(gate.enter(worker(2)));
        let closed = gate.close(worker(1));
        assert!(gate.try_close(worker(3), 50).is_none(), "another keeps it closed");
        drop(closed);
        let closed = gate.try_close(worker(3), 50).expect("nobody is in the way");
        assert!(gate.try_close(worker(1), 50).is_none());
        drop(closed);
        drop(gate.enter(worker(0)));
    }

    #[test]
    #[should_panic(expected = "holds itself")]
    fn a_closer_that_enters_is_told_not_slept() {
        let gate = Gate::default();
        let _closed = gate.close(worker(0));
        let _writing = gate.enter(worker(0));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "closes a gate that it is in")]
    fn a_writer_that_closes_is_told() {
        let gate = Gate::default();
        let _writing = gate.enter(worker(0));
        let _closed = gate.close(worker(0));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Watched, explore};
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct World {
        gate: Gate,
        leaves: [Watched; 2],
    }

    fn write(world: &World, slot: usize) {
        let _writing = world.gate.enter(WorkerId::new(slot, 1));
        world.leaves[slot].add(1);
    }

    /// Reads both leaves under a closed gate: their sum is the number of
    /// sections that the version gives.
    fn read(world: &World, slot: usize) {
        let _closed = world.gate.close(WorkerId::new(slot, 1));
        let sum: u32 = world.leaves.iter().map(Watched::read).sum();
        assert_eq!(u64::from(sum), world.gate.version());
    }

    fn check(life: impl Fn(Arc<World>) + Sync + Send + 'static) {
        explore(move || life(Arc::new(World::default())));
    }

    #[test]
    fn loom_two_writers_and_a_closer() {
        check(|world| {
            let others: Vec<_> = (0..2)
                .map(|slot| {
                    let world = world.clone();
                    thread::spawn(move || write(&world, slot))
                })
                .collect();
            read(&world, 2);
            others.into_iter().for_each(|it| it.join().unwrap());
            assert_eq!(world.gate.version(), 2);
        });
    }

    #[test]
    fn loom_a_writer_and_two_closers() {
        check(|world| {
            let (writer, closer) = (world.clone(), world.clone());
            let writer = thread::spawn(move || write(&writer, 0));
            let closer = thread::spawn(move || read(&closer, 1));
            read(&world, 2);
            writer.join().unwrap();
            closer.join().unwrap();
        });
    }

    #[test]
    fn loom_a_writer_and_one_who_gives_up() {
        check(|world| {
            let writer = world.clone();
            let writer = thread::spawn(move || write(&writer, 0));
            if let Some(closed) = world.gate.try_close(WorkerId::new(2, 1), 2) {
                assert_eq!(u64::from(world.leaves[0].read()), world.gate.version());
                drop(closed);
            }
            writer.join().unwrap();
            read(&world, 1);
        });
    }

    #[test]
    fn loom_a_dead_writer_is_healed_under_a_waiting_closer() {
        check(|world| {
            let dead = WorkerId::new(0, 1);
            std::mem::forget(world.gate.enter(dead));
            let closer = world.clone();
            let closer = thread::spawn(move || drop(closer.gate.close(WorkerId::new(1, 1))));
            world.gate.heal(dead);
            closer.join().unwrap();
            assert_eq!(world.gate.version(), 1);
        });
    }

    #[test]
    fn loom_a_dead_closer_is_healed_under_a_waiting_writer() {
        check(|world| {
            let dead = WorkerId::new(1, 1);
            std::mem::forget(world.gate.close(dead));
            let writer = world.clone();
            let writer = thread::spawn(move || write(&writer, 0));
            world.gate.heal(dead);
            writer.join().unwrap();
            read(&world, 2);
        });
    }
}
