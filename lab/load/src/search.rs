//! The highest rate that meets an objective: doubles, bisects, then confirms below the edge.
//!
//! Every probe is a run of the open model with a fresh schedule. Rates are approached from below,
//! because a server that was just overloaded behaves differently. A probe passes if the objective
//! is met, 99 of 100 arrivals were answered inside the window, and at most one of a thousand
//! failed. A probe limited by the generator decides nothing: the search does not go above it, and
//! reports that the server can do at least what it found. Downwards it goes until a rate is
//! confirmed, or not even `RATE_MIN` is.

use crate::health::Verdict;
use crate::model::{Arrivals, Model};
use crate::parse::Usage;
use crate::report::Report;
use crate::run::{self, Failure, Plan};
use crate::slo::{Outcome, Slo};
use crate::work::Think;
use meter::Quantiles;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name and version of [`Capacity`].
pub const SCHEMA: &str = "roundhouse.capacity/1";
/// The search ends when the edges are closer than this, as a fraction.
const RESOLUTION: f64 = 0.03;
/// Probes at the rate that is claimed.
const CONFIRMATIONS: usize = 3;
/// The fraction by which an unconfirmed claim is lowered, and the number of such steps; then it is
/// halved.
const STEP: f64 = 0.05;
const STEPS_MAX: u32 = 6;
/// The first rate, as a fraction of a closed loop's throughput.
const BEGIN: f64 = 0.1;
/// The most probes before the first confirmation: 20 doublings, or a way down and the bisections.
const PROBES_MAX: usize = 30;
/// The lowest rate that is tried, a second.
const RATE_MIN: f64 = 1.0;
/// The least share of arrivals that must be answered inside the window.
const ANSWERED_MIN: f64 = 0.99;
const FAILED_MAX: f64 = 0.001;
/// The probe that only finds where to begin.
const CLOSED: &str = "closed";
/// Repetitions of an invalid probe.
const REPEATS: u32 = 2;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server.
    pub target: String,
    /// The objective.
    pub slo: String,
    /// The highest confirmed rate, in requests a second; 0 if there is none.
    pub capacity_rps: f64,
    /// The lowest rate that failed; `null` if none did.
    pub failed_rps: Option<f64>,
    /// Whether the rate passed as often as a claim needs.
    pub confirmed: bool,
    /// The reason why the server may be capable of more, if there is one.
    pub limit: Option<String>,
    /// Every probe, in order.
    pub probes: Vec<Probe>,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `closed`, `double`, `bisect`, `confirm`.
    pub why: String,
    /// Planned arrivals a second; for the closed loop its throughput.
    pub rate: f64,
    /// Replies a second.
    pub achieved_rps: f64,
    /// The response times.
    pub response: Quantiles,
    /// The outcome of each goal.
    pub slo: Vec<Outcome>,
    /// Measured requests without a right reply.
    pub failed: u64,
    /// The verdict on the generator.
    pub verdict: Verdict,
    /// Whether it passed.
    pub passed: bool,
    /// The reason for a failure, in words; empty if it passed.
    pub reason: String,
}

/// Searches the server's capacity with `plan` (its window is one probe; depth and arrivals of its
/// model are kept) and calls `on_probe` with every probe.
///
/// # Errors
/// See [`Failure`].
pub fn capacity(plan: &Plan, slo: &Slo, on_probe: impl FnMut(&Probe)) -> Result<Capacity, Failure> {
    if !slo.fits_search() {
        let what = "an objective of times or errors for the rate that is searched";
        return Err(Failure::Usage(Usage(format!("expected {what}, found `{slo}`"))));
    }
    search(plan, slo, on_probe, run::run)
}

/// The search; `run` runs a plan.
fn search(
    plan: &Plan,
    slo: &Slo,
    on_probe: impl FnMut(&Probe),
    run: impl FnMut(&Plan) -> Result<Report, Failure>,
) -> Result<Capacity, Failure> {
    let mut search = Search { plan: plan.clone(), probes: Vec::new(), on_probe, run, limit: None };
    search.plan.slo = Some(slo.clone());
    let begin = match plan.model.rate() {
        Some(rate) => rate,
        None => BEGIN * search.closed()?,
    };
    let terms = stats::Bracket {
        begin,
        least: RATE_MIN,
        shrink: 2.0,
        resolution: RESOLUTION,
        probes_max: PROBES_MAX,
    };
    let edges = stats::bracket(&terms, |step, rate| search.step(step, rate))?;
    let (capacity_rps, confirmed) = search.confirm(edges.passed.unwrap_or(0.0))?;
    Ok(Capacity {
        schema: SCHEMA.to_owned(),
        target: plan.target.to_string(),
        slo: slo.to_string(),
        capacity_rps,
        failed_rps: edges.failed,
        confirmed,
        limit: search.limit,
        probes: search.probes,
    })
}

