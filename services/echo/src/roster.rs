//! The sessions in order of arrival, in memory that all workers share, so that an operator can end
//! the oldest.
//!
//! Only a session's own step can end it, and an idle session is not stepped. So the operator marks
//! the session's seat, and a session checks its seat at every step and every [`PULSE`]. A session
//! without a seat cannot be ended in this way.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use seam::{SessionId, WorkerId};

/// How often a session checks its seat.
pub const PULSE: Duration = Duration::from_millis(250);

/// The bit that marks a session to be closed. Session ids leave the top four bits free.
const CALLED: u64 = 1 << 63;

/// Seats for `N` sessions; all-zero bytes are an empty roster.
pub struct Roster<const N: usize> {
    /// The number of sessions that have entered so far.
    seated: AtomicU64,
    seats: [Seat; N],
}

struct Seat {
    /// The session's id, with [`CALLED`] if it is to end; 0 if free.
    id: AtomicU64,
    /// The number of sessions that entered before it.
    order: AtomicU64,
}

impl<const N: usize> Roster<N> {
    /// Gives a session a seat; `None` if all are taken. Takes time proportional to the taken seats
    /// before the first free one.
    pub fn enter(&self, id: SessionId) -> Option<u32> {
        for (at, seat) in self.seats.iter().enumerate() {
            let free = seat.id.load(Ordering::Relaxed) == 0;
            let took = || {
                seat.id.compare_exchange(0, id.bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if free && took() {
                seat.order.store(self.seated.fetch_add(1, Ordering::Relaxed), Ordering::Release);
                return Some(at as u32);
            }
        }
        None
    }

    /// Frees the seat of a session.
    pub fn leave(&self, seat: u32, id: SessionId) {
        let Some(seat) = self.seats.get(seat as usize) else { return };
        let _ = seat.id.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |bits| {
            (bits & !CALLED == id.bits()).then_some(0)
        });
    }

    /// Whether the session in a seat is marked to be closed.
    pub fn is_called(&self, seat: u32, id: SessionId) -> bool {
        let found = self.seats.get(seat as usize).map(|seat| seat.id.load(Ordering::Acquire));
        found == Some(id.bits() | CALLED)
    }

    /// Marks the oldest session that is not marked yet; returns its id.
    pub fn call_first(&self) -> Option<SessionId> {
        loop {
            let taken = self.seats.iter().filter(|seat| {
                let bits = seat.id.load(Ordering::Acquire);
                bits != 0 && bits & CALLED == 0
            });
            let first = taken.min_by_key(|seat| seat.order.load(Ordering::Acquire))?;
            let bits = first.id.load(Ordering::Acquire);
            let called = bits | CALLED;
            let free = bits == 0 || bits == called;
            // A session that has left in the meantime needs no mark.
            if !free
                && first
                    .id
                    .compare_exchange(bits, called, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return Some(SessionId::from_bits(bits));
            }
        }
    }

    /// How many seats are taken.
    pub fn len(&self) -> usize {
        self.seats.iter().filter(|seat| seat.id.load(Ordering::Relaxed) != 0).count()
    }

    /// True if no seat is taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees the seats of the sessions of the worker `dead`.
    pub fn heal(&self, dead: WorkerId) {
        for seat in &self.seats {
            let bits = seat.id.load(Ordering::Acquire);
            if bits != 0 && SessionId::from_bits(bits & !CALLED).shard() == dead.slot() {
                let _ = seat.id.compare_exchange(bits, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Roster<3> {
        let seat = || Seat { id: AtomicU64::new(0), order: AtomicU64::new(0) };
        Roster { seated: AtomicU64::new(0), seats: [seat(), seat(), seat()] }
    }

    fn id(index: u32) -> SessionId {
        SessionId::new(5, index, 1)
    }

    #[test]
    fn the_first_who_came_is_the_first_who_is_called() {
        let roster = empty();
        let [a, b] = [1, 2].map(|at| roster.enter(id(at)).expect("a free seat"));
        roster.leave(a, id(1));
        // Its seat is the first, but its new owner arrived last.
        let c = roster.enter(id(3)).expect("a free seat");
        assert_eq!((a, roster.call_first()), (c, Some(id(2))));
        assert!(roster.is_called(b, id(2)) && !roster.is_called(c, id(3)));
        assert_eq!((roster.call_first(), roster.call_first()), (Some(id(3)), None));
        roster.leave(b, id(2));
        assert!(!roster.is_called(b, id(2)));
        assert_eq!(roster.len(), 1);
    }

    #[test]
    fn a_full_roster_seats_nobody_and_a_dead_worker_leaves_no_one_behind() {
        let roster = empty();
        assert!((0..3).all(|at| roster.enter(id(at)).is_some()));
        assert_eq!(roster.enter(id(9)), None);
        roster.leave(0, id(7));
        assert_eq!(roster.len(), 3, "a seat is freed by its owner only");
        roster.heal(WorkerId::new(4, 1));
        assert_eq!(roster.len(), 3);
        roster.heal(WorkerId::new(5, 1));
        assert!(roster.is_empty());
    }
}
