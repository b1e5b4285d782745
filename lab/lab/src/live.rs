//! A running race: one snapshot that a terminal can draw.
//!
//! [`Live`] observes the race and keeps the part of the run that is known. [`Live::snapshot`]
//! computes current estimates with the same statistics that the report uses, so the estimates on
//! the screen converge to the values in the table. They never end a race early: stopping when an
//! interval looks good would make it too narrow.

use crate::race::RaceEvent;
use crate::record::{Manifest, Run};
use crate::trial::Trial;
use crate::verdict::{ArmVerdict, Metric, analyse};
use stats::VALUES_MIN;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Lines of news that are kept.
const NEWS_MAX: usize = 50;

/// The state of a race at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The question in one sentence.
    pub question: String,
    /// Name of the baseline.
    pub baseline: String,
    /// Trials of the whole race without repetitions.
    pub total: u32,
    /// Trials that are done, skipped ones included.
    pub done: u32,
    /// Blocks of the whole race.
    pub blocks: u32,
    /// The running block, from 1; 0 before the first.
    pub block: u32,
    /// The current arm and load point; empty between trials.
    pub running: String,
    /// The time until it ends, at the pace so far, milliseconds; absent before the first trial has
    /// ended.
    pub left_ms: Option<u64>,
    /// The estimates of the finished race.
    pub rows: u32,
    /// The part of its time that is over, 0 to 1.
    pub share: f64,
    /// Whether a time ends it, and not its number of blocks.
    pub is_budgeted: bool,
    /// Current estimates for each load point and arm: the point's lead metric first, then CPU per
    /// request and the other pre-registered metrics.
    pub estimates: Vec<Estimate>,
    /// The share of the machine that other processes took in each trial, in the order of running.
    pub noise: Vec<f64>,
    /// The events, the newest last: absent arms, failed checks, repetitions.
    pub news: Vec<String>,
}

/// One arm's comparison with the baseline so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Name of the load point.
    pub point: String,
    /// Name of the arm.
    pub arm: String,
    /// Whether it is the baseline's twin, whose interval is the noise.
    pub twin: bool,
    /// The comparison and the decision as of now.
    pub verdict: ArmVerdict,
}

struct Inner {
    run: Run,
    shot: Snapshot,
    begun: Instant,
    fresh: u32,
}

/// Observes a race, and answers other threads; clones share one state.
#[derive(Clone)]
pub struct Live(Arc<Mutex<Inner>>);

