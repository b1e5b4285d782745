//! Limits on the environment, decided before any outcome is known.
//!
//! A gate tests the machine, never the server: a condition that a slow server could cause is no
//! gate. So CPU pressure is recorded but not gated (sixteen processes on one core *are* CPU
//! pressure), retransmitted SYNs are excluded from the retransmissions (a full accept queue causes
//! them), and a gate that cannot be read is unknown, never passed. One gate has no limit
//! and reads the report itself: sums that contradict each other, which no server can cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits on the environment. A trial outside them counts, because its neighbours suffered alike,
/// and the report says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gates {
    /// Share of the machine's time that the hypervisor took, 0 to 1.
    pub steal_max: f64,
    /// Share of the machine's time that processes outside the trial took, 0 to 1.
    pub foreign_max: f64,
    /// The limit on a step of the wall clock against the monotonic clock, milliseconds.
    pub clock_step_ms_max: f64,
    /// The limit on the wake-up delay of a sleeping thread, milliseconds.
    pub hiccup_ms_max: f64,
    /// Share of the trial in which some task waited for memory (PSI), 0 to 1.
    pub memory_pressure_max: f64,
    /// Share of the trial in which some task waited for a disk (PSI), 0 to 1.
    pub io_pressure_max: f64,
    /// TCP segments sent again on this machine, without SYNs and loss probes.
    pub retransmits_max: u64,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates {
            steal_max: 0.01,
            foreign_max: 0.05,
            clock_step_ms_max: 20.0,
            hiccup_ms_max: 20.0,
            memory_pressure_max: 0.01,
            io_pressure_max: 0.2,
            retransmits_max: 0,
        }
    }
}
