//! The client simulator of a published study, as a profile of the generator.
//!
//! Jeon, Lee and Kang, "Analysis of Multi-thread Pool Utilization Scheme on the Apache Web Server"
//! (Journal of KISS 32(1), 2005), describe it in section 3.2. A number of client threads start,
//! wait at a barrier until all are there, and connect at the same moment. A client whose connect
//! times out tries again. Then it requests a file; the response time runs from the end of the
//! request to the last byte of the reply, *without connecting*. Each client reconnects for each
//! request until the time is over. Every request is a row of a log, from which throughput and mean
//! are computed.
//!
//! Four additions do not change the published figures: the time *including* connecting is reported
//! beside the other, users may arrive at a rate instead of through the barrier (as in a swarm),
//! guests may come and go so that the load varies, and the first failure is reported with its
//! cause. The first addition matters. A client in the accept queue is already connected, so its
//! clock includes the queue. A client whose SYN was dropped is not connected, so the published time
//! leaves out the worst case.
//!
//! ```text
//! Plan --run--> one thread per client (client.rs) --rows--> Summary (summary.rs), log
//! ```

mod client;
mod summary;

pub use client::Row;
pub use summary::{FirstFailure, Interval, Summary, Times};

use crate::faults::{FaultKind, Faults};
use crate::parse::{Scheme, Target, Usage};
use client::Client;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of clients; each is a thread.
pub const CLIENTS_MAX: u32 = 10_000;
/// The most requests that are kept, at 40 bytes each; a run that reaches it ends.
pub const REQUESTS_MAX: u64 = 1 << 22;
/// Bytes of a client's stack: its buffer lies on the heap.
const STACK: usize = 128 << 10;
/// The interval at which the main thread checks for the end of the run.
const GLANCE: Duration = Duration::from_millis(20);

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The server, which speaks HTTP, and the file.
    pub target: Target,
    /// Clients that stay.
    pub clients: u32,
    /// Clients that come for [`Plan::stay`], leave for as long, and come again.
    pub guests: u32,
    /// The time that guests stay, and the time that they are away.
    pub stay: Duration,
    /// Clients come at this rate (a second) instead of all at once.
    pub ramp: Option<f64>,
    /// Length of the run.
    pub span: Duration,
    /// Replies before this are not counted.
    pub warmup: Duration,
    /// How long a connect or a reply may make no progress.
    pub timeout: Duration,
    /// End shortly after the first failure.
    pub until_failure: bool,
}

/// The data that all clients of a run share.
struct Shared {
    plan: Plan,
    request: Vec<u8>,
    /// The barrier: the beginning of the run, once all clients are there.
    start: Mutex<Option<Instant>>,
    begun: Condvar,
    over: AtomicBool,
    /// Requests answered so far.
    done: AtomicU64,
    /// Connections retried after a timeout.
    retries: AtomicU64,
    /// Clients that have come.
    users: AtomicU32,
    faults: Mutex<(Faults, Option<FirstFailure>)>,
}

impl Plan {
    /// This many clients at `target` for this long, without the additions.
    pub fn new(target: Target, clients: u32, span: Duration) -> Plan {
        Plan {
            target,
            clients,
            guests: 0,
            stay: Duration::from_secs(2),
            ramp: None,
            span,
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(30),
            until_failure: false,
        }
    }

    /// Checks that the plan can be run.
    ///
    /// # Errors
    /// The expected and the actual value.
    pub fn check(&self) -> Result<(), Usage> {
        let all = self.clients.saturating_add(self.guests);
        if self.target.scheme != Scheme::Http || self.target.tls.is_some() {
            return Err(Usage(format!(
                "expected a target http:// for the simulator, found {}",
                self.target
            )));
        }
        if !(1..=CLIENTS_MAX).contains(&all) {
            return Err(Usage(format!(
                "expected 1 to {CLIENTS_MAX} clients for the simulator, each is a thread; found \
                 {all}"
            )));
        }
        if self.guests > 0 && self.stay < Duration::from_millis(10) {
            return Err(Usage("expected guests to stay for 10ms or longer".to_owned()));
        }
        if self.warmup >= self.span {
            return Err(Usage(format!(
                "expected a warm-up shorter than the {:?} of the run, found {:?}",
                self.span, self.warmup
            )));
        }
        Ok(())
    }
}

