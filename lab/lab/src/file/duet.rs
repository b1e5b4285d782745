//! The rows of a duet table as written in a plan file.
//!
//! ```toml
//! [[duet]]
//! left = "bare-epoll"
//! right = ["epoll", "uring"]
//! at = ["depth 1", "depth 16"]
//! goal = ">= 0.95"
//! ```
//!
//! One entry makes a row for each of its right servers and load points. Arms, points and files are
//! those of every plan; what only a race has (`blocks`, `baseline`, gates) is refused here, and a
//! race refuses what only duets have.

use super::{ArmSpec, Many, PlanFile, Span, metrics, provisions};
use crate::duet::{DuetTable, METRICS, Row};
use crate::metric::Metric;
use crate::plan::{Arm, LoadPoint, Plan, Turns};
use anyhow::{Context, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::Deserialize;
use stats::Goal;
use stats::objective::{Limit, Objective};
use std::collections::BTreeMap;
use std::path::Path;

/// Fresh starts of both servers of a row, and windows on each.
const PAIRS: u32 = 8;
const WINDOWS: u32 = 20;
/// Length of a window, and load before the first one, milliseconds.
const WINDOW_MS: u64 = 40;
const WARMUP_MS: u64 = 200;

/// Rows of a duet table: each left server next to each right one at each load point.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DuetSpec {
    /// The server above the line of the ratio.
    pub left: Option<Many<String>>,
    /// The server below it. The same server on both sides shows the noise, or with idle connections
    /// at the point (the right one has them) their cost.
    pub right: Option<Many<String>>,
    /// Load points by name; all if absent.
    pub at: Option<Many<String>>,
    /// The metrics; the plan's if absent.
    pub metrics: Option<Vec<String>>,
    /// A goal, as `cpu >= 0.95x right` or `connection_memory <= 2kB`; `>= 0.95` is short for that
    /// of the first metric. Or goals by metric.
    pub goal: Option<GoalSpec>,
}

/// Goals as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GoalSpec {
    /// One, with its metric or of the first.
    First(String),
    /// One for each metric; it adds the metric to the row's.
    Each(BTreeMap<String, String>),
}

impl PlanFile {
    /// The duet table that the file describes; arguments as in [`PlanFile::plan`].
    ///
    /// # Errors
    /// The entry that cannot be resolved, in one sentence.
    pub fn table(
        &self,
        folder: &Path,
        mut resolve: impl FnMut(&ArmSpec) -> Result<Arm>,
    ) -> Result<DuetTable> {
        self.without_race_keys()?;
        let arms = self.arms(folder, &mut resolve)?;
        let points = self.points(&self.point, folder)?;
        let metrics = keys(self.metrics.as_deref())?;
        let mut rows = Vec::new();
        for (at, spec) in self.duet.iter().enumerate() {
            let found = self.rows(spec, &arms, &points, &metrics, folder);
            rows.extend(found.with_context(|| format!("[[duet]] number {}", at + 1))?);
        }
        if rows.is_empty() {
            bail!(
                "expected a [[duet]] with `left` and `right`, found none; `race` runs other plans"
            );
        }
        let key = |row: &Row| (row.name(), row.point().to_string());
        let twice = |at: &usize| rows[..*at].iter().any(|row| key(row) == key(&rows[*at]));
        if let Some(at) = (0..rows.len()).find(twice) {
            let (name, point) = key(&rows[at]);
            bail!("expected each pair once, found `{name}` twice at `{point}`");
        }
        Ok(DuetTable {
            question: self.question.clone().unwrap_or_else(|| "Which is cheaper?".to_string()),
            note: self.note.clone().unwrap_or_default(),
            rows,
            margin: self.margin.unwrap_or(Plan::default().margin),
        })
    }

    fn rows(
        &self,
        spec: &DuetSpec,
        arms: &[Arm],
        points: &[LoadPoint],
        metrics: &[Metric],
        folder: &Path,
    ) -> Result<Vec<Row>> {
        let side = |side: &Option<Many<String>>, key: &str| -> Result<Vec<&Arm>> {
            let names = side.as_ref().map(Many::all).unwrap_or_default();
            if names.is_empty() {
                bail!("expected the name of an arm for `{key}`, found none");
            }
            let names = names.iter();
            names.map(|name| known(name, "an arm", arms, |arm| &arm.name)).collect()
        };
        let (left, right) = (side(&spec.left, "left")?, side(&spec.right, "right")?);
        let points: Vec<&LoadPoint> = match &spec.at {
            None => points.iter().collect(),
            Some(names) => {
                let names = names.all();
                let names = names.iter();
                names
                    .map(|it| known(it, "a load point", points, |it| &it.name))
                    .collect::<Result<_>>()?
            }
        };
        if points.is_empty() {
            bail!("expected a [[point]] with the load, found none");
        }
        let asked = spec.asked(metrics)?;
        let files = provisions(&self.file, folder)?;
        let mut rows = Vec::new();
        for left in &left {
            for right in &right {
                for point in &points {
                    if point.is_open() {
                        bail!(
                            "load point `{}`: expected a closed loop, found `rate`, `overload` or \
                             `promise`",
                            point.name
                        );
                    }
                    let plan = Plan { files: files.clone(), ..self.pair(left, right, point) };
                    plan.check()?;
                    let fits = |it: &&(Metric, Option<Goal>)| point.can_have(it.0);
                    if let Some((metric, _)) = asked.iter().find(|it| !fits(it)) {
                        let (key, name) = (metric.key(), &point.name);
                        bail!("metric `{key}` needs `idle` connections at load point `{name}`");
                    }
                    rows.push(Row { plan, asked: asked.clone() });
                }
            }
        }
        Ok(rows)
    }

