//! CSV (RFC 4180): one row a trial, rejected attempts included; nothing is rounded.

use lab::record::Run;
use lab::trial::{Ending, Trial};
use lab::verdict::Metric;

/// The columns next to the metrics.
const HEADS: [&str; 21] = [
    "order",
    "sitting",
    "block",
    "point",
    "arm",
    "attempt",
    "counted",
    "seed",
    "swapped",
    "begun_ms",
    "took_ms",
    "boot_ms",
    "offered_rps",
    "steal",
    "foreign",
    "hiccup_ms",
    "retransmits",
    "forks",
    "threads_created",
    "kills",
    "remark",
];

/// The trials of a run.
pub fn csv(run: &Run) -> String {
    let metrics = Metric::EVERY.iter().map(|metric| metric.key());
    let heads: Vec<&str> = HEADS.into_iter().chain(metrics).collect();
    let mut text = heads.join(",") + "\r\n";
    for trial in &run.trials {
        text.push_str(&row(trial).join(","));
        text.push_str("\r\n");
    }
    text
}

fn row(trial: &Trial) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
    let count = |value: Option<u64>| value.map(|it| it.to_string()).unwrap_or_default();
    let cost = trial.seen.cost.as_ref();
    let conditions = &trial.conditions;
    let mut cells = vec![
        trial.order.to_string(),
        trial.seen.sitting.to_string(),
        (trial.block + 1).to_string(),
        quoted(&trial.point),
        quoted(&trial.arm),
        trial.attempt.to_string(),
        trial.counted.to_string(),
        trial.seed.to_string(),
        trial.swapped.to_string(),
        trial.begun_ms.to_string(),
        trial.took_ms.to_string(),
        number(trial.boot_ms),
        number(trial.seen.offered_rps),
        number(conditions.steal),
        number(conditions.foreign),
        number(conditions.hiccup_ms),
        count(conditions.retransmits),
        count(cost.and_then(|it| it.forks)),
        count(cost.and_then(|it| it.threads_created)),
        count(cost.and_then(|it| it.kills)),
        quoted(&remark(trial)),
    ];
    // A rejected attempt has figures too; `counted` says that they are not used.
    let shown = Trial { counted: true, ..trial.clone() };
    cells.extend(Metric::EVERY.iter().map(|metric| number(metric.in_trial(&shown))));
    cells
}

fn remark(trial: &Trial) -> String {
    let mut parts = trial.objections.clone();
    match &trial.ending {
        Ending::Unavailable { reason } | Ending::Failed { reason } => parts.push(reason.clone()),
        Ending::Measured { load } => {
            parts.extend(load.checked().filter(|it| !it.ok).map(|it| it.detail.clone()));
        }
    }
    parts.join("; ")
}

/// A cell in quotes if it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