struct Search<F, R> {
    plan: Plan,
    probes: Vec<Probe>,
    on_probe: F,
    run: R,
    limit: Option<String>,
}

impl<F: FnMut(&Probe), R: FnMut(&Plan) -> Result<Report, Failure>> Search<F, R> {
    fn closed(&mut self) -> Result<f64, Failure> {
        let mut plan = self.plan.clone();
        let depth = plan.model.depth();
        plan.model = Model::Closed { depth, think: Think::None, ramp: None };
        let report = (self.run)(&plan)?;
        let rate = report.throughput_rps;
        self.note(CLOSED, rate, &report, Ok(()));
        Ok(rate.max(10.0))
    }

    /// One step of the search. Beyond the generator's limit nothing is learned about the server.
    fn step(&mut self, step: stats::BracketStep, rate: f64) -> Result<Option<bool>, Failure> {
        let why = match step {
            stats::BracketStep::Raise => "double",
            stats::BracketStep::Lower => "halve",
            stats::BracketStep::Bisect if self.limit.is_some() => return Ok(None),
            stats::BracketStep::Bisect => "bisect",
        };
        let is_first = self.probes.iter().all(|probe| probe.why == CLOSED);
        let passed = self.probe(why, rate)?;
        let is_beyond = step == stats::BracketStep::Raise && !is_first && self.limit.is_some();
        Ok(if !passed && is_beyond { None } else { Some(passed) })
    }

    /// Lowers the rate from `low` until it passes as often as a claim needs.
    fn confirm(&mut self, low: f64) -> Result<(f64, bool), Failure> {
        let mut rate = low;
        for step in 0.. {
            if rate < RATE_MIN {
                break;
            }
            let limit = self.limit.take();
            let mut passed = 0;
            for _ in 0..CONFIRMATIONS {
                passed += usize::from(self.probe("confirm", rate)?);
            }
            self.limit = limit.or(self.limit.take());
            if 2 * passed > CONFIRMATIONS {
                return Ok((rate, true));
            }
            rate *= if step < STEPS_MAX { 1.0 - STEP } else { 0.5 };
        }
        Ok((0.0, false))
    }

    /// Whether the server passes at `rate`. If the generator is the limit nothing passes, and
    /// [`Search::limit`] is set.
    fn probe(&mut self, why: &str, rate: f64) -> Result<bool, Failure> {
        let arrivals = match &self.plan.model {
            Model::Open { arrivals: Arrivals::Constant, .. } => Arrivals::Constant,
            _ => Arrivals::Poisson,
        };
        let depth = self.plan.model.depth();
        for repeat in 0..=REPEATS {
            let mut plan = self.plan.clone();
            plan.model = Model::Open { rate, arrivals, depth };
            plan.seed = plan.seed.wrapping_add(self.probes.len() as u64);
            let report = (self.run)(&plan)?;
            let judged = judge(&report);
            let invalid = report.health.verdict == Verdict::Invalid;
            if let (Err(_), verdict) = (&judged, report.health.verdict)
                && verdict != Verdict::Ok
                && (!invalid || repeat == REPEATS)
            {
                let reasons = report.health.reasons.join("; ");
                self.limit = Some(format!("at {rate:.0}/s the generator was the limit: {reasons}"));
            }
            let passed = judged.is_ok();
            self.note(why, rate, &report, judged);
            if passed || !invalid {
                return Ok(passed);
            }
        }
        Ok(false)
    }

    fn note(&mut self, why: &str, rate: f64, report: &Report, judged: Result<(), String>) {
        let probe = Probe {
            why: why.to_owned(),
            rate,
            achieved_rps: report.throughput_rps,
            response: report.response.clone(),
            slo: report.slo.clone(),
            failed: report.failed,
            verdict: report.health.verdict,
            passed: judged.is_ok(),
            reason: judged.err().unwrap_or_default(),
        };
        (self.on_probe)(&probe);
        self.probes.push(probe);
    }
}

