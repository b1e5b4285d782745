//! The memory of a pool: slots of one size, with a gap on both sides for canaries.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::Backing;

/// The minimum size of a canary on each side of a guarded slot, in bytes. The larger
/// overruns that test suites for allocators use (1, 8, 32 bytes; mimalloc-bench,
/// `bench/security`) begin inside it.
pub(super) const GAP: usize = 16;

/// Slots by index. Their addresses are stable from [`Arena::carve`] on.
pub(super) struct Arena {
    /// Address of the first slot's data, for [`Backing::Array`].
    base: NonNull<u8>,
    /// The distance between two slots.
    stride: usize,
    /// The distance from a slot's piece of memory to its data.
    front: usize,
    size: usize,
    /// The layout of the whole array, or of one slot's piece.
    layout: Layout,
    /// Addresses of the data, for [`Backing::List`]; `None` if the piece was returned.
    pieces: Option<Vec<Option<NonNull<u8>>>>,
}

// SAFETY: an arena owns its memory like a `Vec<u8>` does; users of the pointers uphold their use.
unsafe impl Send for Arena {}
// SAFETY: `&Arena` gives addresses only.
unsafe impl Sync for Arena {}

impl Arena {
    /// Room for `capacity` objects of `object`, with gaps if `guarded`.
    ///
    /// # Panics
    /// If that exceeds the address space.
    pub(super) fn new(object: Layout, capacity: u32, backing: Backing, guarded: bool) -> Arena {
        let align = object.align();
        let round = |bytes: usize| bytes.next_multiple_of(align);
        let size = object.size();
        let front = if guarded { round(GAP) } else { 0 };
        let back = if guarded { GAP } else { 0 };
        let stride = round(front + size + back).max(align);
        let count = if backing == Backing::Array { capacity.max(1) as usize } else { 1 };
        let bytes = stride.checked_mul(count).expect("a pool fits into the address space");
        let layout = Layout::from_size_align(bytes, align).expect("a pool fits into memory");
        let mut arena =
            Arena { base: NonNull::dangling(), stride, front, size, layout, pieces: None };
        match backing {
            Backing::Array => arena.base = arena.piece(),
            Backing::List => arena.pieces = Some(Vec::new()),
        }
        arena
    }

    /// Memory of [`Arena::layout`]; the address of the data in its first slot.
    fn piece(&self) -> NonNull<u8> {
        // SAFETY: the layout's size is at least its alignment, so it is not zero.
        let start = unsafe { alloc(self.layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(self.layout) };
        // SAFETY: a slot's data begins `front` bytes into its piece, which is longer.
        unsafe { start.add(self.front) }
    }

    /// Makes slot `index` usable, which may allocate. Indices come in ascending order, or are those
    /// that [`Arena::give_back`] got.
    pub(super) fn carve(&mut self, index: u32) {
        if self.pieces.is_none() {
            return;
        }
        let piece = self.piece();
        let pieces = self.pieces.as_mut().expect("looked at above");
        let index = index as usize;
        if index == pieces.len() {
            pieces.push(Some(piece));
        } else {
            debug_assert!(pieces[index].is_none(), "a slot is carved once");
            pieces[index] = Some(piece);
        }
    }

    /// Returns the memory of slot `index` to the heap; returns whether there was any.
    pub(super) fn give_back(&mut self, index: u32) -> bool {
        let Some(data) = self.pieces.as_mut().and_then(|all| all[index as usize].take()) else {
            return false;
        };
        // SAFETY: the piece was allocated with this layout, `front` bytes before its data, and is
        // forgotten by the line above.
        unsafe { dealloc(data.as_ptr().sub(self.front), self.layout) };
        true
    }

    /// The address of the data of slot `index`, which must have been carved.
    #[inline]
    pub(super) fn at(&self, index: u32) -> NonNull<u8> {
        match &self.pieces {
            // SAFETY: the array has a slot `index`, since it was carved.
            None => unsafe { self.base.add(index as usize * self.stride) },
            Some(pieces) => pieces[index as usize].expect("expected a slot that was carved"),
        }
    }

    /// The size of an object in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The bytes of the gaps before and after the data, `(before, behind)`; no object owns them.
    pub(super) fn gaps(&self) -> (usize, usize) {
        (self.front, self.stride - self.front - self.size)
    }

    /// The slot, of the first `carved`, whose piece of memory holds `address`, and the offset of
    /// the address from the slot's data.
    pub(super) fn find(&self, address: usize, carved: u32) -> Option<(u32, isize)> {
        let within = |data: usize| {
            let piece = data - self.front;
            (piece..piece + self.stride)
                .contains(&address)
                .then(|| address.cast_signed().wrapping_sub(data.cast_signed()))
        };
        if let Some(pieces) = &self.pieces {
            let mut all = pieces.iter().enumerate();
            return all.find_map(|(index, piece)| {
                Some((index as u32, within(piece.as_ref()?.addr().get())?))
            });
        }
        let first = self.base.addr().get() - self.front;
        let index = address.checked_sub(first)? / self.stride;
        let index = u32::try_from(index).ok().filter(|index| *index < carved)?;
        Some((index, within(self.base.addr().get() + index as usize * self.stride)?))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        match &mut self.pieces {
            // SAFETY: the array was allocated with this layout, `front` bytes before its data.
            None => unsafe { dealloc(self.base.as_ptr().sub(self.front), self.layout) },
            Some(pieces) => {
                for index in 0..pieces.len() as u32 {
                    self.give_back(index);
                }
            }
        }
    }
}
