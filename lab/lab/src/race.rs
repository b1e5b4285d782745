//! The race: walks the blocks, records everything.
//!
//! Every block meets every arm that is still in the race, so a disturbance affects all of them
//! alike, and no trial is repeated. An arm leaves when its server does not start or fails twice; in
//! a race with a budget also when it is clearly costlier. A stopped race can continue: the schedule
//! follows from the plan alone, so a result's position in it identifies the finished slots.

use crate::block::{Slot, schedule};
use crate::cause::questioned;
use crate::machine::date_now;
use crate::plan::{LoadPoint, Plan};
use crate::prices::Prices;
use crate::record::{Pilot, Recorder, Row, Run};
use crate::trial::{Ending, Trial, Trials};
use crate::verdict::answer::{is_settled, leaving};
use crate::verdict::{BUSY_MAX, analyse};
use stats::{VALUES_MIN, median};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The progress of a race.
#[derive(Clone, Copy, Debug)]
pub enum RaceEvent<'a> {
    /// The race begins; it has this many trials, without repetitions.
    Race(u32),
    /// A trial is known from an earlier sitting and not run again.
    Known(&'a Trial),
    /// There is news, such as a pilot's result.
    News(&'a str),
    /// A trial of this arm at this load point begins.
    Begin(&'a Slot, &'a str, &'a str),
    /// An attempt ended.
    End(&'a Trial),
    /// A slot of this arm is left out.
    Skip(&'a str),
}

/// Observes a race.
pub type Observer<'a> = dyn FnMut(RaceEvent<'_>) + 'a;

/// The result of a race.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Manifest and all attempts.
    pub run: Run,
    /// The race stopped before its end.
    pub interrupted: bool,
}

/// Runs the plan of a run's manifest, or continues a run that was stopped: slots that have a result
/// keep it, the others are run. The order is the plan's, so a run in two sittings has the same
/// blocks as one in a single sitting. When `stop` becomes true, it finishes the current trial,
/// stops, and keeps the results.
///
/// # Errors
/// If the raw file cannot be written.
pub fn run(
    known: Run,
    trials: &mut dyn Trials,
    recorder: &mut Recorder,
    observer: &mut Observer<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let plan = known.manifest.plan.clone();
    observer(RaceEvent::Race(plan.trials()));
    for trial in &known.trials {
        observer(RaceEvent::Known(trial));
    }
    let progress = Progress::of(&plan, &known);
    let mut race = Race { plan, run: known, progress, trials, recorder, observer, stop };
    let finished = race.pilots()? && race.blocks()?;
    if finished && !race.run.finished {
        race.recorder.append(Row::Finished { date: date_now() })?;
        race.run.finished = true;
    }
    Ok(Outcome { run: race.run, interrupted: !finished })
}

/// Counts system calls in separate runs and measures their prices: those of the cheapest arms
/// and the costlier ones.
///
/// # Errors
/// If the raw file cannot be written, or a price cannot be measured.
pub fn explain(
    run: &mut Run,
    trials: &mut dyn Trials,
    recorder: &mut Recorder,
    observer: &mut Observer<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let plan = run.manifest.plan.clone();
    if run.prices.is_none() {
        let prices = Prices::measure(run.manifest.placement.map(|it| it.cores(false).0))?;
        recorder.append(prices.clone())?;
        run.prices = Some(prices);
    }
    let answer = analyse(run).answer;
    for (at, point) in plan.points.iter().enumerate() {
        let wanted = questioned(&answer, &point.name);
        for (entrant, arm) in plan.arms.iter().enumerate() {
            let has = run.census.iter().any(|it| it.arm == arm.name && it.point == point.name);
            if has || !wanted.contains(&arm.name) || stop.load(Ordering::Relaxed) {
                continue;
            }
            let Some(census) = trials.census(entrant, at) else { return Ok(()) };
            observer(RaceEvent::News(&match (&census.missing, census.per_request()) {
                (Some(why), _) => format!("census of {}, {}: {why}", arm.name, point.name),
                (None, Some(all)) => {
                    format!("census of {}, {}: {all:.2} calls per request", arm.name, point.name)
                }
                (None, None) => format!("census of {}, {}: no call", arm.name, point.name),
            }));
            recorder.append(census.clone())?;
            run.census.push(census);
        }
    }
    Ok(())
}

/// Pilot trials of each arm; their median is its capacity.
const PILOT_ROUNDS: u32 = 3;

/// The state of a running race next to its record.
#[derive(Default)]
struct Progress {
    /// Arms that never started.
    missing: BTreeSet<usize>,
    /// Arms that have started once.
    proven: BTreeSet<usize>,
    /// Orders of the slots that have a result.
    done: BTreeSet<u32>,
}

struct Race<'a> {
    plan: Plan,
    run: Run,
    progress: Progress,
    trials: &'a mut dyn Trials,
    recorder: &'a mut Recorder,
    observer: &'a mut Observer<'a>,
    stop: &'a AtomicBool,
}

impl Progress {
    fn of(plan: &Plan, known: &Run) -> Progress {
        let mut progress = Progress::default();
        let entrants = plan.entrants();
        for trial in &known.trials {
            let Some(entrant) = entrants.iter().position(|arm| arm.name == trial.arm) else {
                continue;
            };
            progress.take(entrant, trial);
        }
        progress
    }

    fn take(&mut self, entrant: usize, trial: &Trial) {
        self.done.insert(trial.order);
        if !matches!(trial.ending, Ending::Unavailable { .. }) {
            self.proven.insert(entrant);
        } else if !self.proven.contains(&entrant) {
            self.missing.insert(entrant);
        }
    }
}

impl Race<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn sitting(&self) -> u32 {
        self.run.resumed.last().map_or(0, |sitting| sitting.number)
    }

    /// Runs block after block with all servers that are still in the race, until the blocks or the
    /// time are used up or nothing is left to settle. Returns whether it completed.
    fn blocks(&mut self) -> anyhow::Result<bool> {
        let (begun, sitting, entrants) = (Instant::now(), self.sitting(), self.plan.entrants());
        let budget = self.plan.turns.budget_ms.map(Duration::from_millis);
        let all = schedule(&self.plan);
        let each = self.plan.points.len() * entrants.len();
        let mut gone: Vec<String> = Vec::new();
        for (block, slots) in (0..).zip(all.chunks(each)) {
            let leaving = leaving(&self.plan, &self.run.trials, block);
            for arm in leaving.iter().filter(|arm| !gone.contains(arm)) {
                (self.observer)(RaceEvent::News(&format!("{arm} takes part in no further block")));
            }
            gone = leaving;
            let is_in = |slot: &&Slot| {
                !self.progress.missing.contains(&slot.entrant)
                    && !gone.contains(&entrants[slot.entrant].name)
            };
            for slot in slots.iter().filter(|slot| !is_in(slot)) {
                (self.observer)(RaceEvent::Skip(&entrants[slot.entrant].name));
            }
            let left: Vec<Slot> = slots
                .iter()
                .filter(|slot| is_in(slot) && !self.progress.done.contains(&slot.order))
                .cloned()
                .collect();
            let Some(first) = left.first() else { continue };
            // Fewer blocks give no interval, so a slow machine takes its time for them.
            let is_late =
                block >= VALUES_MIN as u32 && budget.is_some_and(|budget| begun.elapsed() > budget);
            if is_late || (budget.is_some() && is_settled(&self.plan, &self.run.trials)) {
                return Ok(true);
            }
            if self.stopped() {
                return Ok(false);
            }
            let servers = format!("{} servers in turn", left.len() / self.plan.points.len());
            (self.observer)(RaceEvent::Begin(first, &servers, "every load point"));
            let Some(found) = self.trials.block(&left, begun) else { return Ok(false) };
            for mut trial in found {
                trial.seen.sitting = sitting;
                self.recorder.append(Box::new(trial.clone()))?;
                (self.observer)(RaceEvent::End(&trial));
                let entrant = entrants.iter().position(|arm| arm.name == trial.arm);
                if let Some(entrant) = entrant {
                    self.progress.take(entrant, &trial);
                }
                self.run.trials.push(trial);
            }
            if let Some(news) = budget.and_then(|budget| later(block, begun.elapsed(), budget)) {
                (self.observer)(RaceEvent::News(&news));
            }
        }
        Ok(true)
    }

    /// Measures the capacity of every arm, if some load point needs it. The rounds are interleaved,
    /// like blocks. Returns whether it completed.
    fn pilots(&mut self) -> anyhow::Result<bool> {
        if !self.plan.points.iter().any(LoadPoint::needs_pilot) {
            return Ok(true);
        }
        let arms = self.plan.arms.clone();
        let known = |run: &Run, arm: &str| run.pilots.iter().any(|pilot| pilot.arm == arm);
        let mut found: Vec<Pilot> =
            arms.iter().map(|arm| Pilot { arm: arm.name.clone(), ..Pilot::default() }).collect();
        for round in 0..PILOT_ROUNDS {
            for (entrant, pilot) in found.iter_mut().enumerate() {
                if known(&self.run, &pilot.arm) {
                    continue;
                }
                if self.stopped() {
                    return Ok(false);
                }
                match self.trials.pilot(entrant, round) {
                    None => return Ok(false),
                    Some(Err(reason)) => (self.observer)(RaceEvent::News(&format!(
                        "pilot of {}: {reason}",
                        pilot.arm
                    ))),
                    Some(Ok(load)) => {
                        pilot.throughput_rps.push(load.throughput_rps);
                        let busy = load.generator.is_some_and(|it| it.busy > BUSY_MAX);
                        pilot.generator_limited |= busy;
                    }
                }
            }
        }
        for mut pilot in found {
            if known(&self.run, &pilot.arm) {
                continue;
            }
            pilot.capacity_rps = median(&pilot.throughput_rps);
            if let Some(rps) = pilot.capacity_rps {
                (self.observer)(RaceEvent::News(&format!(
                    "pilot of {}: {rps:.0} requests/s",
                    pilot.arm
                )));
            }
            self.recorder.append(pilot.clone())?;
            self.run.pilots.push(pilot);
        }
        let capacity = |pilot: &Pilot| Some((pilot.arm.clone(), pilot.capacity_rps?));
        self.trials.capacities(&self.run.pilots.iter().filter_map(capacity).collect());
        Ok(true)
    }
}