/// Whether a probe passes, or the reason why not.
fn judge(report: &Report) -> Result<(), String> {
    let arrived = report.arrived.max(1) as f64;
    let failed = report.failed as f64 / arrived;
    if failed > FAILED_MAX {
        let first = report.errors.list.first().map(|it| it.example.clone()).unwrap_or_default();
        return Err(format!("{:.2} % failed {first}", failed * 100.0));
    }
    if let Some(missed) = report.slo.iter().find(|outcome| !outcome.met) {
        return Err(format!("{}: only {:.3} %", missed.goal, missed.found * 100.0));
    }
    let answered = report.requests as f64 / arrived;
    if answered < ANSWERED_MIN {
        return Err(format!("only {:.1} % were answered in time", answered * 100.0));
    }
    Ok(())
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, rate, achieved_rps, response, passed, reason, verdict, .. } = self;
        let p99 = response.p99_ns.unwrap_or(response.max_ns) as f64 / 1e6;
        let outcome = match (*passed, why.as_str()) {
            // Its throughput only gives the first rate.
            (_, CLOSED) => "a closed loop, not judged".to_owned(),
            (true, _) => "passed".to_owned(),
            (false, _) => format!("failed: {reason}"),
        };
        write!(
            f,
            "{why:<8} {rate:>9.0}/s  reached {achieved_rps:>9.0}/s  p99 {p99:>8.3} ms  {outcome}"
        )?;
        if *verdict != Verdict::Ok {
            write!(f, " ({verdict})")?;
        }
        Ok(())
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, slo, capacity_rps, probes, .. } = self;
        let count = probes.len();
        if !self.confirmed {
            write!(
                f,
                "{target} · {slo}: NO rate down to {RATE_MIN}/s is confirmed by {count} probes; "
            )?;
            writeln!(f, "the objective, the window (--for) or the machine does not allow one")?;
        } else {
            writeln!(f, "{target} · {slo}: {capacity_rps:.0}/s, confirmed by {count} probes")?;
        }
        match self.failed_rps {
            Some(failed) => writeln!(f, "  above         {failed:.0}/s failed")?,
            None => writeln!(f, "  above         nothing failed")?,
        }
        match &self.limit {
            Some(limit) => writeln!(f, "  at least      {limit}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Window, Workload};
    use std::time::Duration;

    /// A search on a server that keeps the objective up to `limit` requests a second, and as the
    /// generator judges itself up to `clean`. Returns the capacity and the number of probes.
    fn check(begin: f64, limit: f64, clean: f64) -> Capacity {
        let target = "echo://127.0.0.1:1".parse().expect("a target");
        let mut plan = Plan::new(target, Workload::Echo);
        plan.window = Window::For(Duration::from_secs(1));
        plan.model = Model::Open { rate: begin, arrivals: Arrivals::Constant, depth: 1 };
        let slo: Slo = "99%<5ms".parse().expect("an objective");
        let run = |plan: &Plan| {
            let rate = plan.model.rate().expect("an open model");
            let requests = if rate <= limit { 10_000 } else { 5_000 };
            let mut report = Report { arrived: 10_000, requests, ..Report::default() };
            report.health.verdict =
                if rate <= clean { Verdict::Ok } else { Verdict::GeneratorLimited };
            Ok(report)
        };
        search(&plan, &slo, |_| {}, run).expect("no run fails")
    }

    #[test]
    fn a_search_goes_down_until_it_has_an_answer() {
        let found = check(20_000.0, 130.0, f64::INFINITY);
        assert!(found.confirmed && found.limit.is_none(), "{found}");
        assert!((110.0..=130.0).contains(&found.capacity_rps), "{found}");
        // A generator in doubt at the first rate is no reason to stop above an answer.
        let found = check(20_000.0, 130.0, 5_000.0);
        assert!(found.confirmed && found.capacity_rps > 60.0, "{found}");
        let found = check(20_000.0, 0.0, f64::INFINITY);
        assert!(!found.confirmed && found.capacity_rps == 0.0, "{found}");
        assert!(found.to_string().contains("NO rate down to 1/s is confirmed"), "{found}");
        assert_eq!(found.failed_rps.map(|rate| rate < 2.0), Some(true), "{found}");
    }
}
