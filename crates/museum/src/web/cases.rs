//! Cases: a server and its clients, run in blocks, so that what the machine does in the meantime
//! falls on all alike.

use crate::exhibit::{Effort, Fault};
use crate::showing::{Place, Series};
use crate::stage::{Clients, Stage, Web, WebRun};
use crate::words;
use lab::stats::{Comparison, compare, median, median_interval};
use std::time::Duration;

/// Start and end of a server beside its load.
const OVERHEAD: Duration = Duration::from_millis(600);
/// Resamples for the second opinion on an interval.
const RESAMPLES: usize = 2_000;

/// One server and the clients that meet it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The server.
    pub web: Web,
    /// Its clients.
    pub clients: Clients,
    /// Where it stands on the horizontal axis.
    pub x: f64,
    /// What groups it: the load, or whatever the exhibit varies.
    pub group: String,
}

/// Cases with what came of them.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// The cases.
    pub cases: Vec<Case>,
    /// Case, block, run.
    runs: Vec<(usize, u32, WebRun)>,
}

/// A figure of a run, if it has one.
pub type Figure = fn(&WebRun) -> Option<f64>;

/// Requests a second.
pub fn rps(run: &WebRun) -> Option<f64> {
    (run.load.requests > 0).then_some(run.load.throughput_rps)
}

/// The published response time: without connecting, milliseconds.
pub fn response_ms(run: &WebRun) -> Option<f64> {
    (run.load.requests > 0).then_some(run.load.response.mean_ns / 1e6)
}

/// The same with connecting, milliseconds.
pub fn whole_ms(run: &WebRun) -> Option<f64> {
    (run.load.requests > 0).then_some(run.load.whole.mean_ns / 1e6)
}

/// 99th percentile with connecting, milliseconds.
pub fn p99_ms(run: &WebRun) -> Option<f64> {
    run.load.whole.p99_ns.or(run.load.whole.p90_ns).map(|ns| ns / 1e6)
}

/// CPU a request, milliseconds.
pub fn cpu_ms(run: &WebRun) -> Option<f64> {
    run.cpu_per_request_ns().map(|ns| ns / 1e6)
}

/// Time inside the server, milliseconds.
pub fn inside_ms(run: &WebRun) -> Option<f64> {
    run.inside.map(|it| it.mean_ns / 1e6)
}

/// Threads that came and went, a minute.
pub fn churn(run: &WebRun) -> Option<f64> {
    Some(run.churn.threads_a_minute())
}

/// Processes that came and went, a minute.
pub fn process_churn(run: &WebRun) -> Option<f64> {
    Some(run.churn.processes_a_minute())
}

/// How long `cases` of `span` take in so many blocks.
pub fn effort(cases: u32, span: Duration, blocks: u32) -> Effort {
    Effort::new(cases * blocks, span + OVERHEAD)
}

/// Runs every case once a block; each block begins elsewhere, and every second goes backwards.
///
/// # Errors
/// If a server or the clients cannot do their part.
pub fn play(stage: &mut Stage<'_>, cases: Vec<Case>, blocks: u32) -> Result<Met, Fault> {
    let mut met = Met { cases, runs: Vec::new() };
    let count = met.cases.len();
    for block in 0..blocks {
        for step in 0..count {
            let forth = (step + block as usize * count.div_ceil(3)) % count;
            let at = if block % 2 == 0 { forth } else { count - 1 - forth };
            let Case { web, clients, group, .. } = &met.cases[at];
            let what = format!("{}, {group}", web.name);
            stage.begin(&what);
            let Some(run) = stage.meet(web, clients)? else { return Ok(met) };
            for trouble in run.load.errors.iter().filter(|_| clients.ramp.is_none()) {
                stage.doubt(format!(
                    "{what}: {} requests failed, the first with: {}",
                    trouble.count, trouble.example
                ));
            }
            let rate = words::number(run.load.throughput_rps);
            stage.step(&format!("{what}: {rate} requests/s"));
            met.runs.push((at, block, run));
        }
    }
    Ok(met)
}

