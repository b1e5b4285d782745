//! The state of a run, from its snapshots.
//!
//! Snapshots of all threads are added to bins of time, of which the last [`BINS_MAX`] are kept. The
//! figures are those of the measured window once it has begun, and of the warm-up before.

use load::Instant;
use load::Plan;
use load::drive::{Delays, StressCounts};
use load::faults::Faults;
use load::health::{Health, Verdict};
use load::run::Window;
use load::snapshot::{Phase, Snapshot};
use meter::Spectrum;
use stats::words::time;
use std::collections::VecDeque;
use std::time::Duration;

const BINS_MAX: usize = 240;
const BIN: Duration = Duration::from_millis(250);
/// The span over which the present rate is computed.
const NOW: Duration = Duration::from_secs(1);
/// The kinds of faults that are shown.
const FAULTS_MAX: usize = 3;

/// A run so far.
pub struct View {
    /// Target, model, connections.
    pub head: String,
    /// The kind of times: `response`, `service`, `batch` or `echo`.
    pub times: &'static str,
    /// The part of the run.
    pub phase: Phase,
    /// Replies over time.
    pub bins: VecDeque<Bin>,
    /// The sums of the present phase; while it drains, those of the window.
    pub sum: Sum,
    /// All faults.
    pub faults: Faults,
    /// The counts of a stress client, if there is one.
    pub strain: Option<StressCounts>,
    warmup: Duration,
    window: Window,
    scheduled: bool,
    start: Option<Instant>,
    /// The last snapshot of each thread.
    last: Vec<Snapshot>,
}

/// Replies of some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    place: usize,
    /// The length for which snapshots have arrived (seconds), as the mean of all threads.
    length: f64,
    /// Right replies.
    done: u64,
}

/// Sums of a phase.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Right replies.
    pub done: u64,
    /// Failed requests.
    pub failed: u64,
    /// Times of the right replies (ns).
    pub times: Spectrum,
    tardiness: Spectrum,
    /// By thread: CPU time (ns).
    cpu_ns: Vec<u64>,
    start: Option<Instant>,
    end: Instant,
}

impl View {
    /// A view without snapshots.
    pub fn new(plan: &Plan) -> Self {
        let scheduled = plan.model.is_scheduled();
        let depth = plan.model.depth();
        let rate = plan.model.rate().map(|rate| format!(" of {rate}/s")).unwrap_or_default();
        let head = format!(
            "{} · {}{rate} · {} connections x depth {depth}",
            plan.target,
            if scheduled { plan.model.name() } else { "closed loop" },
            plan.settings.connections,
        );
        let times = match (scheduled, depth) {
            (true, _) => "response",
            (false, 1) => "service",
            (false, _) if plan.settings.tops_up => "echo",
            (false, _) => "batch",
        };
        Self {
            head,
            times,
            phase: Phase::Warmup,
            bins: VecDeque::new(),
            sum: Sum::default(),
            faults: Faults::default(),
            strain: plan.settings.tops_up.then(StressCounts::default),
            warmup: plan.warmup,
            window: plan.window,
            scheduled,
            start: None,
            last: vec![Snapshot::default(); plan.threads],
        }
    }

    /// Adds new snapshots.
    pub fn add(&mut self, snapshots: Vec<Snapshot>) {
        for snapshot in snapshots {
            let start = *self.start.get_or_insert(snapshot.start);
            if snapshot.phase > self.phase {
                self.phase = snapshot.phase;
                if snapshot.phase == Phase::Window {
                    self.sum = Sum::default();
                }
            }
            if snapshot.phase == self.phase.min(Phase::Window) {
                self.sum.add(&snapshot);
            }
            self.bin(start, &snapshot);
            let part = snapshot.part;
            if let Some(last) = self.last.get_mut(part) {
                *last = snapshot;
            }
        }
        let mut faults = Faults::default();
        self.last.iter().for_each(|snapshot| faults.merge(&snapshot.faults));
        self.faults = faults;
        if let Some(strain) = &mut self.strain {
            *strain = StressCounts::default();
            self.last.iter().for_each(|snapshot| strain.merge(&snapshot.stress));
        }
    }

