//! Runs what the plan of an exhibit says, and fills its results.
//!
//! `effort` walks the same plan without measuring, so that the announced duration follows every
//! change of the plan.

mod senders;
mod servers;
mod web;

pub use servers::python;

use crate::code;
use crate::exhibit::{Effort, Fault};
use crate::law::syn_linear_timeouts;
use crate::plan::{Plan, Spec};
use crate::query::items;
use crate::results::{Figures, Results, TWIN};
use crate::scope::Scope;
use crate::stage::{Crowd, Hold, Settings, Stage};
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Turns};
use std::time::Duration;

/// Start and end of the servers of a block, and the turn of each load point.
const TURN: Duration = Duration::from_millis(250);

/// Measures everything; a stopped stage returns the results so far.
///
/// # Errors
/// If a server or a client fails, or an expression of the plan is wrong.
pub fn run(stage: &mut Stage<'_>, plan: &Plan) -> Result<Results, Fault> {
    let mut results = Results::default();
    for measure in &plan.measure {
        let scope = plan.scope(stage.settings(), &results)?;
        let measured = match measure.text("kind") {
            Some("crowds") => crowds(stage, measure, &scope, &mut results),
            Some("web") => web::run(stage, measure, &scope, &mut results),
            Some("race") => race(stage, measure, &scope, &mut results),
            Some("senders") => senders::run(stage, measure, &scope, &mut results),
            _ => measure.need("name", |it| code::run(it, stage, &scope, &mut results)),
        };
        match measured {
            Err(Fault::Stopped) => break,
            measured => measured?,
        }
    }
    Ok(results)
}

/// How long all of it takes.
pub fn effort(plan: &Plan, settings: &Settings) -> Result<Effort, Fault> {
    let scope = plan.scope(settings, &Results::default())?;
    let mut effort = Effort::default();
    for measure in &plan.measure {
        effort = effort.and(match measure.text("kind") {
            Some("crowds") => crowds_effort(measure, &scope)?,
            Some("web") => web::effort(measure, &scope, settings)?,
            Some("race") => race_effort(measure, &scope)?,
            Some("senders") => senders::effort(measure, &scope)?,
            _ => {
                let steps = measure.need("steps", |it| scope.number(it))?;
                Effort::new(steps as u32, measure.need("seconds", |it| scope.time(it))?)
            }
        });
    }
    Ok(effort)
}

fn blocks(measure: &Spec, scope: &Scope) -> Result<u32, Fault> {
    Ok(measure.need("blocks", |it| scope.number(it))? as u32)
}

/// The scopes of all combinations of the loops of a measurement.
fn each(measure: &Spec, scope: &Scope) -> Result<Vec<Scope>, Fault> {
    scope.each(&measure.list::<[String; 2]>("each"))
}

fn crowds_effort(crowds: &Spec, scope: &Scope) -> Result<Effort, Fault> {
    let blocks = blocks(crowds, scope)?;
    each(crowds, scope)?.iter().try_fold(Effort::default(), |effort, scope| {
        Ok(effort.and(Effort::new(blocks, crowds.need("seconds", |it| scope.time(it))?)))
    })
}