impl Live {
    /// A race that has not begun.
    pub fn new(manifest: &Manifest) -> Live {
        let plan = &manifest.plan;
        let shot = Snapshot {
            question: plan.question.clone(),
            baseline: plan.baseline.clone(),
            total: plan.trials(),
            blocks: plan.blocks,
            rows: {
                let of = |point| plan.registered(point).len() as u32;
                let metrics: u32 = plan.points.iter().map(of).sum();
                metrics * (plan.entrants().len() as u32).saturating_sub(1)
            },
            is_budgeted: plan.turns.budget_ms.is_some(),
            ..Snapshot::default()
        };
        let run = Run { manifest: manifest.clone(), ..Run::default() };
        Live(Arc::new(Mutex::new(Inner { run, shot, begun: Instant::now(), fresh: 0 })))
    }

    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shot = inner.shot.clone();
        let elapsed_ms = inner.begun.elapsed().as_millis() as u64;
        // A race with a budget ends by its time, but not before an interval is possible.
        let budget_ms = inner.run.manifest.plan.turns.budget_ms;
        let wanted = match budget_ms {
            Some(_) => shot.total / shot.blocks.max(1) * VALUES_MIN as u32,
            None => shot.total,
        };
        let left = u64::from(wanted.saturating_sub(shot.done));
        let most_ms = budget_ms.unwrap_or(0).saturating_sub(elapsed_ms);
        shot.left_ms =
            (inner.fresh > 0).then(|| (elapsed_ms * left / u64::from(inner.fresh)).max(most_ms));
        let left_ms = shot.left_ms.unwrap_or(u64::MAX / 2);
        shot.share = elapsed_ms as f64 / (elapsed_ms + left_ms).max(1) as f64;
        if budget_ms.is_none() {
            shot.share = f64::from(shot.done) / f64::from(shot.total.max(1));
        }
        shot
    }

    /// Takes the next event.
    pub fn hear(&self, event: RaceEvent<'_>) {
        self.with(|inner| match event {
            RaceEvent::Race(trials) => (inner.shot.total, inner.begun) = (trials, Instant::now()),
            RaceEvent::Known(trial) => inner.take(trial),
            RaceEvent::News(text) => inner.tell(text.to_string()),
            RaceEvent::Begin(slot, arm, point) => {
                inner.shot.block = slot.block + 1;
                inner.shot.running = format!("{arm}, {point}");
            }
            RaceEvent::End(trial) => {
                inner.fresh += 1;
                inner.take(trial);
                inner.estimate();
            }
            RaceEvent::Skip(_) => inner.shot.done += 1,
        });
    }

    fn with(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Inner {
    fn take(&mut self, trial: &Trial) {
        self.shot.done += 1;
        if let Some(fault) = trial.fault() {
            self.tell(fault);
        }
        self.shot.noise.push(trial.conditions.foreign.unwrap_or(0.0));
        self.run.trials.push(trial.clone());
    }

    fn tell(&mut self, text: String) {
        self.shot.news.push(text);
        let spare = self.shot.news.len().saturating_sub(NEWS_MAX);
        self.shot.news.drain(..spare);
    }

    fn estimate(&mut self) {
        let summary = analyse(&self.run);
        self.shot.estimates.clear();
        for point in &summary.points {
            let leads = |it: &&ArmVerdict| it.metric == point.lead;
            let beside = |it: &&ArmVerdict| it.registered || it.metric == Metric::Cpu;
            for arm in &point.arms {
                let first = arm.judged.iter().filter(leads);
                let rest = arm.judged.iter().filter(|it| !leads(it) && beside(it));
                self.shot.estimates.extend(first.chain(rest).map(|verdict| Estimate {
                    point: point.point.clone(),
                    arm: arm.arm.clone(),
                    twin: arm.twin,
                    verdict: verdict.clone(),
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{manifest, trial};
    use stats::Comparison;

    #[test]
    fn estimates_close_in_as_blocks_come_in() {
        let live = Live::new(&manifest());
        live.hear(RaceEvent::Race(48));
        for block in 0..6 {
            for (arm, speed) in [("epoll", 100.0), ("uring", 150.0), ("epoll (twin)", 101.0)] {
                live.hear(RaceEvent::End(&trial(arm, block, speed + f64::from(block))));
            }
            let shot = live.snapshot();
            let is_speed =
                |it: &&Estimate| it.arm == "uring" && it.verdict.metric == Metric::Throughput;
            let speed = shot.estimates.iter().find(is_speed).expect("both were measured");
            let Comparison { log_ratios, interval, .. } = &speed.verdict.comparison;
            assert_eq!((log_ratios.len(), interval.is_some()), (block as usize + 1, block == 5));
        }
        let shot = live.snapshot();
        assert_eq!((shot.done, shot.total, shot.noise.len()), (18, 48, 18));
        assert!(shot.left_ms.is_some(), "{shot:?}");
    }

    #[test]
    fn a_budget_says_when_the_race_ends() {
        let mut manifest = manifest();
        (manifest.plan.blocks, manifest.plan.turns.budget_ms) = (200, Some(60_000));
        let live = Live::new(&manifest);
        live.hear(RaceEvent::Race(manifest.plan.trials()));
        live.hear(RaceEvent::End(&trial("epoll", 0, 1.0)));
        let left_ms = live.snapshot().left_ms.expect("a trial has ended");
        assert!((30_000..=60_000).contains(&left_ms), "{left_ms}");
    }

    #[test]
    fn what_went_wrong_is_news() {
        let live = Live::new(&manifest());
        let mut absent = trial("uring", 0, 1.0);
        absent.ending = crate::trial::Ending::Unavailable { reason: "no ring".to_string() };
        live.hear(RaceEvent::End(&absent));
        live.hear(RaceEvent::Skip("uring"));
        let shot = live.snapshot();
        assert_eq!((shot.done, shot.news), (2, vec!["uring: no ring".to_string()]));
    }
}
