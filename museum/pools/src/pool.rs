//! Pools of reusable objects of one size, with handles, order and guards.
//!
//! A [`Pool`] has one owner and not one atomic instruction. A [`Handle`] names a slot and the
//! number of its life, so a late handle finds nothing, in every build. Guards are chosen at run
//! time. Canaries touch the data on both sides; freed bytes are poisoned and checked before reuse;
//! at the end the pool lists every object still out, with the line that put it there.
//!
//! The surprising thing: the links of free slots never lie in the slots. A write into a freed
//! object then damages a value at worst, not the pool, and the poison shows it.

mod arena;
mod fault;
mod guard;
mod local;

pub use fault::{Fault, Report};
pub use local::Pool;

pub use memory::Full;

use std::alloc::Layout;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// No slot: the end of a chain of indices.
const NONE: u32 = memory::Stack::NONE;
/// Slots that a pool can have: [`Place`] has 30 bits for an index.
const SLOTS_MAX: u32 = 1 << 30;

/// Where a pool's slots lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Backing {
    /// One piece of memory for all, reserved at once and touched on use: neighbours in
    /// index are neighbours in memory.
    #[default]
    Array,
    /// A piece for each slot, allocated from the heap on first use: for a size that is not known
    /// beforehand. [`Pool::trim`] returns free ones.
    List,
}

/// Which free slot is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The one freed last: it is still in the cache.
    #[default]
    Lifo,
    /// The one that has been free for longest: a late access does the least harm there.
    Fifo,
}

/// How closely objects are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Guard {
    /// Handles are checked, nothing else.
    #[default]
    Off,
    /// Every N-th object is guarded as under `Full`; the others cost one test.
    Sampled(NonZeroU32),
    /// Each object has canaries, poison after its end, a time in quarantine, and a record of the
    /// line of code that put it there.
    Full,
}

/// The configuration of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of slots, at most 2^30; it never grows.
    pub capacity: u32,
    /// Where the slots lie.
    pub backing: Backing,
    /// Which free slot is used next.
    pub order: Order,
    /// The alignment of objects: this power of two, or their type's if that is larger. With
    /// 64 no two objects share a cache line, which pays if different threads write
    /// neighbours; 1 wastes nothing.
    pub align: usize,
    /// How closely objects are watched at first. A pool that begins with `Off` has no room for
    /// canaries and cannot be watched later.
    pub guard: Guard,
    /// Slots that a guarded pool keeps out of use after their object's end, so that a late write
    /// hits poison. A pool reuses them before it reports that it is full.
    pub quarantine: u32,
    /// Called for each fault when it is found, and for each leak when the pool is dropped.
    pub on_fault: Option<fn(&Report)>,
}

impl Plan {
    /// An array of `capacity` slots, last in, first out, not guarded.
    #[must_use]
    pub fn new(capacity: u32) -> Plan {
        Plan {
            capacity: capacity.min(SLOTS_MAX),
            backing: Backing::Array,
            order: Order::Lifo,
            align: 1,
            guard: Guard::Off,
            quarantine: 64,
            on_fault: None,
        }
    }

    /// The layout of an object of type `T` in a slot. An alignment beyond a page, or one that is
    /// not a power of two, is cut to the next valid one.
    fn layout<T>(&self) -> Layout {
        let align = self.align.clamp(1, 4096).next_power_of_two();
        let layout = Layout::new::<T>();
        layout.align_to(align).expect("an object that fits into memory does so at a page")
    }
}

/// The home of an object: the pool's tag above its slot's index, so that a handle, which adds the
/// number of a life, travels in two registers.
///
/// The index is counted in fours. It is then the distance, in words of eight bytes, to [`Pool`]'s
/// metadata of the slot, and a processor adds it to an address without a separate step.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// Words of eight bytes in a pool's metadata of a slot.
    pub(crate) const WORDS: u32 = 4;

    /// `index` is below [`SLOTS_MAX`].
    #[inline]
    pub(crate) fn new(tag: u32, index: u32) -> Place {
        debug_assert!(index < SLOTS_MAX, "a pool has fewer slots than 2^30");
        Place(u64::from(tag) << 32 | u64::from(index * Place::WORDS))
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32 / Place::WORDS
    }

    /// The distance to the slot's metadata (words).
    #[inline]
    fn words(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline]
    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An object of a [`Pool`]: its slot, its pool and the number of its life.
///
/// A slot has 2^61 lives, one each nanosecond for 73 years, so a handle is never valid again.
pub struct Handle<T> {
    pub(crate) place: Place,
    pub(crate) life: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    #[inline]
    pub(crate) fn of(place: Place, life: u64) -> Handle<T> {
        Handle { place, life, of: PhantomData }
    }

    /// The slot, below the pool's capacity.
    #[inline]
    #[must_use]
    pub fn index(self) -> u32 {
        self.place.index()
    }

    #[inline]
    pub(crate) fn tag(self) -> u32 {
        self.place.tag()
    }

    /// The number of objects that the slot has held, this one included; at least 1.
    #[must_use]
    pub fn generation(self) -> u64 {
        self.life.wrapping_sub(first_life(self.tag())) / 2 + 1
    }
}

/// A number that no other of the last 2^32 pools has. Consecutive numbers are far apart, so that
/// the lives of one pool's slots never reach those of another's.
fn new_tag() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // The odd number nearest to the golden section of 2^32: the gaps stay as wide as possible.
    NEXT.fetch_add(0x9e37_79b1, Ordering::Relaxed)
}

/// The first life of a pool's slots: an even number far from those of other pools,
/// with its two upper bits free.
pub(crate) fn first_life(tag: u32) -> u64 {
    u64::from(tag & u32::MAX >> 2) << 32
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.place, self.life) == (other.place, other.life)
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.place, self.life).hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{:x}", self.index(), self.generation(), self.tag())
    }
}

/// The usage of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The maximum number of slots.
    pub capacity: u32,
    /// Slots that have got memory so far: with [`Order::Lifo`] this is the
    /// largest number of objects so far.
    pub carved: u32,
    /// Present objects.
    pub live: u32,
    /// Slots retired because of a stray write.
    pub retired: u32,
    /// Objects refused because the pool was full.
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_begins_where_the_plan_says() {
        for (align, expected) in [(0, 8), (1, 8), (3, 8), (33, 64), (64, 64), (1 << 40, 4096)] {
            for guard in [Guard::Off, Guard::Full] {
                let mut pool = Pool::new(Plan { align, guard, ..Plan::new(3) });
                for value in 0..3_u64 {
                    let handle = pool.put(value).expect("there is room");
                    let address = pool.pointer(handle).expect("it lives").addr().get();
                    assert_eq!(address % expected, 0, "{align}, {guard:?}");
                }
            }
        }
    }
}