    /// A snapshot belongs to the bin in which it began.
    fn bin(&mut self, start: Instant, snapshot: &Snapshot) {
        let place = (snapshot.start.since(start).as_nanos() / BIN.as_nanos()) as usize;
        if self.bins.back().is_none_or(|last| last.place < place) {
            self.bins.push_back(Bin { place, ..Bin::default() });
        }
        if self.bins.len() > BINS_MAX {
            self.bins.pop_front();
        }
        if let Some(bin) = self.bins.back_mut() {
            bin.length += snapshot.end.since(snapshot.start).as_secs_f64() / self.last.len() as f64;
            bin.done += snapshot.done;
        }
    }

    /// Whether snapshots have arrived.
    pub fn has_begun(&self) -> bool {
        self.start.is_some()
    }

    /// The planned length of warm-up and window, if there is one.
    pub fn planned(&self) -> Option<Duration> {
        match self.window {
            Window::For(span) => Some(self.warmup + span),
            Window::Count(_) => None,
        }
    }

    /// The fraction of the window that has passed, 0 to 1, and the same as text.
    pub fn progress(&self) -> (f64, String) {
        let over = self.sum.length();
        let requests = self.sum.done;
        let phase = match self.phase {
            Phase::Warmup => {
                let share = over.as_secs_f64() / self.warmup.as_secs_f64().max(1e-9);
                return (share.min(1.0), format!("warm-up · {}", of(over, Some(self.warmup))));
            }
            Phase::Window => "",
            Phase::Drain => "waiting for the last replies · ",
        };
        let (share, length) = match self.window {
            Window::For(span) => {
                (over.as_secs_f64() / span.as_secs_f64().max(1e-9), of(over, Some(span)))
            }
            Window::Count(count) => {
                (requests as f64 / count.max(1) as f64, format!("of {count} · {}", of(over, None)))
            }
        };
        let words = match self.window {
            Window::Count(_) => format!("{phase}{requests} requests {length}"),
            _ => format!("{phase}{length} · {requests} requests"),
        };
        (share.min(1.0), words)
    }

    /// The present rate of right replies a second.
    pub fn rate(&self) -> f64 {
        let mut now = Bin::default();
        for bin in self.bins.iter().rev() {
            (now.length, now.done) = (now.length + bin.length, now.done + bin.done);
            if now.length >= NOW.as_secs_f64() {
                break;
            }
        }
        now.rate()
    }

    /// Requests without an answer, and connections.
    pub fn open(&self) -> (u64, usize) {
        let outstanding = self.last.iter().map(|snapshot| snapshot.outstanding).sum();
        (outstanding, self.last.iter().map(|snapshot| snapshot.connections).sum())
    }

    /// The verdict if the run ended now.
    pub fn health(&self) -> Health {
        let mut delays = Delays::default();
        self.last.iter().for_each(|snapshot| delays.merge(&snapshot.delays));
        let window_ns = self.sum.length().as_nanos() as u64;
        let share = |(snapshot, cpu_ns): (&Snapshot, &u64)| {
            cpu_ns.saturating_sub(snapshot.delays.spun_ns) as f64 / window_ns.max(1) as f64
        };
        let busy = self.last.iter().zip(&self.sum.cpu_ns).map(share).fold(0.0, f64::max);
        let health = Health {
            busy,
            stalled_ns: delays.stalled_ns,
            stall_ns_max: delays.stall_ns_max,
            tardiness: self.sum.tardiness.quantiles(),
            ..Health::default()
        };
        let window_ns = window_ns * self.last.len() as u64;
        health.judged(self.scheduled, window_ns, 0, &self.sum.times.quantiles())
    }

    /// The percentiles that enough values support, with their names.
    pub fn percentiles(&self) -> Vec<(&'static str, u64)> {
        let times = &self.sum.times;
        let found = times.quantiles();
        let mut list = Vec::new();
        if found.count > 0 {
            list.extend([("p50", found.p50_ns), ("p90", found.p90_ns)]);
            list.extend(found.p99_ns.map(|ns| ("p99", ns)));
            list.extend(found.p999_ns.map(|ns| ("p99.9", ns)));
            list.push(("max", found.max_ns));
        }
        list
    }

