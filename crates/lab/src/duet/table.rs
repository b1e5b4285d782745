//! A table of duets: rows of two servers under one load, goals, and verdicts.
//!
//! A plan file lists the rows ([`crate::file::DuetSpec`]). Each row is a duet of its own; its
//! figures are ratios left / right, or bytes for each idle connection. A figure with a goal is
//! judged against that ([`Goal::verdict`]); one without is compared ([`stats::judge`]) beyond the
//! noise floor, the distance of a server from itself in a row of this table with the same load.
//! From ten fresh pairs on, a difference must also survive Holm's correction over all figures
//! without a goal, as in a race.

use super::{Fresh, METRICS, Outcome, Pairing, Plan};
use crate::machine::{Host, date_now};
use crate::metric::Metric;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use stats::{CONFIDENCE, Goal, GoalVerdict, Interval, Terms, VALUES_MIN};

/// The schema of [`Findings`].
pub const TABLE_SCHEMA: &str = "roundhouse.duet-table/1";
/// Above this share of the machine's time, other processes are a doubt: both servers and the
/// generator suffer from their use of the caches, even if equally.
const FOREIGN_MAX: f64 = 0.05;

/// A table of duets.
#[derive(Clone, Debug, PartialEq)]
pub struct DuetTable {
    /// The question in one sentence.
    pub question: String,
    /// The explanation that the reader needs beside the rows.
    pub note: String,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Differences below this are none (0.03 = 3 %).
    pub margin: f64,
}

/// One row: a duet and the figures that it is to bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The two servers, or one and its twin, and the load.
    pub plan: Plan,
    /// The metrics, each with its goal if it has one.
    pub asked: Vec<(Metric, Option<Goal>)>,
}

/// One figure of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DuetFigure {
    /// The first server.
    pub left: String,
    /// The second server.
    pub right: String,
    /// The load point.
    pub point: String,
    /// The metric's key.
    pub metric: String,
    /// The goal; a figure without one is compared.
    pub goal: Option<Goal>,
    /// The median over fresh pairs: the ratio left / right, or bytes for each idle connection.
    pub value: Option<f64>,
    /// The exact interval of that median; absent below six pairs.
    pub interval: Option<Interval>,
    /// Median of the left server, in the metric's unit (ns, replies/s, switches, bytes).
    pub left_value: Option<f64>,
    /// The same of the right server.
    pub right_value: Option<f64>,
    /// The figure of each fresh pair.
    pub pairs: Vec<f64>,
    /// The word; empty if nothing was measured, and for a server beside itself.
    pub verdict: String,
    /// Whether the goal was reached.
    pub reached: Option<GoalVerdict>,
    /// p of the sign-flip test after Holm's correction over the figures without a goal.
    pub p_holm: Option<f64>,
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
    /// The explanation beside the rows.
    pub note: String,
    /// The start, UTC (RFC 3339).
    pub date: String,
    /// The caller's text beside the results, such as a commit.
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
        let mut known: Vec<&str> = self
            .rows
            .iter()
            .flat_map(|row| &row.plan.parts)
            .map(|it| it.arm.name.as_str())
            .collect();
        known.sort_unstable();
        known.dedup();
        if let Some(stranger) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Err(format!("expected arms out of {known}, found `{stranger}`"));
        }
        self.rows.retain(|row| row.plan.parts.iter().any(|it| names.contains(&it.arm.name)));
        Ok(())
    }
}

impl Row {
    /// The names of both servers; a server beside itself has one.
    pub fn names(&self) -> [String; 2] {
        let parts = &self.plan.parts;
        [0, parts.len() - 1].map(|at| parts[at].arm.name.clone())
    }

    /// The reason to leave the row out: a program that is not installed.
    pub fn skip(&self) -> Option<String> {
        let missing = self.plan.parts.iter().find_map(|part| part.arm.missing())?;
        Some(format!("the program `{missing}` is not there: install or build it"))
    }

    /// Its figures without values.
    fn figures(&self) -> impl Iterator<Item = DuetFigure> + '_ {
        let [left, right] = self.names();
        self.asked.iter().map(move |&(metric, goal)| DuetFigure {
            left: left.clone(),
            right: right.clone(),
            point: self.plan.point.name.clone(),
            metric: metric.key().to_string(),
            goal,
            ..DuetFigure::default()
        })
    }
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

    fn measured(self, pairing: &Pairing) -> DuetFigure {
        let metric = self.metric();
        let values = |value: &dyn Fn(&Fresh) -> Option<f64>| -> Vec<f64> {
            pairing.fresh.iter().filter_map(value).collect()
        };
        let pairs = values(&|fresh| fresh.figure(metric));
        let side = |at: usize| stats::median(&values(&|fresh| fresh.values(metric)[at]));
        let absent = match (pairs.first(), pairing.failures.first()) {
            (Some(_), _) => None,
            (None, Some(reason)) => Some(reason.clone()),
            (None, None) => Some(format!("the generator reported no {}", metric.name())),
        };
        let mut figure = DuetFigure { left_value: side(0), right_value: side(1), absent, ..self };
        (figure.value, figure.interval) = match figure.is_ratio() {
            true => compared(&pairs).map_or((None, None), |it| (Some(it.ratio), it.interval)),
            false => (stats::median(&pairs), stats::median_interval(&pairs)),
        };
        figure.pairs = pairs;
        figure
    }
}

