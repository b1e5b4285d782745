//! Counting what a server does for a request: system calls by `strace -c`; before that, without it,
//! allocations and misses of the cache where the kernel counts them, and what a server of ours
//! tells about itself.
//!
//! strace is attached when the server is ready and prints its table when the load has ended, so the
//! count excludes start and stop. A process that is forked while it attaches is missed; later ones
//! are followed.

use super::words::Request;
use super::{Runner, Up};
use crate::block::Slot;
use crate::census::{Calls, Census};
use crate::load::Usage;
use crate::plan::{Arm, LoadPoint};
use crate::prices::faults;
use crate::server::Process;
use meter::{TreeCost, TreeEvents};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit for strace to attach, and to print its table.
const PATIENCE: Duration = Duration::from_secs(5);
/// The duration of the load, milliseconds; counts need no precision.
const WINDOW_MS: u64 = 500;

/// The load before the tool attaches: pairs of windows, and the length of each in milliseconds. A
/// server whose threads hand over to each other changes its pace between two windows.
const PAIRS: usize = 3;
const STEADY_MS: u64 = 200;

impl Runner {
    pub(super) fn count_calls(&self, entrant: usize, point: usize, dir: &Path) -> Option<Census> {
        let point = &self.plan.points[point];
        let arm = &self.entrants[entrant].at(point);
        let empty =
            Census { arm: arm.name.clone(), point: point.name.clone(), ..Census::default() };
        let missing = |why: String| Census { missing: Some(why), ..empty.clone() };
        if which::which("strace").is_err() {
            return Some(missing("strace is not installed; it counts system calls".to_string()));
        }
        if point.is_open() {
            let why = "system calls are counted at closed load points".to_string();
            return Some(missing(why));
        }
        let mut up = match self.boot(arm, false, dir) {
            Ok(up) => up,
            Err(reason) => return Some(missing(reason)),
        };
        up.hold(point.idle);
        let stays = LoadPoint { requests_per_connection: 0, ..point.clone() };
        let paced = self.paced(&up, arm, [&stays, point], dir)?;
        // A traced server answers fewer requests, so the connections of a window would weigh more.
        let counted = if paced.steady_cpu_ns.is_some() { &stays } else { point };
        let paced = self.inside(&up, arm, counted, dir, paced)?;
        let traced = match attach(&up, dir) {
            Ok(traced) => traced,
            Err(reason) => return Some(missing(reason)),
        };
        let slot = Slot { order: 0, block: 0, point: 0, entrant, seed: 1, swapped: false };
        let request = Request {
            warmup_ms: 0,
            window_ms: WINDOW_MS,
            watch: false,
            ..Request::of(&self.plan, arm, counted, slot.seed, None)
        };
        let before = faults_of_tree(&up);
        let asked = self.ask(&up, &request, dir)?;
        let faults = faults_of_tree(&up).zip(before).map(|(now, then)| now.saturating_sub(then));
        let text = table(traced);
        up.stop(0);
        let requests = match asked {
            Ok(load) => load.requests_total.max(load.requests),
            Err(reason) => return Some(missing(reason)),
        };
        let mut calls = parse(&text, requests);
        calls.sort_by_key(|it| std::cmp::Reverse(it.calls));
        let faults_per_request = faults.map(|count| count as f64 / requests.max(1) as f64);
        let why = calls.is_empty().then(|| {
            let last = text.lines().last().unwrap_or("nothing").trim();
            format!("expected a table of strace, found `{last}`")
        });
        Some(Census {
            tool: "strace".to_string(),
            requests,
            calls,
            faults_per_request,
            missing: why,
            arm: empty.arm,
            point: empty.point,
            ..paced
        })
    }

