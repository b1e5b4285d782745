//! The report's page: the record and its conclusions, in the shape that the template needs.
//!
//! A section exists only if the record has its data, so a race of a minute gives a short page, a
//! race of a night a long one, and neither has an empty frame.

mod answer;
mod facts;
mod outcomes;

use crate::charts::{self, Chart};
use crate::shell::{Charts, PageError, render};
use crate::words;
use lab::doubts::{Doubt, Weight};
use lab::record::Run;
use lab::verdict::Summary;
use serde::Serialize;

/// The template's values, by the part of the page that they fill.
#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    findings: Findings<'a>,
    #[serde(flatten)]
    figures: Figures,
    #[serde(flatten)]
    record: Record,
}

/// The facts that a glance shows.
#[derive(Serialize)]
struct Head<'a> {
    title: &'a str,
    label: &'a str,
    date: &'a str,
    headline: String,
    /// The sentences after the first.
    further: String,
    lamps: Vec<facts::Fact>,
    size: String,
    broken: &'a [String],
}

/// The answer, and every reason to doubt it.
#[derive(Serialize)]
struct Findings<'a> {
    baseline: &'a str,
    margin: String,
    corrected: bool,
    answer: answer::Answer,
    numbers: Vec<facts::Numbers>,
    more_numbers: Vec<facts::Numbers>,
    doubts: Vec<(&'static str, &'a str)>,
    warnings: usize,
}

/// The charts with their tables.
#[derive(Serialize)]
struct Figures {
    tails: Vec<Chart>,
    series: Vec<charts::Curve>,
    capacities: Vec<Chart>,
    overloads: Vec<Chart>,
    costs: Vec<Chart>,
    census: Vec<Chart>,
    uncounted: Vec<String>,
    timeline: Option<Chart>,
    history: Option<Chart>,
}

/// How it was run.
#[derive(Serialize)]
struct Record {
    manifest: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    arms: Vec<facts::ArmRow>,
}

/// Makes the report of a run as one HTML page.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn report(run: &Run, summary: &Summary, doubts: &[Doubt]) -> Result<String, PageError> {
    report_with(run, summary, doubts, &[])
}

/// The same with the last runs of a history.
///
/// # Errors
/// As of [`report`].
pub fn report_with(
    run: &Run,
    summary: &Summary,
    doubts: &[Doubt],
    history: &[charts::Past],
) -> Result<String, PageError> {
    let mut view = view(run, summary, doubts);
    view.figures.history = charts::history(history);
    render("report.html", Charts::Packed, &view)
}

fn view<'a>(run: &'a Run, summary: &'a Summary, doubts: &'a [Doubt]) -> View<'a> {
    let plan = &run.manifest.plan;
    let (blocks, trials) = (words::counted(run.blocks(), "block"), run.trials.len());
    let window = words::time(plan.window_ms as f64 * 1e6);
    let (numbers, more_numbers) = facts::all_numbers(run, summary);
    let shown = |text: &str| text.replace('`', "").replace(" %", "\u{a0}%");
    let sentences = language::tr(&summary.sentence);
    let end = sentences.find(". ").map_or(sentences.len(), |at| at + 1);
    let (first, rest) = sentences.split_at(end);
    View {
        head: Head {
            title: &plan.question,
            label: &plan.label,
            date: run.manifest.date.get(..10).unwrap_or(&run.manifest.date),
            // A number and its sign stay on one line.
            headline: shown(first),
            further: shown(rest.trim_start()),
            lamps: facts::lamps(run, summary),
            size: format!("{blocks}, windows of {window}, {trials} trials"),
            broken: &summary.broken,
        },
        findings: Findings {
            baseline: &plan.baseline,
            margin: format!("{:.0} %", plan.margin * 100.0),
            corrected: summary.family > 1,
            answer: answer::answer(run, summary),
            numbers,
            more_numbers,
            doubts: doubts.iter().map(|it| (weight(it.weight), it.text.as_str())).collect(),
            warnings: doubts.iter().filter(|it| it.weight != Weight::Limit).count(),
        },
        figures: Figures {
            tails: charts::tails(run, summary),
            series: charts::sweeps(run, summary),
            capacities: charts::capacities(run),
            overloads: charts::overloads(run),
            costs: charts::costs(run, summary),
            census: charts::census(run),
            uncounted: facts::uncounted(run),
            timeline: charts::timeline(run, summary),
            history: None,
        },
        record: Record {
            manifest: facts::manifest(run),
            settings: run.manifest.host.settings.clone().into_iter().collect(),
            arms: facts::arms(run),
        },
    }
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
