//! Apache's rule (`perform_idle_server_maintenance`, server/mpm/worker/worker.c, 2.0.45 and 2.4),
//! unchanged: a look a second, exponential growth, one process less at a time.

use std::time::Duration;

use super::{Act, Census, Terms, Verdict, hold};

/// A look a second (`SCOREBOARD_MAINTENANCE_INTERVAL`).
pub const EVERY: Duration = Duration::from_secs(1);
/// The most processes that one look starts (`MAX_SPAWN_RATE`).
const RATE_MAX: usize = 32;

/// The state that one look keeps for the next.
#[derive(Clone, Debug)]
pub struct Apache {
    /// Processes that the next look may start (`idle_spawn_rate`).
    rate: usize,
}

impl Default for Apache {
    fn default() -> Apache {
        Apache { rate: 1 }
    }
}

impl Apache {
    pub fn judge(&mut self, terms: &Terms, census: &Census) -> Verdict {
        let rate = std::mem::replace(&mut self.rate, 1);
        if census.idle > terms.spare_max {
            // Apache writes a byte into the pipe of death: whichever process reads it first ends.
            return match census.processes > census.retiring {
                true => Verdict { act: Act::Retire(1), why: "more idle than the most spare" },
                false => hold("all are retiring already"),
            };
        }
        if census.idle >= terms.spare_min {
            return hold("within the band");
        }
        let count = terms.vacant(census).min(rate);
        if count == 0 {
            return hold("fewer idle than the least spare, and no process may be added");
        }
        self.rate = (rate * 2).min(RATE_MAX);
        Verdict { act: Act::Spawn(count), why: "fewer idle than the least spare" }
    }
}
