//! A log to which workers append, and a cell whose value they replace as a whole.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use seam::{BadSeed, Dead, Share, WorkerId};

use super::{Fixed, NoRoom};
use crate::{Lock, Padded};

/// Up to `N` entries in the order in which workers appended them. Entries never change, so readers
/// take no lock.
#[repr(C)]
pub struct Log<T, const N: usize> {
    lock: Padded<Lock>,
    /// Entries that are published; those below are never written again.
    count: Padded<AtomicUsize>,
    entries: [UnsafeCell<T>; N],
}

// SAFETY: an entry is written before it is published, by the holder of the lock, and only read
// afterwards.
unsafe impl<T: Fixed, const N: usize> Sync for Log<T, N> {}

// SAFETY: a lock, an atomic, and entries that are valid if zero.
unsafe impl<T: Fixed, const N: usize> Share for Log<T, N> {
    fn heal(&self, dead: Dead) {
        self.lock.force_release(dead.worker());
    }
}

impl<T: Fixed, const N: usize> Log<T, N> {
    /// Appends an entry; returns its position, from 0.
    ///
    /// # Errors
    /// The log has `N` entries.
    pub fn append(&self, entry: T) -> Result<usize, NoRoom> {
        let _locked = self.lock.lock(WorkerId::current());
        let at = self.count.load(Ordering::Relaxed);
        let place = self.entries.get(at).ok_or_else(|| NoRoom::of::<Self>(N, "entries"))?;
        // SAFETY: the place is not published, and the lock keeps other writers out.
        unsafe { place.get().write(entry) };
        self.count.store(at + 1, Ordering::Release);
        Ok(at)
    }

    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The entries from position `first` on, oldest first; empty if there are none yet.
    pub fn since(&self, first: usize) -> impl DoubleEndedIterator<Item = &T> {
        let published = self.entries.get(first..self.count()).unwrap_or_default();
        // SAFETY: published entries are never written again.
        published.iter().map(|entry| unsafe { &*entry.get() })
    }
}

/// A value that workers read and replace as a whole: no reader sees half of a change. Until the
/// first one it is zero.
#[repr(C)]
pub struct SnapshotCell<T> {
    lock: Padded<Lock>,
    /// Which of the two values is the present one.
    present: AtomicU32,
    values: [UnsafeCell<T>; 2],
}

// SAFETY: both values are read and written under the lock.
unsafe impl<T: Fixed> Sync for SnapshotCell<T> {}

// SAFETY: a lock, an atomic, and values that are valid if zero.
unsafe impl<T: Fixed> Share for SnapshotCell<T> {
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        self.values.iter_mut().try_for_each(|value| value.get_mut().init(seed))
    }

    fn heal(&self, dead: Dead) {
        self.lock.force_release(dead.worker());
    }
}

impl<T: Fixed> SnapshotCell<T> {
    /// A copy of the value.
    pub fn get(&self) -> T {
        let _locked = self.lock.lock(WorkerId::current());
        // SAFETY: the lock keeps writers out.
        unsafe { *self.values[self.index()].get() }
    }

    /// Replaces the value by the result of `change`, in one step for all workers; returns the new
    /// one. A worker that is killed meanwhile leaves the old one.
    pub fn update(&self, change: impl FnOnce(T) -> T) -> T {
        let _locked = self.lock.lock(WorkerId::current());
        let index = self.index();
        // SAFETY: the lock keeps writers out.
        let new = change(unsafe { *self.values[index].get() });
        // SAFETY: the lock keeps all others out, and the present value is the other one.
        unsafe { self.values[1 - index].get().write(new) };
        self.present.store(1 - index as u32, Ordering::Release);
        new
    }

    /// Sets the value.
    pub fn set(&self, value: T) {
        self.update(|_| value);
    }

    fn index(&self) -> usize {
        (self.present.load(Ordering::Acquire) & 1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    seam::share! {
        struct World {
            log: Log<[u64; 2], 4000>,
            last: SnapshotCell<[u64; 2]>,
        }
    }

    fn world() -> Region<World> {
        Region::<World>::alone(b"")
    }

    #[test]
    fn workers_append_and_replace_together() {
        let world = world();
        std::thread::scope(|threads| {
            for slot in 0..4 {
                let (World { log, last }, me) = (&*world, WorkerId::new(slot, 1));
                threads.spawn(move || {
                    me.enter();
                    for round in 0..1000 {
                        log.append([slot as u64, round]).expect("room for all");
                        last.update(|[a, b]| [a + 1, b + 1]);
                        let [a, b] = last.get();
                        assert_eq!(a, b, "half of a change");
                    }
                });
            }
        });
        let own = |slot| world.log.since(0).filter(move |it| it[0] == slot).map(|it| it[1]);
        (0..4).for_each(|slot| assert!(own(slot).eq(0..1000), "worker {slot}"));
        assert_eq!(world.last.get(), [4000, 4000]);
        assert!(world.log.append([0, 0]).is_err());
        let newest = world.log.since(3999).next_back().expect("the last one");
        assert_eq!(newest[1], 999);
        assert_eq!((world.log.since(4000).count(), world.log.since(9000).count()), (0, 0));
    }

    #[test]
    fn a_worker_that_dies_inside_leaves_the_old_value() {
        let (world, dead) = (world(), WorkerId::new(3, 1));
        world.last.set([7, 7]);
        let World { log, last } = &*world;
        std::mem::forget((log.lock.lock(dead), last.lock.lock(dead)));
        // It had begun to write both.
        // SAFETY: the dead worker holds both locks, and nobody reads meanwhile.
        unsafe {
            log.entries[0].get().write([9, 9]);
            last.values[1 - last.index()].get().write([9, 9]);
        }
        // SAFETY: nobody acts as this worker any more.
        world.heal(unsafe { Dead::sworn(dead) });
        assert_eq!((log.count(), last.get()), (0, [7, 7]));
        assert_eq!(log.append([1, 1]), Ok(0));
    }
}
