//! The report's page: the record and its conclusions, in the shape that the template needs.
//!
//! A section exists only if the record has its data, so a race of a minute gives a short page, a
//! race of a night a long one, and neither has an empty frame.

mod answer;
mod facts;
mod outcomes;

use crate::charts;
use crate::shell::{Charts, PageError, render};
use crate::words;
use lab::doubts::{Doubt, Weight};
use lab::record::Run;
use lab::verdict::Summary;
use serde_json::{Map, Value, json};

/// Makes the report of a run as one HTML page, with the last runs of a history.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn report(
    run: &Run,
    summary: &Summary,
    doubts: &[Doubt],
    history: &[charts::Past],
) -> Result<String, PageError> {
    let parts =
        [head(run, summary), findings(run, summary, doubts), figures(run, summary, history)];
    let parts = parts.into_iter().filter_map(|part| part.as_object().cloned());
    render("report.html", Charts::Packed, &parts.flatten().collect::<Map<String, Value>>())
}

/// The facts that a glance shows, and how it was run.
fn head(run: &Run, summary: &Summary) -> Value {
    let plan = &run.manifest.plan;
    let (blocks, trials) = (words::counted(run.blocks(), "block"), run.trials.len());
    let window = words::time(plan.window_ms as f64 * 1e6);
    // A number and its sign stay on one line.
    let shown = |text: &str| text.replace('`', "").replace(" %", "\u{a0}%");
    let sentences = language::tr(&summary.sentence);
    let end = sentences.find(". ").map_or(sentences.len(), |at| at + 1);
    let (first, rest) = sentences.split_at(end);
    json!({
        "title": plan.question,
        "label": plan.label,
        "date": run.manifest.date.get(..10).unwrap_or(&run.manifest.date),
        "headline": shown(first),
        "further": shown(rest.trim_start()),
        "lamps": facts::lamps(run, summary),
        "size": format!("{blocks}, windows of {window}, {trials} trials"),
        "broken": summary.broken,
        "manifest": facts::manifest(run),
        "settings": run.manifest.host.settings,
        "arms": facts::arms(run),
    })
}

/// The answer, and every reason to doubt it.
fn findings(run: &Run, summary: &Summary, doubts: &[Doubt]) -> Value {
    let plan = &run.manifest.plan;
    let (numbers, more_numbers) = facts::all_numbers(run, summary);
    json!({
        "baseline": plan.baseline,
        "margin": format!("{:.0} %", plan.margin * 100.0),
        "corrected": summary.family > 1,
        "answer": answer::answer(run, summary),
        "numbers": numbers,
        "more_numbers": more_numbers,
        "doubts": doubts.iter().map(|it| (it.weight, &it.text)).collect::<Vec<_>>(),
        "warnings": doubts.iter().filter(|it| it.weight != Weight::Limit).count(),
    })
}

/// The charts with their tables.
fn figures(run: &Run, summary: &Summary, history: &[charts::Past]) -> Value {
    json!({
        "tails": charts::tails(run, summary),
        "series": charts::sweeps(run, summary),
        "capacities": charts::capacities(run),
        "overloads": charts::overloads(run),
        "costs": charts::costs(run, summary),
        "census": charts::census(run),
        "uncounted": facts::uncounted(run),
        "timeline": charts::timeline(run, summary),
        "history": charts::history(history),
    })
}

#[cfg(test)]
mod tests;
