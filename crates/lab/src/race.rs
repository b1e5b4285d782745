//! The race: walks the schedule, repeats what the gates refuse, records everything.
//!
//! Repetitions are bounded twice, per slot and over the whole race; on a machine that is never
//! quiet the last attempt counts and carries its objections into the report. An arm whose server
//! does not start is asked once more and then left out, with its reason as its result.

use crate::block::{Slot, schedule};
use crate::record::{Manifest, Recorder, Run};
use crate::trial::{Ending, Trial, Trials};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Hears of the race's progress.
pub trait Observer {
    /// The race begins; so many trials without repetitions.
    fn race(&mut self, _trials: u32) {}
    /// A trial of an earlier sitting that is not run again.
    fn known(&mut self, _trial: &Trial) {}
    /// Something worth a line, such as a pilot's result.
    fn news(&mut self, _text: &str) {}
    /// A trial begins.
    fn begin(&mut self, _slot: &Slot, _arm: &str, _point: &str) {}
    /// An attempt ended.
    fn end(&mut self, _trial: &Trial) {}
    /// Slots of an arm that is left out.
    fn skip(&mut self, _arm: &str) {}
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}

/// What a race brought home.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Manifest and all attempts.
    pub run: Run,
    /// It was stopped before its end.
    pub interrupted: bool,
}

