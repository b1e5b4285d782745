//! Two servers take turns under one generator: CPU time per request to a few percent.
//!
//! The throughput of two separate runs on a small shared machine differs by tens of percent for the
//! same program. Here both servers are up, windows of some 40 ms alternate between them, and each
//! server's CPU time is read from `/proc` while it is drained and asleep, when the kernel's counter
//! is exact. A disturbance of the machine affects both. The order within each pair is random.
//!
//! One duet is one pair of processes, and chance gives each process its memory layout. To support a
//! claim, start fresh pairs and treat each duet's log-ratio as one observation.

use crate::drive::{Driver, Settings};
use crate::parse::{Target, Usage};
use crate::report::{DUET_SCHEMA, DuetArm, DuetReport, DuetWindow};
use crate::run::{self, Failure, Workload, now, phase};
use crate::stop::{ByTime, Drain};
use crate::watch::Watch;
use meter::{Cost, Histogram};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// The time that a server gets to fall asleep after its last reply, so that its counter is exact.
const SETTLE: Duration = Duration::from_millis(1);

/// One of the two servers.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmPlan {
    /// The server.
    pub target: Target,
    /// The requests to send to it.
    pub workload: Workload,
    /// Root of its process tree.
    pub watch: u32,
}

/// A duet, as the flags describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct DuetPlan {
    /// Both servers.
    pub parts: [ArmPlan; 2],
    /// Connections to each, and how they are used.
    pub settings: Settings,
    /// Requests in one write.
    pub depth: u32,
    /// The seed for requests and order.
    pub seed: u64,
    /// Load on each server before the first pair.
    pub warmup: Duration,
    /// Pairs of windows.
    pub windows: u32,
    /// Length of one window.
    pub window: Duration,
    /// The processor to run on, if any.
    pub cpu: Option<usize>,
}

/// A duet in progress: make it with [`Duet::new`], then call [`Duet::run`].
pub struct Duet<'a> {
    plan: &'a DuetPlan,
    arms: [ArmRun; 2],
    random: Pcg64Mcg,
}

/// One server with its connections and its sums.
struct ArmRun {
    drive: Driver,
    watch: u32,
    requests: u64,
    /// The sum of all windows.
    cost: Cost,
    /// From sent to done in the windows (ns).
    service: Histogram,
    /// All windows and the time between them.
    span: Option<Watch>,
}

impl<'a> Duet<'a> {
    /// Probes both servers; opens no other connection yet.
    ///
    /// # Errors
    /// See [`Failure`]; two arms with one address are refused, because their books could not
    /// balance.
    pub fn new(plan: &'a DuetPlan) -> Result<Self, Failure> {
        let [a, b] = &plan.parts;
        if a.target.address == b.target.address {
            let address = a.target.address;
            return Err(Failure::Usage(Usage(format!(
                "expected two servers for a duet, found {address} twice; start a twin"
            ))));
        }
        run::pin(plan.cpu)?;
        let arms = [ArmRun::new(a, plan)?, ArmRun::new(b, plan)?];
        Ok(Self { plan, arms, random: Pcg64Mcg::seed_from_u64(plan.seed) })
    }

    /// Runs every window and audits both servers.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(mut self) -> Result<DuetReport, Failure> {
        for (arm, part) in self.arms.iter_mut().zip(&self.plan.parts) {
            arm.load(self.plan.warmup, part)?;
            arm.drive.take_tally();
            arm.span = Some(Watch::start(part.watch).map_err(Failure::Watch)?);
        }
        let started_unix_ms = run::unix_ms();
        let mut windows = Vec::new();
        for pair in 0..self.plan.windows {
            let first = (self.random.next_u64() >> 63) as usize;
            for at in [first, 1 - first] {
                let window = self.arms[at].window(self.plan, &self.plan.parts[at])?;
                let arm = ["a", "b"][at].to_owned();
                windows.push(DuetWindow { pair, arm, ..window });
            }
        }
        let mut doubts = Vec::new();
        let [a, b] = self.arms;
        let a = a.end(&self.plan.parts[0], &mut doubts)?;
        let b = b.end(&self.plan.parts[1], &mut doubts)?;
        let ratio = a.cpu_ns_per_request / b.cpu_ns_per_request;
        Ok(DuetReport {
            schema: DUET_SCHEMA.to_owned(),
            connections: self.plan.settings.connections,
            depth: self.plan.depth,
            seed: self.plan.seed,
            requests_per_connection: self.plan.settings.requests_per_connection,
            window_ns: self.plan.window.as_nanos() as u64,
            a,
            b,
            ratio,
            log_ratio: ratio.ln(),
            windows,
            started_unix_ms,
            doubts,
        })
    }
}

