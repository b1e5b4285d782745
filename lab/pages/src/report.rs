//! The report's page: the record and its conclusions, in the shape that the template needs.
//!
//! A section exists only if the record has its data, so a race of a minute gives a short page, a
//! race of a night a long one, and neither has an empty frame.

mod answer;
mod facts;
mod headline;
mod verdicts;

use crate::charts::{self, Chart};
use crate::shell::{Charts, PageError, render};
use crate::strip::Axis;
use crate::words;
use document::Table;
use lab::doubts::{Doubt, Weight};
use lab::record::Run;
use lab::verdict::Summary;
use serde::Serialize;

/// A longer summary in words is harder to read than the table above it, in bytes.
const SENTENCE_MAX: usize = 360;

/// The template's values.
#[derive(Serialize)]
struct View<'a> {
    title: &'a str,
    label: &'a str,
    date: &'a str,
    headline: String,
    answer: Option<answer::Answer>,
    sentence: &'a str,
    lamps: Vec<facts::Fact>,
    size: String,
    baseline: &'a str,
    margin: String,
    corrected: bool,
    groups: Vec<verdicts::Group>,
    curves: Vec<(String, Vec<verdicts::Group>)>,
    further: Vec<verdicts::Further>,
    axis: (String, String),
    examples: Vec<verdicts::Example>,
    numbers: Vec<facts::Numbers>,
    more_numbers: Vec<facts::Numbers>,
    forests: Vec<Chart>,
    tails: Vec<Chart>,
    series: Vec<charts::Series>,
    capacities: Vec<Chart>,
    overloads: Vec<Chart>,
    costs: Vec<Chart>,
    census: Vec<Chart>,
    uncounted: Vec<String>,
    trees: Vec<(String, Table)>,
    timeline: Option<Chart>,
    broken: &'a [String],
    doubts: Vec<(&'static str, &'a str)>,
    warnings: usize,
    manifest: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    arms: Vec<facts::ArmRow>,
    trials: Vec<facts::TrialRow>,
    repeated: u32,
}

/// Makes the report of a run as one HTML page.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn report(run: &Run, summary: &Summary, doubts: &[Doubt]) -> Result<String, PageError> {
    render("report.html", Charts::Packed, &view(run, summary, doubts))
}

fn view<'a>(run: &'a Run, summary: &'a Summary, doubts: &'a [Doubt]) -> View<'a> {
    let plan = &run.manifest.plan;
    let axis = verdicts::axis(summary);
    let (groups, curves) = verdicts::groups(run, summary, axis);
    let (numbers, more_numbers) = facts::all_numbers(run, summary);
    let counted = run.trials.iter().filter(|trial| trial.counted).count();
    View {
        title: &plan.question,
        label: &plan.label,
        date: run.manifest.date.get(..10).unwrap_or(&run.manifest.date),
        headline: headline::headline(run, summary),
        answer: summary.answer.as_ref().map(|it| answer::table(plan, summary, it)),
        sentence: match summary.sentence.len() < SENTENCE_MAX && summary.answer.is_none() {
            true => &summary.sentence,
            false => "",
        },
        lamps: facts::lamps(run, summary),
        size: format!(
            "{} blocks, windows of {}, {counted} trials",
            run.blocks(),
            words::time(plan.window_ms as f64 * 1e6)
        ),
        baseline: &plan.baseline,
        margin: format!("{:.0} %", plan.margin * 100.0),
        corrected: summary.family > 1,
        groups,
        curves,
        further: verdicts::further(summary),
        axis: ends(axis),
        examples: verdicts::examples(),
        numbers,
        more_numbers,
        forests: charts::forests(run, summary),
        tails: charts::tails(run, summary),
        series: charts::sweeps(run, summary),
        capacities: charts::capacities(run),
        overloads: charts::overloads(run, summary),
        costs: charts::costs(run, summary),
        census: charts::census(run),
        uncounted: facts::uncounted(run),
        trees: facts::trees(summary),
        timeline: charts::timeline(run, summary),
        broken: &summary.broken,
        doubts: doubts.iter().map(|it| (weight(it.weight), it.text.as_str())).collect(),
        warnings: doubts.iter().filter(|it| it.weight != Weight::Limit).count(),
        manifest: facts::manifest(run),
        settings: run.manifest.host.settings.clone().into_iter().collect(),
        arms: facts::arms(run),
        trials: run.trials.iter().map(facts::trial_row).collect(),
        repeated: summary.repeated,
    }
}

fn ends(axis: Axis) -> (String, String) {
    let (low, high) = axis.ends();
    (words::ratio(low), words::ratio(high))
}

fn weight(weight: Weight) -> &'static str {
    match weight {
        Weight::Grave => "grave",
        Weight::Warning => "warning",
        Weight::Limit => "limit",
    }
}

#[cfg(test)]
mod tests;
