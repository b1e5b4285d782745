//! A race of the laboratory: randomised blocks of fresh processes, with intervals and verdicts.

use super::Stage;
use crate::exhibit::Fault;
use lab::machine::date_now;
use lab::metric::Metric;
use lab::plan::Plan;
use lab::race::RaceEvent;
use lab::record::{Manifest, Recorder, Run, Sitting};
use lab::runner::Runner;
use lab::trial::{Ending, Trial};
use lab::verdict::{ArmSummary, ArmVerdict, Summary, analyse};
use stats::words;
use stats::{Comparison, compare};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Resamples for the second opinion on an interval.
const RESAMPLES: usize = 2_000;
/// The time of a trial beside its load: start and end of server and generator.
const OVERHEAD: Duration = Duration::from_millis(250);

/// A race that was run, and its conclusions.
#[derive(Clone, Debug)]
pub struct Race {
    run: Run,
    summary: Summary,
}

/// The approximate duration of a plan.
pub fn duration(plan: &Plan) -> crate::Effort {
    let windows = plan.turns.map_or(1, |turns| turns.windows);
    let load = Duration::from_millis(plan.warmup_ms + u64::from(windows) * plan.window_ms);
    crate::Effort::new(plan.trials(), load + OVERHEAD)
}

impl Race {
    /// The medians of an arm at a load point, if it was measured there.
    pub fn arm(&self, point: &str, arm: &str) -> Option<&ArmSummary> {
        let point = self.summary.points.iter().find(|it| it.point == point)?;
        point.arms.iter().find(|it| it.arm == arm && it.absent.is_none())
    }

    /// An arm against the baseline.
    pub fn judged(&self, point: &str, arm: &str, metric: Metric) -> Option<&ArmVerdict> {
        self.arm(point, arm)?.judged(metric)
    }

    /// One arm at one load point against itself at another, block by block: the cost of the
    /// request, not that of the server.
    pub fn across(&self, arm: &str, points: [&str; 2], metric: Metric) -> Option<Comparison> {
        let value = |point: &str, block: u32| {
            let same = |it: &&Trial| it.arm == arm && it.point == point && it.block == block;
            self.run.trials.iter().filter(same).find_map(|trial| metric.in_trial(trial))
        };
        let blocks = 0..self.run.manifest.plan.blocks;
        let pairs: Vec<(f64, f64)> =
            blocks.filter_map(|at| value(points[0], at).zip(value(points[1], at))).collect();
        compare(&pairs, RESAMPLES, self.run.manifest.plan.seed)
    }

    /// The laboratory's own doubts about the race.
    pub fn doubts(&self) -> Vec<String> {
        let mut found: Vec<String> = self.summary.broken.clone();
        if self.summary.objected > 0 {
            found.push(format!(
                "{} of {} trials count although the machine was not quiet.",
                self.summary.objected,
                self.run.trials.iter().filter(|trial| trial.counted).count()
            ));
        }
        found
    }

    /// Whether replies and books were right in every trial.
    pub fn is_right(&self) -> bool {
        self.summary.broken.is_empty()
    }

    /// The plan that was run.
    pub fn plan(&self) -> &Plan {
        &self.run.manifest.plan
    }
}

impl Stage<'_> {
    /// Runs a race. `None` if the visitor stopped the run before there was a result.
    ///
    /// # Errors
    /// If the plan cannot be run.
    pub fn race(&mut self, plan: &Plan) -> Result<Option<Race>, Fault> {
        if self.stopped() {
            return Ok(None);
        }
        plan.check().map_err(|bad| Fault::Lab(bad.to_string()))?;
        let failed = |why: &dyn std::fmt::Display| Fault::Lab(format!("{why:#}"));
        let Stage { settings, room, stop, placement, listener, earlier, .. } = self;
        let (version, commit) = (settings.version.as_str(), settings.commit.as_deref());
        let manifest = Manifest::describe(plan, &settings.exe, version, commit, *placement)
            .map_err(|why| failed(&why))?;
        let raw = room.join("race.jsonl");
        let (known, mut recorder) = match earlier.race(&manifest.plan_hash) {
            Some(lines) => go_on(&lines, &raw, &manifest)?,
            None => {
                (fresh(&manifest), Recorder::begin(&raw, &manifest).map_err(|why| failed(&why))?)
            }
        };
        let runner = Runner::new(plan, &settings.exe, room, *placement, stop.clone());
        let mut runner = runner.far(settings.far.clone());
        let mut observer = |event: RaceEvent<'_>| tell(*listener, event);
        let outcome = lab::race::go_on(known, &mut runner, &mut recorder, &mut observer, stop)
            .map_err(|why| failed(&why))?;
        self.keep(&raw)?;
        if outcome.run.trials.is_empty() {
            return Ok(None);
        }
        let summary = analyse(&outcome.run);
        let raced = Race { run: outcome.run, summary };
        raced.doubts().into_iter().for_each(|text| self.doubt(text));
        for trial in raced.run.trials.iter().filter(|trial| trial.counted) {
            self.quiet.counts(&trial.conditions);
        }
        Ok(Some(raced))
    }

    /// Moves the race's lines into the raw file.
    fn keep(&mut self, raw: &Path) -> Result<(), Fault> {
        let lines = fs::read_to_string(raw)
            .map_err(|why| Fault::File(format!("cannot read {}: {why}", raw.display())))?;
        for line in lines.lines() {
            let row: serde_json::Value = serde_json::from_str(line)
                .map_err(|why| Fault::Lab(format!("a row of the race is no JSON: {why}")))?;
            self.record(&serde_json::json!({"row": "race", "race": row}))?;
        }
        let _ = fs::remove_file(raw);
        Ok(())
    }
}

fn fresh(manifest: &Manifest) -> Run {
    Run { manifest: manifest.clone(), ..Run::default() }
}

/// Continues a race whose lines are known.
fn go_on(lines: &str, raw: &Path, manifest: &Manifest) -> Result<(Run, Recorder), Fault> {
    let failed = |why: &dyn std::fmt::Display| Fault::Lab(format!("{why:#}"));
    fs::write(raw, lines).map_err(|why| failed(&why))?;
    let mut known = lab::record::read(raw).map_err(|why| failed(&why))?;
    let mut run = known.pop().unwrap_or_else(|| fresh(manifest));
    let number = run.resumed.len() as u32 + 1;
    let sitting = Sitting { number, date: date_now(), program: manifest.program.clone() };
    let recorder = Recorder::resume(raw, &sitting).map_err(|why| failed(&why))?;
    run.resumed.push(sitting);
    Ok((run, recorder))
}

/// Forwards the race's progress to the visitor's listener.
fn tell(listener: &mut dyn super::Listener, event: RaceEvent<'_>) {
    match event {
        RaceEvent::Begin(slot, arm, point) => {
            listener.begin(&format!("block {}, {point}, {arm}", slot.block + 1));
        }
        RaceEvent::End(trial) if trial.counted => {
            let place = format!("{}, {}, block {}", trial.point, trial.arm, trial.block + 1);
            let result = match &trial.ending {
                Ending::Measured { load } => {
                    format!("{} requests/s", words::number(load.throughput_rps))
                }
                Ending::Unavailable { reason } | Ending::Failed { reason } => reason.clone(),
            };
            listener.step(&format!("{place}: {result}"));
        }
        RaceEvent::Skip(arm) => listener.step(&format!("{arm}: left out")),
        _ => {}
    }
}
