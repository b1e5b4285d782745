//! The limit of requests that all workers together execute at once; the governor sets it.
//!
//! Workers take and give back places by atomic additions, and each notes its own places in its
//! slot, so that the supervisor frees those of a worker that died.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Slot;

/// The interval at which one request of the server is measured closely, in ns: a measurement takes
/// about 10 us, so half a percent of a core.
const MEASURE_NS: u64 = 2_000_000;

/// Places for requests. All zero: nothing is limited.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Throttle {
    limit: AtomicU64,
    age_max_ns: AtomicU64,
    refuses: AtomicU32,
    cores: AtomicU32,
    running: AtomicI64,
    peak: AtomicI64,
    measure_at_ns: AtomicU64,
}

impl Throttle {
    /// Sets the number of places, and the age from which waiting input is refused. Only the
    /// supervisor may call it.
    pub fn set(&self, limit: u64, age_max: Duration) {
        let age_max_ns = u64::try_from(age_max.as_nanos()).unwrap_or(u64::MAX);
        self.age_max_ns.store(age_max_ns, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Whether requests are refused, or all executed and only counted; and the number of cores,
    /// above which requests wait for each other.
    pub fn begin(&self, refuses: bool, cores: usize) {
        self.refuses.store(u32::from(refuses), Ordering::Relaxed);
        self.cores.store(u32::try_from(cores).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Whether requests are refused above the limit.
    #[inline]
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed) != 0
    }

    /// The number of places.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether input that has waited for `age_ns` is too old.
    #[inline]
    #[must_use]
    pub fn is_old(&self, age_ns: u64) -> bool {
        age_ns > self.age_max_ns.load(Ordering::Relaxed)
    }

    /// Whether every place is taken.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        self.running.load(Ordering::Relaxed) >= i64::try_from(limit).unwrap_or(i64::MAX)
    }

    /// Whether as many requests as cores are executed, so that others may wait.
    #[inline]
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.running.load(Ordering::Relaxed) >= i64::from(self.cores.load(Ordering::Relaxed))
    }

    /// Takes a place for a request of the worker with `slot`, whether one is free or not; returns
    /// the number of places taken.
    #[inline]
    pub fn enter(&self, slot: &Slot) -> u64 {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        slot.running.add(1);
        if running > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(running, Ordering::Relaxed);
        }
        u64::try_from(running).unwrap_or(0)
    }

    /// Takes a place if one is free.
    #[inline]
    pub fn try_enter(&self, slot: &Slot) -> bool {
        let fits = self.enter(slot) <= self.limit() || !self.refuses();
        if !fits {
            self.leave(slot);
        }
        fits
    }

    /// Gives a place back.
    #[inline]
    pub fn leave(&self, slot: &Slot) {
        slot.running.sub(1);
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives the places of a worker that has ended back.
    pub(super) fn heal(&self, slot: &Slot) {
        let held = i64::try_from(slot.running.read()).unwrap_or(0);
        self.running.fetch_sub(held, Ordering::Relaxed);
        slot.running.set(0);
    }

    /// The most places taken at once since the last call, and those taken now.
    #[must_use]
    pub fn take_peak(&self) -> (u64, u64) {
        let now = self.running.load(Ordering::Relaxed);
        let peak = self.peak.swap(now, Ordering::Relaxed);
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        (count(peak.max(now)), count(now))
    }

    /// Whether the caller should measure its request closely: true for one caller each 2 ms.
    #[inline]
    pub fn claim_measurement(&self, now_ns: u64) -> bool {
        let due_ns = self.measure_at_ns.load(Ordering::Relaxed);
        let (next, order) = (now_ns + MEASURE_NS, Ordering::Relaxed);
        now_ns >= due_ns && self.measure_at_ns.compare_exchange(due_ns, next, order, order).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use seam::WorkerId;

    use crate::region::Region;

    use super::*;

    #[test]
    fn places_are_limited_and_those_of_the_dead_are_freed() {
        let board = Region::<super::super::Board>::alone(&[]);
        let sit = |at| board.sit(WorkerId::new(at, 1), sys::process::this());
        let (one, two, throttle) = (sit(0), sit(7), board.throttle());
        throttle.set(3, Duration::from_nanos(50));
        throttle.begin(true, 2);
        let places = [one, two, two, one].map(|slot| throttle.try_enter(slot));
        assert_eq!((places, one.running.read()), ([true, true, true, false], 1));
        assert!(throttle.is_full() && throttle.is_loaded());
        assert!(throttle.is_old(51) && !throttle.is_old(50));
        board.heal(WorkerId::new(7, 1));
        assert_eq!((throttle.take_peak(), throttle.take_peak()), ((4, 1), (1, 1)));
        throttle.leave(one);
        assert_eq!((throttle.take_peak().1, throttle.is_loaded()), (0, false));
        throttle.begin(false, 2);
        throttle.set(0, Duration::ZERO);
        assert!(throttle.try_enter(one), "a governor that only advises refuses nothing");
        assert_eq!([5, 6, 2_000_005].map(|ns| throttle.claim_measurement(ns)), [true, false, true]);
    }
}
