//! The cycle soak: a loop of the lowest priority counts the cycles that other work leaves on a
//! core.
//!
//! A sender's CPU time does not include the kernel's work for it in interrupts and kernel threads.
//! The loop (SCHED_IDLE, on the sender's core) loses rounds to all of that work: the lost rounds,
//! divided by the rounds of the idle core, are the fraction used.

use super::trial::pinned;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// One line of the loop: the monotonic time, and the rounds since it began.
pub type Tick = (u64, u64);

/// A running loop.
pub(super) struct Soak(Child);

impl Soak {
    pub(super) fn start(exe: &Path, core: usize) -> Result<Soak, String> {
        let inner = pinned(exe, Some(core), "chrt");
        let mut command = Command::new(inner.get_program());
        command.args(inner.get_args()).args(["-i", "0"]).arg(exe).args(["senders", "soak"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Soak).map_err(|why| format!("cannot start the soak: {why}"))
    }

    /// Ends the loop; returns all its lines.
    pub(super) fn stop(mut self) -> Vec<Tick> {
        // The process ends at no other time, so it still runs.
        let _ = self.0.kill();
        let mut text = String::new();
        if let Some(out) = &mut self.0.stdout {
            // A line that was cut off at the end is ignored.
            let _ = out.read_to_string(&mut text);
        }
        let _ = self.0.wait();
        let tick = |line: &str| {
            let (at, rounds) = line.split_once(' ')?;
            Some((at.parse().ok()?, rounds.parse().ok()?))
        };
        text.lines().filter_map(tick).collect()
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nanoseconds of the core for each of `packets` sent from `began` to `ended`; the core was idle
/// until `before`. `None` without enough lines.
pub fn cost_ns(ticks: &[Tick], before: u64, [began, ended]: [u64; 2], packets: u64) -> Option<f64> {
    let speed = |from: u64, to: u64| {
        let mut inside = ticks.iter().filter(|(at, _)| (from..=to).contains(at));
        let (first, last) = (inside.next()?, inside.next_back()?);
        Some((last.1 - first.1) as f64 / (last.0 - first.0) as f64)
    };
    let idle = speed(0, before)?;
    let busy = speed(began, ended)?;
    let used = (1.0 - busy / idle).max(0.0);
    Some(used * (ended - began) as f64 / packets.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_rounds_are_the_cost() {
        // A round a nanosecond until 1000, then three of four.
        let rounds = |at: u64| if at <= 1000 { at } else { 1000 + (at - 1000) * 3 / 4 };
        let ticks: Vec<Tick> = (0..=50).map(|at| (at * 100, rounds(at * 100))).collect();
        let found = cost_ns(&ticks, 1000, [1000, 5000], 10).expect("lines enough");
        assert!((found - 100.0).abs() < 1e-6, "{found}");
        assert_eq!(cost_ns(&ticks, 50, [1000, 5000], 10), None);
        assert_eq!(cost_ns(&[], 1000, [1000, 5000], 10), None);
    }
}
