//! Plan files: a race written down in TOML before it is run.
//!
//! ```toml
//! question = "Is the new build quicker?"
//! arms.old = "./server-old --port {port}"
//! arms.new = "./server-new --port {port}"
//! ```
//!
//! Everything else has a default. The laboratory knows only commands, so the calling program
//! resolves an arm's `engine` or `preset` ([`PlanFile::plan`] takes a function). Unknown keys are
//! errors, because a misspelt gate would silently be no gate.

mod duet;
mod point;
mod span;

pub use duet::{DuetSpec, GoalSpec};
pub use point::{Many, PointSpec};
pub use span::Span;

use crate::metric::Metric;
use crate::plan::{Arm, Gates, LoadPoint, Plan, Provision, Ready, Stop, Turns};
use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::Deserialize;
use stats::words::listed;
use std::collections::BTreeMap;
use std::path::Path;

/// A plan file as written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlanFile {
    /// The question in one sentence; composed from the arms if absent.
    pub question: Option<String>,
    /// The explanation that a reader needs next to the rows (duets).
    pub note: Option<String>,
    /// The objective of a workload (`roundhouse tune`), such as `p99 < 20ms`.
    pub slo: Option<String>,
    /// The service under test: decides targets, mixes and files where the arms name none.
    pub service: Option<String>,
    /// Name of the arm that the others are divided by; the first one if absent.
    pub baseline: Option<String>,
    /// Whether the baseline runs a second time; yes if absent.
    pub twin: Option<bool>,
    /// Blocks; 10 if absent.
    pub blocks: Option<u32>,
    /// Fresh starts of both servers of a row (duets); 8 if absent.
    pub pairs: Option<u32>,
    /// Windows on each server of a block at every closed load point; 1 if absent, and 20 in duets.
    pub windows: Option<u32>,
    /// Silent connections to each server of a race, to measure their memory.
    pub silent: Option<u32>,
    /// The time after which no block of a race begins.
    pub budget: Option<Span>,
    /// The seed of orders and requests; 1 if absent.
    pub seed: Option<u64>,
    /// Load before each window.
    pub warmup: Option<Span>,
    /// Length of each window.
    pub window: Option<Span>,
    /// Arms closer together than this are equivalent (0.03 = 3 %).
    pub margin: Option<f64>,
    /// The pre-registered metrics by their keys; if absent, each point's lead metric and CPU.
    pub metrics: Option<Vec<String>>,
    /// The environment's limits.
    pub gates: Gates,
    /// The service's own data, such as the book of stocks; a path from the file's folder.
    pub data: Option<String>,
    /// Arguments of every arm that is named by its `engine`, before its own.
    pub args: Vec<String>,
    /// Files that every trial finds in `{dir}`.
    pub file: Vec<FileSpec>,
    /// Arms in full.
    pub arm: Vec<ArmSpec>,
    /// Arms as `name = "command"`; they follow those written in full.
    #[schemars(schema_with = "arms_schema")]
    pub arms: toml::Table,
    /// The load points; the service's own if absent.
    pub point: Vec<PointSpec>,
    /// Rows of two arms each: `roundhouse duet` plays them.
    pub duet: Vec<DuetSpec>,
}

/// The values of `arms`: command lines, or arms without their names.
fn arms_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let arm = generator.subschema_for::<ArmSpec>();
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "anyOf": [{ "type": "string" }, arm] }
    })
}

/// The JSON Schema of plan files: TOML has the same values, so editors check plans with it.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(PlanFile);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// A file for the trials.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileSpec {
    /// Its name inside `{dir}`.
    pub name: String,
    /// Its contents,
    pub text: Option<String>,
    /// this many times; once if absent;
    pub times: Option<u32>,
    /// or the file that it is copied from, from the plan's folder.
    pub from: Option<String>,
}

/// One arm. Exactly one of `engine`, `preset` and `command` is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArmSpec {
    /// Short and unique; the engine's or preset's name if absent.
    pub name: String,
    /// One of our engines.
    pub engine: Option<String>,
    /// A foreign server that is known by name.
    pub preset: Option<String>,
    /// Any server: a command line, taken apart at blanks and quotes.
    pub command: Option<String>,
    /// Further arguments for the server.
    pub args: Vec<String>,
    /// A preset's directives, such as `worker_processes = 2` or `MaxSpareThreads = 75`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub directives: toml::Table,
    /// The generator's target; `{address}` is replaced by `HOST:PORT`.
    pub target: Option<String>,
    /// Further arguments for the generator.
    pub load: Vec<String>,
    /// The text in the server's output that marks readiness.
    pub ready: Option<String>,
    /// The time limit for its start.
    pub boot: Option<Span>,
    /// The signal for a graceful stop: `term`, `int` or `quit`.
    pub stop: Option<Stop>,
    /// Files that its trials find in `{dir}`.
    pub file: Vec<FileSpec>,
    /// One sentence for the reader.
    pub note: Option<String>,
}

impl PlanFile {
    /// Reads a plan from its text.
    ///
    /// # Errors
    /// The TOML reader's message, with line and column.
    pub fn parse(text: &str) -> Result<PlanFile> {
        let mut file: PlanFile = toml::from_str(text)?;
        for (name, value) in std::mem::take(&mut file.arms) {
            let mut arm = match value {
                toml::Value::String(command) => {
                    ArmSpec { command: Some(command), ..ArmSpec::default() }
                }
                other => other.try_into().with_context(|| format!("arms.{name}"))?,
            };
            arm.name = name;
            file.arm.push(arm);
        }
        Ok(file)
    }

