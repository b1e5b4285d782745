//! The other activity of the machine during a trial.
//!
//! Shares come from the clock ticks of `/proc/stat` over a whole trial. They are coarse (one tick
//! of two cores in a second is half a percent) but cover everything. Soft interrupts are excluded:
//! on loopback they are the race's own packets.

use super::Counters;
use super::hiccups::Hiccups;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{Duration, Instant, SystemTime};

/// The environment's activity during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Share of the machine's time that the hypervisor took, 0 to 1; unknown is absent.
    pub steal: Option<f64>,
    /// Share of the machine's time that other processes took, 0 to 1; unknown is absent.
    pub foreign: Option<f64>,
    /// Movement of the wall clock against the monotonic clock, milliseconds.
    pub clock_step_ms: f64,
    /// The greatest wake-up delay of a sleeping thread, milliseconds.
    pub hiccup_ms: Option<f64>,
    /// Share of the time in which some task waited for a processor (PSI), 0 to 1; no gate, because
    /// a server of many processes on one core is such pressure itself.
    pub cpu_pressure: Option<f64>,
    /// The share of the time in which some task waited for memory, 0 to 1.
    pub memory_pressure: Option<f64>,
    /// The share of the time in which some task waited for a disk, 0 to 1.
    pub io_pressure: Option<f64>,
    /// TCP segments sent again, without SYNs and loss probes.
    pub retransmits: Option<u64>,
    /// SYNs sent again, by clients that a full accept queue turned away.
    pub syn_retransmits: Option<u64>,
    /// Connections that found an accept queue full (`ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// Packets that a processor's backlog dropped (`softnet_stat`).
    pub backlog_drops: Option<u64>,
}

/// A reading taken before a trial; [`Watch::stop`] compares it with one taken after.
pub struct Watch {
    ticks: Option<Ticks>,
    counters: Counters,
    hiccups: Hiccups,
    clock: Instant,
    wall: SystemTime,
}

/// Clock ticks since boot.
#[derive(Clone, Copy)]
struct Ticks {
    total: u64,
    steal: u64,
    /// User, nice and system time of all processes.
    work: u64,
    /// User, nice and system time of this process and of the children it has waited for.
    own: u64,
}

impl Watch {
    /// Takes the first reading.
    pub fn start() -> Watch {
        Watch {
            ticks: Ticks::read(),
            counters: Counters::read(),
            hiccups: Hiccups::start(),
            clock: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Takes the second reading. Call it when all children of the trial have been waited for,
    /// because their work would otherwise count as foreign.
    pub fn stop(self) -> Conditions {
        let monotonic = self.clock.elapsed();
        let wall = SystemTime::now().duration_since(self.wall).unwrap_or(Duration::ZERO);
        let clock_step_ms = (wall.as_secs_f64() - monotonic.as_secs_f64()) * 1e3;
        let hiccup_ms = Some(self.hiccups.stop().as_secs_f64() * 1e3);
        let counted = Counters::read().since(&self.counters, monotonic);
        let found = Conditions { clock_step_ms, hiccup_ms, ..counted };
        let (Some(before), Some(after)) = (self.ticks, Ticks::read()) else { return found };
        let share =
            |part: u64| part as f64 / (after.total.saturating_sub(before.total)).max(1) as f64;
        let work = after.work.saturating_sub(before.work);
        let foreign = work.saturating_sub(after.own.saturating_sub(before.own));
        Conditions {
            steal: Some(share(after.steal.saturating_sub(before.steal))),
            foreign: Some(share(foreign)),
            ..found
        }
    }
}

impl Ticks {
    fn read() -> Option<Ticks> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&stat, &own)
    }

    /// Columns of proc_stat(5) and proc_pid_stat(5).
    fn parse(stat: &str, own: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let cpu: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The command name may hold spaces; fields are counted after its closing bracket.
        let (_, fields) = own.rsplit_once(')')?;
        let times = fields.split_whitespace().skip(11).take(4);
        let own = times.filter_map(|word| word.parse::<u64>().ok()).sum();
        Some(Ticks {
            total: cpu.iter().take(8).sum(),
            steal: *cpu.get(7)?,
            work: cpu.iter().take(3).sum(),
            own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_leave_soft_interrupts_out() {
        let stat = "cpu  10 1 5 100 2 3 40 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let own = "42 (a name (odd)) S 1 1 1 0 -1 0 0 0 0 0 4 3 2 1 20 0";
        let ticks = Ticks::parse(stat, own).expect("both lines are well formed");
        assert_eq!((ticks.total, ticks.steal, ticks.work, ticks.own), (168, 7, 16, 10));
    }

    #[test]
    fn this_machine_can_be_watched() {
        let found = Watch::start().stop();
        assert!(found.steal.is_some() && found.foreign.is_some(), "{found:?}");
        assert!(found.clock_step_ms.abs() < 1_000.0, "{found:?}");
        assert!(found.hiccup_ms.is_some_and(|late| late >= 0.0), "{found:?}");
        assert!(found.retransmits.is_some() && found.listen_overflows.is_some(), "{found:?}");
    }
}
