//! The last look of the governor, and the measurements since.

use std::time::Duration;

use memory::Totals;
use seam::Instant;

use crate::governor::{Governor, Measured, Mode};
use crate::shape::Shape;

/// The controller with the sums of its last look.
pub(super) struct Governing {
    pub governor: Governor,
    pub sums: Totals,
    pub looked: Instant,
}

/// The measurements from `before` to `now`, in `elapsed`.
pub(super) fn measured(now: &Totals, before: &Totals, elapsed: Duration, peak: u64) -> Measured {
    let mean = |now: u64, then: u64, count: u64| {
        (count > 0).then(|| Duration::from_nanos(now.wrapping_sub(then) / count))
    };
    let measured = now.measured - before.measured;
    let inputs = mean(now.input_wait_ns, before.input_wait_ns, now.inputs - before.inputs);
    let waits = mean(now.wait_ns, before.wait_ns, measured);
    let wait = inputs.or(waits).map(|_| inputs.unwrap_or_default() + waits.unwrap_or_default());
    Measured {
        elapsed,
        done: now.carried - before.carried,
        refused: now.requests_refused - before.requests_refused,
        wait,
        service: mean(now.service_ns, before.service_ns, measured),
        peak,
    }
}

pub(super) fn governing(shape: &Shape, now: Instant) -> Option<Governing> {
    let knobs = &shape.knobs;
    (knobs.overload.governor != Mode::Off).then(|| Governing {
        governor: Governor::new(
            knobs.overload.governor,
            knobs.overload.objective,
            sys::cpu::count(),
            now,
        ),
        sums: Totals::default(),
        looked: now,
    })
}
