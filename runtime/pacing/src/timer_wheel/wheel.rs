//! A hashed timer wheel with slots of a millisecond.
//!
//! The cost of setting a timer does not grow with the number of timers (Varghese and Lauck, "Hashed
//! and Hierarchical Timing Wheels", SOSP 1987), and the timers of one slot expire together, which
//! makes a batch. A timer never expires early: its slot begins at or after its moment.

use seam::Instant;

pub const SLOT_NS: u64 = 1_000_000;
/// Slots of one round; a timer further away waits for its round.
const SLOTS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tick: u64,
    key: u32,
    stamp: u32,
}

/// Timers by slot.
#[derive(Debug)]
pub struct Wheel {
    slots: Vec<Vec<Entry>>,
    /// One bit for each non-empty slot.
    occupied: [u64; SLOTS / 64],
    served: u64,
    due: Vec<Entry>,
}

impl Wheel {
    /// An empty wheel that has served everything up to `now`.
    pub fn new(now: Instant) -> Wheel {
        let served = now.ns() / SLOT_NS;
        Wheel { slots: vec![Vec::new(); SLOTS], occupied: [0; SLOTS / 64], served, due: Vec::new() }
    }

    /// Adds a timer for `key` to the first slot that begins at or after `at` and was not served
    /// yet.
    pub fn insert(&mut self, at: Instant, key: u32, stamp: u32) {
        let tick = at.ns().div_ceil(SLOT_NS).max(self.served + 1);
        let slot = tick as usize % SLOTS;
        self.slots[slot].push(Entry { tick, key, stamp });
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Removes the timers of every slot that has begun by `now`, oldest first; returns their keys
    /// and stamps.
    pub fn advance(&mut self, now: Instant) -> impl Iterator<Item = (u32, u32)> + use<'_> {
        let last = now.ns() / SLOT_NS;
        // A stall of more than a round serves each slot once.
        let first = (self.served + 1).max((last + 1).saturating_sub(SLOTS as u64));
        for tick in first..=last {
            self.take_slot(tick as usize % SLOTS, last);
        }
        self.served = self.served.max(last);
        // After a stall there are several slots, and several rounds of one slot.
        if last > first {
            self.due.sort_by_key(|entry| entry.tick);
        }
        self.due.drain(..).map(|entry| (entry.key, entry.stamp))
    }

    fn take_slot(&mut self, slot: usize, last: u64) {
        if self.occupied[slot / 64] & 1 << (slot % 64) == 0 {
            return;
        }
        let due = &mut self.due;
        self.slots[slot].retain(|entry| {
            let stays = entry.tick > last;
            if !stays {
                due.push(*entry);
            }
            stays
        });
        if self.slots[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// When to advance next: the beginning of the next non-empty slot. That slot may hold only
    /// timers of a later round.
    pub fn next(&self) -> Option<Instant> {
        let start = (self.served + 1) as usize % SLOTS;
        // Starts at the word of the next slot, and reads that word again at the end for the bits
        // before.
        for step in 0..=SLOTS / 64 {
            let at = (start / 64 + step) % (SLOTS / 64);
            let mask = match step {
                0 => u64::MAX << (start % 64),
                _ if step == SLOTS / 64 => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[at] & mask;
            if bits != 0 {
                let slot = at * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                return Some(Instant::from_ns((self.served + 1 + ahead as u64) * SLOT_NS));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1000)
    }

    fn advance(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
        wheel.advance(now).map(|(key, _)| key).collect()
    }

    #[test]
    fn a_timer_is_never_early_and_late_by_a_slot_at_most() {
        let start = 123_456_789_012;
        let mut wheel = Wheel::new(at(start));
        for key in 0..5000 {
            wheel.insert(at(start + u64::from(key) * 777), key, 0);
        }
        let mut seen = 0;
        let mut now = start;
        while seen < 5000 {
            let next = wheel.next().expect("timers are left").ns() / 1000;
            now = next.max(now);
            for key in advance(&mut wheel, at(now)) {
                let due = start + u64::from(key) * 777;
                assert!((due..=due + 1000).contains(&now), "{key}: due {due}, came {now}");
                seen += 1;
            }
        }
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn after_a_stall_they_come_oldest_first() {
        let mut wheel = Wheel::new(at(0));
        for (key, ms) in [5000, 30, 7, 1024 + 7, 2900].into_iter().enumerate() {
            wheel.insert(at(ms * 1000), key as u32, 0);
        }
        assert_eq!(advance(&mut wheel, at(3_000_000)), [2, 1, 3, 4]);
        assert_eq!(advance(&mut wheel, at(4_999_000)), []);
        assert_eq!(advance(&mut wheel, at(5_000_000)), [0]);
    }

    #[test]
    fn what_is_past_comes_with_the_next_slot() {
        let mut wheel = Wheel::new(at(10_500));
        wheel.insert(at(3), 1, 9);
        assert_eq!(wheel.next(), Some(at(11_000)));
        assert_eq!(wheel.advance(at(11_000)).collect::<Vec<_>>(), [(1, 9)]);
        assert_eq!(advance(&mut wheel, at(11_000)), []);
    }
}
