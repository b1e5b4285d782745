//! Replies by status and errors by kind at a load point: a line, or a table if anything failed.

use crate::words;
use document::Table;
use lab::record::Run;
use lab::trial::Trial;
use lab::verdict::PointSummary;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The outcomes of all requests at one load point: sums over the trials, warm-up and disturbed ones
/// included. `None` where the record has neither a status nor an error.
pub(super) fn outcomes(run: &Run, point: &PointSummary) -> Option<Value> {
    let at = |arm: &str| {
        let is_here = |it: &&Trial| it.point == point.point && it.arm == arm;
        run.trials.iter().filter(is_here).filter_map(Trial::result).collect::<Vec<_>>()
    };
    let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for arm in &point.arms {
        for load in at(&arm.arm) {
            for (status, count) in &load.statuses {
                *statuses.entry(status.clone()).or_insert(0) += count;
            }
            for fault in &load.errors {
                *errors.entry(fault.kind.clone()).or_insert(0) += fault.count;
            }
        }
    }
    let all: u64 = statuses.values().sum();
    if errors.is_empty() && statuses.keys().all(|it| it.starts_with(['2', '3'])) {
        let all = words::grouped(all as f64);
        let line = format!("All {all} replies have a status of 200 to 399, without an error.");
        return (!statuses.is_empty()).then(|| json!({ "line": line }));
    }
    let shown = |kind: &String| kind.replace('_', " ");
    let head = ["Server".to_string()].into_iter().chain(statuses.keys().cloned());
    let head = head.chain(errors.keys().map(shown)).collect();
    let mut table = Table { head, rows: Vec::new() };
    for arm in &point.arms {
        let loads = at(&arm.arm);
        let status = |name| loads.iter().filter_map(|it| it.statuses.get(name)).sum::<u64>();
        let faults = || loads.iter().flat_map(|it| &it.errors);
        let error = |name: &String| faults().filter(|it| it.kind == *name).map(|it| it.count).sum();
        let counts = statuses.keys().map(status).chain(errors.keys().map(error));
        let cells = counts.map(|count| words::grouped(count as f64));
        table.row([arm.arm.clone()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    let line = "Replies by status and errors by kind, over all trials with their warm-up.";
    Some(json!({ "line": line, "table": table }))
}
