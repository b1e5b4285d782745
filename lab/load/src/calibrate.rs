//! The generator's limits on this machine: its ceiling, its cost, its baseline tardiness.
//!
//! The generator loads the [`null`](crate::null) server on another processor: in a closed loop to
//! learn the cost of a request, and in an open loop to learn how late it notices arrivals. The
//! ceiling is the rate that one processor reaches at that cost. The baseline is the tardiness that
//! exists without any server load. Both hold for one machine and one build only.

use crate::health::Verdict;
use crate::model::{Arrivals, Model};
use crate::null::NullServer;
use crate::parse::{Mix, Scheme};
use crate::report::Report;
use crate::run::{self, Failure, Plan, Window, Workload};
use crate::script::{Expectation, HttpOptions, StockOptions};
use crate::work::Think;
use meter::Machine;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sys::eventfd::EventFd;

/// The name and version of [`Calibration`].
pub const SCHEMA: &str = "roundhouse.calibration/1";
/// The maximum number of attempts at a measurement on a busy machine.
const ATTEMPTS: u32 = 4;
/// The calibrated depths; another depth uses the entry of the nearest one below it.
const DEPTHS: [u32; 2] = [1, 16];
/// The number of connections of all calibrations.
const CONNECTIONS: usize = 64;
/// Tardiness is measured at this fraction of the ceiling, and at a rate so low that the generator
/// sleeps before every arrival.
const HALF: f64 = 0.5;
const SLOW: f64 = 1000.0;

/// The calibration of the generator on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub machine: Machine,
    /// The version of this program.
    pub version: String,
    /// The time of the calibration, in milliseconds since 1970.
    pub unix_ms: u64,
    /// One entry for each protocol and depth.
    pub entries: Vec<Entry>,
}

/// One protocol at one depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// `stock`, `http`, `echo`.
    pub scheme: String,
    /// Requests in one write.
    pub depth: u32,
    /// Replies a second in a closed loop against the null server.
    pub measured_rps: f64,
    /// CPU time of the generator for each request (ns).
    pub cpu_ns: f64,
    /// Requests a second that one processor could do at that cost.
    pub ceiling_rps: f64,
    /// The 99th percentile of tardiness (ns): the larger of those at a slow rate and at half of
    /// the ceiling.
    pub tardiness_p99_ns: u64,
    /// Whether the null server counted as many requests as the client.
    pub counts_agree: bool,
}

/// The part of an [`Entry`] that a verdict needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// Requests a second that one thread could do.
    pub ceiling_rps: f64,
    /// The 99th percentile of tardiness (ns).
    pub tardiness_p99_ns: u64,
    /// CPU time of the generator for each request (ns).
    pub cpu_ns: f64,
}

impl Calibration {
    /// The baseline for a protocol and a depth, if it was measured on this machine by this version.
    pub fn baseline(&self, version: &str, scheme: Scheme, depth: u32) -> Option<Baseline> {
        let machine = Machine::identify().ok()?;
        self.baseline_on(&machine, version, scheme, depth)
    }

    fn baseline_on(
        &self,
        machine: &Machine,
        version: &str,
        scheme: Scheme,
        depth: u32,
    ) -> Option<Baseline> {
        if (&self.machine, self.version.as_str()) != (machine, version) {
            return None;
        }
        let fits = |entry: &&Entry| entry.scheme == scheme.name() && entry.depth <= depth;
        let entry = self.entries.iter().filter(fits).max_by_key(|entry| entry.depth)?;
        Some(Baseline {
            ceiling_rps: entry.ceiling_rps,
            tardiness_p99_ns: entry.tardiness_p99_ns,
            cpu_ns: entry.cpu_ns,
        })
    }
}

/// Calibrates every protocol at every depth; each entry takes three measurements of length
/// `window`. `on_entry` is called with each finished entry.
///
/// # Errors
/// See [`Failure`]: among others, the machine is too busy or `/proc` cannot be read.
pub fn calibrate(
    version: &str,
    window: Duration,
    mut on_entry: impl FnMut(&Entry),
) -> Result<Calibration, Failure> {
    let machine = Machine::identify()
        .map_err(|error| Failure::Machinery { doing: "identifying the machine", error })?;
    let mut entries = Vec::new();
    for scheme in [Scheme::Stock, Scheme::Http, Scheme::Echo] {
        for depth in DEPTHS {
            let entry = entry(scheme, depth, window)?;
            on_entry(&entry);
            entries.push(entry);
        }
    }
    let (schema, version) = (SCHEMA.to_owned(), version.to_owned());
    Ok(Calibration { schema, machine, version, unix_ms: run::unix_ms(), entries })
}