/// After the first block of a sitting: the time of a race whose blocks take so long that an
/// interval needs more than the budget by a fifth.
fn later(block: u32, first: Duration, budget: Duration) -> Option<String> {
    let least = first * VALUES_MIN as u32;
    let is_late = block == 0 && least > budget + budget / 5;
    is_late.then(|| {
        format!(
            "a block takes {:.0} s, so the {VALUES_MIN} blocks of an interval take about {:.0} s \
             instead of {:.0} s; Ctrl-C answers with what is known",
            first.as_secs_f64(),
            least.as_secs_f64(),
            budget.as_secs_f64()
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::Load;
    use crate::machine::Conditions;
    use crate::record::{Manifest, Sitting};
    use std::collections::BTreeMap;
    use tempfile::tempdir;

    /// A manifest that other modules' tests start from.
    pub(crate) fn manifest() -> Manifest {
        let plan = crate::plan::tests::plan();
        Manifest {
            schema: crate::record::SCHEMA.to_string(),
            date: "2026-11-21T20:29:05Z".to_string(),
            version: "0.1.0".to_string(),
            program: "0".to_string(),
            command: "roundhouse race".to_string(),
            plan_hash: plan.hash(),
            plan,
            ..Manifest::default()
        }
    }

    /// A counted trial at depth 1 with this throughput and a CPU cost that falls with it.
    pub(crate) fn trial(arm: &str, block: u32, throughput: f64) -> Trial {
        let value = serde_json::json!({
            "order": 0, "block": block, "point": "depth 1", "arm": arm, "seed": 1,
            "swapped": block % 2 == 1, "begun_ms": 0.0, "took_ms": 900.0, "boot_ms": 1.0,
            "conditions": Conditions::default(), "objections": [], "exit": "exit 0",
            "exit_clean": true, "ending": {"kind": "measured", "load": {
                "schema": "roundhouse.load/1", "requests": 20_000, "throughput_rps": throughput,
                "service": {"count": 20_000, "p50_ns": 1_000, "p99_ns": 5_000},
                "check": {"kind": "books", "ok": true, "detail": ""},
                "generator": {"cpu_ns": 1, "busy": 0.5},
                "server": {"cpu_ns": 1, "cpu_ns_per_request": 1e9 / throughput, "pss_kb": 2_000},
            }},
        });
        serde_json::from_value(value).expect("the shape of a trial")
    }

    /// The report of a measured trial, to be changed.
    pub(crate) fn load(trial: &mut Trial) -> &mut Load {
        let Ending::Measured { load } = &mut trial.ending else { panic!("it was not measured") };
        load
    }

    /// Answers every slot by a function of it.
    struct Mock<F>(F);

    impl<F: FnMut(&Slot) -> Option<Trial>> Trials for Mock<F> {
        fn block(&mut self, slots: &[Slot], _begun: Instant) -> Option<Vec<Trial>> {
            slots.iter().map(&mut self.0).collect()
        }
    }

    fn play(stop: &AtomicBool, answer: impl FnMut(&Slot) -> Option<Trial>) -> Outcome {
        let room = tempdir().expect("a temporary directory");
        let manifest = manifest();
        let path = room.path().join("report.jsonl");
        let mut recorder = Recorder::begin(&path, &manifest).expect("writable");
        let known = Run { manifest, ..Run::default() };
        let outcome = run(known, &mut Mock(answer), &mut recorder, &mut |_| {}, stop)
            .expect("the raw file is writable");
        let read = crate::record::read(&path).expect("what was written");
        assert_eq!(
            read,
            std::slice::from_ref(&outcome.run),
            "the raw file holds what the race returns"
        );
        outcome
    }

    fn answer(slot: &Slot) -> Trial {
        let plan = manifest().plan;
        let name = plan.entrants()[slot.entrant].name.clone();
        let point = plan.points[slot.point].name.clone();
        Trial { order: slot.order, point, ..trial(&name, slot.block, 100.0) }
    }

    #[test]
    fn a_disturbed_block_counts_as_it_is() {
        let outcome = play(&AtomicBool::new(false), |slot| {
            let objections = vec!["foreign".to_string()];
            Some(Trial { objections, ..answer(slot) })
        });
        assert!(outcome.run.trials.iter().all(|it| !it.objections.is_empty()));
        assert_eq!(outcome.run.trials.len(), 48);
    }

    #[test]
    fn an_arm_that_does_not_start_is_left_out() {
        let outcome = play(&AtomicBool::new(false), |slot| {
            let mut trial = answer(slot);
            if trial.arm == "uring" {
                trial.ending = Ending::Unavailable { reason: "no ring".to_string() };
            }
            Some(trial)
        });
        let uring = outcome.run.trials.iter().filter(|it| it.arm == "uring").count();
        assert_eq!((uring, outcome.run.trials.len()), (2, 36 + 2), "its first block, two points");
    }

    #[test]
    fn a_stopped_race_goes_on_where_it_was() {
        let whole = play(&AtomicBool::new(false), |slot| Some(answer(slot)));
        let room = tempdir().expect("a temporary directory");
        let path = room.path().join("report.jsonl");
        let mut recorder = Recorder::begin(&path, &manifest()).expect("writable");
        let mut some = Mock(|slot: &Slot| (slot.block < 3).then(|| answer(slot)));
        let never = AtomicBool::new(false);
        let fresh = Run { manifest: manifest(), ..Run::default() };
        let first = run(fresh, &mut some, &mut recorder, &mut |_| {}, &never);
        assert!(first.expect("writable").interrupted);
        let mut known = crate::record::read(&path).expect("what was written").remove(0);
        assert!(!known.finished);
        let sitting = Sitting { number: 1, ..Sitting::default() };
        let mut recorder = Recorder::resume(&path, &sitting).expect("writable");
        known.resumed.push(sitting);
        let mut rest = Mock(|slot: &Slot| {
            assert!(slot.block >= 3, "a slot with a result was run again");
            Some(answer(slot))
        });
        let second = run(known, &mut rest, &mut recorder, &mut |_| {}, &never);
        let second = second.expect("writable");
        assert!(!second.interrupted && second.run.finished);
        let names = |run: &Run| -> Vec<(u32, String)> {
            run.trials.iter().map(|trial| (trial.order, trial.arm.clone())).collect()
        };
        assert_eq!(names(&second.run), names(&whole.run));
        let sittings: Vec<u32> = second.run.trials.iter().map(|it| it.seen.sitting).collect();
        assert_eq!((sittings[23], sittings[24]), (0, 1));
        assert_eq!(crate::record::read(&path).expect("written"), [second.run]);
    }

    #[test]
    fn a_race_that_will_be_late_is_announced_after_its_first_block() {
        let seconds = Duration::from_secs;
        let news = later(0, seconds(15), seconds(30)).expect("ninety seconds instead of thirty");
        assert!(news.contains("take about 90 s instead of 30 s"), "{news}");
        assert_eq!(later(0, seconds(6), seconds(30)), None, "late by a fifth");
        assert_eq!(later(1, seconds(15), seconds(30)), None, "it was announced");
    }

    #[test]
    fn pilots_come_first_and_are_recorded() {
        struct Asked(Vec<usize>, BTreeMap<String, f64>);
        impl Trials for Asked {
            fn block(&mut self, slots: &[Slot], _begun: Instant) -> Option<Vec<Trial>> {
                assert_eq!(self.1.len(), 2, "rates were needed before they were known");
                Some(slots.iter().map(answer).collect())
            }
            fn pilot(&mut self, entrant: usize, round: u32) -> Option<Result<Load, String>> {
                self.0.push(entrant);
                let Ending::Measured { load } = trial("x", round, 1.0).ending else { return None };
                let rate = 100.0 * (entrant + 1) as f64 + f64::from(round);
                let load = Load { throughput_rps: rate, ..*load };
                Some(if entrant == 2 { Err("no ring".to_string()) } else { Ok(load) })
            }
            fn capacities(&mut self, found: &BTreeMap<String, f64>) {
                self.1 = found.clone();
            }
        }
        let mut manifest = manifest();
        manifest.plan.points[1].model = crate::plan::Model::Overload { factor: 2.0 };
        let room = tempdir().expect("a temporary directory");
        let path = room.path().join("report.jsonl");
        let mut recorder = Recorder::begin(&path, &manifest).expect("writable");
        let mut asked = Asked(Vec::new(), BTreeMap::new());
        let never = AtomicBool::new(false);
        let known = Run { manifest, ..Run::default() };
        let outcome = run(known, &mut asked, &mut recorder, &mut |_| {}, &never);
        let pilots = outcome.expect("writable").run.pilots;
        assert_eq!(asked.0, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        let found: Vec<Option<f64>> = pilots.iter().map(|pilot| pilot.capacity_rps).collect();
        assert_eq!(found, [Some(101.0), Some(201.0), None]);
        let read = crate::record::read(&path).expect("written");
        assert_eq!(read[0].pilots, pilots);
    }

    #[test]
    fn an_interrupted_race_keeps_what_is_known() {
        let outcome = play(&AtomicBool::new(false), |slot| (slot.block < 1).then(|| answer(slot)));
        assert!(outcome.interrupted);
        assert_eq!(outcome.run.trials.len(), 8);
        let outcome = play(&AtomicBool::new(true), |slot| Some(answer(slot)));
        assert_eq!((outcome.interrupted, outcome.run.trials.len()), (true, 0));
    }
}