    /// How many errors, in words.
    pub fn errors(&self) -> String {
        match self.faults.total().max(self.sum.failed) {
            0 => "no errors".to_owned(),
            1 => "1 error".to_owned(),
            count => format!("{count} errors"),
        }
    }

    /// The figures, a name and its words in each line, and whether it is bad news.
    pub fn lines(&self) -> Vec<(String, bool)> {
        let health = self.health();
        let times = self.percentiles();
        let times = times.iter().map(|&(name, ns)| format!("{name} {}", time(ns as f64)));
        let times = times.collect::<Vec<_>>().join(" · ");
        let (outstanding, connections) = self.open();
        let late = &health.tardiness;
        let noticed = match late.count {
            0 => String::new(),
            _ => {
                format!(", p99 of its lateness {}", time(late.p99_ns.unwrap_or(late.p90_ns) as f64))
            }
        };
        let stalls = match health.stalled_ns {
            0 => String::new(),
            ns => format!(", kept from running {}", time(ns as f64)),
        };
        let (verdict, busy) = (health.verdict, health.busy * 100.0);
        let is_held = verdict != Verdict::Ok;
        let is_wrong = self.faults.total() + self.sum.failed > 0;
        let mut lines = vec![
            (format!("{:<12}  {times}", format!("{} time", self.times)), false),
            (
                format!("open          {outstanding} outstanding on {connections} connections"),
                false,
            ),
            (format!("generator     {verdict}, {busy:.0} % busy{noticed}{stalls}"), is_held),
        ];
        lines.extend(health.reasons.iter().map(|why| (format!("              {why}"), is_held)));
        if let Some(strain) = self.strain {
            let StressCounts { logins, logins_missing, logins_twice, echoes_late, .. } = strain;
            let StressCounts { renewals, abandoned, closed_by_server, .. } = strain;
            let bad = logins_missing + logins_twice + echoes_late + closed_by_server > 0;
            let text = format!(
                "stress        logins {logins}, missing {logins_missing}, twice {logins_twice}; \
                 echoes not within 1 s {echoes_late}; ended by the server {closed_by_server}; \
                 renewed {renewals} with {abandoned} under way"
            );
            lines.push((text, bad));
        }
        lines.push((format!("errors        {}", self.errors()), is_wrong));
        let faults = self.faults.list.iter().rev().take(FAULTS_MAX);
        lines.extend(faults.map(|fault| {
            (format!("              {} {}: {}", fault.count, fault.kind, fault.example), true)
        }));
        lines
    }

    /// The state as one line of text.
    pub fn line(&self) -> String {
        let (_, progress) = self.progress();
        let times: Vec<String> = self
            .percentiles()
            .iter()
            .map(|&(name, ns)| format!("{name} {}", time(ns as f64)))
            .collect();
        let (outstanding, _) = self.open();
        let health = self.health();
        format!(
            "{progress} · {:.0}/s · {} · {outstanding} outstanding · {} · generator {}, {:.0} % \
             busy",
            self.rate(),
            if times.is_empty() { "no reply yet".to_owned() } else { times.join(" ") },
            self.errors(),
            health.verdict,
            health.busy * 100.0,
        )
    }
}

impl Bin {
    /// Right replies a second.
    pub fn rate(&self) -> f64 {
        if self.length > 0.0 { self.done as f64 / self.length } else { 0.0 }
    }
}

impl Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        let start = self.start.get_or_insert(snapshot.start);
        *start = (*start).min(snapshot.start);
        self.end = self.end.max(snapshot.end);
        self.done += snapshot.done;
        self.failed += snapshot.failed;
        self.times.merge(&snapshot.times);
        self.tardiness.merge(&snapshot.tardiness);
        if self.cpu_ns.len() <= snapshot.part {
            self.cpu_ns.resize(snapshot.part + 1, 0);
        }
        self.cpu_ns[snapshot.part] += snapshot.cpu_ns;
    }

    /// The length of the phase so far.
    pub fn length(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| self.end.since(start))
    }
}

/// A length in seconds, with the planned length if there is one.
fn of(length: Duration, whole: Option<Duration>) -> String {
    let seconds = length.as_secs_f64();
    match whole {
        Some(whole) => format!("{seconds:.1} of {:.1} s", whole.as_secs_f64()),
        None => format!("{seconds:.1} s"),
    }
}
