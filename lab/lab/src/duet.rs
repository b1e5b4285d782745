//! Duets: tables of servers in turns, with goals and verdicts.
//!
//! A few percent of CPU per request are visible on a small shared machine if both servers are up
//! and one generator alternates short windows between them: a disturbance affects neighbouring
//! windows alike. Chance decides the memory layout of a process, so each block starts fresh
//! servers, and each block gives one ratio. (A single 0.6 s trial per process is useless for this:
//! its A/A twin ranged from 0.75 to 1.73.)
//!
//! A row is a race in turns of its own ([`crate::runner`]): the baseline is the left server. Its
//! figures are ratios left / right, or bytes for each idle connection. A figure with a goal is
//! judged against that ([`Goal::decide`]); one without is compared ([`stats::decide`]) beyond the
//! noise floor, the distance of a server from itself in a row of this table with the same load.
//! The intervals of all figures without a goal hold together, as in a race.

use crate::block::schedule;
use crate::machine::{Host, date_now};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::trial::{Ending, Trial, Trials};
use crate::verdict::{broken, word};
use serde::{Deserialize, Serialize};
use stats::{Comparison, Decision, Goal, Interval, Terms, VALUES_MIN, compare_all, decide};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The schema of [`Findings`].
pub const SCHEMA: &str = "roundhouse.duet-table/1";
/// The metrics of [`Row::asked`].
pub const METRICS: [Metric; 5] =
    [Metric::Cpu, Metric::Throughput, Metric::P99, Metric::Switches, Metric::ConnectionMemory];
/// Above this share of the machine's time, other processes are a doubt: both servers and the
/// generator suffer from their use of the caches, even if equally.
const FOREIGN_MAX: f64 = 0.05;

/// A table of duets.
#[derive(Clone, Debug, PartialEq)]
pub struct DuetTable {
    /// The question in one sentence.
    pub question: String,
    /// The explanation that the reader needs next to the rows.
    pub note: String,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Differences below this are none (0.03 = 3 %).
    pub margin: f64,
}

/// One row: a race in turns at one load point, and the figures that it is to bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The servers: the baseline is compared with each of the others, and with its twin.
    pub plan: Plan,
    /// The metrics, each with its goal if it has one.
    pub asked: Vec<(Metric, Option<Goal>)>,
}

/// One figure of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DuetFigure {
    /// The first server.
    pub left: String,
    /// The second server; the first one again if that is compared with its twin.
    pub right: String,
    /// The load point.
    pub point: String,
    /// The metric's key.
    pub metric: String,
    /// The goal; a figure without one is compared.
    pub goal: Option<Goal>,
    /// The median over the fresh pairs: the ratio left / right, or bytes for each idle connection.
    pub value: Option<f64>,
    /// The exact interval of that median; absent below six pairs.
    pub interval: Option<Interval>,
    /// Median of the left server, in the metric's unit (ns, replies/s, switches, bytes).
    pub left_value: Option<f64>,
    /// The same of the right server.
    pub right_value: Option<f64>,
    /// The figure of each fresh pair.
    pub pairs: Vec<f64>,
    /// The word; empty if nothing was measured, and for a server next to itself.
    pub verdict: String,
    /// Whether the goal was reached.
    pub reached: Option<Decision>,
    /// The reason why there is no value.
    pub absent: Option<String>,
    /// Nothing is wrong: a program is not installed.
    pub skipped: bool,
}

/// The findings of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// `roundhouse.duet-table/1`.
    pub schema: String,
    /// The question in one sentence.
    pub question: String,
    /// The explanation next to the rows.
    pub note: String,
    /// The start, UTC (RFC 3339).
    pub date: String,
    /// The caller's text next to the results, such as a commit.
    pub label: String,
    /// The machine.
    pub host: Host,
    /// The figures, in the order of the rows.
    pub figures: Vec<DuetFigure>,
    /// Wrong replies, each in one sentence.
    pub broken: Vec<String>,
    /// Reasons to read the figures with care, each once.
    pub doubts: Vec<String>,
    /// The run stopped before its end.
    pub interrupted: bool,
    /// Differences below this are none (0.03 = 3 %).
    pub margin: f64,
}

