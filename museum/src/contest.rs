//! Arms that run in this process, or that are driven one by one, in paired blocks.
//!
//! A block runs every arm once in random order, so a disturbance of the machine that lasts a block
//! hits all of them. The baseline runs twice: its twin shows the distance between two runs of the
//! same code (A/A), and a difference within that distance counts as none. An arm returns a cost,
//! `ns`: nanoseconds an operation, where less is better. The twin's difference is surprisingly
//! large: many published figures lie within it.

use crate::exhibit::Fault;
use crate::results::{Figures, Results, TWIN};
use crate::stage::Stage;
use lab::machine::Watch;
use rustix::time::{ClockId, clock_gettime};
pub use stats::Rng;
use stats::words;
use std::time::Duration;

/// The cost of an arm.
pub const NS: &str = "ns";

type Run<'a> = Box<dyn FnMut() -> Result<Figures, Fault> + 'a>;

/// Arms that are compared with each other.
pub struct Contest<'a> {
    /// The question: the name of the point.
    what: String,
    /// Its arms; the first is the baseline, which has a twin.
    arms: Vec<(String, Run<'a>)>,
    /// Blocks; an interval needs six.
    blocks: u32,
}

impl<'a> Contest<'a> {
    pub fn new(what: impl Into<String>, blocks: u32) -> Contest<'a> {
        Contest { what: what.into(), arms: Vec::new(), blocks }
    }

    /// Adds an arm whose `run` returns its cost, above 0.
    pub fn arm(&mut self, name: impl Into<String>, mut run: impl FnMut() -> f64 + 'a) {
        self.trying(name, move || Ok(cost(run())));
    }

    /// Adds an arm that can fail, and that may have further figures next to its cost.
    pub fn trying(
        &mut self,
        name: impl Into<String>,
        run: impl FnMut() -> Result<Figures, Fault> + 'a,
    ) {
        self.arms.push((name.into(), Box::new(run)));
    }
}

/// A cost alone, as the figures of an arm.
pub fn cost(ns: f64) -> Figures {
    Figures::from([(NS.to_string(), ns)])
}

/// The findings about all contests of an exhibit together.
#[derive(Debug, Default)]
pub struct Ran {
    blocks: Option<u32>,
    floor: f64,
    foreign: f64,
    steal: f64,
}

impl Stage<'_> {
    /// Runs all blocks after one that is not counted.
    ///
    /// # Errors
    /// That of an arm, or the visitor stopped the run before the last block ended.
    pub fn contest(
        &mut self,
        mut contest: Contest<'_>,
        results: &mut Results,
    ) -> Result<(), Fault> {
        let what = contest.what.clone();
        let names: Vec<String> = contest.arms.iter().map(|arm| arm.0.clone()).collect();
        self.begin(&what)?;
        let watch = Watch::start();
        let runs = self.measured(&mut contest)?;
        let conditions = watch.stop();
        self.record(&serde_json::json!({
            "row": "contest", "what": what, "arms": names, "blocks": contest.blocks, "runs": runs,
            "conditions": conditions,
        }))?;
        self.quiet.counts(&conditions);
        let arms = names.iter().map(String::as_str).chain([TWIN]);
        for (arm, runs) in arms.zip(runs) {
            (0..).zip(runs).for_each(|(block, figures)| results.add(arm, &what, block, figures));
        }
        results.base(&what, &names[0]);
        let ran = &mut self.contests;
        ran.blocks = Some(ran.blocks.map_or(contest.blocks, |it| it.min(contest.blocks)));
        ran.floor = ran.floor.max(results.floor(NS, &what));
        ran.foreign = ran.foreign.max(conditions.foreign.unwrap_or(0.0));
        ran.steal = ran.steal.max(conditions.steal.unwrap_or(0.0));
        Ok(())
    }

    /// The figures by arm, the twin last, block by block.
    fn measured(&mut self, contest: &mut Contest<'_>) -> Result<Vec<Vec<Figures>>, Fault> {
        let mut rng = Rng::new(u64::from(self.settings().seed));
        let count = contest.arms.len();
        let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); count + 1];
        for block in 0..=contest.blocks {
            for at in rng.order(runs.len()) {
                self.goes_on()?;
                // The last is the twin: the baseline once more.
                let figures = (contest.arms[if at == count { 0 } else { at }].1)()?;
                if block > 0 {
                    runs[at].push(figures);
                }
            }
            if block > 0 {
                self.step(&format!("{}, block {block}", contest.what));
            }
        }
        Ok(runs)
    }

    /// The facts of all contests: noise floor, blocks, other activity of the machine.
    pub fn contest_facts(&mut self) -> Vec<(String, String)> {
        let Ran { blocks: Some(blocks), floor, foreign, steal } = self.contests else {
            return Vec::new();
        };
        if cfg!(debug_assertions) {
            self.doubt("This program was built with assertions: do not cite its times.");
        }
        let [floor, foreign, steal] = [floor.exp() - 1.0, foreign, steal].map(words::percent);
        let meanwhile =
            format!("other programs {foreign} of the machine at most, hypervisor {steal}");
        vec![
            ("Blocks".to_string(), blocks.to_string()),
            ("A/A floor".to_string(), format!("{floor} at most, from the baseline's twin")),
            ("Meanwhile".to_string(), meanwhile),
        ]
    }
}

/// The processor time of this thread, without that of other threads.
pub fn thread_time() -> Duration {
    elapsed(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have used.
pub fn process_time() -> Duration {
    elapsed(ClockId::ProcessCPUTime)
}

fn elapsed(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Processor time of this thread for `work`, in nanoseconds for each of `operations`.
pub fn ns_each(operations: u64, work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    each(thread_time().saturating_sub(start), operations)
}

/// Nanoseconds for each operation, above 0 so that a ratio can be taken of it.
pub fn each(time: Duration, operations: u64) -> f64 {
    (time.as_nanos() as f64).max(1.0) / operations.max(1) as f64
}
