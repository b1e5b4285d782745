//! What a pool does seldom: finding slots, guarding them, giving them up.

use std::panic::Location;

use super::super::guard;
use super::super::{Fault, NONE, Report, first_life};
use super::{BARE, GUARDED, Meta, POISONED, Pool, WATCHED, unwatched};

impl<T> Pool<T> {
    /// Looks at all canaries and all poison, whatever they belong to; damage is told as faults.
    /// Returns how many faults there have been so far, found now or before.
    pub fn patrol(&mut self) -> u64 {
        for index in 0..self.meta.len() as u32 {
            let meta = &self.meta[index as usize];
            let found = match (meta.is_live(), meta.marks) {
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

    /// Gives the memory of free slots back to the heap, with [`crate::Backing::List`]; returns how
    /// many. The slots stay usable and take memory anew.
    pub fn trim(&mut self) -> usize {
        self.release_quarantine();
        let (mut index, mut trimmed) = (self.head, 0);
        while index != NONE {
            let meta = &mut self.meta[index as usize];
            // A damaged slot stays, so that its damage is told when it is used again.
            let is_sound =
                meta.marks & POISONED == 0 || guard::look_inside(&self.arena, index).is_ok();
            if meta.marks & BARE == 0 && is_sound && self.arena.give_back(index) {
                meta.marks = BARE;
                trimmed += 1;
            }
            index = meta.next;
        }
        self.bare += trimmed as u32;
        self.look_for_simple();
        trimmed
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find_slot(&mut self, by: &'static Location<'static>) -> Option<u32> {
        let Some(index) = self.free_slot() else {
            self.refused += 1;
            return None;
        };
        let Some(watch) = &mut self.watch else { return Some(index) };
        let chosen = self.unwatched == 0;
        self.unwatched = if chosen { unwatched(watch.guard) } else { self.unwatched - 1 };
        if chosen {
            watch.sign(index, by);
            guard::fence(&self.arena, index);
        }
        let meta = &mut self.meta[index as usize];
        meta.marks = if chosen { GUARDED } else { 0 };
        meta.life |= if chosen { WATCHED } else { 0 };
        Some(index)
    }

    /// A slot with memory and without damage, from wherever there is one.
    fn free_slot(&mut self) -> Option<u32> {
        loop {
            let carved = self.meta.len() as u32;
            if (self.fresh_first || self.head == NONE) && carved < self.capacity {
                self.arena.carve(carved);
                let data = self.arena.at(carved);
                self.meta.push(Meta { life: first_life(self.tag), data, next: NONE, marks: 0 });
                self.fresh_first &= carved + 1 < self.capacity;
                self.look_for_simple();
                return Some(carved);
            }
            if self.head == NONE {
                self.release_quarantine();
            }
            if self.head == NONE {
                return None;
            }
            let index = self.pop();
            let marks = self.meta[index as usize].marks;
            if marks & BARE != 0 {
                self.arena.carve(index);
                let meta = &mut self.meta[index as usize];
                (meta.data, meta.marks) = (self.arena.at(index), 0);
                self.bare -= 1;
                self.look_for_simple();
            }
            if marks & POISONED == 0 {
                return Some(index);
            }
            match guard::look_inside(&self.arena, index) {
                Ok(()) => return Some(index),
                Err(fault) => self.retire(fault, index),
            }
        }
    }

    /// Whether from now on a slot of the chain can be used without a look.
    fn look_for_simple(&mut self) {
        self.is_simple = self.watch.is_none() && !self.fresh_first && self.bare == 0;
    }

    /// Ends the life of a guarded object and looks at its canaries; whatever else the handle names
    /// is a fault.
    #[cold]
    #[inline(never)]
    pub(super) fn end_watched(&mut self, index: u32, tag: u32, life: u64) -> Result<(), Fault> {
        match self.meta.get_mut(index as usize) {
            Some(meta) if meta.life == life | WATCHED => {
                meta.life = life + 1;
            }
            _ => return Err(self.why_not(index, tag, life)),
        }
        let seen = guard::look_around(&self.arena, index);
        if let Err(fault) = seen {
            self.retire(fault, index);
        }
        seen
    }

    /// Poisons a guarded object's slot and keeps it out of use for a while.
    #[cold]
    #[inline(never)]
    pub(super) fn bury(&mut self, index: u32) {
        guard::poison(&self.arena, index);
        self.meta[index as usize].marks = POISONED;
        self.quarantine.push_back(index);
        if self.quarantine.len() > self.quarantine_max
            && let Some(oldest) = self.quarantine.pop_front()
        {
            self.push(oldest);
        }
    }

    fn release_quarantine(&mut self) {
        while let Some(index) = self.quarantine.pop_front() {
            self.push(index);
        }
    }

    /// Writes canaries and poison of a slot anew, so that one fault is told once.
    fn mend(&mut self, index: u32) {
        if !self.meta[index as usize].is_live() {
            guard::poison(&self.arena, index);
        }
        guard::fence(&self.arena, index);
    }

    /// Tells a fault and gives its slot up.
    fn retire(&mut self, fault: Fault, index: u32) {
        self.retired += 1;
        self.tell(fault, index);
        self.meta[index as usize].marks = 0;
    }

    pub(super) fn tell(&mut self, fault: Fault, index: u32) -> Fault {
        let put_by = self.put_by(index);
        if let Some(watch) = &mut self.watch {
            watch.tell(Report { fault, put_by });
        }
        fault
    }

    /// Who put the last object of slot `index` there, if that object was watched.
    pub(super) fn put_by(&self, index: u32) -> Option<&'static Location<'static>> {
        let meta = self.meta.get(index as usize)?;
        let was_watched = meta.marks & (GUARDED | POISONED) != 0;
        self.watch.as_ref().filter(|_| was_watched)?.put_by(index)
    }

    fn why_not(&mut self, index: u32, tag: u32, life: u64) -> Fault {
        let fault = match self.meta.get(index as usize) {
            _ if tag != self.tag => Fault::WrongPool { index },
            None => Fault::Unknown { index },
            Some(meta) if meta.life == life + 1 => Fault::DoubleFree { index },
            Some(_) => Fault::Stale { index },
        };
        self.tell(fault, index)
    }
}
