//! One measurement of one server: probe, warm up, measure, drain, audit, judge.
//!
//! The calling thread only coordinates; each generator is a separate thread (`run/thread.rs`), so
//! that reading `/proc` delays no arrival.

mod failure;
mod sums;
mod thread;
mod workload;

pub use failure::Failure;
pub(crate) use sums::Sums;
pub use workload::Workload;
pub(crate) use workload::{drive, script};

use crate::Instant;
use crate::drive::{Driver, Settings};
use crate::model::Model;
use crate::parse::{Target, Usage};
use crate::report::Report;
use crate::rows::RowFile;
use crate::slo::Slo;
use crate::snapshot::Board;
use crate::stages::Stages;
use crate::stop::{Most, Stop};
use crate::watch::Watch;
pub use crate::watch::Watched;
use crate::work::Think;
use meter::CpuTimes;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::clock;
use thread::RunThread;
use workload::Prepared;

/// The time limit of the requests before and after the run.
const PROBE: Duration = Duration::from_secs(10);
/// The time limit of a window by count.
const COUNT_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The time that the threads get to start.
const HEAD_START: Duration = Duration::from_millis(20);
/// The most kinds of requests that are counted apart, in all threads together: each takes at most
/// 32 KB (two histograms), and half of that with replies within a millisecond.
const KINDS_MAX: usize = 16_384;

/// The length of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// This long.
    For(Duration),
    /// Until this many requests are answered.
    Count(u64),
}

/// A run, as the flags describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// The requests to send to it.
    pub workload: Workload,
    /// The source and the times of requests.
    pub model: Model,
    /// Connections and their use, for all threads together.
    pub settings: Settings,
    /// Addresses of this machine to connect from; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Generators, each a thread with its share of connections and arrivals.
    pub threads: usize,
    /// The seed as given; the workload has it too if it is random.
    pub seed: u64,
    /// Load before the window, not counted in it.
    pub warmup: Duration,
    /// The window.
    pub window: Window,
    /// The processor to run on, if any.
    pub cpu: Option<usize>,
    /// The server whose resource usage is reported.
    pub watch: Option<Watched>,
    /// The objective for response times, if any.
    pub slo: Option<Slo>,
    /// The file with a row for each request of HTTP, if any.
    pub requests_csv: Option<PathBuf>,
    /// The level of users, or the rate in place of the model's, which is their mean.
    pub stages: Option<Arc<Stages>>,
}

impl Plan {
    /// A closed loop of 64 connections for a second, everything else by default.
    pub fn new(target: Target, workload: Workload) -> Self {
        Self {
            target,
            workload,
            model: Model::Closed { depth: 1, think: Think::None, ramp: None },
            settings: Settings::default(),
            sources: Vec::new(),
            threads: 1,
            seed: 1,
            warmup: Duration::from_millis(300),
            window: Window::For(Duration::from_secs(1)),
            cpu: None,
            watch: None,
            slo: None,
            requests_csv: None,
            stages: None,
        }
    }

    /// Makes the file of all requests, if one is asked for.
    fn rows(&self) -> Result<Option<RowFile>, Failure> {
        let file = self.requests_csv.as_deref();
        let file = file.map(|path| RowFile::create(path, &self.target, &self.workload));
        Ok(file.transpose()?)
    }
}

/// The board and the controls of a run.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The board on which every thread publishes a snapshot, ten times a second.
    pub board: Option<Board>,
    /// When set, the current phase ends early and the report covers what is known so far.
    pub stop: Option<Arc<AtomicBool>>,
    /// While set, no requests are sent.
    pub hold: Option<Arc<AtomicBool>>,
}

/// Loads one server as planned.
///
/// # Errors
/// See [`Failure`]. Connection faults and wrong replies are not errors: they are in the report.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    run_with(plan, &Hooks::default())
}

/// [`run`], with hooks.
///
/// # Errors
/// As [`run`].
pub fn run_with(plan: &Plan, hooks: &Hooks) -> Result<Report, Failure> {
    let plan = &Plan { target: plan.target.clone().settled(), ..plan.clone() };
    kinds_fit(plan)?;
    pin(plan.cpu)?;
    plan.sources.iter().try_for_each(|&source| is_here(source))?;
    let rows = plan.rows()?;
    let prepared = Prepared::ask(&plan.target, &plan.workload)?;
    let mut threads = Vec::new();
    for part in 0..plan.threads {
        let mut thread = RunThread::new(plan, &prepared, part)?;
        thread.stop.clone_from(&hooks.stop);
        thread.board.clone_from(&hooks.board);
        if let Some(rows) = &rows {
            thread.drive.write_rows(rows.queue());
        }
        if let Some(hold) = &hooks.hold {
            thread.drive.hold_by(Arc::clone(hold));
        }
        threads.push(thread);
    }
    let started_unix_ms = unix_ms() + plan.warmup.as_millis() as u64;
    let before = CpuTimes::read().ok();
    let mut results = work(plan, threads)?;
    let stopped = hooks.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
    let steal = before.zip(CpuTimes::read().ok()).map(|(then, now)| now.since(then).steal_share());
    let mut report = sums::report(plan, &mut results, started_unix_ms);
    report.doubts.extend(rows.into_iter().flat_map(RowFile::finish));
    if stopped {
        report.doubts.push("the run was stopped early".to_owned());
    }
    if let Some(share) = steal.filter(|&share| share > 0.01) {
        let percent = share * 100.0;
        report.doubts.push(format!("the host took {percent:.1} % of the CPU time (steal)"));
    }
    Ok(report)
}

