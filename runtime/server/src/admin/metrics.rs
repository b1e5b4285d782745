//! A sample in the text format of Prometheus (OpenMetrics 1.0, by the prometheus-client crate).
//!
//! Names and units follow Prometheus' practices: base units, `_total` for counters. If there are
//! many workers, there is no label `worker`, because a thousand unused series would make each
//! scrape slow.

use std::collections::BTreeMap;
use std::fmt;

use memory::LATE_EDGES_NS;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::ServerStatus;
use super::processes::{Processes, overflows};

/// The maximum number of workers that get a label each.
const WORKERS_LABELLED: usize = 64;

/// The answer to a scrape.
pub fn render(status: &ServerStatus) -> String {
    let mut pids: Vec<i32> = status.sample.workers.iter().map(|worker| worker.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let processes = Processes::read(status.sample.pid, &pids);
    tables(status, processes).text()
}

/// Names and values that tell the series of a metric apart.
pub type Labels = Vec<(String, String)>;

/// Metrics in their order, whose names begin with `roundhouse_`.
#[derive(Debug, Default)]
pub struct Exposition(Vec<Table>);

#[derive(Debug)]
struct Table {
    name: String,
    help: String,
    kind: MetricType,
    /// The values; of a histogram its sum.
    rows: Vec<(Labels, f64)>,
    buckets: Vec<(f64, u64)>,
}

impl Exposition {
    /// The media type of [`Exposition::text`].
    pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The answer to a scrape.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("a String takes every text");
        out
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, rows: Vec<(Labels, f64)>) {
        let help = help.to_owned();
        self.0.push(Table { name: name.to_owned(), help, kind, rows, buckets: Vec::new() });
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, vec![(Vec::new(), value)]);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, vec![(Vec::new(), value)]);
    }

    /// Adds a counter; its name lacks `_total`.
    pub fn counters(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        self.add(&format!("roundhouse_{name}"), help, MetricType::Counter, rows);
    }

    /// Adds a gauge.
    pub fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
        self.add(&format!("roundhouse_{name}"), help, MetricType::Gauge, rows);
    }

    /// Adds a histogram: its sum, and how many values lie between one edge and the next.
    pub fn histogram(&mut self, name: &str, help: &str, sum: f64, buckets: Vec<(f64, u64)>) {
        self.0.push(Table {
            name: format!("roundhouse_{name}"),
            help: help.to_owned(),
            kind: MetricType::Histogram,
            rows: vec![(Vec::new(), sum)],
            buckets,
        });
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for table in &self.0 {
            let help = escaped(&table.help);
            let mut metric = encoder.encode_descriptor(&table.name, &help, None, table.kind)?;
            for (labels, value) in &table.rows {
                let written = |(name, value): &(String, String)| (name.clone(), escaped(value));
                match labels.iter().map(written).collect::<Labels>() {
                    none if none.is_empty() => table.put(&mut metric, *value)?,
                    labels => table.put(&mut metric.encode_family(&labels)?, *value)?,
                }
            }
        }
        Ok(())
    }
}

impl Table {
    fn put(&self, row: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
        match self.kind {
            MetricType::Counter => row.encode_counter::<Labels, f64, f64>(&value, None),
            MetricType::Histogram => {
                let count = self.buckets.iter().map(|bucket| bucket.1).sum();
                row.encode_histogram::<Labels>(value, count, &self.buckets, None)
            }
            _ => row.encode_gauge(&value),
        }
    }
}

/// Escapes text for quotes, which the library leaves to its caller.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn one(name: &str, value: &str) -> Labels {
    vec![(name.to_owned(), value.to_owned())]
}

fn tables(status: &ServerStatus, processes: Processes) -> Exposition {
    let mut tables = Exposition::default();
    identity(&mut tables, status);
    connections(&mut tables, status);
    workers(&mut tables, status);
    each_worker(&mut tables, status);
    rest(&mut tables, status, processes);
    tables
}

