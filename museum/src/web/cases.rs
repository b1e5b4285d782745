//! Cases: a server and its clients, run in blocks, so that disturbances of the machine affect all
//! cases equally.

use crate::contest::Rng;
use crate::exhibit::{Effort, Fault};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use document::{Point, Series};
use stats::words;
use stats::{Comparison, VALUES_MIN, compare, median, median_interval};
use std::time::Duration;

/// Start and end of a server, beside its load.
const OVERHEAD: Duration = Duration::from_millis(600);
/// Resamples for the second opinion on an interval.
const RESAMPLES: usize = 2_000;

/// A refusal is a reply with a status of 503.
const REFUSED: &str = "wrong_reply";

/// One server and its clients.
#[derive(Clone, Debug)]
pub struct Case {
    /// The server.
    pub web: Web,
    /// Its clients.
    pub clients: Clients,
    /// Its position on the horizontal axis.
    pub x: f64,
    /// Its group: the load, or another variable of the exhibit.
    pub group: String,
}

/// Cases with their runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
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

/// Blocks of an exhibit on web servers: as chosen, one if it has to be quick, or the fewest that
/// have an interval.
pub fn blocks(settings: &Settings) -> u32 {
    settings.blocks(if settings.quick { 1 } else { VALUES_MIN as u32 })
}

/// The duration of `cases` of `span` in this many blocks.
pub fn effort(cases: u32, span: Duration, blocks: u32) -> Effort {
    Effort::new(cases * blocks, span + OVERHEAD)
}

/// Requests that the governor refused.
pub fn refused(run: &WebRun) -> Option<f64> {
    let counts = run.load.errors.iter().filter(|it| it.kind == REFUSED).map(|it| it.count);
    Some(counts.sum::<u64>() as f64)
}

/// Runs every case once a block, in random order.
///
/// # Errors
/// If a server or the clients fail.
pub fn play(stage: &mut Stage<'_>, cases: Vec<Case>, blocks: u32) -> Result<Results, Fault> {
    let mut results = Results { cases, runs: Vec::new() };
    let mut rng = Rng::new(stage.settings().seed.into());
    for block in 0..blocks {
        for at in rng.order(results.cases.len()) {
            let Case { web, clients, group, .. } = &results.cases[at];
            let what = format!("{}, {group}", web.name);
            stage.begin(&what);
            let Some(run) = stage.meet(web, clients)? else { return Ok(results) };
            let is_governed = web.arm.command.iter().any(|word| word == "--governor");
            let fails = |kind: &str| clients.ramp.is_none() && !(is_governed && kind == REFUSED);
            for trouble in run.load.errors.iter().filter(|it| fails(&it.kind)) {
                stage.doubt(format!(
                    "{what}: {} requests failed, the first with: {}",
                    trouble.count, trouble.example
                ));
            }
            let rate = words::number(run.load.throughput_rps);
            stage.step(&format!("{what}: {rate} requests/s"));
            results.runs.push((at, block, run));
        }
    }
    Ok(results)
}

/// The median in words, with its interval where there are enough values and they differ.
pub fn said(values: &[f64]) -> String {
    let middle = words::or_none(median(values), words::number);
    let ends = median_interval(values).map(|it| [it.low, it.high].map(words::number));
    match ends {
        Some([low, high]) if low != middle || high != middle => format!("{middle} [{low}, {high}]"),
        _ => middle,
    }
}

impl Results {
    /// The case of that server and group.
    pub fn find(&self, server: &str, group: &str) -> Option<usize> {
        self.cases.iter().position(|it| it.web.name == server && it.group == group)
    }

    /// All runs of a case.
    pub fn of(&self, case: usize) -> impl Iterator<Item = &WebRun> {
        self.runs.iter().filter(move |(at, ..)| *at == case).map(|(.., run)| run)
    }

    /// A figure of every run of a case.
    pub fn values(&self, case: usize, figure: Figure) -> Vec<f64> {
        self.of(case).filter_map(figure).collect()
    }

    /// The median of a figure.
    pub fn median(&self, case: usize, figure: Figure) -> Option<f64> {
        median(&self.values(case, figure))
    }

    /// The median in words, with its interval where there are enough runs.
    pub fn shown(&self, case: usize, figure: Figure) -> String {
        said(&self.values(case, figure))
    }

    /// A figure of several cases together, block by block.
    pub fn blockwise<const N: usize>(
        &self,
        cases: [usize; N],
        figure: impl Fn([&WebRun; N]) -> Option<f64>,
    ) -> Vec<f64> {
        let blocks = self.runs.iter().map(|(_, block, _)| block + 1).max().unwrap_or(0);
        let run = |at: usize, block: u32| {
            self.runs.iter().find(|it| it.0 == at && it.1 == block).map(|(.., run)| run)
        };
        let all = (0..blocks).filter_map(|block| {
            let found: Vec<&WebRun> = cases.iter().filter_map(|at| run(*at, block)).collect();
            figure(found.try_into().ok()?)
        });
        all.collect()
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

    /// Whether a case was run at all.
    pub fn has(&self, case: usize) -> bool {
        self.of(case).next().is_some()
    }

    /// The median of a figure with its interval, at the case's position on the horizontal axis.
    pub fn point(&self, case: usize, figure: Figure) -> Option<Point> {
        let values = self.values(case, figure);
        let range = median_interval(&values).map(|it| (it.low, it.high));
        Some(Point { x: self.cases[case].x, y: median(&values)?, range })
    }

    /// A server's line over all groups that `keep` keeps: medians, with intervals.
    pub fn line(&self, server: &str, figure: Figure, keep: impl Fn(&Case) -> bool) -> Series {
        let mine = self.cases.iter().enumerate().filter(|(_, it)| it.web.name == server);
        let kept = mine.filter(|(_, it)| keep(it));
        Series::measured(server, kept.filter_map(|(at, _)| self.point(at, figure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::SimulatorRun;

    fn results() -> Results {
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
            load: SimulatorRun { requests: 1, throughput_rps: rps, ..SimulatorRun::default() },
            ..WebRun::default()
        };
        let runs = (0..6).flat_map(|block| {
            let base = 100.0 + f64::from(block);
            [(0, block, run(2.0 * base)), (1, block, run(base))]
        });
        Results { cases: vec![case("a"), case("b")], runs: runs.collect() }
    }

    #[test]
    fn cases_are_compared_block_by_block() {
        let results = results();
        let (a, b) = (results.find("a", "steady"), results.find("b", "steady"));
        let (a, b) = (a.expect("a case"), b.expect("a case"));
        let found = results.against(a, b, rps).expect("six pairs");
        assert!((found.ratio - 2.0).abs() < 1e-9 && found.interval.is_some());
        assert_eq!(results.median(b, rps), Some(102.5));
        assert_eq!(results.shown(b, rps), "102.5 [100, 105]");
        assert_eq!(results.line("a", rps, |_| true).points[0].range, Some((200.0, 210.0)));
        assert_eq!(results.find("a", "wobbling"), None);
        assert_eq!(results.median(a, inside_ms), None);
    }
}
