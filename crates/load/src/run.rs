//! One measurement of one server: probe, warm up, measure, drain, audit.

use crate::arrive::Closed;
use crate::drive::{Drive, Settings, Tally};
use crate::parse::{Target, Usage};
use crate::probe;
use crate::report::{Check, Report, SCHEMA};
use crate::script::{Line, LineOptions, Script, Stock, StockOptions};
use crate::stop::{ByCount, ByTime, Drained, Stop};
use crate::watch::{self, Watch};
use meter::ProcError;
use seam::Instant;
use std::fmt;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::clock;

/// How long the questions before and after the run may take.
const PROBE: Duration = Duration::from_secs(10);
/// How long a window by count may take at most.
const COUNT_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// What to say to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Talk {
    /// The market's commands.
    Stock(StockOptions),
    /// A constant request.
    Line(LineOptions),
}

/// How long the window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// So long.
    For(Duration),
    /// Until so many replies have come.
    Count(u64),
}

/// A run, as the flags describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// What to say to it.
    pub talk: Talk,
    /// Connections and their keeping.
    pub settings: Settings,
    /// Requests in one write.
    pub depth: u32,
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
}

/// Why there is no report.
#[derive(Debug)]
pub enum Failure {
    /// The flags make no sense for this server.
    Usage(Usage),
    /// A question before or after the run was not answered.
    Probe {
        /// Which server.
        target: String,
        /// What was being done.
        doing: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The generator's own machinery failed.
    Machinery {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The server's process tree cannot be read.
    Watch(ProcError),
    /// The server did not answer everything between two windows of a duet.
    Undrained {
        /// Which server.
        target: String,
        /// Requests without a reply.
        outstanding: u64,
    },
}

/// Loads one server as planned.
///
/// # Errors
/// See [`Failure`]. Faults of connections and wrong replies are no errors: they are in the report.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    pin(plan.cpu)?;
    let script = script(&plan.target, &plan.talk, plan.settings.connections)?;
    let mut drive = drive(&plan.target, plan.settings, plan.depth, script)?;
    let mut doubts = Vec::new();

    if !plan.warmup.is_zero() {
        phase(&mut drive, &ByTime { end: now() + plan.warmup })?;
    }
    let warm = drive.take_tally();

    let started_unix_ms = unix_ms();
    let watch = plan.watch.map(Watch::start).transpose().map_err(Failure::Watch)?;
    let (start, own_ns) = (now(), watch::own_cpu_ns());
    phase(&mut drive, &*plan.window.rule(start))?;
    let window_ns = now().since(start).as_nanos() as u64;
    let generator = watch::generator(own_ns, window_ns);
    let tally = drive.take_tally();
    let server = watch.and_then(|watch| match watch.report(tally.done, &mut doubts) {
        Ok(server) => Some(server),
        Err(e) => {
            doubts.push(e.to_string());
            None
        }
    });

    drive.part(true);
    phase(&mut drive, &Drained { end: now() + plan.settings.drain })?;
    let late = drive.take_tally();
    let censored = drive.close();
    let check = audit(&plan.target, drive.script());
    if generator.busy > 0.9 {
        let percent = generator.busy * 100.0;
        doubts.push(format!("the generator was {percent:.0} % busy and may have been the limit"));
    }
    let requests_total = warm.done + tally.done + late.done;
    let times = times(&tally, &late);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        target: plan.target.to_string(),
        model: "closed".to_owned(),
        connections: plan.settings.connections,
        depth: plan.depth,
        seed: plan.seed,
        requests_per_connection: plan.settings.requests_per_connection,
        window_ns,
        requests: tally.done,
        requests_total,
        throughput_rps: tally.done as f64 * 1e9 / window_ns.max(1) as f64,
        service: times.service.quantiles(),
        response: times.response.quantiles(),
        lateness: times.lateness.quantiles(),
        errors: drive.faults.clone(),
        lost: drive.lost,
        censored,
        check,
        generator,
        server,
        started_unix_ms,
        doubts,
    })
}

