//! One measurement of one server: probe, warm up, measure, drain, audit, judge.
//!
//! The thread that is asked to run only coordinates; each generator is a thread of its own
//! (`run/shift.rs`), so that reading `/proc` and telling an observer costs no arrival its moment.

mod failure;
mod shift;
mod sums;
mod talk;

pub use failure::Failure;
pub use talk::Talk;
pub(crate) use talk::{audit, drive, script};

use crate::beat::Board;
use crate::calibrate::Baseline;
use crate::drive::{Drive, Settings, Stretch};
use crate::model::Model;
use crate::parse::{Target, Usage};
use crate::report::Report;
use crate::slo::Slo;
use crate::stop::{ByCount, ByPrecision, ByTime, Precision, Stop};
use crate::watch::Watch;
use crate::work::Think;
use meter::{CpuTimes, Histogram};
use seam::Instant;
use shift::{Reading, Shift};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::clock;
use talk::Prepared;

/// How long the questions before and after the run may take.
const PROBE: Duration = Duration::from_secs(10);
/// How long a window by count may take at most.
const COUNT_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long threads beside the first may take to be there.
const HEAD_START: Duration = Duration::from_millis(20);
/// Stretches of time in a window by precision.
const LOOKS: Duration = Duration::from_millis(100);

/// How long the window is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// So long.
    For(Duration),
    /// Until so many requests are answered.
    Count(u64),
    /// Until a number is known so well, but at most so long.
    Precise(Precision, Duration),
}

/// A run, as the flags describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// What to say to it.
    pub talk: Talk,
    /// Who asks, and when.
    pub model: Model,
    /// Connections and their keeping, of all threads together.
    pub settings: Settings,
    /// Addresses of this machine to connect from; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Generators, each a thread with its share of connections and arrivals.
    pub threads: usize,
    /// What was given as the seed; the talk holds it too if it draws.
    pub seed: u64,
    /// Load before the window, not counted in it.
    pub warmup: Duration,
    /// The window.
    pub window: Window,
    /// The processor to run on, if any.
    pub cpu: Option<usize>,
    /// Root of the server's process tree, if it is to be watched.
    pub watch: Option<u32>,
    /// What the response times should be, if that is to be judged.
    pub slo: Option<Slo>,
    /// What the generator can do on this machine, if it was calibrated.
    pub baseline: Option<Baseline>,
}

impl Plan {
    /// A closed loop of 64 connections for a second, with nothing else asked for.
    pub fn new(target: Target, talk: Talk) -> Self {
        Self {
            target,
            talk,
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
            baseline: None,
        }
    }

    /// The stretches of time of which an onlooker is told.
    pub fn interval(&self) -> Duration {
        match self.window {
            Window::Precise(..) => LOOKS,
            Window::For(_) | Window::Count(_) => self.settings.interval,
        }
    }
}

/// Who is told of every stretch of time of every thread (numbered from 0), in that thread. It
/// should be quick: what it takes, arrivals wait.
pub type Onlooker = Arc<dyn Fn(usize, Stretch<'_>) + Send + Sync>;

/// Who watches a run, and may end it.
#[derive(Clone, Default)]
pub struct Company {
    /// Is told of every [`Settings::interval`].
    pub onlooker: Option<Onlooker>,
    /// Where every thread leaves a beat, ten times a second.
    pub board: Option<Board>,
    /// Set it, and the phase that runs is over: what is known so far is reported.
    pub stop: Option<Arc<AtomicBool>>,
    /// While it is set, nobody asks.
    pub hold: Option<Arc<AtomicBool>>,
}

/// Every measured time of a run (ns), those of the drain too.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// From due to done.
    pub response: Histogram,
    /// From sent to done.
    pub service: Histogram,
    /// From due to sent.
    pub lateness: Histogram,
}

/// Loads one server as planned.
///
/// # Errors
/// See [`Failure`]. Faults of connections and wrong replies are no errors: they are in the report.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    run_with(plan, &Company::default())
}

/// The same in company.
///
/// # Errors
/// As [`run`].
pub fn run_with(plan: &Plan, company: &Company) -> Result<Report, Failure> {
    measure(plan, company).map(|(report, _)| report)
}

