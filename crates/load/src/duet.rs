//! Two servers take turns under one generator: CPU time per request to a few percent.
//!
//! Throughput of two separate runs on a small shared machine differs by tens of percent for the
//! same program. Here both servers are up, windows of some 40 ms alternate between them, and each
//! server's CPU time is read from `/proc` while it is drained and asleep, when the kernel's
//! counter is exact. Whatever disturbs the machine disturbs both. Which one begins a pair is drawn.
//!
//! One duet is one pair of processes, with its own luck in memory layout: for a claim start fresh
//! pairs and treat each duet's log-ratio as one observation.

use crate::drive::{Drive, Settings};
use crate::parse::{Target, Usage};
use crate::report::{DUET_SCHEMA, DuetArm, DuetReport, DuetWindow};
use crate::run::{self, Failure, Talk, now, phase};
use crate::stop::{ByTime, Drained};
use crate::watch::Watch;
use meter::{Cost, Histogram};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// How long a server gets to fall asleep after its last reply, so that its counter is exact.
const SETTLE: Duration = Duration::from_millis(1);

/// One of the two.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The server.
    pub target: Target,
    /// What to say to it.
    pub talk: Talk,
    /// Root of its process tree.
    pub watch: u32,
}

/// A duet, as the flags describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct DuetPlan {
    /// Both servers.
    pub parts: [Part; 2],
    /// Connections to each, and their keeping.
    pub settings: Settings,
    /// Requests in one write.
    pub depth: u32,
    /// What requests and order are drawn from.
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

/// A duet under way: make it with [`Duet::new`], then [`Duet::play`].
pub struct Duet<'a> {
    plan: &'a DuetPlan,
    voices: [Voice; 2],
    random: Pcg64Mcg,
}

/// One server with its connections and its sums.
struct Voice {
    drive: Drive,
    watch: u32,
    requests: u64,
    /// The windows, added up.
    cost: Cost,
    /// From sent to done in the windows (ns).
    service: Histogram,
    /// All windows and what lies between.
    span: Option<Watch>,
}

impl<'a> Duet<'a> {
    /// Asks both servers what they are; connects nothing else yet.
    ///
    /// # Errors
    /// See [`Failure`]; two parts at one address are refused, because their books cannot balance.
    pub fn new(plan: &'a DuetPlan) -> Result<Self, Failure> {
        let [a, b] = &plan.parts;
        if a.target.address == b.target.address {
            let address = a.target.address;
            return Err(Failure::Usage(Usage(format!(
                "expected two servers for a duet, found {address} twice; start a twin"
            ))));
        }
        run::pin(plan.cpu)?;
        let voices = [Voice::new(a, plan)?, Voice::new(b, plan)?];
        Ok(Self { plan, voices, random: Pcg64Mcg::seed_from_u64(plan.seed) })
    }

    /// Plays every window and audits both servers.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn play(mut self) -> Result<DuetReport, Failure> {
        for (voice, part) in self.voices.iter_mut().zip(&self.plan.parts) {
            voice.load(self.plan.warmup, part)?;
            voice.drive.take_tally();
            voice.span = Some(Watch::start(part.watch).map_err(Failure::Watch)?);
        }
        let started_unix_ms = run::unix_ms();
        let mut windows = Vec::new();
        for pair in 0..self.plan.windows {
            let first = (self.random.next_u64() >> 63) as usize;
            for at in [first, 1 - first] {
                let window = self.voices[at].window(self.plan, &self.plan.parts[at])?;
                let arm = ["a", "b"][at].to_owned();
                windows.push(DuetWindow { pair, arm, ..window });
            }
        }
        let mut doubts = Vec::new();
        let [a, b] = self.voices;
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

/// The doubts, of those that differ in numbers only the first with their count.
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

impl Voice {
    fn new(part: &Part, plan: &DuetPlan) -> Result<Self, Failure> {
        let script = run::script(&part.target, &part.talk, plan.settings.connections)?;
        let drive = run::drive(&part.target, plan.settings, plan.depth, script)?;
        let (cost, service) = (Cost::default(), Histogram::default());
        Ok(Self { drive, watch: part.watch, requests: 0, cost, service, span: None })
    }

    /// Loads the server for `span`, then waits for every reply and until it sleeps.
    fn load(&mut self, span: Duration, part: &Part) -> Result<Duration, Failure> {
        let settings = self.drive.settings();
        let start = now();
        self.drive.part(false);
        phase(&mut self.drive, &ByTime { end: start + span })?;
        // Where connections come and go anyway, closing the idle ones lets the others be served.
        self.drive.part(settings.requests_per_connection.is_some());
        phase(&mut self.drive, &Drained { end: now() + settings.drain })?;
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
    fn window(&mut self, plan: &DuetPlan, part: &Part) -> Result<DuetWindow, Failure> {
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
    /// Of threads and processes that have ended only clock ticks are left, 10 ms each, a quarter
    /// of a window. Where there are any, one difference over all windows is taken instead of their
    /// sum: between its windows a server sleeps.
    fn end(mut self, part: &Part, doubts: &mut Vec<String>) -> Result<DuetArm, Failure> {
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
