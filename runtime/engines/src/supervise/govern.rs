//! The governor's share of the supervisor: it sums the workers' measurements, lets the pure
//! controller decide, and puts the limit in force.

use std::time::Duration;

use memory::Phase;
use seam::Instant;

use super::crew::Crew;
use super::governing::measured;
use super::state::Supervisor;
use crate::governor::{Decision, EVERY};
use crate::status::{GovernorDecision, GovernorFacts};

/// The interval between looks at a server without connections.
const IDLE: Duration = Duration::from_millis(200);

impl<C: Crew> Supervisor<'_, C> {
    /// Lets the governor decide, if that is due.
    pub(super) fn govern(&mut self, now: Instant) {
        let board = self.common.board;
        let Some(this) = &mut self.governing else { return };
        if now < this.governor.next || self.common.board.phase() > Phase::Leaving {
            return;
        }
        let sums = board.totals();
        let (peak, _) = board.throttle().take_peak();
        let seen = measured(&sums, &this.sums, now.since(this.looked), peak);
        (this.sums, this.looked) = (sums, now);
        let turned = this.governor.look(now, &seen);
        board.throttle().set(this.governor.limit(), this.governor.age_max());
        if board.is_idle() {
            this.governor.next = now + IDLE;
        }
        if let Some(words) = turned {
            self.event_log.note(now, "governor", None, words, false);
        }
    }

    /// When the governor decides next.
    pub(super) fn governs_at(&self) -> Option<Instant> {
        let governor = self.governing.as_ref().map(|this| this.governor.next);
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
            mode: governor.mode.to_string(),
            limit: governor.limit(),
            ceiling: governor.ceiling(),
            wait_ns: ns(governor.wait),
            target_ns: ns(governor.target),
            refused: this.sums.requests_refused,
            decisions: governor.decisions.iter().map(decision).collect(),
        })
    }
}

const _: () = assert!(EVERY.as_millis() * 4 <= 200, "a step is answered within 200 ms");
