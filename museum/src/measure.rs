//! Runs what the plan of an exhibit says, and fills its results.
//!
//! `visit` calls `run` with the plan of an exhibit. The five kinds of measurement share three
//! things: loops and values are expressions of the plan, evaluated in a `Scope`; figures go into
//! `Results` by arm, point and block; a stage that was stopped returns nothing, and what was
//! measured so far is kept. `effort` walks the same plan without measuring, so that the announced
//! duration follows every change of the plan.

mod senders;
mod servers;
mod web;

pub use servers::python;

use crate::code;
use crate::counters::syn_linear_timeouts;
use crate::exhibit::{Effort, Fault};
use crate::plan::{Crowds, Measure, Plan, Race};
use crate::query::items;
use crate::results::{Figures, Results, TWIN};
use crate::scope::Scope;
use crate::stage::{Crowd, Hold, Settings, Stage};
use lab::metric::Metric;
use lab::plan::{LoadPoint, Turns};
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
        if stage.stopped() {
            break;
        }
        let scope = plan.scope(stage.settings(), &results)?;
        match measure {
            Measure::Crowds(it) => crowds(stage, it, &scope, &mut results)?,
            Measure::Web(it) => web::run(stage, it, &scope, &mut results)?,
            Measure::Race(it) => race(stage, it, &scope, &mut results)?,
            Measure::Senders(it) => senders::run(stage, it, &scope, &mut results)?,
            Measure::Code(it) => code::run(&it.name, stage, &scope, &mut results)?,
        }
    }
    Ok(results)
}

/// How long all of it takes.
///
/// # Errors
/// If an expression of the plan is wrong.
pub fn effort(plan: &Plan, settings: &Settings) -> Result<Effort, Fault> {
    let scope = plan.scope(settings, &Results::default())?;
    let mut effort = Effort::default();
    for measure in &plan.measure {
        effort = effort.and(match measure {
            Measure::Crowds(it) => crowds_effort(it, &scope)?,
            Measure::Web(it) => web::effort(it, &scope, settings)?,
            Measure::Race(it) => race_effort(it, &scope)?,
            Measure::Senders(it) => senders::effort(it, &scope)?,
            Measure::Code(it) => {
                Effort::new(scope.number(&it.steps)? as u32, scope.time(&it.seconds)?)
            }
        });
    }
    Ok(effort)
}

fn crowds_effort(crowds: &Crowds, scope: &Scope) -> Result<Effort, Fault> {
    let mut effort = Effort::default();
    let blocks = scope.number(&crowds.blocks)? as u32;
    scope.each(&crowds.each, &mut |scope| {
        let each = scope.time(&crowds.seconds)?;
        effort = effort.and(Effort::new(blocks, each));
        Ok(())
    })?;
    Ok(effort)
}