/// Runs the null server on a thread and the generator on this one, each on its own processor where
/// there are two.
fn entry(scheme: Scheme, depth: u32, window: Duration) -> Result<Entry, Failure> {
    let machinery = |doing| move |error| Failure::Machinery { doing, error };
    let null = NullServer::listen(scheme, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .map_err(machinery("opening the null server"))?;
    let (address, count) = (null.address(), null.requests());
    let bell = Arc::new(EventFd::new().map_err(machinery("making a bell"))?);
    let stop = Arc::clone(&bell);
    let cpus = sys::cpu::affinity().map_err(machinery("asking for processors"))?;
    let (last, first) = (cpus[cpus.len() - 1], cpus[0]);
    let alone = cpus.len() > 1;
    let server = std::thread::spawn(move || {
        if alone {
            // Without affinity the server still runs, on any processor.
            let _ = sys::cpu::set_affinity(&[last]);
        }
        null.run(stop.as_ref())
    });
    let target = format!("{}://{address}", scheme.name()).parse()?;
    let mut plan = Plan::new(target, workload(scheme, address));
    plan.settings.connections = CONNECTIONS;
    plan.window = Window::For(window);
    plan.cpu = alone.then_some(first);
    let measured = measure(scheme, depth, &mut plan, &count);
    bell.ring();
    let served = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if alone {
        sys::cpu::set_affinity(&cpus).map_err(machinery("leaving the processor"))?;
    }
    served.map_err(machinery("running the null server"))?;
    measured
}

fn measure(
    scheme: Scheme,
    depth: u32,
    plan: &mut Plan,
    count: &AtomicU64,
) -> Result<Entry, Failure> {
    let before = count.load(Ordering::Relaxed);
    let mut asked = 0;
    plan.model = Model::Closed { depth, think: Think::None, ramp: None };
    let closed = quiet(plan, &mut asked)?;
    let cpu_ns = closed.generator.cpu_ns as f64 / closed.requests.max(1) as f64;
    let ceiling_rps = 1e9 / cpu_ns.max(1.0);
    let mut tardiness_p99_ns = 0;
    for rate in [SLOW, HALF * ceiling_rps.min(closed.throughput_rps)] {
        plan.model = Model::Open { rate, arrivals: Arrivals::Poisson, depth };
        let open = quiet(plan, &mut asked)?;
        let found = &open.health.tardiness;
        tardiness_p99_ns = tardiness_p99_ns.max(found.p99_ns.unwrap_or(found.p90_ns));
    }
    let counts_agree = count.load(Ordering::Relaxed) - before == asked;
    let measured_rps = closed.throughput_rps;
    let scheme = scheme.name().to_owned();
    Ok(Entry { scheme, depth, measured_rps, cpu_ns, ceiling_rps, tardiness_p99_ns, counts_agree })
}

/// Repeats a run until the generator was not starved of CPU, because a disturbed calibration would
/// mislead all later runs. Adds the number of requests to `asked`.
fn quiet(plan: &Plan, asked: &mut u64) -> Result<Report, Failure> {
    let mut reasons = Vec::new();
    for _ in 0..ATTEMPTS {
        let report = run::run(plan)?;
        // The market is asked for its rows before and after the run.
        let probes = if plan.target.scheme == Scheme::Stock { 2 } else { 0 };
        *asked += report.requests_total + probes;
        if report.health.verdict != Verdict::Invalid && report.requests > 0 {
            return Ok(report);
        }
        reasons = report.health.reasons;
    }
    Err(Failure::Busy(reasons.join("; ")))
}

/// The workload for the null server.
fn workload(scheme: Scheme, address: SocketAddr) -> Workload {
    match scheme {
        Scheme::Echo => Workload::Echo,
        Scheme::Http => Workload::Http(HttpOptions {
            wanted: Expectation { status: Some(200), length: None },
            ..HttpOptions::get(&address.to_string(), vec![("/".to_owned(), 1)], 1)
        }),
        Scheme::Stock | Scheme::Line => Workload::Stock(StockOptions {
            mix: Mix { show: 0, buy: 50, sell: 50 },
            ..StockOptions::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_belongs_to_a_machine_a_version_a_protocol_and_a_depth() {
        let entry = |scheme: &str, depth| Entry {
            scheme: scheme.to_owned(),
            depth,
            measured_rps: 1.0,
            cpu_ns: 1.0,
            ceiling_rps: f64::from(depth),
            tardiness_p99_ns: 1,
            counts_agree: true,
        };
        let calibration = Calibration {
            schema: SCHEMA.to_owned(),
            machine: Machine { cores: 3, ..Machine::default() },
            version: "1".to_owned(),
            unix_ms: 0,
            entries: vec![entry("http", 16), entry("http", 1), entry("echo", 1)],
        };
        let here = calibration.machine.clone();
        let find = |machine: &Machine, version, scheme, depth| {
            calibration.baseline_on(machine, version, scheme, depth).map(|it| it.ceiling_rps)
        };
        assert_eq!(find(&here, "1", Scheme::Http, 4), Some(1.0));
        assert_eq!(find(&here, "1", Scheme::Http, 99), Some(16.0));
        assert_eq!(find(&here, "1", Scheme::Stock, 1), None);
        assert_eq!(find(&here, "2", Scheme::Http, 1), None);
        assert_eq!(find(&Machine::default(), "1", Scheme::Http, 1), None);
        let json = serde_json::to_string(&calibration).expect("plain data");
        assert_eq!(serde_json::from_str::<Calibration>(&json).expect("its own"), calibration);
    }
}