/// Runs the simulator; returns the summary and every row in order of its start. `stop` ends it
/// early.
///
/// # Errors
/// The plan cannot be run. Failures of connections and replies are in the summary.
pub fn run(plan: &Plan, stop: Option<&AtomicBool>) -> Result<(Summary, Vec<Row>), Usage> {
    plan.check()?;
    let all = plan.clients + plan.guests;
    let shared = Arc::new(Shared {
        request: format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: roundhouse-simulator\r\nConnection: \
             close\r\n\r\n",
            plan.target.path, plan.target.authority
        )
        .into_bytes(),
        plan: plan.clone(),
        start: Mutex::new(None),
        begun: Condvar::new(),
        over: AtomicBool::new(false),
        done: AtomicU64::new(0),
        retries: AtomicU64::new(0),
        users: AtomicU32::new(0),
        faults: Mutex::default(),
    });
    let (start, threads, missing) = begin(&shared, all);
    let mut ended_early = false;
    while start.elapsed() < plan.span && !shared.over.load(Ordering::Relaxed) {
        if stop.is_some_and(|it| it.load(Ordering::Relaxed)) {
            ended_early = true;
            break;
        }
        thread::sleep(GLANCE.min(plan.span.saturating_sub(start.elapsed())));
    }
    shared.over.store(true, Ordering::Relaxed);
    let window = start.elapsed();
    let mut rows: Vec<Row> = Vec::new();
    for thread in threads {
        rows.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    }
    rows.sort_by_key(|row| (row.at_us, row.client));
    let mut summary = Summary::of(plan, &rows, window);
    let found = shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
    summary.errors = found.0.clone();
    summary.first_failure = found.1.clone();
    summary.retries = shared.retries.load(Ordering::Relaxed);
    summary.clients_missing = missing;
    if ended_early {
        summary.doubts.push("the run was stopped early".to_owned());
    }
    if rows.len() as u64 >= REQUESTS_MAX {
        summary.doubts.push(format!("it ended at {REQUESTS_MAX} requests, the most it keeps"));
    }
    Ok((summary, rows))
}

type Threads = Vec<thread::JoinHandle<Vec<Row>>>;

/// Starts the clients; returns the time when they began, their threads, and the number that could
/// not be started.
fn begin(shared: &Arc<Shared>, all: u32) -> (Instant, Threads, u32) {
    let make = |number: u32| {
        let shared = shared.clone();
        let name = format!("client-{number}");
        let work = move || Client::new(number, &shared).work();
        thread::Builder::new().name(name).stack_size(STACK).spawn(work).ok()
    };
    let Some(rate) = shared.plan.ramp else {
        let threads: Threads = (0..all).map_while(make).collect();
        let missing = all - threads.len() as u32;
        return (shared.open(), threads, missing);
    };
    let start = shared.open();
    let mut threads = Vec::new();
    for number in 0..all {
        let due = Duration::from_secs_f64(f64::from(number) / rate);
        thread::sleep(due.saturating_sub(start.elapsed()));
        if start.elapsed() >= shared.plan.span || shared.over.load(Ordering::Relaxed) {
            break;
        }
        match make(number) {
            Some(thread) => threads.push(thread),
            None => return (start, threads, all - number),
        }
    }
    (start, threads, 0)
}

impl Shared {
    /// Opens the barrier and wakes all clients at once (`pthread_cond_broadcast` in the original).
    fn open(&self) -> Instant {
        let now = Instant::now();
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.begun.notify_all();
        now
    }

    /// Waits at the barrier; returns the beginning of the run.
    fn pass(&self) -> Instant {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(start) = *start {
                return start;
            }
            start = self.begun.wait(start).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Counts a failure; the first is kept with its circumstances.
    fn fail(&self, kind: FaultKind, at: Duration, words: String) {
        let mut found = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        found.1.get_or_insert_with(|| FirstFailure {
            at_ms: at.as_secs_f64() * 1e3,
            after_requests: self.done.load(Ordering::Relaxed),
            users: self.users.load(Ordering::Relaxed),
            kind,
            words: words.clone(),
        });
        found.0.count(kind, || words);
        if self.plan.until_failure {
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes the rows as a table: CSV (RFC 4180), times in microseconds from the beginning.
///
/// # Errors
/// Those of `out`.
pub fn write_log(mut out: impl Write, rows: &[Row]) -> io::Result<()> {
    write!(out, "client,at_us,connect_us,response_us,retries,bytes,status\r\n")?;
    for row in rows {
        let Row { client, at_us, connect_us, response_us, retries, bytes, status, .. } = row;
        write!(out, "{client},{at_us},{connect_us},{response_us},{retries},{bytes},{status}\r\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests;