    /// Reads the plan file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is not a plan.
    pub fn read(path: &Path) -> Result<PlanFile> {
        let text = sys::input::read_text(path, sys::input::SMALL);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        PlanFile::parse(&text).with_context(|| format!("{} is not a plan", path.display()))
    }

    /// The plan that the file describes. `folder` is the folder of the file: paths in it are
    /// relative to that. `resolve` turns an arm's engine, preset or command into an arm; `points`
    /// are the load points of the service.
    ///
    /// # Errors
    /// The entry that cannot be resolved, in one sentence.
    pub fn plan(
        &self,
        folder: &Path,
        points: Vec<PointSpec>,
        mut resolve: impl FnMut(&ArmSpec) -> Result<Arm>,
    ) -> Result<Plan> {
        self.without_duet_keys()?;
        let arms = self.arms(folder, &mut resolve)?;
        let points = if self.point.is_empty() { points } else { self.point.clone() };
        let all = self.points(&points, folder)?;
        let blocks = self.blocks.unwrap_or(10);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let question = || format!("Which is best: {}?", listed(&names, "or"));
        let base = Plan::default();
        Ok(Plan {
            question: self.question.clone().unwrap_or_else(question),
            label: Plan::label_for(blocks).to_string(),
            baseline: match (&self.baseline, names.first()) {
                (Some(name), _) => name.clone(),
                (None, first) => first.copied().unwrap_or_default().to_string(),
            },
            twin: self.twin.unwrap_or(true),
            points: all,
            blocks,
            seed: self.seed.unwrap_or(base.seed),
            warmup_ms: self.warmup.map_or(base.warmup_ms, Span::ms),
            window_ms: self.window.map_or(base.window_ms, Span::ms),
            margin: self.margin.unwrap_or(base.margin),
            gates: self.gates.clone(),
            files: provisions(&self.file, folder)?,
            metrics: metrics(self.metrics.as_deref(), "metrics", &Metric::EVERY)?,
            turns: Turns {
                windows: self.windows.unwrap_or(base.turns.windows),
                silent: self.silent.unwrap_or(0),
                budget_ms: self.budget.map(Span::ms),
            },
            arms,
        })
    }

    fn arms(
        &self,
        folder: &Path,
        resolve: &mut impl FnMut(&ArmSpec) -> Result<Arm>,
    ) -> Result<Vec<Arm>> {
        let mut arms = Vec::new();
        for spec in &self.arm {
            let arm = spec.checked().and_then(|()| resolve(spec));
            let arm = arm.with_context(|| format!("arm `{}`", spec.title()))?;
            arms.push(spec.finished(arm, folder)?);
        }
        Ok(arms)
    }

    fn points(&self, specs: &[PointSpec], folder: &Path) -> Result<Vec<LoadPoint>> {
        let mut all = Vec::new();
        for spec in specs {
            let files = provisions(&spec.file, folder)?;
            let points = spec.points()?.into_iter();
            all.extend(points.map(|point| LoadPoint { files: files.clone(), ..point }));
        }
        Ok(all)
    }
}

impl ArmSpec {
    /// The title of the plan.
    pub fn title(&self) -> &str {
        match (&self.engine, &self.preset) {
            _ if !self.name.is_empty() => &self.name,
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => "?",
        }
    }

    fn checked(&self) -> Result<()> {
        let who = [&self.engine, &self.preset, &self.command];
        match who.iter().filter(|it| it.is_some()).count() {
            1 => Ok(()),
            n => bail!("expected one of `engine`, `preset` and `command`, found {n}"),
        }
    }

    /// The resolved arm with the settings from the file.
    fn finished(&self, mut arm: Arm, folder: &Path) -> Result<Arm> {
        arm.name = self.title().to_string();
        arm.command.extend(self.args.iter().cloned());
        arm.load.extend(self.load.iter().cloned());
        arm.files.extend(provisions(&self.file, folder)?);
        if let Some(target) = &self.target {
            arm.target.clone_from(target);
        }
        if let Some(note) = &self.note {
            arm.note.clone_from(note);
        }
        if let Some(text) = &self.ready {
            arm.ready = Ready::Says(text.clone());
        }
        if let Some(boot) = self.boot {
            arm.boot_ms_max = boot.ms();
        }
        if let Some(stop) = self.stop {
            arm.stop = stop;
        }
        Ok(arm)
    }
}

fn provisions(files: &[FileSpec], folder: &Path) -> Result<Vec<Provision>> {
    files
        .iter()
        .map(|file| {
            let times = file.times.unwrap_or(1) as usize;
            let text = match (&file.text, &file.from) {
                (Some(text), None) => text.clone(),
                (None, Some(from)) => {
                    let path = folder.join(from);
                    sys::input::read_text(&path, sys::input::SMALL)
                        .with_context(|| format!("cannot read {}", path.display()))?
                }
                _ => bail!("file `{}`: expected one of `text` and `from`", file.name),
            };
            Ok(Provision { name: file.name.clone(), text: text.repeat(times) })
        })
        .collect()
}

/// The metrics with these keys, `what` out of `known`.
fn metrics(keys: Option<&[String]>, what: &str, known: &[Metric]) -> Result<Vec<Metric>> {
    let metric = |key: &String| {
        let found = Metric::by_key(key).filter(|metric| known.contains(metric));
        let names: Vec<&str> = known.iter().map(|metric| metric.key()).collect();
        found.ok_or_else(|| anyhow!("expected {what} out of {}, found `{key}`", names.join(", ")))
    };
    keys.unwrap_or_default().iter().map(metric).collect()
}

#[cfg(test)]
mod tests;
