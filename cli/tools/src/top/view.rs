//! The state of a server, from samples: rates between two of them, the highest rates, the cost of
//! its processes.
//!
//! `add` takes one sample after another; a rate is the difference of two counters over the server's
//! own time between the samples, so a late redraw does not falsify it. A sample of another process
//! is ignored, because its counters began at 0. CPU time and memory are read from `/proc`, only if
//! the server runs on this machine. `lines` is the text for `--once` and for the head of the
//! screen; `json` has the same values.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use engines::status::{Gauge, Worker};
use meter::proc::{Memory, TreeCost};
use serde::Serialize;
use stats::words::{compact, size, span};

use server::admin::ServerStatus;

/// The number of rates kept for the chart.
const POINTS_MAX: usize = 120;
/// The workers that the board shows without a blank.
const BOARD: usize = 64;

/// How the table of workers is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By worker slot.
    Slot,
    /// By requests answered, most first.
    Requests,
    /// By open connections, most first.
    Open,
    /// By bytes moved, most first.
    Bytes,
    /// By age, youngest first.
    Age,
}

impl Sort {
    const ALL: [Sort; 5] = [Sort::Slot, Sort::Requests, Sort::Open, Sort::Bytes, Sort::Age];

    /// The name of the order.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Slot => "slot",
            Sort::Requests => "requests",
            Sort::Open => "open",
            Sort::Bytes => "bytes",
            Sort::Age => "age",
        }
    }
}

/// Rates a second between the last two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    #[serde(rename = "accepted_per_second")]
    pub accepted: f64,
    #[serde(rename = "answered_per_second")]
    pub answered: f64,
    #[serde(rename = "received_bytes_per_second")]
    pub bytes_in: f64,
    #[serde(rename = "sent_bytes_per_second")]
    pub bytes_out: f64,
    /// The time between the two, in seconds.
    #[serde(rename = "window_seconds")]
    pub window: f64,
}

/// The cost of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// The CPU time since the sample before, in percent of one core.
    pub cpu_percent: Option<f64>,
    pub rss_kb: u64,
    /// The change of memory since the sample before.
    #[serde(rename = "rss_change_kb")]
    pub change_kb: i64,
    pub threads: usize,
    pub processes: usize,
}

/// The state as `top --json` prints it.
#[derive(Serialize)]
pub struct Readings<'a> {
    #[serde(flatten)]
    status: &'a ServerStatus,
    between: Rates,
    cost: Cost,
}

/// The state.
pub struct View {
    /// The last sample.
    pub status: ServerStatus,
    pub rates: Rates,
    /// The highest rates since the start of `top`; the server's own windows may have seen higher
    /// ones.
    pub most: Rates,
    pub cost: Cost,
    /// Requests a second, oldest first.
    pub points: VecDeque<f64>,
    pub sort: Sort,
    /// The last answer to a command, or an error.
    pub message: Option<(String, bool)>,
    tree: Option<(u64, TreeCost)>,
    pending: Option<&'static str>,
    before: Vec<(usize, u64)>,
}

impl View {
    /// A view of one sample.
    pub fn new(status: ServerStatus) -> View {
        let mut view = View {
            status,
            rates: Rates::default(),
            most: Rates::default(),
            cost: Cost::default(),
            points: VecDeque::new(),
            sort: Sort::Slot,
            message: None,
            tree: None,
            pending: None,
            before: Vec::new(),
        };
        view.weigh();
        view.cost.change_kb = 0;
        view
    }