fn identity(tables: &mut Exposition, status: &ServerStatus) {
    let (shape, sample) = (&status.sample.shape, &status.sample);
    let build = one("version", &status.version);
    tables.gauges("build_info", "This program", vec![(build, 1.0)]);
    let config = vec![
        ("service".to_owned(), status.service.clone()),
        ("engine".to_owned(), shape.engine.clone().unwrap_or_default()),
        ("container".to_owned(), shape.container.clone()),
        ("accept".to_owned(), shape.accept.clone()),
        ("wait".to_owned(), shape.wait.clone()),
    ];
    tables.gauges("config_info", "The service and its engine", vec![(config, 1.0)]);
    let started = status.wall_seconds - sample.age_ns as f64 / 1e9;
    tables.gauge("start_time_seconds", "When the server started, since 1970", started);
    let phase = vec![(one("phase", &sample.phase), 1.0)];
    tables.gauges("phase", "The phase of the server's life", phase);
    let reloads = f64::from(sample.limits.edition);
    tables.counter("config_reloads", "How often the configuration was reloaded", reloads);
}

fn connections(tables: &mut Exposition, status: &ServerStatus) {
    let (sample, totals) = (&status.sample, &status.sample.totals);
    let accepted = totals.accepted as f64;
    tables.counter("connections_accepted", "Connections accepted", accepted);
    let refused = totals.refused.iter().map(|(why, count)| (one("reason", why), *count as f64));
    let help = "Connections closed unserved, or not accepted at a first try";
    tables.counters("connections_rejected", help, refused.collect());
    tables.gauge("connections_open", "Connections open now", totals.open as f64);
    let limit = sample.limits.connections as f64;
    tables.gauge("connections_limit", "Connections that may be open at one time", limit);
    let queue = &sample.queue;
    let help = "Connections that wait to be accepted, over all listeners";
    tables.gauge("accept_queue_length", help, queue.length as f64);
    tables.gauge("accept_queue_limit", "Length limit of the accept queue", queue.limit as f64);
    if let Some((length, capacity)) = queue.handoff {
        let queue = |value: u64| vec![(one("queue", "handoff"), value as f64)];
        tables.gauges("queue_length", "Entries of a bounded buffer", queue(length));
        tables.gauges("queue_capacity", "Capacity of a bounded buffer", queue(capacity));
    }
    if let Some((overflows, drops)) = overflows() {
        let help = "Times that a full queue turned a connection away, in this network namespace";
        tables.counter("listen_overflows", help, overflows as f64);
        let help = "Connections dropped before they were accepted, in this network namespace";
        tables.counter("listen_drops", help, drops as f64);
    }
    let answered = vec![(one("service", &status.service), totals.answered as f64)];
    tables.counters("requests", "Requests, or the service's messages, answered", answered);
    tables.counter("received_bytes", "Bytes received", totals.bytes_in as f64);
    tables.counter("sent_bytes", "Bytes that the kernel took for sending", totals.bytes_out as f64);
}

fn workers(tables: &mut Exposition, status: &ServerStatus) {
    let sample = &status.sample;
    let is_process = matches!(sample.shape.container.as_str(), "processes" | "hybrid")
        || sample.shape.container == "process-per-connection";
    let kind = if is_process { "process" } else { "thread" };
    let labelled = |key: &str, value: &str| {
        vec![("kind".to_owned(), kind.to_owned()), (key.to_owned(), value.to_owned())]
    };
    let mut states: BTreeMap<&str, u64> = STATES.iter().map(|(_, name)| (*name, 0)).collect();
    for worker in sample.workers.iter().filter(|worker| worker.role == "worker") {
        if let Some((_, name)) = STATES.iter().find(|(letter, _)| *letter == worker.letter) {
            *states.entry(name).or_default() += 1;
        }
    }
    let rows = states.iter().map(|(state, count)| (one("state", state), *count as f64)).collect();
    tables.gauges("workers", "Workers by state", rows);
    let limits = &sample.limits;
    tables.gauge("workers_limit", "Most workers at one time", limits.workers as f64);
    if let Some((least, most)) = limits.spare {
        tables.gauge("workers_spare_min", "Idle workers at the least", least as f64);
        tables.gauge("workers_spare_max", "Idle workers at the most", most as f64);
    }
    let rows = |counts: &[(String, u64)]| {
        let row = |(why, count): &(String, u64)| (labelled("reason", why), *count as f64);
        counts.iter().map(row).collect()
    };
    let help = "Threads or processes that were started, by reason";
    tables.counters("workers_spawned", help, rows(&sample.spawned));
    let help = "Threads or processes that have ended, by reason";
    tables.counters("workers_exited", help, rows(&sample.exited));
}