/// Runs every thread. With a schedule the server is watched from here, because reading a process
/// tree takes longer than an arrival can wait.
fn work(plan: &Plan, threads: Vec<RunThread>) -> Result<Vec<RunThread>, Failure> {
    let start = now() + HEAD_START * (plan.threads as u32 - 1);
    let (over, windows) = mpsc::channel();
    std::thread::scope(|scope| {
        let run = |mut thread: RunThread| {
            let over = over.clone();
            let work = move || thread.work(start, &over).map(|()| thread);
            std::thread::Builder::new().spawn_scoped(scope, work)
        };
        let handles: std::io::Result<Vec<_>> = threads.into_iter().map(run).collect();
        drop(over);
        let doing = "starting a thread";
        let handles = handles.map_err(|error| Failure::Machinery { doing, error })?;
        let reading = match plan.watch.as_ref().filter(|_| plan.model.is_scheduled()) {
            None => None,
            Some(watched) => {
                let watch = Watch::open(watched).map_err(Failure::Watch)?;
                std::thread::sleep((start + plan.warmup).since(now()));
                let before = watch.sample().map_err(Failure::Watch)?;
                // A failed thread sends nothing more.
                let _ = windows.iter().take(plan.threads).count();
                Some(watch.since(&before))
            }
        };
        let mut threads = Vec::new();
        for handle in handles {
            let thread = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            threads.push(thread?);
        }
        if reading.is_some() {
            threads[0].reading = reading;
        }
        Ok(threads)
    })
}

/// Refuses more kinds than a report can count apart in bounded memory.
fn kinds_fit(plan: &Plan) -> Result<(), Failure> {
    let kinds = match &plan.workload {
        Workload::Http(options) => options.requests.len(),
        Workload::Flow(flows, _) => flows.kinds(),
        _ => return Ok(()),
    };
    let threads = plan.threads;
    if !plan.settings.detailed || kinds * threads <= KINDS_MAX {
        return Ok(());
    }
    Err(Failure::Usage(Usage(format!(
        "expected --kinds with at most {KINDS_MAX} requests of a list in all threads, found \
         {kinds} in each of {threads}; use fewer threads, or leave --kinds out"
    ))))
}

/// Pins this thread, and those it will start, to a processor.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), Failure> {
    let Some(cpu) = cpu else { return Ok(()) };
    sys::cpu::set_affinity(&[cpu]).map_err(|error| {
        let count = sys::cpu::count();
        Failure::Usage(Usage(format!(
            "expected one of this machine's processors for --cpu, found {cpu}: {error} (usable: \
             {count})"
        )))
    })
}

/// Checks that connections can come from an address: otherwise each would fail as if ports had run
/// out, since the kernel reports both with one error.
fn is_here(source: IpAddr) -> Result<(), Failure> {
    let bound = TcpListener::bind((source, 0)).map(drop);
    bound.map_err(|error| {
        Failure::Usage(Usage(format!(
            "expected addresses of this machine for --source, found {source}: {error}; `ip \
             address` lists them, and all of 127.0.0.0/8 are"
        )))
    })
}

pub(crate) fn phase(drive: &mut Driver, stop: &Stop) -> Result<(), Failure> {
    drive.phase(stop).map_err(|error| Failure::Machinery { doing: "waiting on the epoll", error })
}

pub(crate) fn now() -> Instant {
    Instant::from_ns(clock::now_ns())
}

/// The wall clock in milliseconds since 1970, to find a run in other logs.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Window {
    /// The rule for a thread that has the `part`-th of `parts` shares.
    fn rule(self, start: Instant, part: usize, parts: usize) -> Stop {
        match self {
            Self::For(span) => Stop::at(start + span, Most::Any),
            Self::Count(count) => {
                let most = Most::Count(share(count as usize, part, parts) as u64);
                Stop::at(start + COUNT_PATIENCE, most)
            }
        }
    }
}

/// The `part`-th of `parts` nearly equal shares of `whole`.
fn share(whole: usize, part: usize, parts: usize) -> usize {
    whole / parts + usize::from(part < whole % parts)
}
