//! The governor's share of the supervisor: it sums the workers' measurements, lets the pure
//! controller decide, and puts the limit in force.

use std::time::Duration;

use memory::{Phase, Slot};
use seam::Instant;

use super::{Crew, Supervisor};
use crate::governor::{Decision, EVERY, Governor, Measured, Mode};
use crate::shape::Shape;
use crate::status::{GovernorDecision, GovernorFacts};

/// The interval between looks at a server without connections.
const IDLE: Duration = Duration::from_millis(200);

/// The controller with the sums of its last look.
pub(super) struct Governing {
    pub governor: Governor,
    sums: Sums,
    looked: Instant,
}

/// Sums over all workers since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    carried: u64,
    refused: u64,
    inputs: u64,
    input_wait_ns: u64,
    measured: u64,
    wait_ns: u64,
    service_ns: u64,
}

impl Sums {
    fn add(self, slot: &Slot) -> Sums {
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
    fn since(&self, before: &Sums, elapsed: Duration, peak: u64) -> Measured {
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
    (knobs.governor != Mode::Off).then(|| Governing {
        governor: Governor::new(knobs.governor, knobs.objective, sys::cpu::count(), now),
        sums: Sums::default(),
        looked: now,
    })
}

impl<C: Crew> Supervisor<'_, C> {
    /// Lets the governor decide, if that is due.
    pub(super) fn govern(&mut self, now: Instant) {
        let board = self.common.board;
        let Some(this) = &mut self.governing else { return };
        if now < this.governor.wakes_at() || self.common.board.phase() > Phase::Leaving {
            return;
        }
        let sums = board.slots().fold(Sums::default(), Sums::add);
        let (peak, _) = board.throttle().take_peak();
        let seen = sums.since(&this.sums, now.since(this.looked), peak);
        (this.sums, this.looked) = (sums, now);
        let turned = this.governor.look(now, &seen);
        board.throttle().set(this.governor.limit(), this.governor.age_max());
        if board.is_idle() {
            this.governor.rest_until(now + IDLE);
        }
        if let Some(words) = turned {
            self.event_log.note(now, "governor", None, words, false);
        }
    }

    /// When the governor decides next.
    pub(super) fn governs_at(&self) -> Option<Instant> {
        let governor = self.governing.as_ref().map(|this| this.governor.wakes_at());
        governor.filter(|_| self.phase() <= Phase::Leaving)
    }

    /// The governor's state, for a sample.
    pub(super) fn governor(&self, now: Instant) -> Option<GovernorFacts> {
        let this = self.governing.as_ref()?;
        let governor = &this.governor;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let decision = |it: &Decision| GovernorDecision {
            ago_ns: ns(now.since(it.at)),
            rule: it.rule.to_string(),
            before: it.limit.0,
            after: it.limit.1,
            wait_ns: ns(it.wait),
            why: it.why.clone(),
        };
        Some(GovernorFacts {
            mode: governor.mode().to_string(),
            limit: governor.limit(),
            ceiling: governor.ceiling(),
            wait_ns: ns(governor.wait()),
            target_ns: ns(governor.target()),
            refused: this.sums.refused,
            decisions: governor.decisions().map(decision).collect(),
        })
    }
}

pub(super) fn clock() -> Instant {
    Instant::from_ns(sys::clock::now_ns())
}

const _: () = assert!(EVERY.as_millis() * 4 <= 200, "a step is answered within 200 ms");