/// Runs the plan of `manifest`. Stops after the running trial's end when `stop` becomes true, and
/// keeps what is known.
///
/// # Errors
/// If the raw file cannot be written.
pub fn run(
    manifest: &Manifest,
    trials: &mut dyn Trials,
    recorder: &mut Recorder,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let plan = &manifest.plan;
    let begun = Instant::now();
    let slots = schedule(plan);
    let entrants = plan.entrants();
    let mut retries = (f64::from(plan.trials()) * plan.gates.retry_share).ceil() as u32;
    let mut missing: BTreeSet<usize> = BTreeSet::new();
    let mut proven: BTreeSet<usize> = BTreeSet::new();
    let mut run = Run { manifest: manifest.clone(), ..Run::default() };
    observer.race(plan.trials());
    for slot in &slots {
        let arm = &entrants[slot.entrant].name;
        if missing.contains(&slot.entrant) {
            observer.skip(arm);
            continue;
        }
        let mut attempt = 1;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(Outcome { run, interrupted: true });
            }
            observer.begin(slot, arm, &plan.points[slot.point].name);
            let Some(mut trial) = trials.run(slot, attempt, begun) else {
                return Ok(Outcome { run, interrupted: true });
            };
            let absent = matches!(trial.ending, Ending::Unavailable { .. });
            let again = attempt < plan.gates.attempts
                && match absent {
                    true => attempt == 1,
                    false => !trial.objections.is_empty() && retries > 0,
                };
            trial.counted = !again;
            recorder.trial(&trial)?;
            observer.end(&trial);
            run.trials.push(trial);
            if !again {
                if !absent {
                    proven.insert(slot.entrant);
                } else if !proven.contains(&slot.entrant) {
                    missing.insert(slot.entrant);
                }
                break;
            }
            retries = retries.saturating_sub(u32::from(!absent));
            attempt += 1;
        }
    }
    Ok(Outcome { run, interrupted: false })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::Load;
    use crate::machine::{Conditions, Host};
    use crate::seen::Seen;
    use crate::server::tests::Room;

    /// A manifest that other modules' tests start from.
    pub(crate) fn manifest() -> Manifest {
        let plan = crate::plan::tests::plan();
        Manifest {
            schema: crate::record::SCHEMA.to_string(),
            date: "2026-11-21T20:29:05Z".to_string(),
            version: "0.1.0".to_string(),
            commit: None,
            program: "0".to_string(),
            command: "roundhouse race".to_string(),
            host: Host::default(),
            placement: None,
            plan_hash: plan.hash(),
            plan,
            programs: Vec::new(),
        }
    }

    /// A counted trial at depth 1 with this throughput and a CPU cost that falls with it.
    pub(crate) fn trial(arm: &str, block: u32, throughput: f64) -> Trial {
        let text = format!(
            "{{\"schema\":\"roundhouse.load/1\",\"requests\":20000,\"throughput_rps\":{throughput},\
             \"service\":{{\"count\":20000,\"p50_ns\":1000,\"p99_ns\":5000}},\
             \"check\":{{\"kind\":\"books\",\"ok\":true,\"detail\":\"\"}},\
             \"generator\":{{\"cpu_ns\":1,\"busy\":0.5}},\
             \"server\":{{\"cpu_ns\":1,\"cpu_ns_per_request\":{},\"pss_kb\":2000}}}}",
            1e9 / throughput
        );
        let load = Load::parse(&text).expect("well formed");
        Trial {
            order: 0,
            block,
            point: "depth 1".to_string(),
            arm: arm.to_string(),
            attempt: 1,
            seed: 1,
            swapped: block % 2 == 1,
            begun_ms: 0.0,
            took_ms: 900.0,
            boot_ms: Some(1.0),
            conditions: Conditions::default(),
            objections: Vec::new(),
            counted: true,
            exit: Some("exit 0".to_string()),
            exit_clean: true,
            ending: Ending::Measured { load: Box::new(load) },
            seen: Seen::default(),
        }
    }

    /// Answers every slot by a function of (arm, slot, attempt).
    struct Mock<F>(F);

    impl<F: FnMut(&Slot, u32) -> Option<Trial>> Trials for Mock<F> {
        fn run(&mut self, slot: &Slot, attempt: u32, _begun: Instant) -> Option<Trial> {
            (self.0)(slot, attempt)
        }
    }

    fn play(
        name: &str,
        stop: &AtomicBool,
        answer: impl FnMut(&Slot, u32) -> Option<Trial>,
    ) -> Outcome {
        let room = Room::new(name);
        let manifest = manifest();
        let path = room.0.join("report.jsonl");
        let mut recorder = Recorder::begin(&path, &manifest).expect("writable");
        let outcome = run(&manifest, &mut Mock(answer), &mut recorder, &mut Silent, stop)
            .expect("the raw file is writable");
        let read = crate::record::read(&path).expect("what was written");
        assert_eq!(
            read,
            std::slice::from_ref(&outcome.run),
            "the raw file holds what the race returns"
        );
        outcome
    }

    fn answer(slot: &Slot, attempt: u32) -> Trial {
        let name = manifest().plan.entrants()[slot.entrant].name.clone();
        Trial { order: slot.order, attempt, ..trial(&name, slot.block, 100.0) }
    }

    #[test]
    fn every_slot_gets_a_result() {
        let outcome = play("all", &AtomicBool::new(false), |slot, n| Some(answer(slot, n)));
        assert_eq!(outcome.run.trials.len(), 48);
        assert!(outcome.run.trials.iter().all(|trial| trial.counted));
        assert!(!outcome.interrupted);
    }

    #[test]
    fn a_refused_trial_is_repeated_in_its_block_and_kept_in_the_record() {
        let outcome = play("retry", &AtomicBool::new(false), |slot, n| {
            let mut trial = answer(slot, n);
            if slot.order == 3 && n < 3 {
                trial.objections.push("steal".to_string());
            }
            Some(trial)
        });
        let three: Vec<&Trial> = outcome.run.trials.iter().filter(|it| it.order == 3).collect();
        let counted: Vec<bool> = three.iter().map(|trial| trial.counted).collect();
        assert_eq!(counted, [false, false, true]);
        assert_eq!(outcome.run.trials.len(), 50);
    }

    #[test]
    fn repetitions_are_bounded_on_a_machine_that_is_never_quiet() {
        let outcome = play("noisy", &AtomicBool::new(false), |slot, n| {
            let objections = vec!["foreign".to_string()];
            Some(Trial { objections, ..answer(slot, n) })
        });
        // 20 % of 48 trials, rounded up.
        assert_eq!(outcome.run.trials.len(), 48 + 10);
        assert_eq!(outcome.run.trials.iter().filter(|it| it.counted).count(), 48);
    }

    #[test]
    fn an_arm_that_does_not_start_is_asked_twice_and_left_out() {
        let outcome = play("absent", &AtomicBool::new(false), |slot, n| {
            let mut trial = answer(slot, n);
            if trial.arm == "uring" {
                trial.ending = Ending::Unavailable { reason: "no ring".to_string() };
            }
            Some(trial)
        });
        let uring = outcome.run.trials.iter().filter(|it| it.arm == "uring").count();
        assert_eq!((uring, outcome.run.trials.len()), (2, 36 + 2));
    }

    #[test]
    fn an_interrupted_race_keeps_what_is_known() {
        let outcome = play("stop", &AtomicBool::new(false), |slot, n| {
            (slot.order < 5).then(|| answer(slot, n))
        });
        assert!(outcome.interrupted);
        assert_eq!(outcome.run.trials.len(), 5);
        let outcome = play("stopped", &AtomicBool::new(true), |slot, n| Some(answer(slot, n)));
        assert_eq!((outcome.interrupted, outcome.run.trials.len()), (true, 0));
    }
}