impl DuetTable {
    /// Keeps the rows in which one of these servers takes part.
    ///
    /// # Errors
    /// A name that no row has, with those there are.
    pub fn only(&mut self, names: &[String]) -> Result<(), String> {
        let arms = self.rows.iter().flat_map(|row| &row.plan.arms);
        let mut known: Vec<&str> = arms.map(|arm| arm.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        if let Some(stranger) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Err(format!("expected arms out of {known}, found `{stranger}`"));
        }
        self.rows.retain(|row| row.plan.arms.iter().any(|arm| names.contains(&arm.name)));
        Ok(())
    }
}

impl Row {
    /// `left / right`.
    pub fn name(&self) -> String {
        let rights: Vec<String> = self.sides().map(|(_, shown)| shown).collect();
        format!("{} / {}", self.plan.baseline, rights.join(", "))
    }

    /// The name of its load point.
    pub fn point(&self) -> &str {
        self.plan.points.first().map_or("", |point| &point.name)
    }

    /// The right servers: the name of each, and the name that is shown.
    fn sides(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let rights = self.plan.entrants().into_iter().map(|arm| arm.name);
        let rights = rights.filter(|name| *name != self.plan.baseline);
        rights.map(|name| {
            let is_twin = self.plan.twin && name == self.plan.twin_name();
            let shown = if is_twin { self.plan.baseline.clone() } else { name.clone() };
            (name, shown)
        })
    }

    /// The reason to leave the row out: a program that is not installed.
    pub fn skip(&self) -> Option<String> {
        let missing = self.plan.arms.iter().find_map(|arm| arm.missing())?;
        Some(format!("the program `{missing}` is not there: install or build it"))
    }

    /// Plays the row: fresh servers in each block. `heard` gets the trials of every block. Also
    /// returns whether it was stopped before its end.
    pub fn play(
        &self,
        servers: &mut dyn Trials,
        stop: &AtomicBool,
        mut heard: impl FnMut(&[Trial]),
    ) -> (Vec<Trial>, bool) {
        let (begun, all) = (Instant::now(), schedule(&self.plan));
        let mut trials = Vec::new();
        for slots in all.chunks(self.plan.entrants().len()) {
            let is_stopped = stop.load(Ordering::Relaxed);
            let Some(found) = (!is_stopped).then(|| servers.block(slots, begun)).flatten() else {
                return (trials, true);
            };
            heard(&found);
            trials.extend(found);
        }
        (trials, false)
    }

    /// Its figures by these trials, without verdicts.
    pub fn figures(&self, trials: &[Trial]) -> Vec<DuetFigure> {
        let mut figures = Vec::new();
        for (right, shown) in self.sides() {
            for &(metric, goal) in &self.asked {
                let figure = DuetFigure {
                    left: self.plan.baseline.clone(),
                    right: shown.clone(),
                    point: self.point().to_string(),
                    metric: metric.key().to_string(),
                    goal,
                    ..DuetFigure::default()
                };
                figures.push(figure.measured(&self.values(trials, &right, metric), || {
                    let both = [&self.plan.baseline, &right];
                    failure(trials.iter().filter(|it| both.contains(&&it.arm)))
                }));
            }
        }
        figures
    }

    /// The values of the left server and of this right one in each block. Only a server with idle
    /// connections has a memory for each of them.
    fn values(&self, trials: &[Trial], right: &str, metric: Metric) -> Vec<[Option<f64>; 2]> {
        let value = |name: &str, block: u32| {
            let trial = trials.iter().find(|it| it.arm == name && it.block == block)?;
            match metric {
                Metric::P99 => trial.seen.p99_ns.map(|ns| ns as f64),
                _ => metric.in_trial(trial),
            }
        };
        let blocks = trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        (0..blocks).map(|at| [value(&self.plan.baseline, at), value(right, at)]).collect()
    }
}

