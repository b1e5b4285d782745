//! `load --prometheus` and `load --otlp`: the counts of a load while it runs, at an address that
//! Prometheus scrapes, and for a collector of OpenTelemetry ([`Otlp`]).
//!
//! One thread takes the snapshots that the generator's threads publish, adds them up, passes them
//! on to the live view, and answers. So a slow scraper or collector delays no request. Counters
//! hold the whole run with its warm-up, like those of a server. A scraper that came during the run
//! is given time to come once more: then its last counts are those of the report.

mod otlp;

pub use otlp::Otlp;

use language::info;
use load::snapshot::{Board, Snapshot};
use meter::Spectrum;
use server::admin::{Exposition, Labels};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The pause between two looks for a scraper.
const PAUSE: Duration = Duration::from_millis(20);
/// The time for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest head of a request (bytes).
const HEAD_MAX: usize = 8 << 10;
/// The longest wait for the last scrape.
const LINGER: Duration = Duration::from_secs(20);

/// A scrape address.
#[derive(Debug)]
pub struct Scrape {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The thread's state.
struct Server {
    listener: Option<TcpListener>,
    otlp: Option<Otlp>,
    board: Board,
    view: Option<Board>,
    stop: Option<Arc<AtomicBool>>,
    over: Arc<AtomicBool>,
    totals: LoadTotals,
    is_scraped: bool,
}

/// A form of the counts.
trait Sheet {
    fn counters(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>);
    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>);
    /// The buckets have their upper edges, and counts that do not add up.
    fn histogram(&mut self, name: &str, help: &str, sum: f64, buckets: Vec<(f64, u64)>);
}

impl Sheet for Exposition {
    fn counters(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        self.counters(name, help, rows);
    }

    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        self.gauges(name, help, rows);
    }

    fn histogram(&mut self, name: &str, help: &str, sum: f64, buckets: Vec<(f64, u64)>) {
        self.histogram(name, help, sum, buckets);
    }
}

/// The counts of all threads since the run began.
#[derive(Debug, Default)]
struct LoadTotals {
    /// The last snapshot of each thread.
    last: BTreeMap<usize, Snapshot>,
    failed: u64,
    times: Spectrum,
    tardiness: Spectrum,
    cpu_ns: u64,
}

impl Scrape {
    /// Listens at an address, before the run.
    pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers scrapes of the run that publishes on `board`, or sends its counts to a collector,
    /// and passes its snapshots on to `view`.
    pub fn start(
        (listener, otlp): (Option<TcpListener>, Option<Otlp>),
        board: Board,
        view: Option<Board>,
        stop: Option<Arc<AtomicBool>>,
    ) -> io::Result<Scrape> {
        if let Some(listener) = &listener {
            info!("counts for Prometheus at http://{}/metrics", listener.local_addr()?);
        }
        let over = Arc::<AtomicBool>::default();
        let (totals, is_scraped) = (LoadTotals::default(), false);
        let shared = Arc::clone(&over);
        let server = Server { listener, otlp, board, view, stop, over: shared, totals, is_scraped };
        let thread = thread::Builder::new().name("scrape".to_owned());
        Ok(Scrape { over, thread: thread.spawn(move || server.run())? })
    }

    /// After the run: waits for one more scrape, if there was one.
    pub fn end(self) {
        self.over.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

impl Server {
    fn run(mut self) {
        let mut end = None;
        loop {
            let is_over = self.over.load(Ordering::Acquire);
            let snapshots = self.board.take();
            snapshots.iter().for_each(|snapshot| self.totals.add(snapshot));
            if let Some(view) = &self.view {
                view.extend(snapshots);
            }
            if let Some(otlp) = &mut self.otlp {
                otlp.send(&self.totals, is_over && end.is_none());
            }
            let is_answered = self.answer();
            if is_over {
                let end = *end.get_or_insert(Instant::now() + LINGER);
                let is_stopped = self.stop.as_ref().is_some_and(|it| it.load(Ordering::Relaxed));
                if is_answered || is_stopped || !self.is_scraped || Instant::now() >= end {
                    return;
                }
            }
            thread::sleep(PAUSE);
        }
    }

    /// Answers the clients that wait; whether one has got the counts.
    fn answer(&mut self) -> bool {
        let mut is_answered = false;
        while let Some(Ok((client, _))) = self.listener.as_ref().map(TcpListener::accept) {
            // A client that fails has no counts, and that is all.
            is_answered |= self.talk(client).unwrap_or(false);
        }
        self.is_scraped |= is_answered;
        is_answered
    }

    fn talk(&self, mut client: TcpStream) -> io::Result<bool> {
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        let (mut head, end) = (Vec::new(), Instant::now() + PATIENCE);
        let mut buffer = [0; 1024];
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            let count = client.read(&mut buffer)?;
            head.extend_from_slice(&buffer[..count]);
            if count == 0 || head.len() > HEAD_MAX || Instant::now() > end {
                return Ok(false);
            }
        }
        let mut words = head.split(|&byte| byte == b' ' || byte == b'?' || byte == b'\r');
        let is_known = (words.next(), words.next()) == (Some(&b"GET"[..]), Some(&b"/metrics"[..]));
        let (status, kind, body) = match is_known {
            true => ("200 OK", Exposition::KIND, self.totals.text()),
            false => ("404 Not Found", "text/plain", "expected GET /metrics\n".to_owned()),
        };
        let length = body.len();
        write!(
            client,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )?;
        Ok(is_known)
    }
}

impl LoadTotals {
    fn add(&mut self, snapshot: &Snapshot) {
        self.failed += snapshot.failed;
        self.cpu_ns += snapshot.cpu_ns;
        self.times.merge(&snapshot.times);
        self.tardiness.merge(&snapshot.tardiness);
        self.last.insert(snapshot.part, snapshot.clone());
    }