fn crowds(
    stage: &mut Stage<'_>,
    crowds: &Crowds,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    for block in 0..scope.number(&crowds.blocks)? as u32 {
        let mut all: Vec<Scope> = Vec::new();
        scope.each(&crowds.each, &mut |scope| {
            all.push(scope.clone());
            Ok(())
        })?;
        if crowds.alternate && block % 2 == 1 {
            all.reverse();
        }
        for scope in all {
            let arm = scope.words(&crowds.arm)?;
            let hold = crowds.hold.as_ref().map(|it| scope.time(it)).transpose()?;
            let crowd = Crowd {
                name: crowds.name.as_ref().map_or(Ok(arm.clone()), |it| scope.words(it))?,
                server: scope.words(&crowds.server)?,
                clients: scope.number(&crowds.clients)? as u32,
                orders: scope.number("course.orders")? as u32,
                pause: scope.time("pause")?,
                mix: scope.words(&crowds.mix)?,
                hold: hold.filter(|it| !it.is_zero()).map(Hold),
            };
            let Some((run, kernel)) = stage.crowd(&crowd)? else { return Ok(()) };
            let repeats = run.repeats(syn_linear_timeouts());
            let figures = [
                ("orders_per_s", run.orders_per_s),
                ("elapsed_s", run.elapsed_s),
                ("connected_s", run.connected_after_s),
                ("held_s", run.held_s),
                ("late", repeats.iter().skip(1).sum::<u32>().into()),
            ];
            let figures = figures.map(|(name, it)| (name.to_string(), it)).into_iter();
            let kernel = kernel.into_iter().map(|(name, it)| (name, it as f64));
            let point = scope.words(&crowds.point)?;
            results.add(&arm, &point, block, figures.chain(kernel).collect());
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

fn race_plan(race: &Race, scope: &Scope, stage: &Stage<'_>) -> Result<lab::plan::Plan, Fault> {
    let mut points = Vec::new();
    scope.each(&race.each, &mut |scope| {
        points.push(LoadPoint {
            name: scope.words(&race.point)?,
            connections: scope.number(&race.connections)? as u32,
            depth: scope.number(&race.depth)? as u32,
            mix: scope.words(&race.mix)?,
            ..LoadPoint::default()
        });
        Ok(())
    })?;
    let load: Vec<String> = scope.words(&race.load)?.split_whitespace().map(String::from).collect();
    let arms = items(&scope.eval(&race.arms)?);
    let arms = arms.iter().map(|it| {
        let pair = items(it);
        let [name, flags] =
            [0, 1].map(|at| pair.get(at).map_or(String::new(), |it| it.to_string()));
        let mut arm = stage.arm(&name, &flags);
        (arm.load, arm.boot_ms_max) = (load.clone(), 30_000);
        arm
    });
    let arms: Vec<_> = arms.collect();
    let ms = |expression: &str| Ok::<u64, Fault>(scope.time(expression)?.as_millis() as u64);
    let windows = scope.number(&race.windows)?.ceil() as u32;
    let blocks = scope.number(&race.blocks)? as u32;
    Ok(lab::plan::Plan {
        question: race.question.clone(),
        label: lab::plan::Plan::label_for(blocks).to_string(),
        baseline: arms.first().map_or(String::new(), |it| it.name.clone()),
        arms,
        points,
        blocks,
        seed: u64::from(stage.settings().seed),
        files: vec![stage.book()],
        warmup_ms: ms(&race.warmup)?,
        window_ms: ms(&race.window)?,
        metrics: race.metrics.iter().filter_map(|it| Metric::by_key(it)).collect(),
        turns: Turns { windows, ..Turns::default() },
        ..lab::plan::Plan::default()
    })
}

fn race_effort(race: &Race, scope: &Scope) -> Result<Effort, Fault> {
    let (arms, blocks) = (items(&scope.eval(&race.arms)?).len() + 1, scope.number(&race.blocks)?);
    let windows = scope.number(&race.windows)?.ceil() as u32;
    let each = scope.time(&race.warmup)? + scope.time(&race.window)? * windows + TURN;
    let mut points = 0;
    scope.each(&race.each, &mut |_| {
        points += 1;
        Ok(())
    })?;
    Ok(Effort::new(points * arms as u32 * blocks as u32, each))
}

fn race(
    stage: &mut Stage<'_>,
    race: &Race,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    let plan = race_plan(race, scope, stage)?;
    results.set("plan", plan.hash());
    let Some(run) = stage.race(&plan)? else { return Ok(()) };
    for trial in run.trials.iter().filter(|trial| trial.result().is_some()) {
        let is_twin = trial.arm == plan.twin_name();
        let arm = if is_twin { TWIN } else { trial.arm.as_str() };
        let value = |it: Metric| Some((it.key().to_string(), it.in_trial(trial)?));
        let figures = Metric::EVERY.into_iter().filter_map(value).collect();
        results.add(arm, &trial.point, trial.block, figures);
        results.base(&trial.point, &plan.baseline);
    }
    Ok(())
}
