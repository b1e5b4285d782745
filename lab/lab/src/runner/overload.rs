//! Overload: a load above the server's capacity, and the recovery afterwards.
//!
//! Three phases against one server: half of its capacity, to measure the normal state; the
//! overload; half of its capacity again, in short probes, until the latency is normal. Each phase
//! needs a separate generator. A single one that changed its rate would carry its own queue of
//! overdue requests into the last phase, and would measure its own recovery instead of the
//! server's. The price is the resolution: a probe and the start of its process.

use super::words::Request;
use super::{Attempt, Runner, Up};
use crate::block::Slot;
use crate::load::{Load, Slice};
use crate::observations::Recovery;
use crate::plan::{Arm, LoadPoint};
use std::path::Path;

/// The load of the phases around the overload, as a share of capacity.
const BASE: f64 = 0.5;
/// Latency counts as normal again at this multiple of its base.
const NORMAL: f64 = 1.1;
/// Length of a probe, milliseconds.
const PROBE_MS: u64 = 100;
/// The maximum number of probes.
const PROBES_MAX: usize = 30;

impl Runner {
    /// Overloads one arm by `factor`; the trial's report is that of the overload.
    pub(super) fn overload(
        &self,
        arm: &Arm,
        point: &LoadPoint,
        factor: f64,
        slot: &Slot,
        dir: &Path,
    ) -> Attempt {
        let capacity_rps = match self.capacity(&arm.name) {
            Ok(capacity) => capacity,
            Err(reason) => return Attempt::failed(reason),
        };
        let mut up = match self.boot(arm, slot.swapped, dir) {
            Ok(up) => up,
            Err(reason) => return Attempt::unavailable(reason),
        };
        let mut run = up.run();
        run.seen.offered_rps = Some(factor * capacity_rps);
        up.cost.mark();
        let phases = self.phases(arm, point, slot, &up, dir, (factor, capacity_rps));
        let asked = phases.map(|phases| {
            phases.map(|(mut storm, recovery)| {
                storm.timeline = recovery.1;
                run.seen.recovery = Some(recovery.0);
                storm
            })
        });
        run.end(asked, up);
        run
    }

    /// The overload's report, how it went and the timeline of all phases. `None` when interrupted.
    #[expect(clippy::type_complexity, reason = "used once, by the caller above")]
    fn phases(
        &self,
        arm: &Arm,
        point: &LoadPoint,
        slot: &Slot,
        up: &Up,
        dir: &Path,
        (factor, capacity_rps): (f64, f64),
    ) -> Option<Result<(Box<Load>, (Recovery, Vec<Slice>)), String>> {
        let request = |rate: f64, warmup_ms: u64, window_ms: u64, nth: u64| Request {
            warmup_ms,
            window_ms,
            ..Request::of(&self.plan, arm, point, slot.seed + nth, Some(rate * capacity_rps))
        };
        let (warmup_ms, window_ms) = self.plan.spans(point);
        let base = match self.ask(up, &request(BASE, warmup_ms, window_ms, 0), dir)? {
            Ok(load) => load,
            Err(why) => return Some(Err(format!("before the overload: {why}"))),
        };
        let storm = match self.ask(up, &request(factor, 0, window_ms, 1), dir)? {
            Ok(load) => load,
            Err(why) => return Some(Err(format!("during the overload: {why}"))),
        };
        let mut probes = Vec::new();
        while probes.len() < PROBES_MAX && !is_calm(&base, &probes) {
            let nth = 2 + probes.len() as u64;
            match self.ask(up, &request(BASE, 0, PROBE_MS, nth), dir)? {
                Ok(load) => probes.push(*load),
                Err(why) => return Some(Err(format!("after the overload: {why}"))),
            }
        }
        let seen = recovery(&base, &storm, &probes, factor, capacity_rps);
        Some(Ok((storm, seen)))
    }
}

fn is_normal(base: &Load, probe: &Load) -> bool {
    let p50 = |load: &Load| load.latency().p50_ns;
    p50(probe).zip(p50(base)).is_some_and(|(now, base)| now <= NORMAL * base)
}

/// Whether the last two probes were normal: a single one may be chance.
fn is_calm(base: &Load, probes: &[Load]) -> bool {
    matches!(probes, [.., a, b] if is_normal(base, a) && is_normal(base, b))
}

/// Computes the recovery from the phases.
fn recovery(
    base: &Load,
    storm: &Load,
    probes: &[Load],
    factor: f64,
    capacity_rps: f64,
) -> (Recovery, Vec<Slice>) {
    let begin = |load: &Load| load.started_unix_ms as f64;
    let length = |load: &Load| load.window_ns as f64 / 1e6;
    let end_ms = begin(storm) + length(storm);
    let calm = is_calm(base, probes).then(|| &probes[probes.len() - 2]);
    let recovery = Recovery {
        factor,
        capacity_rps,
        goodput_rps: Some(storm.throughput_rps),
        kept_share: Some(storm.throughput_rps / capacity_rps),
        base_p50_ns: base.latency().p50_ns,
        // A probe covers its whole length, so at its end the server is known to be calm.
        recovered_ms: calm.map(|probe| begin(probe) + length(probe) - end_ms),
        watched_ms: probes.last().map_or(0.0, |probe| begin(probe) + length(probe) - end_ms),
    };
    let slice = |load: &Load| Slice {
        at_ms: begin(load) - begin(storm),
        for_ms: length(load),
        requests: load.requests,
        p50_ns: load.latency().p50_ns,
    };
    (recovery, [base, storm].into_iter().chain(probes).map(slice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(begin_ms: u64, length_ms: u64, rate: f64, p50: f64) -> Load {
        let text = format!(
            "{{\"schema\":\"roundhouse.load/1\",\"model\":\"open\",\"requests\":1,\
             \"throughput_rps\":{rate},\"service\":{{}},\"response\":{{\"p50_ns\":{p50}}},\
             \"started_unix_ms\":{begin_ms},\"window_ns\":{}}}",
            length_ms * 1_000_000
        );
        Load::parse(&text).expect("well formed")
    }

    #[test]
    fn recovery_is_read_off_the_probes() {
        let base = load(1_000, 500, 500.0, 10.0);
        let storm = load(2_000, 500, 900.0, 99.0);
        let probe = |begin: u64, p50: f64| load(begin, 100, 500.0, p50);
        let mut probes = vec![probe(2_600, 50.0), probe(2_750, 10.5), probe(2_900, 30.0)];
        let (found, _) = recovery(&base, &storm, &probes, 2.0, 1_000.0);
        assert_eq!((found.recovered_ms, found.watched_ms), (None, 500.0));
        probes.extend([probe(3_050, 11.0), probe(3_200, 9.0)]);
        let (found, timeline) = recovery(&base, &storm, &probes, 2.0, 1_000.0);
        // The calm probe at 2750 was followed by one that was not.
        assert_eq!((found.recovered_ms, found.base_p50_ns), (Some(650.0), Some(10.0)));
        assert_eq!((found.goodput_rps, found.kept_share), (Some(900.0), Some(0.9)));
        assert_eq!((timeline.len(), timeline[0].at_ms, timeline[2].at_ms), (7, -1_000.0, 600.0));
    }
}