/// The names of the scoreboard's letters.
const STATES: &[(char, &str)] = &[
    ('_', "idle"),
    ('R', "reading"),
    ('B', "processing"),
    ('W', "writing"),
    ('C', "closing"),
    ('S', "starting"),
    ('G', "draining"),
    ('!', "dead"),
    ('-', "gone"),
];

fn each_worker(tables: &mut Exposition, status: &ServerStatus) {
    let workers = &status.sample.workers;
    if workers.len() > WORKERS_LABELLED {
        return;
    }
    let rows = |value: &dyn Fn(&engines::status::Worker) -> u64| -> Vec<(Labels, f64)> {
        let row = |worker: &engines::status::Worker| {
            (one("worker", &worker.slot.to_string()), value(worker) as f64)
        };
        workers.iter().map(row).collect()
    };
    let help = "Turns of the worker's loop";
    tables.counters("loop_iterations", help, rows(&|worker| worker.turns));
    let help = "Requests that the worker answered";
    tables.counters("worker_requests", help, rows(&|worker| worker.answered));
    let help = "Connections that the worker has";
    tables.gauges("worker_connections_open", help, rows(&|worker| worker.open));
}

fn rest(tables: &mut Exposition, status: &ServerStatus, processes: Processes) {
    let (sample, totals) = (&status.sample, &status.sample.totals);
    let edges = LATE_EDGES_NS.iter().map(|edge| *edge as f64 / 1e9).chain([f64::MAX]);
    let buckets = edges.zip(sample.late.iter().copied()).collect();
    let help = "How late deadlines and sweeps were noticed";
    tables.histogram("deadline_lateness_seconds", help, sample.late_ns as f64 / 1e9, buckets);
    let enobufs = totals.enobufs as f64;
    tables.counter("uring_receive_no_buffer", "Receives that found no buffer", enobufs);
    let help = "Sends of which the kernel took a part";
    tables.counter("short_sends", help, totals.short_sends as f64);
    let help = "Switches from a loop's stack to a coroutine's and back";
    tables.counter("stack_switches", help, totals.stack_switches as f64);
    let help = "Bytes for another session that found it gone or full, by pushes";
    tables.counter("pushes_dropped", help, totals.pushes_dropped as f64);
    let mut status: BTreeMap<&str, Vec<&engines::status::Gauge>> = BTreeMap::new();
    sample.gauges.iter().for_each(|gauge| status.entry(&gauge.name).or_default().push(gauge));
    for (name, gauges) in status {
        let rows = gauges.iter().map(|gauge| (gauge.labels.clone(), gauge.value)).collect();
        match gauges[0].is_total {
            true => tables.counters(name, &gauges[0].help, rows),
            false => tables.gauges(name, &gauges[0].help, rows),
        }
    }
    let mut plain = |name: &str, help: &str, value: f64, kind: MetricType| {
        tables.add(name, help, kind, vec![(Vec::new(), value)]);
    };
    let help = "User and system time of all processes";
    plain("process_cpu_seconds", help, processes.cpu_seconds, MetricType::Counter);
    let resident = processes.resident_bytes as f64;
    plain(
        "process_resident_memory_bytes",
        "Resident memory of all processes",
        resident,
        MetricType::Gauge,
    );
    plain(
        "process_threads",
        "Threads of all processes",
        processes.threads as f64,
        MetricType::Gauge,
    );
    plain(
        "process_open_fds",
        "Descriptors of the supervisor",
        processes.fds.0 as f64,
        MetricType::Gauge,
    );
    plain(
        "process_max_fds",
        "Descriptors that it may have",
        processes.fds.1 as f64,
        MetricType::Gauge,
    );
    plain("process_count", "Processes", processes.count as f64, MetricType::Gauge);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use engines::status::{Gauge, Queue, Sample, Totals, Worker};

    /// A sample in which every metric has a value.
    pub fn status() -> ServerStatus {
        let worker = |slot: usize, letter| Worker {
            slot,
            letter,
            role: "worker".to_owned(),
            pid: std::process::id() as i32,
            answered: 10 + slot as u64,
            ..Worker::default()
        };
        let mut sample = Sample { pid: std::process::id() as i32, ..Sample::default() };
        sample.phase = "ready".to_owned();
        sample.shape.container = "processes".to_owned();
        sample.totals = Totals {
            open: 3,
            accepted: 20,
            answered: 21,
            refused: vec![("gone".to_owned(), 2)],
            ..Totals::default()
        };
        sample.workers = vec![worker(0, '_'), worker(1, 'B'), worker(2, '!')];
        sample.spawned = vec![("start".to_owned(), 3), ("respawn".to_owned(), 1)];
        sample.exited = vec![("signal_9".to_owned(), 1)];
        sample.queue = Queue { length: 1, limit: 128, handoff: Some((2, 16)) };
        sample.late = vec![5, 1, 0, 0, 0, 0, 0, 1];
        sample.late_ns = 1_500_000_000;
        sample.gauges = vec![Gauge {
            name: "pool_objects".to_owned(),
            help: "A \"pool\"\nof objects".to_owned(),
            labels: vec![("state".to_owned(), "fr\"ee\\\n".to_owned())],
            value: 7.5,
            is_total: false,
        }];
        ServerStatus {
            service: "stock".to_owned(),
            version: "0".to_owned(),
            wall_seconds: 1e9,
            sample,
        }
    }

    #[test]
    fn names_and_values_are_what_they_are_called() {
        let text = render(&status());
        for line in [
            "# TYPE roundhouse_requests counter",
            "roundhouse_requests_total{service=\"stock\"} 21.0",
            "roundhouse_connections_open 3.0",
            "roundhouse_connections_rejected_total{reason=\"gone\"} 2.0",
            "roundhouse_workers{state=\"processing\"} 1.0",
            "roundhouse_workers_exited_total{kind=\"process\",reason=\"signal_9\"} 1.0",
            "roundhouse_queue_capacity{queue=\"handoff\"} 16.0",
            "roundhouse_worker_requests_total{worker=\"1\"} 11.0",
            "roundhouse_deadline_lateness_seconds_sum 1.5",
            "roundhouse_deadline_lateness_seconds_count 7",
            "roundhouse_deadline_lateness_seconds_bucket{le=\"0.0001\"} 5",
            "roundhouse_deadline_lateness_seconds_bucket{le=\"+Inf\"} 7",
            "roundhouse_pool_objects{state=\"fr\\\"ee\\\\\\n\"} 7.5",
            "process_count 1.0",
        ] {
            assert!(text.lines().any(|found| found == line), "expected {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn a_crowd_of_workers_has_no_series_of_its_own() {
        let mut status = status();
        status.sample.workers = vec![status.sample.workers[0].clone(); WORKERS_LABELLED + 1];
        let text = render(&status);
        assert!(!text.contains("worker=\"") && text.contains("roundhouse_workers{"), "{text}");
    }
}
