//! Canaries and poison: bytes that no code may change, and the checks that find damage.
//!
//! All functions take a slot of an [`Arena`] and touch only bytes that belong to no living object:
//! the gaps on both sides, or the data while there is none.

use std::mem::MaybeUninit;
use std::panic::Location;
use std::slice;

use super::arena::Arena;
use super::{Fault, Guard, Plan, Report};

/// The fill byte of freed memory. The debug heaps of Microsoft's C runtime and foonathan/memory use
/// it too; an address made of it faults at once.
pub(super) const POISON: u8 = 0xdd;
/// Faults that are kept by value; all are counted.
const KEPT_MAX: usize = 64;

/// The canary of slot `index` on one side, repeated over its gap. It differs from slot
/// to slot, so a block of memory copied over it is seen too. It has no byte 0 or 0xff,
/// which overruns write most often.
fn canary(index: u32, side: Side) -> u64 {
    let mixed = (u64::from(index) << 1 | side as u64).wrapping_add(1);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29) | 0x0101_0101_0101_0101) & 0x7f7f_7f7f_7f7f_7f7f
}

#[derive(Clone, Copy)]
enum Side {
    Front,
    Back,
}

/// The gaps of a slot: the beginning, the length and the fill of each.
fn gaps(arena: &Arena, index: u32) -> [(*mut u8, usize, u64); 2] {
    let (front, back) = arena.gaps();
    let data = arena.at(index).as_ptr();
    // SAFETY: `front` bytes before the data and `back` bytes behind it are in the slot's memory.
    let (before, behind) = unsafe { (data.sub(front), data.add(arena.size())) };
    [(before, front, canary(index, Side::Front)), (behind, back, canary(index, Side::Back))]
}

/// Writes the canaries around slot `index`.
pub(super) fn fence(arena: &Arena, index: u32) {
    for (start, len, word) in gaps(arena, index) {
        // SAFETY: a gap belongs to the slot and to no object, and need not be written yet.
        let bytes = unsafe { slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), len) };
        let pattern = word.to_le_bytes().map(MaybeUninit::new);
        let (words, rest) = bytes.as_chunks_mut::<8>();
        words.fill(pattern);
        rest.copy_from_slice(&pattern[..rest.len()]);
    }
}

/// Checks the canaries around slot `index`; the damage nearest to the object counts.
#[inline]
pub(super) fn look_around(arena: &Arena, index: u32) -> Result<(), Fault> {
    let whole = |(start, len, word): (*mut u8, usize, u64)| {
        // SAFETY: a gap belongs to the slot and to no object, and `fence` has written it.
        let bytes = unsafe { slice::from_raw_parts(start.cast_const(), len) };
        is_filled(bytes, word)
    };
    if gaps(arena, index).into_iter().all(whole) { Ok(()) } else { Err(damage(arena, index)) }
}

/// The position of the damage in the canaries of slot `index`.
#[cold]
fn damage(arena: &Arena, index: u32) -> Fault {
    let [front, back] = gaps(arena, index).map(|(start, len, word)| {
        // SAFETY: as in `look_around`.
        let bytes = unsafe { slice::from_raw_parts(start.cast_const(), len) };
        let expected = word.to_le_bytes();
        let mut all = bytes.iter().enumerate().map(|(at, byte)| *byte != expected[at % 8]);
        (all.clone().position(|damaged| damaged), all.rposition(|damaged| damaged), len)
    });
    match (back.0, front.1) {
        (Some(distance), _) => Fault::Overrun { index, distance },
        (None, last) => {
            let distance = front.2 - last.expect("expected damage on one side");
            Fault::Underrun { index, distance }
        }
    }
}

/// Fills the data of slot `index`, whose object is gone, with poison.
pub(super) fn poison(arena: &Arena, index: u32) {
    // SAFETY: the slot holds no object, so no object owns its `size` bytes.
    unsafe { arena.at(index).as_ptr().write_bytes(POISON, arena.size()) };
}

/// Checks that the poison of slot `index` and the canaries around it are unchanged.
pub(super) fn look_inside(arena: &Arena, index: u32) -> Result<(), Fault> {
    // SAFETY: the bytes were filled by `poison` and hold no object.
    let bytes = unsafe { slice::from_raw_parts(arena.at(index).as_ptr(), arena.size()) };
    if !is_filled(bytes, u64::from_ne_bytes([POISON; 8])) {
        let offset = bytes.iter().position(|byte| *byte != POISON).expect("one byte differs");
        return Err(Fault::WriteAfterFree { index, offset });
    }
    look_around(arena, index)
}

/// Whether `bytes` repeat `word`, in little-endian order. The loop compares all bytes before it
/// decides, which lets the compiler vectorise it.
#[inline]
fn is_filled(bytes: &[u8], word: u64) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let differ = words.iter().fold(0, |seen, found| seen | (u64::from_le_bytes(*found) ^ word));
    differ == 0 && *rest == word.to_le_bytes()[..rest.len()]
}

/// A guarded pool's record of faults, and of the lines that put the objects there.
pub(super) struct Watch {
    pub(super) guard: Guard,
    on_fault: Option<fn(&Report)>,
    /// By slot, for its last guarded object.
    sites: Vec<Option<&'static Location<'static>>>,
    kept: Vec<Report>,
    /// The number of faults found, kept or not.
    found: u64,
}

impl Watch {
    pub(super) fn new(plan: &Plan) -> Watch {
        let (guard, on_fault) = (plan.guard, plan.on_fault);
        Watch { guard, on_fault, sites: Vec::new(), kept: Vec::new(), found: 0 }
    }

    /// Records the line that put the object in slot `index`.
    pub(super) fn sign(&mut self, index: u32, by: &'static Location<'static>) {
        let index = index as usize;
        if self.sites.len() <= index {
            self.sites.resize(index + 1, None);
        }
        self.sites[index] = Some(by);
    }

    /// Keeps and reports a fault.
    pub(super) fn tell(&mut self, report: Report) {
        self.found += 1;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(report);
        }
        if let Some(on_fault) = self.on_fault {
            on_fault(&report);
        }
    }

    pub(super) fn put_by(&self, index: u32) -> Option<&'static Location<'static>> {
        self.sites.get(index as usize).copied().flatten()
    }

    pub(super) fn kept(&self) -> &[Report] {
        &self.kept
    }

    pub(super) fn found(&self) -> u64 {
        self.found
    }
}