    /// The race of one row. The idle connections belong to the right server.
    fn pair(&self, left: &Arm, right: &Arm, point: &LoadPoint) -> Plan {
        let mut right = Arm { idle: point.idle, ..right.clone() };
        if left.name == right.name && point.idle > 0 {
            right.name = format!("{}+{}", right.name, point.idle);
        }
        let twin = left.name == right.name;
        let mut arms = vec![left.clone(), right];
        arms.truncate(if twin { 1 } else { 2 });
        Plan { twin, ..self.duet(arms, LoadPoint { idle: 0, ..point.clone() }) }
    }

    /// The race in turns of these servers, without a twin: the first is the baseline.
    pub fn duet(&self, arms: Vec<Arm>, point: LoadPoint) -> Plan {
        let ms = |span: Option<Span>| span.map(Span::ms);
        let windows = point.windows.or(self.windows).unwrap_or(WINDOWS);
        Plan {
            baseline: arms.first().map(|arm| arm.name.clone()).unwrap_or_default(),
            arms,
            twin: false,
            blocks: self.pairs.unwrap_or(PAIRS),
            seed: self.seed.unwrap_or(1),
            window_ms: point.window_ms.or(ms(self.window)).unwrap_or(WINDOW_MS),
            warmup_ms: point.warmup_ms.or(ms(self.warmup)).unwrap_or(WARMUP_MS),
            points: vec![LoadPoint { window_ms: None, warmup_ms: None, ..point }],
            turns: Turns { windows, ..Turns::default() },
            ..Plan::default()
        }
    }

    fn without_race_keys(&self) -> Result<()> {
        let race = [
            ("baseline", self.baseline.is_some()),
            ("twin", self.twin.is_some()),
            ("blocks", self.blocks.is_some()),
            ("silent", self.silent.is_some()),
            ("budget", self.budget.is_some()),
            ("gates", self.gates != crate::plan::Gates::default()),
        ];
        given(&race).map_or(Ok(()), |key| {
            bail!(
                "`{key}` belongs to a race, and this plan has duets; the number of fresh starts is \
                 `pairs`"
            )
        })
    }

    /// Refuses keys that only duets have.
    pub(super) fn without_duet_keys(&self) -> Result<()> {
        if !self.duet.is_empty() {
            bail!("this plan has duets: expected `roundhouse duet FILE`, found a race");
        }
        if self.slo.is_some() {
            bail!("`slo` is the objective of a workload: expected `roundhouse tune FILE`");
        }
        let duet = [
            ("note", self.note.is_some()),
            ("pairs", self.pairs.is_some()),
            ("windows", self.point.iter().any(|point| point.windows.is_some())),
        ];
        given(&duet).map_or(Ok(()), |key| {
            bail!(
                "`{key}` belongs to a plan with [[duet]] rows; a race has `blocks` and a `window`"
            )
        })
    }
}

/// The first of these keys that is given.
fn given<'a>(keys: &[(&'a str, bool)]) -> Option<&'a str> {
    keys.iter().find(|(_, given)| *given).map(|(key, _)| *key)
}

impl DuetSpec {
    /// The metrics with their goals.
    fn asked(&self, usual: &[Metric]) -> Result<Vec<(Metric, Option<Goal>)>> {
        let mut metrics = match &self.metrics {
            Some(named) => keys(Some(named))?,
            None => usual.to_vec(),
        };
        if metrics.is_empty() {
            metrics.push(Metric::Cpu);
        }
        let mut goals: Vec<(Metric, Goal)> = Vec::new();
        match &self.goal {
            None => {}
            Some(GoalSpec::First(text)) => goals.push(goal(text, metrics[0])?),
            Some(GoalSpec::Each(each)) => {
                for (key, text) in each {
                    goals.push(goal(text, keys(Some(std::slice::from_ref(key)))?[0])?);
                }
            }
        }
        let missing: Vec<Metric> =
            goals.iter().map(|it| it.0).filter(|it| !metrics.contains(it)).collect();
        metrics.extend(missing);
        let goal_of = |metric: &Metric| goals.iter().find(|it| it.0 == *metric).map(|it| it.1);
        Ok(metrics.iter().map(|metric| (*metric, goal_of(metric))).collect())
    }
}

/// A goal in the grammar of objectives, or the bound alone of the `usual` metric.
fn goal(text: &str, usual: Metric) -> Result<(Metric, Goal)> {
    if !text.contains(|c: char| c.is_alphabetic()) {
        return Ok((usual, text.parse().map_err(|why: String| anyhow!(why))?));
    }
    let goal = Objective::parse(text, &["cpu", "rate", "p99", "switches", "connection_memory"])
        .map_err(|why| anyhow!(why))?;
    let of = Metric::by_key(&goal.metric).unwrap_or(usual);
    let bound = match goal.limit {
        Limit::Times(factor, side) if side == "right" && of != Metric::ConnectionMemory => factor,
        Limit::Value(bytes) if of == Metric::ConnectionMemory => bytes,
        _ => bail!(
            "expected a goal such as `cpu >= 0.95x right` or `connection_memory <= 2kB`, found \
             `{text}`"
        ),
    };
    Ok((of, if goal.is_above { Goal::AtLeast(bound) } else { Goal::AtMost(bound) }))
}

fn keys(keys: Option<&[String]>) -> Result<Vec<Metric>> {
    metrics(keys, "a metric of duets", &METRICS)
}

/// The one of that name.
fn known<'a, T>(
    name: &str,
    what: &str,
    all: &'a [T],
    title: impl Fn(&T) -> &String,
) -> Result<&'a T> {
    all.iter().find(|it| title(it) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|it| title(it).as_str()).collect();
        anyhow!("expected {what} out of {}, found `{name}`", names.join(", "))
    })
}
