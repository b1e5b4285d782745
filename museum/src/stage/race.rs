//! A race of the laboratory: randomised blocks of fresh processes.

use super::Stage;
use crate::exhibit::Fault;
use lab::plan::Plan;
use lab::race::RaceEvent;
use lab::record::{Manifest, Recorder, Run};
use lab::runner::Runner;
use lab::trial::Ending;
use lab::verdict::analyse;
use stats::words;
use std::fs;
use std::path::Path;

impl Stage<'_> {
    /// Runs a race.
    ///
    /// # Errors
    /// If the plan cannot be run, or the visitor stopped the run before there was a result.
    pub fn race(&mut self, plan: &Plan) -> Result<Run, Fault> {
        self.goes_on()?;
        plan.check().map_err(|bad| Fault::Lab(bad.to_string()))?;
        let failed = |why: &dyn std::fmt::Display| Fault::Lab(format!("{why:#}"));
        let Stage { settings, room, stop, placement, listener, .. } = self;
        let (version, commit) = (settings.version.as_str(), settings.commit.as_deref());
        let manifest = Manifest::describe(plan, &settings.exe, version, commit, *placement)
            .map_err(|why| failed(&why))?;
        let raw = room.join("race.jsonl");
        let mut recorder = Recorder::begin(&raw, &manifest).map_err(|why| failed(&why))?;
        let runner = Runner::new(plan, &settings.exe, room, *placement, stop.clone());
        let mut runner = runner.far(settings.far.clone());
        let mut observer = |event: RaceEvent<'_>| tell(*listener, event);
        let known = Run { manifest, ..Run::default() };
        let outcome = lab::race::run(known, &mut runner, &mut recorder, &mut observer, stop)
            .map_err(|why| failed(&why))?;
        self.keep(&raw)?;
        if outcome.run.trials.is_empty() {
            return Err(Fault::Stopped);
        }
        let summary = analyse(&outcome.run);
        summary.broken.iter().for_each(|text| self.doubt(text));
        for trial in &outcome.run.trials {
            self.quiet.counts(&trial.conditions);
        }
        Ok(outcome.run)
    }

    /// Moves the race's lines into the raw file.
    fn keep(&mut self, raw: &Path) -> Result<(), Fault> {
        let lines = fs::read_to_string(raw)
            .map_err(|why| Fault::File(format!("cannot read {}: {why}", raw.display())))?;
        for line in lines.lines() {
            let row: serde_json::Value = serde_json::from_str(line)
                .map_err(|why| Fault::Lab(format!("a row of the race is not JSON: {why}")))?;
            self.record(&serde_json::json!({"row": "race", "race": row}))?;
        }
        let _ = fs::remove_file(raw);
        Ok(())
    }
}

/// Forwards the race's progress to the visitor's listener.
fn tell(listener: &mut dyn super::Listener, event: RaceEvent<'_>) {
    match event {
        RaceEvent::Begin(slot, arm, point) => {
            listener.begin(&format!("block {}, {point}, {arm}", slot.block + 1));
        }
        RaceEvent::End(trial) => {
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
