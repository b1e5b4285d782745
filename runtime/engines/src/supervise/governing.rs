//! The governor, and the sums of the workers' measurements at its last look.

use std::time::Duration;

use memory::Slot;
use seam::Instant;

use crate::governor::{Governor, Measured, Mode};
use crate::shape::Shape;

/// The controller with the sums of its last look.
pub(super) struct Governing {
    pub governor: Governor,
    pub sums: Sums,
    pub looked: Instant,
}

/// Sums over all workers since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    carried: u64,
    pub refused: u64,
    inputs: u64,
    input_wait_ns: u64,
    measured: u64,
    wait_ns: u64,
    service_ns: u64,
}

impl Sums {
    pub fn add(self, slot: &Slot) -> Sums {
        Sums {
            carried: self.carried + slot.carried.read(),
            refused: self.refused + slot.requests_refused.read(),
            inputs: self.inputs + slot.inputs.read(),
            input_wait_ns: self.input_wait_ns + slot.input_wait_ns.read(),
            measured: self.measured + slot.measured.read(),
            wait_ns: self.wait_ns + slot.wait_ns.read(),
            service_ns: self.service_ns + slot.service_ns.read(),
        }
    }

    /// The measurements since `before`, `elapsed` ago.
    pub fn since(&self, before: &Sums, elapsed: Duration, peak: u64) -> Measured {
        let mean = |now: u64, then: u64, count: u64| {
            (count > 0).then(|| Duration::from_nanos(now.wrapping_sub(then) / count))
        };
        let measured = self.measured - before.measured;
        let inputs = mean(self.input_wait_ns, before.input_wait_ns, self.inputs - before.inputs);
        let waits = mean(self.wait_ns, before.wait_ns, measured);
        let wait = inputs.or(waits).map(|_| inputs.unwrap_or_default() + waits.unwrap_or_default());
        Measured {
            elapsed,
            done: self.carried - before.carried,
            refused: self.refused - before.refused,
            wait,
            service: mean(self.service_ns, before.service_ns, measured),
            peak,
        }
    }
}

/// The governor of a shape, if it has one.
pub(super) fn governing(shape: &Shape, now: Instant) -> Option<Governing> {
    let knobs = &shape.knobs;
    (knobs.overload.governor != Mode::Off).then(|| Governing {
        governor: Governor::new(
            knobs.overload.governor,
            knobs.overload.objective,
            sys::cpu::count(),
            now,
        ),
        sums: Sums::default(),
        looked: now,
    })
}