impl Met {
    /// The case of that server and group.
    pub fn find(&self, server: &str, group: &str) -> Option<usize> {
        self.cases.iter().position(|it| it.web.name == server && it.group == group)
    }

    /// All runs of a case.
    pub fn of(&self, case: usize) -> impl Iterator<Item = &WebRun> {
        self.runs.iter().filter(move |(at, ..)| *at == case).map(|(.., run)| run)
    }

    /// A figure of every run of a case.
    fn values(&self, case: usize, figure: Figure) -> Vec<f64> {
        self.of(case).filter_map(figure).collect()
    }

    /// The median of a figure.
    pub fn median(&self, case: usize, figure: Figure) -> Option<f64> {
        median(&self.values(case, figure))
    }

    /// The median in words, with its interval where there are runs enough.
    pub fn told(&self, case: usize, figure: Figure) -> String {
        let values = self.values(case, figure);
        let middle = words::or_none(median(&values), words::number);
        match median_interval(&values) {
            Some(it) => {
                format!("{middle} [{}, {}]", words::number(it.low), words::number(it.high))
            }
            None => middle,
        }
    }

    /// One case against another, block by block.
    pub fn against(&self, case: usize, other: usize, figure: Figure) -> Option<Comparison> {
        let value = |at: usize, block: u32| {
            let same = |it: &&(usize, u32, WebRun)| it.0 == at && it.1 == block;
            self.runs.iter().find(same).and_then(|(.., run)| figure(run))
        };
        let blocks = self.runs.iter().map(|(_, block, _)| *block).max()? + 1;
        let pairs: Vec<(f64, f64)> =
            (0..blocks).filter_map(|block| value(case, block).zip(value(other, block))).collect();
        compare(&pairs, RESAMPLES, 1)
    }

    /// A server's line over all groups that `keep` keeps: medians, with intervals.
    pub fn line(&self, server: &str, figure: Figure, keep: impl Fn(&Case) -> bool) -> Series {
        let mine = self.cases.iter().enumerate().filter(|(_, it)| it.web.name == server);
        let places = mine.filter(|(_, it)| keep(it)).filter_map(|(at, it)| {
            let values = self.values(at, figure);
            let range = median_interval(&values).map(|it| (it.low, it.high));
            Some(Place { x: it.x, y: median(&values)?, range })
        });
        Series { name: server.to_string(), places: places.collect(), ..Series::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Simulated;

    fn met() -> Met {
        let web = |name: &str| Web {
            name: name.to_string(),
            arm: lab::plan::Arm::default(),
            program: None,
            took: None,
        };
        let case = |name: &str| Case {
            web: web(name),
            clients: Clients::new("/", 1, Duration::from_secs(1)),
            x: 1.0,
            group: "steady".to_string(),
        };
        let run = |rps: f64| WebRun {
            load: Simulated { requests: 1, throughput_rps: rps, ..Simulated::default() },
            ..WebRun::default()
        };
        let runs = (0..6).flat_map(|block| {
            let base = 100.0 + f64::from(block);
            [(0, block, run(2.0 * base)), (1, block, run(base))]
        });
        Met { cases: vec![case("a"), case("b")], runs: runs.collect() }
    }

    #[test]
    fn cases_are_compared_block_by_block() {
        let met = met();
        let (a, b) = (met.find("a", "steady"), met.find("b", "steady"));
        let (a, b) = (a.expect("a case"), b.expect("a case"));
        let found = met.against(a, b, rps).expect("six pairs");
        assert!((found.ratio - 2.0).abs() < 1e-9 && found.interval.is_some());
        assert_eq!(met.median(b, rps), Some(102.5));
        assert_eq!(met.told(b, rps), "102.5 [100, 105]");
        assert_eq!(met.line("a", rps, |_| true).places[0].range, Some((200.0, 210.0)));
        assert_eq!(met.find("a", "wobbling"), None);
        assert_eq!(met.median(a, inside_ms), None);
    }
}