/// The doubts without repetitions: of those that differ only in numbers, the first with the count
/// of the others.
fn alike_once(doubts: &[String]) -> Vec<String> {
    let key = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let mut kept: Vec<(String, usize)> = Vec::new();
    for doubt in doubts {
        match kept.iter_mut().find(|(first, _)| key(first) == key(doubt)) {
            Some((_, more)) => *more += 1,
            None => kept.push((doubt.clone(), 0)),
        }
    }
    let words = |(first, more): (String, usize)| match more {
        0 => first,
        _ => format!("{first} ({more} more like this)"),
    };
    kept.into_iter().map(words).collect()
}

impl ArmRun {
    fn new(part: &ArmPlan, plan: &DuetPlan) -> Result<Self, Failure> {
        let script = run::script(&part.target, &part.workload, plan.settings.connections)?;
        let drive = run::drive(&part.target, plan.settings, plan.depth, script)?;
        let (cost, service) = (Cost::default(), Histogram::default());
        Ok(Self { drive, watch: part.watch, requests: 0, cost, service, span: None })
    }

    /// Loads the server for `span`, then waits for every reply and until the server sleeps.
    fn load(&mut self, span: Duration, part: &ArmPlan) -> Result<Duration, Failure> {
        let settings = self.drive.settings();
        let start = now();
        self.drive.part(false);
        phase(&mut self.drive, &ByTime { end: start + span })?;
        // Where connections come and go anyway, closing idle ones lets the others be served.
        self.drive.part(settings.requests_per_connection.is_some());
        phase(&mut self.drive, &Drain { end: now() + settings.drain })?;
        let elapsed = now().since(start);
        match self.drive.outstanding() {
            0 => {
                std::thread::sleep(SETTLE);
                Ok(elapsed)
            }
            outstanding => Err(Failure::Undrained { target: part.target.to_string(), outstanding }),
        }
    }

    /// One measured window.
    fn window(&mut self, plan: &DuetPlan, part: &ArmPlan) -> Result<DuetWindow, Failure> {
        let watch = Watch::start(self.watch).map_err(Failure::Watch)?;
        let elapsed = self.load(plan.window, part)?;
        let cost = watch.cost().map_err(Failure::Watch)?;
        let tally = self.drive.take_tally();
        self.service.merge(&tally.service);
        let requests = tally.done;
        let cpu_ns = cost.cpu_ns;
        self.requests += requests;
        self.cost.add(cost);
        let elapsed_ns = elapsed.as_nanos() as u64;
        Ok(DuetWindow { pair: 0, arm: String::new(), requests, cpu_ns, elapsed_ns })
    }

    /// Closes, audits and sums up.
    ///
    /// For ended threads and processes the kernel keeps only clock ticks of 10 ms, a quarter of a
    /// window. If there are any, one difference over all windows replaces their sum: between its
    /// windows a server sleeps.
    fn end(mut self, part: &ArmPlan, doubts: &mut Vec<String>) -> Result<DuetArm, Failure> {
        if let Some(span) = &self.span {
            let whole = span.cost().map_err(Failure::Watch)?;
            if !(whole.doubts.is_empty() && self.cost.doubts.is_empty()) {
                self.cost = whole;
            }
        }
        self.drive.close();
        doubts.extend(alike_once(&self.cost.doubts));
        let each = |sum: u64| sum as f64 / self.requests.max(1) as f64;
        Ok(DuetArm {
            target: part.target.to_string(),
            pid: self.watch,
            requests: self.requests,
            cpu_ns: self.cost.cpu_ns,
            cpu_ns_per_request: each(self.cost.cpu_ns),
            switches_per_request: each(self.cost.switches()),
            p99_ns: self.service.quantile(0.99),
            errors: self.drive.faults.clone(),
            check: run::audit(&part.target, self.drive.script()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_that_differ_in_numbers_are_said_once() {
        let doubts = ["process 12 ended", "no clock", "process 7 ended", "process 900 ended"];
        let found = alike_once(&doubts.map(String::from));
        assert_eq!(found, ["process 12 ended (2 more like this)", "no clock"]);
        assert!(alike_once(&[]).is_empty());
    }
}