/// The comparison of ratios, one for each fresh pair.
fn compared(ratios: &[f64]) -> Option<stats::Comparison> {
    let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (*ratio, 1.0)).collect();
    stats::compare(&pairs, 0, 0)
}

impl Findings {
    /// Nothing is known yet. The doubts about the machine are those of this moment.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn new(table: &DuetTable) -> std::io::Result<Findings> {
        let mut findings = Findings {
            schema: TABLE_SCHEMA.to_string(),
            question: table.question.clone(),
            note: table.note.clone(),
            date: date_now(),
            host: Host::identify()?,
            margin: table.margin,
            ..Findings::default()
        };
        let pairs = table.rows.iter().map(|row| row.plan.fresh_pairs).min().unwrap_or(0);
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
        let figures =
            row.figures().map(|it| DuetFigure { absent: absent.clone(), skipped: true, ..it });
        self.figures.extend(figures);
    }

    /// Adds the outcome of a row.
    pub fn take(&mut self, row: &Row, outcome: &Outcome) {
        self.interrupted |= outcome.interrupted;
        for pairing in outcome.pairings.iter().take(1) {
            self.figures.extend(row.figures().map(|figure| figure.measured(pairing)));
            let [left, right] = row.names();
            let name = format!("{left} / {right}, {}", row.plan.point.name);
            self.broken.extend(pairing.broken.iter().map(|text| format!("{name}: {text}")));
            if let (Some(reason), false) = (pairing.failures.first(), pairing.fresh.is_empty()) {
                let (failed, all) = (pairing.failures.len(), row.plan.fresh_pairs);
                self.doubt(format!("{name}: {failed} of {all} pairs failed, the first: {reason}"));
            }
            for doubt in pairing.fresh.iter().flat_map(|fresh| &fresh.doubts) {
                self.doubt(format!("{left} / {right}: {}", anonymous(doubt)));
            }
            let is_foreign =
                |fresh: &Fresh| fresh.conditions.foreign.is_some_and(|it| it > FOREIGN_MAX);
            if pairing.fresh.iter().any(is_foreign) {
                let percent = stats::words::percent(FOREIGN_MAX);
                self.doubt(format!(
                    "{left} / {right}: other processes took more than {percent} of the machine's \
                     time in some pairs"
                ));
            }
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
        for figure in &mut self.figures {
            let same = |it: &&(String, String, f64)| it.0 == figure.point && it.1 == figure.metric;
            let floor = floors.iter().find(same).map_or(0.0, |it| it.2);
            figure.judge(Terms { floor, margin: self.margin });
        }
        self.correct();
    }

    /// Applies Holm's correction over the figures without a goal, where the pairs can carry it.
    fn correct(&mut self) {
        let family: Vec<usize> =
            (0..self.figures.len()).filter(|&at| self.figures[at].p_holm.is_some()).collect();
        let p: Vec<f64> = family.iter().filter_map(|&at| self.figures[at].p_holm).collect();
        for (&at, corrected) in family.iter().zip(stats::holm(&p)) {
            let figure = &mut self.figures[at];
            figure.p_holm = Some(corrected);
            let claims = crate::plan::Plan::label_for(figure.pairs.len() as u32) != "smoke";
            if claims && corrected > 1.0 - CONFIDENCE && figure.verdict != EQUIVALENT {
                figure.verdict = UNRESOLVED.to_string();
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
        self.figures.iter().any(|it| it.reached == Some(GoalVerdict::Missed))
    }

    fn doubt(&mut self, text: String) {
        if !self.doubts.contains(&text) {
            self.doubts.push(text);
        }
    }
}

const EQUIVALENT: &str = "equivalent";
const UNRESOLVED: &str = "unresolved";

impl DuetFigure {
    /// The verdict on the goal, or on the left server beside the right one.
    fn judge(&mut self, terms: Terms) {
        if self.value.is_none() {
            return;
        }
        if let Some(goal) = self.goal {
            let reached = goal.verdict(self.interval.as_ref());
            (self.reached, self.verdict) = (Some(reached), reached.word().to_string());
            return;
        }
        let comparison = compared(&self.pairs).filter(|_| self.is_ratio() && !self.is_twin());
        if let Some(comparison) = comparison {
            let metric = self.metric();
            let judged = stats::judge(&comparison, metric.better(), terms);
            self.verdict = Verdict::from(judged.verdict).word(metric).to_string();
            let has_interval = comparison.interval.is_some();
            self.p_holm = stats::sign_flip_p(&comparison.log_ratios, 0).filter(|_| has_interval);
        }
    }
}

/// The metrics of a table by their keys.
///
/// # Errors
/// A key that a duet cannot measure, with those that it can.
pub(crate) fn metric(key: &str) -> Result<Metric, String> {
    let known: Vec<&str> = METRICS.iter().map(|metric| metric.key()).collect();
    Metric::by_key(key).filter(|metric| METRICS.contains(metric)).ok_or_else(|| {
        format!("expected a metric of duets out of {}, found `{key}`", known.join(", "))
    })
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