    /// Adds the next sample.
    pub fn add(&mut self, status: ServerStatus) {
        let (now, before) = (&status.sample, &self.status.sample);
        let window = now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        if window <= 0.0 || now.pid != before.pid {
            return;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / window;
        let (new, old) = (&now.totals, &before.totals);
        self.rates = Rates {
            accepted: rate(new.accepted, old.accepted),
            answered: rate(new.answered, old.answered),
            bytes_in: rate(new.bytes_in, old.bytes_in),
            bytes_out: rate(new.bytes_out, old.bytes_out),
            window,
        };
        self.most.accepted = self.most.accepted.max(self.rates.accepted);
        self.most.answered = self.most.answered.max(self.rates.answered);
        self.before = before.workers.iter().map(|it| (it.slot, it.answered)).collect();
        self.points.push_back(self.rates.answered);
        if self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
        self.status = status;
        self.weigh();
    }

    /// Reads the cost of the processes, if this machine runs them.
    fn weigh(&mut self) {
        let Ok(pid) = u32::try_from(self.status.sample.pid) else { return };
        let (Ok(tree), Ok(memory)) = (TreeCost::read(pid), Memory::read(pid)) else { return };
        let at_ns = sys::clock::now_ns();
        let cpu_percent = self.tree.as_ref().and_then(|(before_ns, before)| {
            let wall = at_ns.saturating_sub(*before_ns);
            (wall > 0).then(|| tree.since(before).cpu_ns as f64 / wall as f64 * 100.0)
        });
        self.cost = Cost {
            cpu_percent,
            rss_kb: memory.rss_kb,
            change_kb: memory.rss_kb as i64 - self.cost.rss_kb as i64,
            threads: memory.threads,
            processes: memory.processes,
        };
        self.tree = Some((at_ns, tree));
    }

    /// Requests that `worker` answers a second.
    pub fn rate_of(&self, worker: &Worker) -> f64 {
        let before = self.before.iter().find(|(slot, _)| *slot == worker.slot);
        match before {
            Some((_, before)) if self.rates.window > 0.0 => {
                worker.answered.saturating_sub(*before) as f64 / self.rates.window
            }
            _ => 0.0,
        }
    }

    /// Sorts by the next column.
    pub fn sort(&mut self) {
        let at = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
    }

    /// The workers in the chosen order.
    pub fn workers(&self) -> Vec<&Worker> {
        let mut workers: Vec<&Worker> = self.status.sample.workers.iter().collect();
        match self.sort {
            Sort::Slot => {}
            Sort::Requests => {
                workers.sort_by(|a, b| self.rate_of(b).total_cmp(&self.rate_of(a)));
            }
            Sort::Open => workers.sort_by_key(|worker| std::cmp::Reverse(worker.open)),
            Sort::Bytes => {
                workers.sort_by_key(|it| std::cmp::Reverse(it.bytes_in + it.bytes_out));
            }
            Sort::Age => workers.sort_by_key(|worker| worker.age_ns),
        }
        workers
    }

    /// Asks the user to confirm a command, or withdraws the question.
    pub fn ask(&mut self, order: Option<&'static str>) {
        self.pending = order;
    }

    /// The command that waits to be confirmed.
    pub fn asks(&self) -> Option<&'static str> {
        self.pending
    }

    /// Shows the answer to a command, or an error.
    pub fn answer(&mut self, answer: Result<String>) {
        self.message = Some(match answer {
            Ok(words) => (words, false),
            Err(error) => (format!("{error:#}"), true),
        });
    }

    /// The sample with rates and cost.
    pub fn json(&self) -> Readings<'_> {
        Readings { status: &self.status, between: self.rates, cost: self.cost }
    }

    /// The main figures, one a line.
    pub fn lines(&self) -> Vec<String> {
        let (sample, totals) = (&self.status.sample, &self.status.sample.totals);
        let shape = &sample.shape;
        let engine = shape.engine.as_deref().unwrap_or(&shape.container);
        let board: Vec<char> = sample.workers.iter().map(|worker| worker.letter).collect();
        // A line is folded at its blanks.
        let board: Vec<String> = board.chunks(BOARD).map(String::from_iter).collect();
        let board = board.join(" ");
        let pairs = |list: &[(String, u64)]| {
            let found: Vec<String> = list
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(why, count)| format!("{why} {count}"))
                .collect();
            if found.is_empty() { "none".to_owned() } else { found.join(", ") }
        };
        let mut lines = vec![
            format!(
                "{} on {engine} ({} x {} x {}), {}, process {}, {}, up {}",
                self.status.service,
                shape.container,
                shape.accept,
                shape.wait,
                sample.listening,
                sample.pid,
                sample.phase,
                age(sample.age_ns)
            ),
            format!(
                "requests     {} /s, most {} /s, {} in all",
                compact(self.rates.answered),
                compact(self.most.answered.max(sample.rates.answered_max)),
                compact(totals.answered as f64)
            ),
            format!(
                "connections  {} /s, most {} /s, {} in all; {} open of {}, most {}",
                compact(self.rates.accepted),
                compact(self.most.accepted.max(sample.rates.accepted_max)),
                compact(totals.accepted as f64),
                totals.open,
                sample.limits.connections,
                sample.rates.open_max
            ),
            format!(
                "bytes        {} /s in, {} /s out",
                size(self.rates.bytes_in / 1e3),
                size(self.rates.bytes_out / 1e3)
            ),
            format!("cost         {}", self.cost_words()),
            format!("queue        {}", self.queue_words()),
            format!("board        {board}"),
            format!("started      {}", pairs(&sample.spawned)),
            format!("ended        {}", pairs(&sample.exited)),
            format!("refused      {}", pairs(&totals.refused)),
        ];
        lines.extend(self.cluster_lines());
        lines
    }

    /// The topology of a market that several nodes serve; nothing for other servers.
    pub fn cluster_lines(&self) -> Vec<String> {
        let gauges = &self.status.sample.gauges;
        let value = |name: &str| {
            gauges.iter().find(|gauge| gauge.name == name).map_or(0.0, |gauge| gauge.value)
        };
        let label = |gauge: &Gauge, at: usize| gauge.labels.get(at).map(|it| it.1.clone());
        let rows = |name: &str, words: &dyn Fn(f64) -> String| {
            let rows = gauges.iter().filter(|gauge| gauge.name == name);
            let row = |gauge: &Gauge| {
                format!("{} {}", label(gauge, 0).unwrap_or_default(), words(gauge.value))
            };
            rows.map(row).collect::<Vec<_>>().join(", ")
        };
        let Some(info) = gauges.iter().find(|gauge| gauge.name == "cluster_node_info") else {
            return Vec::new();
        };
        let state = |state: f64| {
            let words = ["silent", "ailing", "follows", "leads"];
            words.get(state as usize).copied().unwrap_or("unknown").to_owned()
        };
        let [node, store] = [0, 1].map(|at| label(info, at).unwrap_or_default());
        vec![
            format!(
                "node         {node}, batch {}, order {}, current {:.1} s ago",
                value("cluster_batch"),
                value("orders_logged"),
                value("cluster_age_seconds")
            ),
            format!("nodes        {}", rows("cluster_lag_orders", &|lag| format!("lacks {lag}"))),
            format!("{store:<13}{}", rows("cluster_member_state", &state)),
        ]
    }

    /// CPU, memory and threads as text.
    pub fn cost_words(&self) -> String {
        let cost = &self.cost;
        if cost.processes == 0 {
            return "cannot be read from here".to_owned();
        }
        let cpu = cost.cpu_percent.map_or("CPU -".to_owned(), |cpu| format!("CPU {cpu:.1} %"));
        let change = match cost.change_kb {
            0 => String::new(),
            change => format!(" ({change:+} kB)"),
        };
        let (threads, processes) = (cost.threads, cost.processes);
        let rss = size(cost.rss_kb as f64);
        format!("{cpu}, memory {rss}{change}, {processes} processes, {threads} threads")
    }

    /// The accept queue as text.
    pub fn queue_words(&self) -> String {
        let queue = &self.status.sample.queue;
        let handed = match queue.handoff {
            Some((length, fits)) => format!("; {length} of {fits} between acceptor and workers"),
            None => String::new(),
        };
        let governor = self.status.sample.governor.as_ref();
        let governed = governor.map_or(String::new(), |governor| {
            let wait = stats::words::time(governor.wait_ns as f64);
            let (limit, refused) = (governor.limit, compact(governor.refused as f64));
            format!("; requests wait {wait}, at most {limit} at a time, {refused} refused")
        });
        format!("{} of {} wait to be accepted{handed}{governed}", queue.length, queue.limit)
    }
}