fn crowds(
    stage: &mut Stage<'_>,
    crowds: &Spec,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    for block in 0..blocks(crowds, scope)? {
        let mut all = each(crowds, scope)?;
        if crowds.is("alternate") && block % 2 == 1 {
            all.reverse();
        }
        for scope in all {
            let words = |name: &str| crowds.need(name, |it| scope.words(it));
            let (arm, point) = (words("arm")?, words("point")?);
            let hold = crowds.maybe("hold", |it| scope.time(it))?;
            let name = crowds.maybe("name", |it| scope.words(it))?;
            let crowd = Crowd {
                name: name.unwrap_or_else(|| arm.clone()),
                server: words("server")?,
                clients: crowds.need("clients", |it| scope.number(it))? as u32,
                orders: scope.number("course.orders")? as u32,
                pause: scope.time("pause")?,
                mix: words("mix")?,
                hold: hold.filter(|it| !it.is_zero()).map(Hold),
            };
            let (run, conditions) = stage.crowd(&crowd)?;
            let repeats = run.repeats(syn_linear_timeouts());
            let count = |it: Option<u64>| it.map(|it| it as f64);
            let figures = known([
                ("orders_per_s", Some(run.orders_per_s)),
                ("elapsed_s", Some(run.elapsed_s)),
                ("connected_s", Some(run.connected_after_s)),
                ("held_s", Some(run.held_s)),
                ("late", Some(repeats.iter().skip(1).sum::<u32>().into())),
                ("listen_overflows", count(conditions.listen_overflows)),
                ("syn_retransmits", count(conditions.syn_retransmits)),
            ]);
            results.add(&arm, &point, block, figures);
            let cell = results.cell(&arm, &point);
            cell.lines.entry("connects".to_string()).or_insert_with(|| run.steps());
            let repeats = repeats.into_iter().map(stats::words::count);
            cell.notes.push(repeats.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}

/// Those of some figures that were measured.
pub fn known<const N: usize>(figures: [(&str, Option<f64>); N]) -> Figures {
    let known = figures.into_iter().filter_map(|(name, it)| Some((name.to_string(), it?)));
    known.collect()
}

fn race_plan(race: &Spec, scope: &Scope, stage: &Stage<'_>) -> Result<lab::plan::Plan, Fault> {
    let mut points = Vec::new();
    for scope in each(race, scope)? {
        points.push(LoadPoint {
            name: race.need("point", |it| scope.words(it))?,
            connections: race.need("connections", |it| scope.number(it))? as u32,
            depth: race.need("depth", |it| scope.number(it))? as u32,
            mix: race.need("mix", |it| scope.words(it))?,
            ..LoadPoint::default()
        });
    }
    let load = race.maybe("load", |it| scope.words(it))?.unwrap_or_default();
    let load: Vec<String> = load.split_whitespace().map(String::from).collect();
    let arms = items(&race.need("arms", |it| scope.eval(it))?);
    let arms = arms.iter().map(|it| {
        // A name alone is its flags, too.
        let [name, flags] = match &items(it)[..] {
            [name, flags] => [name, flags].map(ToString::to_string),
            _ => [it, it].map(ToString::to_string),
        };
        let mut arm = match race.text("command") {
            None => stage.arm(&name, &flags),
            Some(words) => command(stage, &name, &words.replace("{flags}", &flags)),
        };
        (arm.load, arm.boot_ms_max) = (load.clone(), 30_000);
        arm
    });
    let arms: Vec<_> = arms.collect();
    let ms = |name: &str| race.need(name, |it| Ok(scope.time(it)?.as_millis() as u64));
    let windows = race.need("windows", |it| scope.number(it))?.ceil() as u32;
    let blocks = blocks(race, scope)?;
    let metrics: Vec<String> = race.list("metrics");
    Ok(lab::plan::Plan {
        question: race.text("question").unwrap_or_default().to_string(),
        label: lab::plan::Plan::label_for(blocks).to_string(),
        baseline: arms.first().map_or(String::new(), |it| it.name.clone()),
        arms,
        points,
        blocks,
        seed: u64::from(stage.settings().seed),
        files: vec![stage.book()],
        warmup_ms: ms("warmup")?,
        window_ms: ms("window")?,
        metrics: metrics.iter().filter_map(|it| Metric::by_key(it)).collect(),
        turns: Turns { windows, ..Turns::default() },
        ..lab::plan::Plan::default()
    })
}

/// A further server of this program for a race: its command after the program's name, and the
/// target of its clients, as `artefact echo 00001 {port} echo://{address}`.
fn command(stage: &Stage<'_>, name: &str, words: &str) -> Arm {
    let (words, target) = words.rsplit_once(' ').unwrap_or((words, ""));
    let words = words.split(' ').map(String::from);
    Arm {
        name: name.to_string(),
        command: [stage.settings().exe.display().to_string()].into_iter().chain(words).collect(),
        target: target.to_string(),
        ..Arm::default()
    }
}

fn race_effort(race: &Spec, scope: &Scope) -> Result<Effort, Fault> {
    let arms = items(&race.need("arms", |it| scope.eval(it))?).len() + 1;
    let windows = race.need("windows", |it| scope.number(it))?.ceil() as u32;
    let time = |name: &str| race.need(name, |it| scope.time(it));
    let each_turn = time("warmup")? + time("window")? * windows + TURN;
    let turns = each(race, scope)?.len() * arms * blocks(race, scope)? as usize;
    Ok(Effort::new(turns as u32, each_turn))
}

fn race(
    stage: &mut Stage<'_>,
    race: &Spec,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    let plan = race_plan(race, scope, stage)?;
    results.set("plan", plan.hash());
    let run = stage.race(&plan)?;
    for trial in &run.trials {
        let Some(load) = trial.result() else { continue };
        let is_twin = trial.arm == plan.twin_name();
        let arm = if is_twin { TWIN } else { trial.arm.as_str() };
        let value = |it: Metric| Some((it.key().to_string(), it.in_trial(trial)?));
        let figures = Metric::EVERY.into_iter().filter_map(value).collect();
        results.add(arm, &trial.point, trial.block, figures);
        let further = known([
            ("requests", Some(load.requests as f64)),
            ("wrong", Some(load.errors.iter().map(|it| it.count).sum::<u64>() as f64)),
            ("busy", load.generator.as_ref().map(|it| it.busy)),
        ]);
        results.add(arm, &trial.point, trial.block, further);
        results.base(&trial.point, &plan.baseline);
    }
    Ok(())
}
