//! The other activity of the machine during a trial.
//!
//! Shares come from the clock ticks of `/proc/stat` over a whole trial. They are coarse (one tick
//! of two cores in a second is half a percent) but cover everything. A tick counts as a whole for
//! the program that it meets, so one tick a core is no evidence of another program. Soft interrupts
//! are excluded: on loopback they are the race's own packets.

use super::Counters;
use super::hiccups::Hiccups;
use meter::proc::TreeCost;
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
    own: Option<TreeCost>,
    counters: Counters,
    hiccups: Hiccups,
    clock: Instant,
    wall: SystemTime,
}

/// The length of a tick: a hundredth of a second on every Linux that this runs on.
const TICK_NS: u64 = 10_000_000;

/// Clock ticks since boot.
#[derive(Clone, Copy)]
struct Ticks {
    cores: u64,
    total: u64,
    steal: u64,
    /// User, nice and system time of all processes.
    work: u64,
}

impl Watch {
    /// Takes the first reading.
    pub fn start() -> Watch {
        Watch {
            ticks: Ticks::read(),
            own: own(),
            counters: Counters::read(),
            hiccups: Hiccups::start(),
            clock: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Takes the second reading.
    pub fn stop(self) -> Conditions {
        self.stop_beside(0)
    }

    /// The same where programs of ours took a further CPU time, `unwaited_ns`, that no parent has
    /// ([`CostWatch::unwaited_ns`](crate::cost::CostWatch::unwaited_ns)).
    pub fn stop_beside(self, unwaited_ns: u64) -> Conditions {
        let monotonic = self.clock.elapsed();
        let wall = SystemTime::now().duration_since(self.wall).unwrap_or(Duration::ZERO);
        let clock_step_ms = (wall.as_secs_f64() - monotonic.as_secs_f64()) * 1e3;
        let hiccup_ms = Some(self.hiccups.stop().as_secs_f64() * 1e3);
        let counted = Counters::read().since(&self.counters, monotonic);
        let found = Conditions { clock_step_ms, hiccup_ms, ..counted };
        let (Some(before), Some(after)) = (self.ticks, Ticks::read()) else { return found };
        let own = own().zip(self.own).map(|(after, before)| after.since(&before).cpu_ns);
        let own_ns = own.unwrap_or(0) + unwaited_ns;
        let (steal, foreign) = after.shares_since(before, own_ns / TICK_NS);
        Conditions { steal: Some(steal), foreign: Some(foreign), ..found }
    }
}

/// The CPU time of this process and of all below it.
fn own() -> Option<TreeCost> {
    TreeCost::read(std::process::id()).ok()
}

impl Ticks {
    fn read() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Columns of proc_stat(5).
    fn parse(stat: &str) -> Option<Ticks> {
        let mut lines = stat.lines();
        let line = lines.next()?.strip_prefix("cpu ")?;
        let cpu: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Some(Ticks {
            cores: lines.filter(|line| line.starts_with("cpu")).count() as u64,
            total: cpu.iter().take(8).sum(),
            steal: *cpu.get(7)?,
            work: cpu.iter().take(3).sum(),
        })
    }

    /// The shares of the machine's time that the hypervisor and other processes took since
    /// `before`, while our own took `own` ticks.
    fn shares_since(self, before: Ticks, own: u64) -> (f64, f64) {
        let total = self.total.saturating_sub(before.total).max(1) as f64;
        let foreign = (self.work.saturating_sub(before.work)).saturating_sub(own + self.cores);
        (self.steal.saturating_sub(before.steal) as f64 / total, foreign as f64 / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn soft_interrupts_and_a_tick_a_core_are_not_foreign() {
        let stat = "cpu  10 1 5 100 2 3 40 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 9 0\nintr 7\n";
        let before = Ticks::parse(stat).expect("the lines are well formed");
        let found = (before.cores, before.total, before.steal, before.work);
        assert_eq!(found, (2, 168, 7, 16));
        let after = Ticks { total: 268, steal: 17, work: 58, ..before };
        assert_eq!(after.shares_since(before, 20), (0.1, 0.2));
        assert_eq!(after.shares_since(before, 40).1, 0.0);
    }

    #[test]
    fn a_child_that_still_runs_is_not_foreign() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = own().expect("this process can be read");
        let begin = Instant::now();
        let mut found = 0;
        // A busy machine gives the child its turn late.
        while found < TICK_NS && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
            found = own().expect("this process can be read").since(&before).cpu_ns;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found >= TICK_NS, "{found}");
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