    /// The figures of a census without a tool: medians on connections that stay, and what a request
    /// takes more where connections come and go. `None` if the run was interrupted.
    fn paced(&self, up: &Up, arm: &Arm, points: [&LoadPoint; 2], dir: &Path) -> Option<Census> {
        let (mut all, mut more) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let stays = self.usage(up, arm, points[0], dir)?;
            let Some(stays_ns) = stays.cpu_ns_per_request else { break };
            all.push(stays);
            if points[1].requests_per_connection > 0 {
                let both = self.usage(up, arm, points[1], dir)?.cpu_ns_per_request;
                more.extend(both.map(|both_ns| both_ns - stays_ns));
            }
        }
        let middle = |of: fn(&Usage) -> Option<f64>| {
            stats::median(&all.iter().filter_map(of).collect::<Vec<f64>>())
        };
        let steady_cpu_ns = middle(|it| it.cpu_ns_per_request);
        let connections_ns = more.into_iter().reduce(f64::min).unwrap_or(0.0);
        Some(Census {
            switches_per_request: middle(|it| it.switches_per_request),
            delay_ns_per_request: middle(|it| it.delay_ns_per_request),
            connections_ns: steady_cpu_ns.map(|_| connections_ns),
            steady_cpu_ns,
            ..Census::default()
        })
    }

    /// Adds what happens within the server's own code in one window. `None` if the run was
    /// interrupted.
    fn inside(
        &self,
        up: &Up,
        arm: &Arm,
        point: &LoadPoint,
        dir: &Path,
        mut census: Census,
    ) -> Option<Census> {
        let root = up.server.process.id();
        let Ok(tree) = TreeCost::read(root) else { return Some(census) };
        let (mut events, before) = (TreeEvents::open(&tree), (self.own)(root));
        let request = Request {
            warmup_ms: 0,
            window_ms: STEADY_MS,
            watch: false,
            ..Request::of(&self.plan, arm, point, 1, None)
        };
        let Ok(load) = self.ask(up, &request, dir)? else { return Some(census) };
        let requests = load.requests_total.max(load.requests).max(1) as f64;
        let counts = TreeCost::read(root).map(|it| events.read(&it)).unwrap_or_default();
        let each = |count: Option<u64>| count.map(|count| count as f64 / requests);
        census.allocations_per_request = each(counts.allocations);
        census.cache_misses_per_request = each(counts.cache_misses);
        if let (Some(before), Some(now)) = (before, (self.own)(root)) {
            let switches = now.stack_switches.saturating_sub(before.stack_switches);
            census.stack_switches_per_request = each(Some(switches));
            census.queues = now.queues;
        }
        Some(census)
    }

    /// The server's usage in one window: the switches and delays of a thread or process that ends
    /// with its connection cannot be read any more. Empty where it cannot be read.
    fn usage(&self, up: &Up, arm: &Arm, point: &LoadPoint, dir: &Path) -> Option<Usage> {
        let request = Request {
            warmup_ms: 50,
            window_ms: STEADY_MS,
            ..Request::of(&self.plan, arm, point, 1, None)
        };
        let asked = self.ask(up, &request, dir)?;
        Some(asked.ok().and_then(|load| load.server).unwrap_or_default())
    }
}

/// Page faults of the server's processes, the ended ones too.
fn faults_of_tree(up: &Up) -> Option<u64> {
    let tree = TreeCost::read(up.server.process.id()).ok()?;
    tree.pids().map(|pid| faults(pid).ok()).sum()
}

/// Starts strace and waits until it has the whole tree.
fn attach(up: &Up, dir: &Path) -> Result<Process, String> {
    let root = up.server.process.id();
    let tree = TreeCost::read(root).map_err(|why| why.to_string())?;
    let mut words: Vec<String> = ["strace", "-c", "-f", "-o"].map(String::from).to_vec();
    words.push(dir.join("census.txt").display().to_string());
    words.extend(tree.pids().flat_map(|pid| ["-p".to_string(), pid.to_string()]));
    let mut process = Process::start(&words, dir, "census")?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(ended) = process.ended() {
            let words = process.complaint();
            return Err(format!("strace ended ({}): {words}", ended.how));
        }
        // It prints a line for each process and its threads.
        if process.errors().matches(" attached").count() >= tree.pids().count() {
            return Ok(process);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("strace did not attach: {}", process.complaint()))
}

/// Asks for the table and returns it.
fn table(mut process: Process) -> String {
    // On INT it prints its summary.
    process.signal(Signal::INT);
    let _ = process.ended_within(PATIENCE);
    std::fs::read_to_string(process.folder().join("census.txt")).unwrap_or_default()
}

fn parse(text: &str, requests: u64) -> Vec<Calls> {
    let rows = text.lines().filter_map(strace_row);
    rows.map(|(name, calls, errors)| {
        let per_request = calls as f64 / requests.max(1) as f64;
        Calls { name, calls, errors, per_request }
    })
    .collect()
}

/// `% time, seconds, usecs/call, calls, errors (may be empty), name`.
fn strace_row(line: &str) -> Option<(String, u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = *words.last()?;
    words.first()?.parse::<f64>().ok()?;
    let (calls, errors) = match words.len() {
        5 => (words[3], "0"),
        6 => (words[3], words[4]),
        _ => return None,
    };
    (name != "total").then_some(())?;
    Some((name.to_string(), calls.parse().ok()?, errors.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_strace() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
             49.31    0.004031           3      1210        12 recvfrom\n \
             33.15    0.002710           2      1100           sendto\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.008175           2      2310        12 total\n";
        let found = parse(text, 1_100);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[0].calls, found[0].errors),
            ("recvfrom", 1210, 12)
        );
        assert!((found[0].per_request - 1.1).abs() < 1e-12 && found[1].per_request == 1.0);
    }
}