/// The first reason why a server brought nothing.
fn failure<'a>(mut trials: impl Iterator<Item = &'a Trial>) -> Option<String> {
    trials.find_map(|trial| match &trial.ending {
        Ending::Unavailable { reason } | Ending::Failed { reason } => {
            Some(format!("{}: {reason}", trial.arm))
        }
        Ending::Measured { .. } => None,
    })
}

impl DuetFigure {
    /// The metric.
    pub fn metric(&self) -> Metric {
        Metric::by_key(&self.metric).unwrap_or(Metric::Cpu)
    }

    /// `left / right`.
    pub fn name(&self) -> String {
        format!("{} / {}", self.left, self.right)
    }

    fn is_twin(&self) -> bool {
        self.left == self.right
    }

    /// Whether it is a ratio of both servers.
    pub fn is_ratio(&self) -> bool {
        self.metric() != Metric::ConnectionMemory
    }

    /// The figure by the values of both servers in each block, or the reason of a failure.
    fn measured(
        self,
        values: &[[Option<f64>; 2]],
        failure: impl FnOnce() -> Option<String>,
    ) -> DuetFigure {
        let is_ratio = self.is_ratio();
        let both = |&[left, right]: &[Option<f64>; 2]| match is_ratio {
            true => Some(left? / right.filter(|value| *value > 0.0)?),
            false => right.or(left),
        };
        let pairs: Vec<f64> = values.iter().filter_map(both).collect();
        let side = |at: usize| {
            let known = values.iter().filter(|it| both(it).is_some());
            stats::median(&known.filter_map(|it| it[at]).collect::<Vec<f64>>())
        };
        let (value, interval) = match is_ratio {
            true => compared(&pairs).map_or((None, None), |it| (Some(it.ratio), it.interval)),
            false => (stats::median(&pairs), stats::median_interval(&pairs)),
        };
        let nothing = || format!("the generator reported no {}", self.metric().name());
        let absent = value.is_none().then(|| failure().unwrap_or_else(nothing));
        let (left_value, right_value) = (side(0), side(1));
        DuetFigure { value, interval, left_value, right_value, absent, pairs, ..self }
    }

    /// Whether it is a ratio of two servers without a goal.
    fn is_compared(&self) -> bool {
        self.goal.is_none() && self.is_ratio() && !self.is_twin() && self.value.is_some()
    }

    /// The verdict on the goal.
    fn judge(&mut self) {
        if let Some(goal) = self.goal.filter(|_| self.value.is_some()) {
            let reached = goal.decide(self.interval.as_ref());
            (self.reached, self.verdict) = (Some(reached), Goal::word(reached).to_string());
        }
    }

    /// The verdict on the left server next to the right one.
    fn decide(&mut self, comparison: Comparison, terms: Terms) {
        let metric = self.metric();
        self.verdict = word(decide(&comparison, terms), metric).to_string();
        self.interval = comparison.interval;
    }
}

/// The comparison of ratios, one for each fresh pair.
fn compared(ratios: &[f64]) -> Option<Comparison> {
    Comparison::of(ratios.iter().map(|ratio| ratio.ln()).collect())
}

