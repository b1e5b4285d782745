//! A pure controller of the number of processes: counts go in, a decision to start or retire comes
//! out.
//!
//! Spare workers are counted one by one, but come and go by the process: `size` of them at a time,
//! which is 1 under prefork. If the band between the minimum and the maximum of spare workers is
//! about as wide as a process, a load that wobbles by one worker starts and ends whole processes.
//! So the width of the band matters more than the speed of any step.
//!
//! Two policies share the same [`Census`] and the same [`Terms`]. [`Policy::Apache`] does exactly
//! what Apache's worker MPM does once a second (`perform_idle_server_maintenance`, worker.c);
//! [`Policy::Damped`] is our own. This module starts no process, signals none and never waits.

mod apache;
mod damped;
mod terms;

use seam::Instant;

use crate::axes::words;

use self::apache::Apache;
use self::damped::Damped;
use self::terms::hold;
pub use self::terms::{Act, Census, Terms, Verdict};

/// The policy that decides the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// As many as at the start, always.
    Static,
    /// Apache's rule: one check each second; too few spare workers fork 1, 2, 4 up to 32 processes,
    /// too many end one.
    Apache,
    /// A band that is never narrower than two processes and twice the spread of the load. A deficit
    /// is filled at once; a surplus must last for a while before processes retire.
    Damped,
}

words!(Policy, Static = "static", Apache = "apache", Damped = "damped");

/// The controller.
#[derive(Clone, Debug)]
pub struct Spare {
    terms: Terms,
    rule: Rule,
    next: Instant,
}

#[derive(Clone, Debug)]
enum Rule {
    Apache(Apache),
    Damped(Damped),
}

impl Spare {
    /// A controller whose first check is at `now`; `None` where the policy changes nothing.
    pub fn new(policy: Policy, terms: Terms, now: Instant) -> Option<Spare> {
        let rule = match policy {
            Policy::Static => return None,
            Policy::Apache => Rule::Apache(Apache::default()),
            Policy::Damped => Rule::Damped(Damped::new(now)),
        };
        Some(Spare { terms: terms.widened(), rule, next: now })
    }

    /// The terms in force.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Puts other terms in force.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = terms.widened();
    }

    /// The time of the next check.
    pub fn wakes_at(&self) -> Instant {
        self.next
    }

    /// Checks, if the time has come; otherwise it holds.
    pub fn look(&mut self, now: Instant, census: &Census) -> Verdict {
        if now < self.next {
            return hold("no check is due");
        }
        let verdict = match &mut self.rule {
            Rule::Apache(apache) => {
                self.next = now + apache::EVERY;
                apache.judge(&self.terms, census)
            }
            Rule::Damped(damped) => {
                self.next = now + damped::EVERY;
                damped.judge(&self.terms, census, now)
            }
        };
        debug_assert!(match verdict.act {
            Act::Hold => true,
            Act::Spawn(count) => (1..=self.terms.vacant(census)).contains(&count),
            Act::Retire(count) => (1..=census.processes - census.retiring).contains(&count),
        });
        verdict
    }
}

#[cfg(test)]
mod tests;
