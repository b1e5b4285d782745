//! The metadata of a pool's slots, apart from their data: half a cache line each.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use super::super::Place;

/// The metadata of a slot. Its links are addresses, and all fields of a handle lie here ready made,
/// so an object's birth and end are loads and stores with almost no arithmetic.
#[repr(align(32))]
pub(super) struct Meta {
    /// The number of the present life, or of the next one if the slot is free. It grows by [`EACH`]
    /// at each end and begins at a number of the pool's own, so one comparison detects handles of
    /// other pools as well as late ones. With [`WATCHED`] it matches no handle, so taking the
    /// object leads to the path that checks.
    pub(super) life: u64,
    /// The address of the slot's data: the same path for both kinds of backing.
    pub(super) data: NonNull<u8>,
    /// The next slot of the same chain, null at the end; [`LIVE`] while an object lives.
    pub(super) next: *mut Meta,
    /// The place, as in the handles of its objects.
    pub(super) place: Place,
}

const _: () = assert!(size_of::<Meta>() == 8 * Place::WORDS as usize);

/// Set in the life of an object that needs a check when it is taken; no life grows up to here.
pub(super) const WATCHED: u64 = 1 << 63;

/// The step from one life to the next.
pub(super) const EACH: u64 = 2;

/// The link of a slot whose object lives. It is odd, so it is no slot's address.
pub(super) const LIVE: *mut Meta = ptr::without_provenance_mut(1);

impl Meta {
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.next == LIVE
    }

    /// The number of the present life, as a handle has it.
    #[inline]
    pub(super) fn life(&self) -> u64 {
        self.life & !WATCHED
    }
}

/// The metadata of all used slots, by index. They do not move, so a link may be an address.
pub(super) struct Table {
    base: NonNull<Meta>,
    /// The size of the used slots, in words.
    words: usize,
    capacity: usize,
}

impl Table {
    /// An empty table. The address range is reserved at once; memory is touched on use.
    ///
    /// # Panics
    /// If memory cannot hold `capacity` slots.
    pub(super) fn new(capacity: u32) -> Table {
        let capacity = capacity.max(1) as usize;
        let layout = layout(capacity);
        // SAFETY: there is room for one slot at least, so the size is not zero.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base.cast()) else { handle_alloc_error(layout) };
        Table { base, words: 0, capacity }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        (self.words / Place::WORDS as usize) as u32
    }

    /// Appends a slot.
    ///
    /// # Panics
    /// If the table is full.
    pub(super) fn push(&mut self, meta: Meta) -> NonNull<Meta> {
        let len = self.len() as usize;
        assert!(len < self.capacity, "a pool carves no more slots than it has");
        // SAFETY: the table has room for `capacity` slots.
        let slot = unsafe { self.base.add(len) };
        // SAFETY: the place is in the table's memory and in no slot yet.
        unsafe { slot.write(meta) };
        self.words += Place::WORDS as usize;
        slot
    }

    /// The address of the slot at `place`, whatever its tag, if it was ever used:
    /// valid while the table exists.
    #[inline(always)]
    pub(super) fn at(&self, place: Place) -> Option<NonNull<Meta>> {
        let words = place.words();
        // SAFETY: it is below the end of the slots, and a whole number
        // of them from their beginning.
        (words < self.words).then(|| unsafe { self.base.cast::<u64>().add(words).cast() })
    }

    /// The metadata of slot `index`, if it was ever used.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Meta> {
        // SAFETY: a slot of the table is initialised, and no writer
        // exists while `self` is borrowed.
        self.at(Place::new(0, index)).map(|meta| unsafe { meta.as_ref() })
    }

    /// The metadata of slot `index`, if it was ever used.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Meta> {
        // SAFETY: as in `get`, and `self` is borrowed for writing.
        self.at(Place::new(0, index)).map(|mut meta| unsafe { meta.as_mut() })
    }

    /// All slots that were ever used, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Meta> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::array::<Meta>(capacity).expect("a pool's table fits into memory")
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; a `Meta` owns nothing.
        unsafe { dealloc(self.base.as_ptr().cast(), layout(self.capacity)) };
    }
}

/// Slots linked by [`Meta::next`]; taking happens at one end only.
pub(super) struct Chain {
    first: *mut Meta,
    last: *mut Meta,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { first: ptr::null_mut(), last: ptr::null_mut() };

    /// The chain that begins at `first`; walks to find its last slot.
    pub(super) fn from(first: *mut Meta) -> Chain {
        let mut last = first;
        // SAFETY: the linked slots belong to one table, which exists, and the last has null.
        while let Some(next) = unsafe { last.as_ref() }.map(|it| it.next).filter(|it| !it.is_null())
        {
            last = next;
        }
        Chain { first, last }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Takes the first.
    ///
    /// # Safety
    /// The table of its slots must exist.
    pub(super) unsafe fn pop(&mut self) -> Option<NonNull<Meta>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: a slot of the table, as the caller says.
        self.first = unsafe { first.as_ref() }.next;
        Some(first)
    }

    /// Puts `meta`, which is in no chain, at one end.
    ///
    /// # Safety
    /// Its table, and that of the other slots, must exist.
    pub(super) unsafe fn push(&mut self, meta: NonNull<Meta>, end: End) {
        let slot = meta.as_ptr();
        let is_first = self.is_empty();
        // SAFETY: slots of the table, as the caller says.
        unsafe {
            (*slot).next = if end == End::Front { self.first } else { ptr::null_mut() };
            if end == End::Back && !is_first {
                (*self.last).next = slot;
            }
        }
        if end == End::Front || is_first {
            self.first = slot;
        }
        if end == End::Back || is_first {
            self.last = slot;
        }
    }
}

/// An end of a [`Chain`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}
