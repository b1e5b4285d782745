//! Apache's rule (`perform_idle_server_maintenance`, server/mpm/worker/worker.c, 2.0.45 and 2.4),
//! unchanged: one check a second, exponential growth, retirement of one process at a time.

use std::time::Duration;

use super::terms::{Act, Census, Terms, Verdict, hold};

/// The interval between two checks (`SCOREBOARD_MAINTENANCE_INTERVAL`).
pub const EVERY: Duration = Duration::from_secs(1);
/// The maximum number of processes that one check starts (`MAX_SPAWN_RATE`).
const RATE_MAX: usize = 32;

/// The state kept from one check to the next.
#[derive(Clone, Debug)]
pub struct Apache {
    /// The number of processes that the next check may start (`idle_spawn_rate`).
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
            // Apache writes a byte into the pipe of death; whichever process reads it first ends.
            return match census.processes > census.retiring {
                true => Verdict { act: Act::Retire(1), why: "more idle workers than --spare-max" },
                false => hold("all are retiring already"),
            };
        }
        if census.idle >= terms.spare_min {
            return hold("within the band");
        }
        // Draining processes hold their places, as in Apache (AH00485, "scoreboard is full").
        let count = terms.processes_max.saturating_sub(census.processes).min(rate);
        if count == 0 {
            return hold("fewer idle workers than --spare-min, and no process may be added");
        }
        self.rate = (rate * 2).min(RATE_MAX);
        Verdict { act: Act::Spawn(count), why: "fewer idle workers than --spare-min" }
    }
}
