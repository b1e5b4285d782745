//! `load --otlp`: the counts for a collector of OpenTelemetry, by OTLP over HTTP, once a second and
//! at the end.
//!
//! The messages are JSON (OTLP 1.3, "JSON Protobuf Encoding"): keys are the fields' names in
//! lowerCamelCase, enumerations are numbers, and integers of 64 bits are strings.

use super::{Labels, LoadTotals, PATIENCE, Sheet};
use load::parse::Scheme;
use load::tls::Layers;
use load::{Target, Usage, probe};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

/// The time between two exports.
const EVERY: Duration = Duration::from_secs(1);

/// A collector, and what it was sent.
#[derive(Debug)]
pub struct Otlp {
    target: Target,
    layers: Option<Layers>,
    /// Nanoseconds since 1970.
    start: u64,
    next: Instant,
    /// The number of exports that failed, and why the last one did.
    failed: Option<(u64, io::Error)>,
}

struct Export {
    start: u64,
    now: u64,
    list: Vec<Value>,
}

impl Otlp {
    /// The collector at `url`, which has taken an empty export.
    pub fn new(url: &str) -> Result<Otlp, Usage> {
        let bad = |why: String| Usage(format!("--otlp: {why}"));
        let mut target = url.parse::<Target>().map_err(|why| bad(why.to_string()))?.settled();
        if target.scheme != Scheme::Http {
            return Err(bad(format!("expected http://HOST:4318, found {url}")));
        }
        // By the specification of OTLP the path of a signal follows that of the collector.
        target.path = format!("{}/v1/metrics", target.path.trim_end_matches('/'));
        let layers = Layers::of(&target).map_err(|why| bad(why.to_string()))?;
        let start = sys::clock::wall_ns(sys::clock::now_ns());
        let otlp = Otlp { target, layers, start, next: Instant::now() + EVERY, failed: None };
        match otlp.post("{}") {
            Ok(()) => Ok(otlp),
            Err(why) => Err(bad(format!("expected a collector at {url}, found {why}"))),
        }
    }

    /// Sends the counts if their time has come, or the run is over.
    pub(super) fn send(&mut self, totals: &LoadTotals, is_over: bool) {
        if !is_over && Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        let now = sys::clock::wall_ns(sys::clock::now_ns());
        let mut out = Export { start: self.start, now, list: Vec::new() };
        totals.put(&mut out);
        let name = attributes(&vec![("service.name".to_owned(), "roundhouse load".to_owned())]);
        let export = json!({"resourceMetrics": [{
            "resource": {"attributes": name},
            "scopeMetrics": [{"metrics": out.list}],
        }]});
        if let Err(why) = self.post(&export.to_string()) {
            let count = self.failed.as_ref().map_or(0, |it| it.0);
            self.failed = Some((count + 1, why));
        }
        if let Some((count, why)) = self.failed.as_ref().filter(|_| is_over) {
            language::eprintln!("--otlp: {count} exports failed; the last: {why}");
        }
    }

    fn post(&self, body: &str) -> io::Result<()> {
        let Target { path, authority, .. } = &self.target;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let whole = |reply: &[u8]| reply.contains(&b'\n');
        let (layers, request) = (self.layers.as_ref(), request.as_bytes());
        let reply = probe::ask(&self.target, layers, request, whole, PATIENCE)?;
        match reply.get(9..12) {
            Some(b"200") => Ok(()),
            _ => {
                let line = reply.split(|it| *it == b'\r').next().unwrap_or_default();
                Err(io::Error::other(format!("`{}`", stats::words::visible(line, 60))))
            }
        }
    }
}

fn attributes(labels: &Labels) -> Vec<Value> {
    labels.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
}

impl Export {
    /// Adds a metric whose `data` are of this `kind`, the name of its field.
    fn add(&mut self, name: &str, help: &str, kind: &str, data: Value) {
        let unit = if name.ends_with("_seconds") { "s" } else { "" };
        let name = format!("roundhouse_{name}");
        self.list.push(json!({"name": name, "description": help, "unit": unit, kind: data}));
    }

    fn points(&self, rows: &[(Labels, f64)]) -> Vec<Value> {
        let point = |(labels, value): &(Labels, f64)| {
            json!({
                "attributes": attributes(labels),
                "startTimeUnixNano": self.start.to_string(),
                "timeUnixNano": self.now.to_string(),
                "asDouble": value,
            })
        };
        rows.iter().map(point).collect()
    }
}

/// The number of `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u32 = 2;