/// An age in nanoseconds, in words.
pub fn age(ns: u64) -> String {
    span(Duration::from_nanos(ns))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use engines::status::{Happening, Sample};
    use serde_json::json;

    /// A sample of a server with some workers, `second` seconds after another.
    pub fn status(second: u64, answered: u64) -> ServerStatus {
        let worker = |slot: usize, letter, answered| Worker {
            slot,
            letter,
            role: "worker".to_owned(),
            answered,
            open: slot as u64,
            ..Worker::default()
        };
        let mut sample = Sample { schema: 2, at_ns: second * 1_000_000_000, ..Sample::default() };
        // No process has this id, so the view reads nothing from `/proc`.
        sample.pid = i32::MAX;
        sample.phase = "ready".to_owned();
        sample.totals.answered = answered;
        sample.totals.accepted = answered / 10;
        sample.workers = vec![worker(0, '_', answered / 4), worker(1, 'B', answered * 3 / 4)];
        sample.exited = vec![("signal_9".to_owned(), 2)];
        sample.events = vec![Happening { why: "was killed".to_owned(), ..Happening::default() }];
        ServerStatus {
            service: "stock".to_owned(),
            version: "0".to_owned(),
            wall_seconds: 0.0,
            sample,
        }
    }

    #[test]
    fn rates_are_differences_over_the_time_of_the_server() {
        let mut view = View::new(status(10, 1000));
        view.add(status(12, 5000));
        assert_eq!((view.rates.answered, view.rates.accepted), (2000.0, 200.0));
        assert_eq!(view.rate_of(&view.status.sample.workers[1]), 1500.0);
        view.add(status(13, 5100));
        assert_eq!((view.rates.answered, view.most.answered), (100.0, 2000.0));
        view.add(status(13, 9999));
        assert_eq!(view.rates.answered, 100.0, "the same instant has no rate");
        let all = serde_json::to_value(view.json()).expect("JSON");
        assert_eq!(all["between"]["answered_per_second"], 100.0);
        assert_eq!((&all["service"], &all["totals"]["answered"]), (&json!("stock"), &json!(5100)));
    }

    #[test]
    fn workers_are_sorted_by_what_was_chosen() {
        let mut view = View::new(status(1, 0));
        view.add(status(2, 400));
        let mut orders = Vec::new();
        for _ in Sort::ALL {
            let slots: Vec<usize> = view.workers().iter().map(|worker| worker.slot).collect();
            orders.push((view.sort.name(), slots));
            view.sort();
        }
        assert_eq!(
            orders[..3],
            [("slot", vec![0, 1]), ("requests", vec![1, 0]), ("open", vec![1, 0])]
        );
        assert_eq!(view.sort, Sort::Slot, "once around");
    }

    #[test]
    fn figures_are_short() {
        let lines = View::new(status(1, 7)).lines();
        assert!(lines.iter().any(|line| line == "ended        signal_9 2"), "{lines:?}");
        assert!(lines.iter().any(|line| line == "board        _B"), "{lines:?}");
    }
}
