//! The ways in which a program waits between two packets and a kernel rounds the wait: pure
//! arithmetic over the time since boot.
//!
//! A kernel of 2001 wakes sleepers at the ticks of its clock, a hundred a second, and first rounds
//! the wait to ticks. The direction of the rounding depends on the call (Linux 2.2, kernel/sched.c
//! and fs/select.c): `nanosleep` adds a tick so that no sleep is too short, `select` does not.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Ticks a second of the published machine.
pub const HZ: u32 = 100;

/// The way in which a program waits after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// `nanosleep(2)` of Linux 2.2, under `usleep(3)`: the wait in ticks, rounded up, and one more.
    Nanosleep,
    /// `select(2)` of Linux 2.2: the wait in ticks, rounded up.
    Select,
    /// Three and four ticks in turn: the result of a carried remainder, and the only plain reading
    /// of 35.0 s.
    Alternating,
    /// A wait that is not rounded, counted from the end of the last one.
    Relative,
    /// A wait until a moment that was fixed before the first packet.
    Absolute,
}

/// All of them, in the order of the page.
pub const RULES: [Rule; 5] =
    [Rule::Nanosleep, Rule::Alternating, Rule::Select, Rule::Relative, Rule::Absolute];

impl Rule {
    /// Its name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Nanosleep => "nanosleep, 100 Hz",
            Rule::Select => "select, 100 Hz",
            Rule::Alternating => "3 and 4 ticks",
            Rule::Relative => "relative, today",
            Rule::Absolute => "absolute, today",
        }
    }

    /// The time at which a program continues after it sent packet `index` (from 0) and called at
    /// `now`; it sent the first packet at `began`, and `gap` is the wait that it requests.
    pub fn wakes(self, index: u32, now: Duration, began: Duration, gap: Duration) -> Duration {
        let tick = Duration::from_secs(1) / HZ;
        let ticks = |time: Duration| (time.as_nanos() / tick.as_nanos()) as u32;
        let wait = gap.as_nanos().div_ceil(tick.as_nanos()) as u32;
        match self {
            Rule::Nanosleep => tick * (ticks(now) + wait + 1),
            Rule::Select => tick * (ticks(now) + wait),
            Rule::Alternating => tick * (ticks(now) + wait + index % 2),
            Rule::Relative => now + gap,
            Rule::Absolute => (began + gap * (index + 1)).max(now),
        }
    }

    /// The duration of `packets` packets, in virtual time: each costs `work`, and the first is sent
    /// at `phase` of a tick. A program that sleeps does so after its last packet too, as loops do;
    /// one that waits for a point in time has none left to wait for.
    pub fn elapsed(self, packets: u32, gap: Duration, work: Duration, phase: Duration) -> Duration {
        let began = phase;
        let mut now = began;
        for index in 0..packets {
            now += work;
            if self != Rule::Absolute || index + 1 < packets {
                now = self.wakes(index, now, began, gap);
            }
        }
        now - began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(30);
    const WORK: Duration = Duration::from_micros(10);

    fn seconds(rule: Rule, work: Duration, phase_ms: u64) -> f64 {
        rule.elapsed(1000, GAP, work, Duration::from_millis(phase_ms)).as_secs_f64()
    }

    #[test]
    fn the_published_times_are_roundings() {
        for phase in [0, 3, 9] {
            let short = phase as f64 / 1000.0;
            let near = |rule, wanted: f64| {
                let found = seconds(rule, WORK, phase);
                assert!((found - (wanted - short)).abs() < 1e-9, "{rule:?} at {phase}: {found}");
            };
            near(Rule::Nanosleep, 40.0);
            near(Rule::Alternating, 35.0);
            near(Rule::Select, 30.0);
        }
        assert!((seconds(Rule::Relative, WORK, 0) - 30.01).abs() < 1e-9);
        assert!((seconds(Rule::Absolute, WORK, 0) - 29.970_01).abs() < 1e-9);
    }

    #[test]
    fn what_a_packet_costs_cannot_be_seen_below_a_tick() {
        for rule in [Rule::Nanosleep, Rule::Alternating, Rule::Select] {
            let cheap = seconds(rule, Duration::from_nanos(1), 0);
            assert_eq!(cheap, seconds(rule, Duration::from_micros(9_999), 0), "{rule:?}");
            assert!(seconds(rule, Duration::from_millis(11), 0) > cheap + 9.0, "{rule:?}");
        }
    }
}