    fn text(&self) -> String {
        let mut out = Exposition::default();
        self.put(&mut out);
        out.text()
    }

    fn put(&self, out: &mut dyn Sheet) {
        let one = |value: f64| vec![(Labels::new(), value)];
        let sum = |of: fn(&Snapshot) -> u64| one(self.last.values().map(of).sum::<u64>() as f64);
        let (mut statuses, mut faults) = (BTreeMap::new(), load::Faults::default());
        for snapshot in self.last.values() {
            let each = snapshot.statuses.iter();
            each.for_each(|(status, count)| *statuses.entry(*status).or_insert(0) += count);
            faults.merge(&snapshot.faults);
        }
        let row =
            |name: &str, value: String, count: u64| (vec![(name.to_owned(), value)], count as f64);
        out.counters("load_requests", "Replies, right or wrong", sum(|it| it.answered));
        let rows = statuses.into_iter().map(|it| row("status", it.0.to_string(), it.1));
        out.counters("load_replies", "Replies of HTTP by status", rows.collect());
        let kind = |kind| match serde_json::to_value(kind) {
            Ok(serde_json::Value::String(name)) => name,
            _ => String::new(),
        };
        let rows = faults.list.iter().map(|it| row("kind", kind(it.kind), it.count));
        out.counters("load_errors", "Faults of connections and replies by kind", rows.collect());
        let help = "Requests that were answered wrongly, lost or dropped";
        out.counters("load_failed_requests", help, one(self.failed as f64));
        let help = "Times of right replies: from due to done, in a closed loop from sent to done";
        histogram(out, "load_response_seconds", help, &self.times);
        let help = "How late the generator noticed that a request was due";
        histogram(out, "load_generator_delay_seconds", help, &self.tardiness);
        let cpu = self.cpu_ns as f64 / 1e9;
        out.counters("load_generator_cpu_seconds", "CPU time of the generator", one(cpu));
        let stalled = self.last.values().map(|it| it.delays.stalled_ns).sum::<u64>() as f64 / 1e9;
        let help = "Time in this phase for which the generator was kept from running";
        out.gauges("load_generator_stalled_seconds", help, one(stalled));
        let help = "Connections that are up";
        out.gauges("load_connections", help, sum(|it| it.connections as u64));
        out.gauges("load_outstanding", "Unanswered requests", sum(|it| it.outstanding));
        let phase = self.last.values().map(|it| it.phase).min().unwrap_or_default();
        let phase = phase.name().to_owned();
        out.gauges("load_phase", "The phase of the run", vec![row("phase", phase, 1)]);
    }
}

/// Adds a histogram with two buckets an octave, from 16 us to a minute.
fn histogram(out: &mut dyn Sheet, name: &str, help: &str, times: &Spectrum) {
    let found = times.buckets(1);
    let edges = (14..36).flat_map(|octave| [1 << octave, 3 << (octave - 1)]);
    let mut below = 0;
    let bucket = |edge: u64| {
        let inside = found.iter().filter(|(low, _)| (below..edge).contains(low));
        let count = inside.map(|it| it.1).sum::<u64>();
        below = edge;
        (if edge == u64::MAX { f64::MAX } else { edge as f64 / 1e9 }, count)
    };
    let buckets = edges.chain([u64::MAX]).map(bucket).collect();
    let figures = times.quantiles();
    out.histogram(name, help, figures.mean_ns * figures.count as f64 / 1e9, buckets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_add_up_to_counters() {
        let mut totals = LoadTotals::default();
        let snapshot = |part, answered, status| {
            let mut snapshot = Snapshot { part, answered, ..Snapshot::default() };
            snapshot.times.record(20_000, answered);
            snapshot.statuses = [(status, answered)].into();
            snapshot.faults.count(load::FaultKind::ClosedEarly, String::new);
            snapshot
        };
        [snapshot(0, 2, 200), snapshot(1, 3, 404), snapshot(0, 7, 200)]
            .iter()
            .for_each(|it| totals.add(it));
        let text = totals.text();
        for line in [
            "roundhouse_load_requests_total 10.0",
            "roundhouse_load_replies_total{status=\"404\"} 3.0",
            "roundhouse_load_errors_total{kind=\"closed_early\"} 2.0",
            "roundhouse_load_response_seconds_bucket{le=\"0.000016384\"} 0",
            "roundhouse_load_response_seconds_bucket{le=\"0.000024576\"} 12",
            "roundhouse_load_response_seconds_bucket{le=\"+Inf\"} 12",
            "roundhouse_load_phase{phase=\"warmup\"} 1.0",
        ] {
            assert!(text.lines().any(|found| found == line), "expected {line} in\n{text}");
        }
        // Each panel of the board draws metrics that there are.
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana-load.json");
        let board = std::fs::read(file).expect("the board");
        let board: serde_json::Value = serde_json::from_slice(&board).expect("JSON");
        let panels = board["panels"].as_array().expect("panels");
        let exprs = panels.iter().flat_map(|it| it["targets"].as_array().expect("targets"));
        let exprs = exprs.map(|it| it["expr"].as_str().expect("an expression"));
        let names = exprs.flat_map(|it| it.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let names: Vec<&str> = names.filter(|it| it.starts_with("roundhouse_")).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            assert!(text.contains(&format!("\n{name}")), "no metric is {name}");
        }
    }
}
