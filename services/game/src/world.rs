//! The shared state: positions, routes, and the rest of the tick's search budget.
//!
//! Only a session's steps and the tick write its seat, and both run on the same worker. Helper
//! threads touch only the budget. The fields are atomic because the memory may be shared between
//! processes, not because threads race.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use seam::{Dead, SessionId, Share};

use super::SEATS;
use super::packet::{Bye, Moved, NAME_MAX, Place, Role, clipped};
use echo::roster::Roster;

/// The maximum number of stored turns of a route; a client that goes further asks again at the
/// last.
pub(super) const TURNS_MAX: usize = 512;

/// The shared state.
pub struct World {
    tick: AtomicU64,
    /// Cells that searches may still expand before the next tick.
    budget: AtomicI64,
    /// Cells expanded since the start.
    searched: AtomicU64,
    /// Searchers lent at the last tick.
    searchers: AtomicU64,
    refused: [AtomicU64; 5],
    pub(super) roster: Roster<SEATS>,
    seats: [Seat; SEATS],
}

struct Seat {
    /// The session's id once it has joined; 0 if free.
    id: AtomicU64,
    /// 1 for a spectator.
    role: AtomicU32,
    at: AtomicU32,
    /// The number of turns of the route, and the index of the next one.
    turns: AtomicU32,
    next: AtomicU32,
    way: [AtomicU32; TURNS_MAX],
    name: [AtomicU64; NAME_MAX / 8],
}

// SAFETY: atomics only, of which zero is a valid value.
unsafe impl Share for World {
    fn heal(&self, dead: Dead) {
        self.roster.heal(dead.worker());
        for seat in &self.seats {
            let bits = seat.id.load(Ordering::Acquire);
            if bits != 0 && SessionId::from_bits(bits).shard() == dead.worker().slot() {
                seat.id.store(0, Ordering::Release);
            }
        }
    }
}

/// A joined session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    pub id: SessionId,
    pub role: Role,
    pub at: Place,
    pub name: String,
}

impl World {
    /// Marks the oldest session to be closed; returns its id.
    pub fn dismiss_first(&self) -> Option<SessionId> {
        self.roster.call_first()
    }

    /// How many connections were closed for this reason.
    pub fn refused(&self, why: Bye) -> u64 {
        self.refused[why as usize].load(Ordering::Relaxed)
    }

