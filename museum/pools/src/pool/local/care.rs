//! Rare operations of a pool: finding slots, guarding them, retiring them.

use std::panic::Location;
use std::ptr::{self, NonNull};

use super::super::guard;
use super::super::{Fault, Handle, Order, Place, Report, first_life};
use super::table::{Chain, EACH, End, Meta, WATCHED};
use super::{BARE, GUARDED, POISONED, Pool, unwatched};

impl<T> Pool<T> {
    /// Checks all canaries and all poison and reports damage as faults. Returns the number of
    /// faults so far, found now or before.
    pub fn patrol(&mut self) -> u64 {
        for index in 0..self.table.len() {
            let is_live = self.table.get(index).is_some_and(Meta::is_live);
            let found = match (is_live, self.marks[index as usize]) {
                (true, marks) if marks & GUARDED != 0 => guard::look_around(&self.arena, index),
                (false, marks) if marks & POISONED != 0 => guard::look_inside(&self.arena, index),
                _ => Ok(()),
            };
            if let Err(fault) = found {
                self.tell(fault, index);
                self.mend(index);
            }
        }
        self.faults_found()
    }

    /// Returns the memory of free slots to the heap, with [`crate::Backing::List`]; returns the
    /// number of slots. They stay usable and allocate again on demand.
    pub fn trim(&mut self) -> usize {
        self.release_quarantine();
        let quick = std::mem::replace(&mut self.quick, ptr::null_mut());
        let mut trimmed = 0;
        for mut free in [Chain::from(quick), std::mem::replace(&mut self.chain, Chain::EMPTY)] {
            // SAFETY: the slots are those of the table.
            while let Some(meta) = unsafe { free.pop() } {
                let index = index_of(meta);
                let marks = self.marks[index as usize];
                // A damaged slot keeps its memory, so that the damage is
                // reported when it is used again.
                let is_sound =
                    marks & POISONED == 0 || guard::look_inside(&self.arena, index).is_ok();
                if marks & BARE == 0 && is_sound && self.arena.give_back(index) {
                    self.marks[index as usize] = BARE;
                    trimmed += 1;
                }
                // In the former order.
                // SAFETY: as above.
                unsafe { self.chain.push(meta, End::Back) };
            }
        }
        trimmed
    }

    /// A free slot in no chain, and the life that begins there.
    #[cold]
    #[inline(never)]
    pub(super) fn find_slot(
        &mut self,
        by: &'static Location<'static>,
    ) -> Option<(NonNull<Meta>, u64)> {
        let Some(meta) = self.free_slot() else {
            self.refused += 1;
            return None;
        };
        let index = index_of(meta);
        let is_due = matches!(self.unwatched, 0 | u64::MAX);
        let chosen = is_due && self.watch.is_some();
        if let Some(watch) = self.watch.as_mut().filter(|_| chosen) {
            self.unwatched = unwatched(watch.guard);
            watch.sign(index, by);
            guard::fence(&self.arena, index);
        } else if !is_due {
            self.unwatched -= 1;
        }
        self.marks[index as usize] = if chosen { GUARDED } else { 0 };
        let slot = meta.as_ptr();
        // SAFETY: a slot of the table, and `self` is borrowed for writing.
        unsafe {
            let life = (*slot).life;
            (*slot).life |= if chosen || self.order == Order::Fifo { WATCHED } else { 0 };
            Some((meta, life))
        }
    }

    /// A slot with memory and without damage, from any source.
    fn free_slot(&mut self) -> Option<NonNull<Meta>> {
        loop {
            if let Some(meta) = NonNull::new(self.quick) {
                // SAFETY: a slot of the table.
                self.quick = unsafe { meta.as_ref() }.next;
                return Some(meta);
            }
            let carved = self.table.len();
            if (self.fresh_first || self.chain.is_empty()) && carved < self.capacity {
                self.fresh_first &= carved + 1 < self.capacity;
                return Some(self.carve(carved));
            }
            if self.chain.is_empty() {
                self.release_quarantine();
            }
            // SAFETY: the slots are those of the table.
            let meta = unsafe { self.chain.pop() }?;
            let index = index_of(meta);
            let marks = self.marks[index as usize];
            if marks & BARE != 0 {
                self.arena.carve(index);
                self.marks[index as usize] = 0;
                // SAFETY: a slot of the table, and `self` is borrowed for writing.
                unsafe { (*meta.as_ptr()).data = self.arena.at(index) };
            }
            if marks & POISONED == 0 {
                return Some(meta);
            }
            match guard::look_inside(&self.arena, index) {
                Ok(()) => return Some(meta),
                Err(fault) => self.retire(fault, index),
            }
        }
    }