/// The same, with the histograms that the report is made from.
///
/// # Errors
/// As [`run`].
pub fn measure(plan: &Plan, company: &Company) -> Result<(Report, Recorded), Failure> {
    pin(plan.cpu)?;
    plan.sources.iter().try_for_each(|&source| is_here(source))?;
    let prepared = Prepared::ask(&plan.target, &plan.talk)?;
    let mut shifts = Vec::new();
    for part in 0..plan.threads {
        let mut shift = Shift::new(plan, &prepared, part)?;
        shift.stop.clone_from(&company.stop);
        shift.board.clone_from(&company.board);
        if let Some(hold) = &company.hold {
            shift.drive.hold_by(Arc::clone(hold));
        }
        if let Some(onlooker) = company.onlooker.clone() {
            shift.drive.observe(Box::new(move |stretch| onlooker(part, stretch)));
        }
        shifts.push(shift);
    }
    let started_unix_ms = unix_ms() + plan.warmup.as_millis() as u64;
    let before = CpuTimes::read().ok();
    let mut results = work(plan, shifts)?;
    let stopped = company.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
    let steal = before.zip(CpuTimes::read().ok()).map(|(then, now)| now.since(then).steal_share());
    let (mut report, recorded) = sums::report(plan, &mut results, started_unix_ms);
    if stopped {
        report.doubts.push("it was stopped before its time".to_owned());
    }
    if let Some(share) = steal.filter(|&share| share > 0.01) {
        let percent = share * 100.0;
        report.doubts.push(format!("the host took {percent:.1} % of the processors' time away"));
    }
    Ok((report, recorded))
}

/// Lets every shift work. Where arrivals have a schedule the server is watched from here, because
/// reading a process tree takes a while, which the generator does not have.
fn work(plan: &Plan, shifts: Vec<Shift>) -> Result<Vec<Shift>, Failure> {
    let start = now() + HEAD_START * (plan.threads as u32 - 1);
    let (over, windows) = mpsc::channel();
    std::thread::scope(|scope| {
        let run = |mut shift: Shift| {
            let over = over.clone();
            scope.spawn(move || shift.work(start, &over).map(|()| shift))
        };
        let threads: Vec<_> = shifts.into_iter().map(run).collect();
        drop(over);
        let reading = match plan.watch.filter(|_| plan.model.is_scheduled()) {
            None => None,
            Some(root) => {
                std::thread::sleep((start + plan.warmup).since(now()));
                let watch = Watch::start(root).map_err(Failure::Watch)?;
                // No more words come if a thread has failed.
                let _ = windows.iter().take(plan.threads).count();
                Some(Reading::of(&watch))
            }
        };
        let mut shifts = Vec::new();
        for thread in threads {
            let shift = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            shifts.push(shift?);
        }
        if reading.is_some() {
            shifts[0].reading = reading;
        }
        Ok(shifts)
    })
}

/// Ties this thread, and those it will make, to a processor.
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

/// Whether connections can come from an address: else each of them would fail as if ports had run
/// out, for the kernel has one word for both.
fn is_here(source: IpAddr) -> Result<(), Failure> {
    let bound = TcpListener::bind((source, 0)).map(drop);
    bound.map_err(|error| {
        Failure::Usage(Usage(format!(
            "expected addresses of this machine for --source, found {source}: {error}; `ip \
             address` lists them, and all of 127.0.0.0/8 are"
        )))
    })
}

/// Runs one phase.
pub(crate) fn phase(drive: &mut Drive, stop: &dyn Stop) -> Result<(), Failure> {
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
    fn rule(self, start: Instant, part: usize, parts: usize) -> Box<dyn Stop> {
        match self {
            Self::For(span) => Box::new(ByTime { end: start + span }),
            Self::Count(count) => Box::new(ByCount {
                count: share(count as usize, part, parts) as u64,
                end: start + COUNT_PATIENCE,
            }),
            Self::Precise(precision, most) => Box::new(ByPrecision::new(precision, start + most)),
        }
    }
}

/// The `part`-th of `parts` nearly equal shares of `whole`.
fn share(whole: usize, part: usize, parts: usize) -> usize {
    whole / parts + usize::from(part < whole % parts)
}