    /// Ticks so far.
    pub fn ticks(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Cells expanded so far.
    pub fn searched(&self) -> u64 {
        self.searched.load(Ordering::Relaxed)
    }

    /// Searchers that the pool had lent at the last tick.
    pub fn searchers_used(&self) -> u64 {
        self.searchers.load(Ordering::Relaxed)
    }

    pub(super) fn note_searchers(&self, used: usize) {
        self.searchers.store(used as u64, Ordering::Relaxed);
    }

    /// Joined sessions.
    pub fn joined(&self) -> usize {
        self.ids().count()
    }

    pub(super) fn count(&self, why: Bye) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes up to `most` cells from this tick's budget; 0 if it is spent.
    pub(super) fn grant(&self, most: u32) -> u32 {
        let most = i64::from(most);
        let had = self.budget.fetch_sub(most, Ordering::Relaxed);
        let granted = had.clamp(0, most);
        // Returns what was not available.
        self.budget.fetch_add(most - granted, Ordering::Relaxed);
        self.searched.fetch_add(granted as u64, Ordering::Relaxed);
        granted as u32
    }

    /// A participant takes the seat that the roster gave it.
    pub(super) fn seat(&self, seat: u32, participant: &Participant) {
        let Some(it) = self.seats.get(seat as usize) else { return };
        it.role.store(u32::from(participant.role == Role::Spectator), Ordering::Relaxed);
        it.at.store(packed(participant.at), Ordering::Relaxed);
        it.turns.store(0, Ordering::Relaxed);
        let mut name = [0; NAME_MAX];
        let text = clipped(&participant.name, NAME_MAX);
        name[..text.len()].copy_from_slice(text.as_bytes());
        for (word, bytes) in it.name.iter().zip(name.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        it.id.store(participant.id.bits(), Ordering::Release);
    }

    pub(super) fn free(&self, seat: u32) {
        if let Some(seat) = self.seats.get(seat as usize) {
            seat.id.store(0, Ordering::Release);
        }
    }

    pub(super) fn participants(&self) -> impl Iterator<Item = Participant> + '_ {
        self.seats.iter().filter_map(Seat::participant)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        let bits = self.seats.iter().map(|seat| seat.id.load(Ordering::Acquire));
        bits.filter(|&bits| bits != 0).map(SessionId::from_bits)
    }

    /// The participant with this id, if it is here.
    pub(super) fn find(&self, id: u64) -> Option<SessionId> {
        self.ids().find(|found| found.bits() == id)
    }

    pub(super) fn place(&self, seat: u32) -> Place {
        let found = self.seats.get(seat as usize).map(|seat| seat.at.load(Ordering::Relaxed));
        unpacked(found.unwrap_or(0))
    }

    pub(super) fn halt(&self, seat: u32) {
        self.send(seat, &[]);
    }

    /// Sends the participant in a seat on a route whose first turn is its position; returns whether
    /// the route was cut.
    pub(super) fn send(&self, seat: u32, turns: &[Place]) -> bool {
        let Some(seat) = self.seats.get(seat as usize) else { return false };
        let kept = turns.len().min(TURNS_MAX);
        for (slot, turn) in seat.way.iter().zip(turns) {
            slot.store(packed(*turn), Ordering::Relaxed);
        }
        seat.next.store(1, Ordering::Relaxed);
        seat.turns.store(kept as u32, Ordering::Release);
        kept < turns.len()
    }

    /// Advances the world by one tick: refills the budget, moves every walker one step, and returns
    /// the tick's number and those that moved.
    pub(super) fn advance(&self, budget: u32) -> (u32, Vec<Moved>) {
        self.budget.store(i64::from(budget), Ordering::Relaxed);
        let tick = self.tick.fetch_add(1, Ordering::Relaxed) + 1;
        (tick as u32, self.seats.iter().filter_map(Seat::advance).collect())
    }
}

impl Seat {
    fn participant(&self) -> Option<Participant> {
        let bits = self.id.load(Ordering::Acquire);
        if bits == 0 {
            return None;
        }
        let words = self.name.iter().flat_map(|it| it.load(Ordering::Relaxed).to_le_bytes());
        let name: Vec<u8> = words.take_while(|&byte| byte != 0).collect();
        Some(Participant {
            id: SessionId::from_bits(bits),
            role: match self.role.load(Ordering::Relaxed) {
                0 => Role::Player,
                _ => Role::Spectator,
            },
            at: unpacked(self.at.load(Ordering::Relaxed)),
            // The name was valid text when it was written.
            name: String::from_utf8_lossy(&name).into_owned(),
        })
    }

    /// One step towards the next turn, if there is one.
    fn advance(&self) -> Option<Moved> {
        let id = self.id.load(Ordering::Acquire);
        let (turns, next) = (self.turns.load(Ordering::Acquire), self.next.load(Ordering::Relaxed));
        if id == 0 || next >= turns {
            return None;
        }
        let at = unpacked(self.at.load(Ordering::Relaxed));
        let to = unpacked(self.way[next as usize].load(Ordering::Relaxed));
        let step = |from: u16, to: u16| {
            from.saturating_add_signed((to > from) as i16 - (to < from) as i16)
        };
        let at = (step(at.0, to.0), step(at.1, to.1));
        self.at.store(packed(at), Ordering::Relaxed);
        if at == to {
            self.next.store(next + 1, Ordering::Relaxed);
        }
        Some(Moved { id, at })
    }
}

fn packed((x, y): Place) -> u32 {
    u32::from(x) | u32::from(y) << 16
}

fn unpacked(bits: u32) -> Place {
    (bits as u16, (bits >> 16) as u16)
}
