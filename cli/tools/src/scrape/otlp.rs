//! `load --otlp`: the counts for a collector of OpenTelemetry, by OTLP over HTTP (protobuf), once a
//! second and at the end.

use super::{Labels, LoadTotals, PATIENCE, Sheet};
use load::parse::Scheme;
use load::tls::Layers;
use load::{Target, Usage, probe};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric::Data,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
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

/// The metrics of one export.
struct Export {
    start: u64,
    now: u64,
    list: Vec<Metric>,
}

impl Otlp {
    /// The collector at `url`, which has taken an empty export.
    ///
    /// # Errors
    /// It is no URL, or the collector does not take it.
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
        match otlp.post(&[]) {
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
        let scopes = ScopeMetrics { metrics: out.list, ..Default::default() };
        let name = attributes(&vec![("service.name".to_owned(), "roundhouse load".to_owned())]);
        let of = ResourceMetrics {
            resource: Some(Resource { attributes: name, ..Default::default() }),
            scope_metrics: vec![scopes],
            ..Default::default()
        };
        let export = ExportMetricsServiceRequest { resource_metrics: vec![of] };
        if let Err(why) = self.post(&export.encode_to_vec()) {
            let count = self.failed.as_ref().map_or(0, |it| it.0);
            self.failed = Some((count + 1, why));
        }
        if let Some((count, why)) = self.failed.as_ref().filter(|_| is_over) {
            language::eprintln!("--otlp: {count} exports failed; the last: {why}");
        }
    }

    fn post(&self, body: &[u8]) -> io::Result<()> {
        let Target { path, authority, .. } = &self.target;
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/x-protobuf\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let whole = |reply: &[u8]| reply.contains(&b'\n');
        let reply = probe::ask(&self.target, self.layers.as_ref(), &request, whole, PATIENCE)?;
        match reply.get(9..12) {
            Some(b"200") => Ok(()),
            _ => {
                let line = reply.split(|it| *it == b'\r').next().unwrap_or_default();
                Err(io::Error::other(format!("`{}`", stats::words::visible(line, 60))))
            }
        }
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let each = labels.iter().cloned().map(|(key, value)| {
        let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
        KeyValue { key, value, ..Default::default() }
    });
    each.collect()
}

impl Export {
    fn add(&mut self, name: &str, help: &str, data: Data) {
        let unit = if name.ends_with("_seconds") { "s" } else { "" };
        self.list.push(Metric {
            name: format!("roundhouse_{name}"),
            description: help.to_owned(),
            unit: unit.to_owned(),
            data: Some(data),
            ..Default::default()
        });
    }

    fn points(&self, rows: Vec<(Labels, f64)>) -> Vec<NumberDataPoint> {
        let point = |(labels, value): (Labels, f64)| NumberDataPoint {
            attributes: attributes(&labels),
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            value: Some(Value::AsDouble(value)),
            ..Default::default()
        };
        rows.into_iter().map(point).collect()
    }
}

impl Sheet for Export {
    fn counters(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        let data_points = self.points(rows);
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        let sum = Sum { data_points, aggregation_temporality, is_monotonic: true };
        self.add(name, help, Data::Sum(sum));
    }

    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        let data_points = self.points(rows);
        self.add(name, help, Data::Gauge(Gauge { data_points }));
    }

    fn histogram(&mut self, name: &str, help: &str, sum: f64, mut buckets: Vec<(f64, u64)>) {
        let bucket_counts: Vec<u64> = buckets.iter().map(|it| it.1).collect();
        // The last one has no upper edge.
        buckets.pop();
        let point = HistogramDataPoint {
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            count: bucket_counts.iter().sum(),
            sum: Some(sum),
            bucket_counts,
            explicit_bounds: buckets.iter().map(|it| it.0).collect(),
            ..Default::default()
        };
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        let data_points = vec![point];
        self.add(name, help, Data::Histogram(Histogram { data_points, aggregation_temporality }));
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
        let export = ExportMetricsServiceRequest::decode(&bodies[1][..]).expect("protobuf");
        let metrics = &export.resource_metrics[0].scope_metrics[0].metrics;
        let found = |name: &str| {
            let metric = metrics.iter().find(|it| it.name == format!("roundhouse_load_{name}"));
            metric.and_then(|it| it.data.clone()).expect(name)
        };
        let rows = |name: &str| {
            let points = match found(name) {
                Data::Sum(sum) => sum.data_points,
                Data::Gauge(gauge) => gauge.data_points,
                other => panic!("{other:?}"),
            };
            let label = |point: &NumberDataPoint| {
                let value = point.attributes.first()?.value.clone()?.value;
                if let Some(any_value::Value::StringValue(text)) = value {
                    Some(text)
                } else {
                    None
                }
            };
            let row = |it: &NumberDataPoint| (label(it).unwrap_or_default(), it.value);
            points.iter().map(row).collect::<Vec<_>>()
        };
        let row = |label: &str, count: f64| (label.to_owned(), Some(Value::AsDouble(count)));
        assert_eq!(rows("requests"), [row("", 10.0)]);
        assert_eq!(rows("replies"), [row("200", 7.0), row("500", 3.0)]);
        assert_eq!(rows("errors"), [row("closed_early", 1.0)]);
        assert_eq!(rows("connections"), [row("", 4.0)]);
        let Data::Histogram(times) = found("response_seconds") else { panic!("no histogram") };
        let HistogramDataPoint { count, bucket_counts, explicit_bounds, .. } =
            &times.data_points[0];
        assert_eq!((*count, bucket_counts.len()), (7, explicit_bounds.len() + 1));
        let at = bucket_counts.iter().position(|it| *it == 7).expect("a bucket");
        assert!(explicit_bounds[at - 1] < 20e-6 && 20e-6 < explicit_bounds[at]);
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