impl Findings {
    /// Nothing is known yet. The doubts about the machine are those of this moment.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn new(table: &DuetTable) -> std::io::Result<Findings> {
        let mut findings = Findings {
            schema: SCHEMA.to_string(),
            question: table.question.clone(),
            note: table.note.clone(),
            date: date_now(),
            host: Host::identify()?,
            margin: table.margin,
            ..Findings::default()
        };
        let pairs = table.rows.iter().map(|row| row.plan.blocks).min().unwrap_or(0);
        if (pairs as usize) < VALUES_MIN {
            findings.doubt(format!(
                "{pairs} fresh pairs have no interval, so nothing here is resolved: take \
                 {VALUES_MIN} or more"
            ));
        }
        Ok(findings)
    }

    /// Adds a row that is left out.
    pub fn skip(&mut self, row: &Row, why: &str) {
        let absent = Some(why.to_string());
        let figures = row.figures(&[]).into_iter();
        self.figures.extend(figures.map(|it| DuetFigure {
            absent: absent.clone(),
            skipped: true,
            ..it
        }));
    }

    /// Adds the trials of a row.
    pub fn take(&mut self, row: &Row, trials: &[Trial]) {
        self.figures.extend(row.figures(trials));
        self.broken.extend(trials.iter().filter_map(broken));
        let failed = trials.iter().filter(|trial| trial.result().is_none()).count();
        if let (Some(reason), true) = (failure(trials.iter()), failed < trials.len()) {
            let all = trials.len();
            self.doubt(format!(
                "{}: {failed} of {all} starts failed, the first: {reason}",
                row.name()
            ));
        }
        for load in trials.iter().filter_map(Trial::result) {
            // Whether the generator was the limit is no matter where CPU time is compared.
            let own = |text: &&String| {
                load.health.as_ref().is_none_or(|health| !health.reasons.contains(text))
            };
            for doubt in load.doubts.iter().filter(own) {
                self.doubt(format!("{}: {}", row.name(), anonymous(doubt)));
            }
        }
        if trials.iter().any(|it| it.conditions.foreign.is_some_and(|it| it > FOREIGN_MAX)) {
            let percent = stats::words::percent(FOREIGN_MAX);
            self.doubt(format!(
                "{}: other processes took more than {percent} of the machine's time in some pairs",
                row.name()
            ));
        }
    }

    /// Judges every figure; to be called once, at the end.
    pub fn conclude(&mut self) {
        let floors: Vec<(String, String, f64)> = self
            .figures
            .iter()
            .filter(|it| it.is_twin() && it.interval.is_some())
            .filter_map(|it| {
                Some((it.point.clone(), it.metric.clone(), compared(&it.pairs)?.floor()))
            })
            .collect();
        let margin = self.margin;
        self.figures.iter_mut().for_each(DuetFigure::judge);
        let family = self.figures.iter_mut().filter(|it| it.is_compared());
        let mut family: Vec<&mut DuetFigure> = family.collect();
        let logs = |(nth, it): (usize, &&mut DuetFigure)| {
            (nth, it.pairs.iter().map(|ratio| Some(ratio.ln())).collect())
        };
        let all: Vec<(usize, Vec<Option<f64>>)> = family.iter().enumerate().map(logs).collect();
        for (figure, comparison) in family.iter_mut().zip(compare_all(&all, 0)) {
            let same = |it: &&(String, String, f64)| it.0 == figure.point && it.1 == figure.metric;
            let floor = floors.iter().find(same).map_or(0.0, |it| it.2);
            if let Some(comparison) = comparison {
                let better = figure.metric().better();
                figure.decide(comparison, Terms { better, floor, margin });
            }
        }
    }

    /// Whether every row that could be played brought its figures, and no reply was wrong.
    pub fn is_right(&self) -> bool {
        let measured = self.figures.iter().any(|it| it.value.is_some());
        let failed = self.figures.iter().any(|it| it.absent.is_some() && !it.skipped);
        measured && !failed && !self.interrupted && self.broken.is_empty()
    }

    /// Whether a goal is missed beyond doubt.
    pub fn misses(&self) -> bool {
        self.figures.iter().any(|it| it.reached == Some(Decision::Worse))
    }

    fn doubt(&mut self, text: String) {
        if !self.doubts.contains(&text) {
            self.doubts.push(text);
        }
    }
}

/// A doubt without the numbers of threads and processes, so that eight fresh pairs say it once.
fn anonymous(doubt: &str) -> String {
    let words: Vec<&str> = doubt.split(' ').collect();
    let is_number = |at: usize| {
        let counted = words.get(at + 1).is_some_and(|next| next.starts_with("threads"));
        let named = at > 0 && words[at - 1] == "process";
        (counted || named) && words[at].parse::<u64>().is_ok()
    };
    let masked = |at: usize| if is_number(at) { "N" } else { words[at] };
    (0..words.len()).map(masked).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests;