impl Sheet for Export {
    fn counters(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        let points = self.points(&rows);
        let data = json!({
            "dataPoints": points,
            "aggregationTemporality": CUMULATIVE,
            "isMonotonic": true,
        });
        self.add(name, help, "sum", data);
    }

    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        let points = self.points(&rows);
        self.add(name, help, "gauge", json!({"dataPoints": points}));
    }

    fn histogram(&mut self, name: &str, help: &str, sum: f64, mut buckets: Vec<(f64, u64)>) {
        let count: u64 = buckets.iter().map(|it| it.1).sum();
        let counts: Vec<_> = buckets.iter().map(|it| it.1.to_string()).collect();
        // The last one has no upper edge.
        buckets.pop();
        let bounds: Vec<_> = buckets.iter().map(|it| it.0).collect();
        let point = json!({
            "startTimeUnixNano": self.start.to_string(),
            "timeUnixNano": self.now.to_string(),
            "count": count.to_string(),
            "sum": sum,
            "bucketCounts": counts,
            "explicitBounds": bounds,
        });
        let data = json!({"dataPoints": [point], "aggregationTemporality": CUMULATIVE});
        self.add(name, help, "histogram", data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::Scrape;
    use load::snapshot::{Board, Snapshot};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    /// A collector that answers a number of exports with `status`, and returns them.
    fn collector(count: usize, status: &str) -> (String, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let export = move |client: io::Result<std::net::TcpStream>| {
            let mut client = BufReader::new(client.expect("a client"));
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                client.read_until(b'\n', &mut head).expect("a head");
            }
            let head = String::from_utf8(head).expect("text");
            assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
            let length = head.split("Content-Length: ").nth(1).and_then(|it| it.lines().next());
            let mut body = vec![0; length.and_then(|it| it.parse().ok()).expect("a length")];
            client.read_exact(&mut body).expect("a body");
            client.get_mut().write_all(reply.as_bytes()).expect("it listens");
            body
        };
        (url, thread::spawn(move || listener.incoming().take(count).map(export).collect()))
    }

    #[test]
    fn a_collector_gets_the_counts() {
        let (url, received) = collector(2, "200 OK");
        let otlp = Otlp::new(&url).expect("a collector");
        let mut snapshot = Snapshot { answered: 10, connections: 4, ..Snapshot::default() };
        snapshot.times.record(20_000, 7);
        snapshot.statuses = [(200, 7), (500, 3)].into();
        snapshot.faults.count(load::FaultKind::ClosedEarly, String::new);
        let board = Board::default();
        board.extend(vec![snapshot]);
        Scrape::start((None, Some(otlp)), board, None, None).expect("a thread").end();
        let bodies = received.join().expect("two exports");
        let export: Value = serde_json::from_slice(&bodies[1]).expect("JSON");
        let metrics = &export["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let found = |name: &str, kind: &str| {
            let name = format!("roundhouse_load_{name}");
            let metric = metrics.as_array().expect("a list").iter().find(|it| it["name"] == *name);
            metric.expect("the metric")[kind].clone()
        };
        let rows = |name: &str, kind: &str| {
            let label = |it: &Value| it["attributes"][0]["value"]["stringValue"].clone();
            let row = |it: &Value| (label(it), it["asDouble"].clone());
            let data = found(name, kind);
            data["dataPoints"].as_array().expect("points").iter().map(row).collect::<Vec<_>>()
        };
        let of = |label: &str, count: f64| (json!(label), json!(count));
        assert_eq!(rows("requests", "sum"), [(Value::Null, json!(10.0))]);
        assert_eq!(rows("replies", "sum"), [of("200", 7.0), of("500", 3.0)]);
        assert_eq!(rows("errors", "sum"), [of("closed_early", 1.0)]);
        assert_eq!(rows("connections", "gauge"), [(Value::Null, json!(4.0))]);
        let times = &found("response_seconds", "histogram")["dataPoints"][0];
        let list = |name: &str| times[name].as_array().expect("a list").clone();
        let (counts, bounds) = (list("bucketCounts"), list("explicitBounds"));
        assert_eq!((&times["count"], counts.len()), (&json!("7"), bounds.len() + 1));
        let at = counts.iter().position(|it| it == "7").expect("a bucket");
        let edge = |at: usize| bounds[at].as_f64().expect("a number");
        assert!(edge(at - 1) < 20e-6 && 20e-6 < edge(at));
    }

    #[test]
    fn what_is_no_collector_is_refused() {
        let check = |url: &str, want: &str| {
            let why = Otlp::new(url).expect_err(url).to_string();
            assert!(why.starts_with("--otlp: expected ") && why.contains(want), "{why}");
        };
        check(&collector(1, "404 Not Found").0, "found `HTTP/1.1 404 Not Found`");
        check("http://127.0.0.1:1", "Connection refused");
        check("stock://127.0.0.1", "expected http://HOST:4318");
        check("127.0.0.1:4318", "expected a target");
    }
}