    /// A slot that was never used.
    fn carve(&mut self, index: u32) -> NonNull<Meta> {
        self.arena.carve(index);
        self.marks.push(0);
        self.table.push(Meta {
            life: first_life(self.tag),
            data: self.arena.at(index),
            next: ptr::null_mut(),
            place: Place::new(self.tag, index),
        })
    }

    /// Ends the life of an object that needs a check, and checks its canaries; any other handle is
    /// a fault. The object still lies there.
    #[cold]
    #[inline(never)]
    pub(super) fn end_watched(&mut self, handle: Handle<T>) -> Result<(), Fault> {
        let index = handle.index();
        match self.table.get_mut(index) {
            Some(meta) if meta.life == handle.life | WATCHED => {
                meta.life = handle.life + EACH;
                meta.next = ptr::null_mut();
            }
            _ => return Err(self.why_not(handle)),
        }
        if self.marks[index as usize] & GUARDED == 0 {
            return Ok(());
        }
        let seen = guard::look_around(&self.arena, index);
        if let Err(fault) = seen {
            self.retire(fault, index);
        }
        seen
    }

    /// Frees a slot that needs a check: one that was guarded is poisoned
    /// and kept out of use for a while.
    #[cold]
    #[inline(never)]
    pub(super) fn reap(&mut self, index: u32) {
        if self.marks[index as usize] & GUARDED == 0 {
            return self.push(index);
        }
        guard::poison(&self.arena, index);
        self.marks[index as usize] = POISONED;
        self.quarantine.push_back(index);
        if self.quarantine.len() > self.quarantine_max
            && let Some(oldest) = self.quarantine.pop_front()
        {
            self.push(oldest);
        }
    }

    /// Puts a carved slot that is in no chain into the chain of slots that need a check.
    fn push(&mut self, index: u32) {
        let end = if self.order == Order::Lifo { End::Front } else { End::Back };
        let meta =
            self.table.at(Place::new(self.tag, index)).expect("expected a slot that was carved");
        // SAFETY: the slots are those of the table.
        unsafe { self.chain.push(meta, end) };
    }

    fn release_quarantine(&mut self) {
        while let Some(index) = self.quarantine.pop_front() {
            self.push(index);
        }
    }

    /// Rewrites the canaries and poison of a slot, so that one fault is reported once.
    fn mend(&mut self, index: u32) {
        if !self.table.get(index).is_some_and(Meta::is_live) {
            guard::poison(&self.arena, index);
        }
        guard::fence(&self.arena, index);
    }

    /// Reports a fault and retires its slot.
    fn retire(&mut self, fault: Fault, index: u32) {
        self.retired += 1;
        self.tell(fault, index);
        self.marks[index as usize] = 0;
    }

    pub(super) fn tell(&mut self, fault: Fault, index: u32) -> Fault {
        let put_by = self.put_by(index);
        if let Some(watch) = &mut self.watch {
            watch.tell(Report { fault, put_by });
        }
        fault
    }

    /// The line that put the last object of slot `index` there, if that object was watched.
    pub(super) fn put_by(&self, index: u32) -> Option<&'static Location<'static>> {
        let was_watched = self.marks.get(index as usize)? & (GUARDED | POISONED) != 0;
        self.watch.as_ref().filter(|_| was_watched)?.put_by(index)
    }

    fn why_not(&mut self, handle: Handle<T>) -> Fault {
        let index = handle.index();
        let fault = match self.table.get(index) {
            _ if handle.tag() != self.tag => Fault::WrongPool { index },
            None => Fault::Unknown { index },
            Some(meta) if meta.life == handle.life + EACH && !meta.is_live() => {
                Fault::DoubleFree { index }
            }
            Some(_) => Fault::Stale { index },
        };
        self.tell(fault, index)
    }
}

/// The index of a slot of a table.
fn index_of(meta: NonNull<Meta>) -> u32 {
    // SAFETY: the address comes from the table.
    unsafe { meta.as_ref() }.place.index()
}
