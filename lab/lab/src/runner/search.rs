//! The highest rate at which a promise is kept.
//!
//! The search ([`stats::bracket`]) begins at a quarter of the pilot's capacity. Every probe has a
//! fresh server. A probe can also fail for another reason than latency: the rate is not achieved,
//! replies are missing, or the generator itself cannot keep up, which ends the search without
//! blaming the server.

use super::{Attempt, Runner};
use crate::block::Slot;
use crate::load::{Load, Times};
use crate::observations::{Probe, Search};
use crate::plan::{Arm, LoadPoint, Model};
use crate::trial::Ending;
use std::path::Path;

/// The minimum share of the offered rate that must be answered.
const ACHIEVED_MIN: f64 = 0.99;
/// The maximum share of the requests that may fail.
const FAILED_MAX: f64 = 0.001;
/// The maximum number of probes of one search.
const PROBES_MAX: usize = 16;
/// The start of the search, as a share of the pilot's capacity.
const BEGIN: f64 = 0.25;

/// The search gives up when it has lowered the rate by this factor.
const LEAST: f64 = 100.0;

impl Runner {
    /// Searches for the capacity of one arm; the trial's report is that of the best probe.
    pub(super) fn search(&self, arm: &Arm, point: &LoadPoint, slot: &Slot, dir: &Path) -> Attempt {
        let Model::Capacity { quantile, limit_ns, resolution } = point.model else {
            return Attempt::failed("only a capacity can be searched for".to_string());
        };
        let begin = match self.capacity(&arm.name) {
            Ok(capacity) => capacity * BEGIN,
            Err(reason) => return Attempt::failed(reason),
        };
        // A promise that is broken far below the pilot's capacity is not broken by load.
        let least = (begin / LEAST).max(1.0);
        let terms =
            stats::Bracket { begin, least, shrink: 4.0, resolution, probes_max: PROBES_MAX };
        let mut search = Search { quantile, limit_ns, ..Search::default() };
        let mut best: Option<(Attempt, bool)> = None;
        let edges = stats::bracket(&terms, |_, rate| {
            let run = self.at_rate(arm, point, slot, dir, Some(rate));
            let Some(Ending::Measured { load }) = &run.ending else { return Err(Box::new(run)) };
            let probe = judged(load, rate, quantile, limit_ns);
            let kept = probe.kept;
            search.generator_limited |= is_limited(load);
            search.probes.push(probe);
            if kept || best.as_ref().is_none_or(|(_, good)| !good) {
                best = Some((run, kept));
            }
            Ok(Some(kept))
        });
        match edges {
            Err(run) => return *run,
            Ok(edges) => search.capacity_rps = edges.passed,
        }
        let mut run = best.map(|(run, _)| run).unwrap_or_default();
        run.seen.search = Some(search);
        run
    }
}

/// Whether the promise was kept at a rate, and if not, why.
fn judged(load: &Load, rate: f64, quantile: f64, limit_ns: u64) -> Probe {
    let latency_ns = at(&load.response, quantile);
    let failed = load.faults() + load.lost + load.censored + load.dropped;
    let asked = (load.requests + failed).max(1);
    let why = if is_limited(load) {
        "the generator could not keep up".to_string()
    } else if let Some(goal) = load.slo.first() {
        // A share of all due requests: it includes those without a reply, and needs few.
        match goal.found >= quantile {
            true => String::new(),
            false => format!("{:.2} % within the objective", 100.0 * goal.found),
        }
    } else if load.throughput_rps < rate * ACHIEVED_MIN {
        format!("only {:.1} % were answered in time", load.throughput_rps / rate * 100.0)
    } else if failed as f64 > asked as f64 * FAILED_MAX {
        format!("{failed} of {asked} requests failed")
    } else {
        match latency_ns {
            None => "too few requests for this quantile: use a longer window".to_string(),
            Some(ns) if ns > limit_ns as f64 => {
                format!("{:.2} ms", ns / 1e6)
            }
            Some(_) => String::new(),
        }
    };
    let (rate_rps, achieved_rps) = (rate, load.throughput_rps);
    Probe { rate_rps, achieved_rps, latency_ns, kept: why.is_empty(), why }
}

fn is_limited(load: &Load) -> bool {
    load.is_late()
        || load.generator.is_some_and(|generator| generator.busy > crate::verdict::BUSY_MAX)
}

/// The quantile of `times` that the promise names, or the nearest recorded one.
fn at(times: &Times, quantile: f64) -> Option<f64> {
    match quantile {
        q if q <= 0.5 => times.p50_ns,
        q if q <= 0.9 => times.p90_ns,
        q if q <= 0.99 => times.p99_ns,
        _ => times.p999_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Goal, Health};

    #[test]
    fn probes_say_why_they_failed() {
        fn check(change: impl Fn(&mut Load), want: &str) {
            let text = "{\"schema\":\"roundhouse.load/1\",\"model\":\"open\",\"requests\":1000,\
                \"throughput_rps\":1000.0,\"service\":{},\"response\":{\"p50_ns\":100000,\
                \"p99_ns\":900000}}";
            let mut load = Load::parse(text).expect("well formed");
            change(&mut load);
            let found = judged(&load, 1_000.0, 0.99, 1_000_000);
            assert_eq!((found.why.as_str(), found.kept), (want, want.is_empty()), "{found:?}");
        }
        check(|_| {}, "");
        check(|load| load.throughput_rps = 900.0, "only 90.0 % were answered in time");
        check(|load| load.lost = 10, "10 of 1010 requests failed");
        check(|load| load.response.p99_ns = Some(2e6), "2.00 ms");
        let goal = |found| vec![Goal { goal: "p99 < 1ms".to_string(), found }];
        check(|load| load.slo = goal(0.98), "98.00 % within the objective");
        let few = "too few requests for this quantile: use a longer window";
        check(|load| load.response.p99_ns = None, few);
        let late = "the generator could not keep up";
        let verdict = || Health { verdict: "generator-limited".to_string(), ..Health::default() };
        check(|load| load.health = Some(verdict()), late);
    }
}