/// The times of the window and of the drain behind it together.
fn times(window: &Tally, late: &Tally) -> Tally {
    let mut both = window.clone();
    both.service.merge(&late.service);
    both.response.merge(&late.response);
    both.lateness.merge(&late.lateness);
    both
}

/// Ties this thread to a processor.
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

/// Makes the script for a server; a market is asked for its rows first.
pub(crate) fn script(
    target: &Target,
    talk: &Talk,
    connections: usize,
) -> Result<Box<dyn Script>, Failure> {
    let doing = "asking before the run";
    let ask = |request: &[u8], whole: &dyn Fn(&[u8]) -> bool| {
        let target_text = || target.to_string();
        probe::ask(target.address, request, whole, PROBE).map_err(|error| Failure::Probe {
            target: target_text(),
            doing,
            error,
        })
    };
    match talk {
        Talk::Line(options) => {
            ask(b"", &|_| true)?;
            Ok(Box::new(Line::new(options.clone(), connections)))
        }
        Talk::Stock(options) => {
            let text = |reply: &[u8]| Stock::show_text(options.framing, reply).map(<[u8]>::to_vec);
            let reply = ask(crate::script::SHOW, &|reply| text(reply).is_some())?;
            let rows = text(&reply).unwrap_or_default();
            let stock = Stock::new(options.clone(), &rows, connections).map_err(Failure::Usage)?;
            Ok(Box::new(stock))
        }
    }
}

/// Makes the generator of a closed loop.
pub(crate) fn drive(
    target: &Target,
    settings: Settings,
    depth: u32,
    script: Box<dyn Script>,
) -> Result<Drive, Failure> {
    Drive::new(target.address, settings, Box::new(Closed::new(depth)), script)
        .map_err(|error| Failure::Machinery { doing: "making an epoll", error })
}

/// Runs one phase.
pub(crate) fn phase(drive: &mut Drive, stop: &dyn Stop) -> Result<(), Failure> {
    drive.phase(stop).map_err(|error| Failure::Machinery { doing: "waiting on the epoll", error })
}

/// Asks the script's last question on a fresh connection and takes its verdict.
pub(crate) fn audit(target: &Target, script: &dyn Script) -> Check {
    if script.audit().is_empty() {
        return script.verdict(b"");
    }
    let whole = |reply: &[u8]| script.audit_is_whole(reply);
    match probe::ask(target.address, script.audit(), whole, PROBE) {
        Ok(reply) => script.verdict(&reply),
        Err(e) => Check {
            kind: "conservation".to_owned(),
            ok: false,
            detail: format!("no answer to the question after the run: {e}"),
        },
    }
}

pub(crate) fn now() -> Instant {
    Instant::from_ns(clock::now_ns())
}

/// The wall clock in milliseconds since 1970, to find a run in other logs.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Window {
    fn rule(self, start: Instant) -> Box<dyn Stop> {
        match self {
            Self::For(span) => Box::new(ByTime { end: start + span }),
            Self::Count(count) => Box::new(ByCount { count, end: start + COUNT_PATIENCE }),
        }
    }
}

impl From<Usage> for Failure {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(usage) => usage.fmt(f),
            Self::Probe { target, doing, error } => {
                write!(f, "{target}: {doing}: expected a server that answers, found: {error}; ")?;
                match error.kind() {
                    io::ErrorKind::ConnectionRefused => {
                        f.write_str("start one, such as `roundhouse serve stock`, or name its port")
                    }
                    _ => f.write_str("is it another protocol, another --framing, or stuck?"),
                }
            }
            Self::Machinery { doing, error } => write!(f, "{doing}: {error}"),
            Self::Watch(error) => write!(f, "--watch: {error}"),
            Self::Undrained { target, outstanding } => write!(
                f,
                "{target}: expected every reply before the other server's turn, found \
                 {outstanding} missing; a server that serves few clients at a \
                 time needs --requests-per-connection or fewer connections"
            ),
        }
    }
}

impl std::error::Error for Failure {}
