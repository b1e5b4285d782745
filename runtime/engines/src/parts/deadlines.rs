//! The wake-up times of sessions: a heap with lazy deletion.
//!
//! A session has at most one valid entry, the earliest. When that entry comes due and the session
//! now wants to be woken later, the entry is put back. So a deadline that moves with every request
//! costs a comparison, not a heap operation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seam::{Instant, SessionId};

/// The deadlines of one worker's sessions.
#[derive(Default)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, SessionId)>>,
}

impl Deadlines {
    /// Asks that `id` be woken at `wake`. `scheduled` is its valid entry, kept by the caller
    /// ([`Instant::NEVER`] if there is none).
    #[inline]
    pub fn ask(&mut self, id: SessionId, wake: Option<Instant>, scheduled: &mut Instant) {
        if let Some(wake) = wake
            && wake < *scheduled
        {
            *scheduled = wake;
            self.heap.push(Reverse((wake, id)));
        }
    }

    /// The earliest entry.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((wake, _))| *wake)
    }

    /// Takes out the next entry that has come by `now`. The caller compares it with the session's
    /// record, clears that record, and asks again if the session's deadline is later.
    pub fn due(&mut self, now: Instant) -> Option<(Instant, SessionId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_costs_an_entry() {
        let id = SessionId::new(0, 1, 1);
        let at = Instant::from_ns;
        let mut deadlines = Deadlines::default();
        let mut scheduled = Instant::NEVER;
        deadlines.ask(id, Some(at(50)), &mut scheduled);
        deadlines.ask(id, Some(at(70)), &mut scheduled);
        deadlines.ask(id, None, &mut scheduled);
        assert_eq!(deadlines.heap.len(), 1);
        deadlines.ask(id, Some(at(20)), &mut scheduled);
        assert_eq!(deadlines.due(at(19)), None);
        assert_eq!(deadlines.due(at(60)), Some((at(20), id)));
        assert_eq!(deadlines.due(at(60)), Some((at(50), id)), "stale, told by its time");
        assert_eq!(deadlines.due(at(60)), None);
    }
}
