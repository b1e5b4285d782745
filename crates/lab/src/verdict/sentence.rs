//! The result in one sentence.

use super::{Metric, PointSummary, Verdict};
use crate::plan::Plan;

/// One sentence: each arm against the baseline at each point, by speed and by CPU. Arms with the
/// same predicate share a clause.
pub(super) fn sentence(plan: &Plan, points: &[PointSummary]) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for arm in plan.arms.iter().filter(|arm| arm.name != plan.baseline) {
        add(&mut said, predicate(points, &arm.name), &arm.name);
    }
    if said.is_empty() {
        return format!("Only {} ran: there is nothing to compare it with.", plan.baseline);
    }
    let clauses: Vec<String> = said
        .into_iter()
        .map(|(words, arms)| {
            let verb = if arms.len() == 1 { "is" } else { "are" };
            format!("{} {verb} {words}", listed(&arms))
        })
        .collect();
    format!("Against {}: {}.", plan.baseline, clauses.join("; "))
}

/// The predicate for one arm, after `is` or `are`.
fn predicate(points: &[PointSummary], arm: &str) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for point in points {
        add(&mut said, phrase(point, arm), &point.point);
    }
    let parts: Vec<String> = said
        .into_iter()
        .map(|(words, at)| match at.len() == points.len() && points.len() > 1 {
            true => format!("{words} at every load point"),
            false => format!("{words} at {}", listed(&at)),
        })
        .collect();
    parts.join(", ")
}

/// Puts `item` under `words`, in the order of first use.
fn add<'a>(said: &mut Vec<(String, Vec<&'a str>)>, words: String, item: &'a str) {
    match said.iter_mut().find(|(known, _)| *known == words) {
        Some((_, items)) => items.push(item),
        None => said.push((words, vec![item])),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_string(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

fn phrase(point: &PointSummary, name: &str) -> String {
    let Some(arm) = point.arms.iter().find(|arm| arm.arm == name && arm.absent.is_none()) else {
        return "not measured".to_string();
    };
    let said = |metric: Metric| {
        let judged = arm.judged(metric)?;
        match judged.verdict {
            Verdict::Unresolved | Verdict::GeneratorLimited => None,
            verdict => Some(verdict.word(metric)),
        }
    };
    if point.lead == Metric::Cpu {
        return match said(Metric::Cpu) {
            Some("equivalent") => "equivalent in CPU".to_string(),
            Some(cost) => format!("{cost} in CPU"),
            None => "unresolved".to_string(),
        };
    }
    match (said(point.lead), said(Metric::Cpu)) {
        (Some("equivalent"), Some("equivalent")) => "equivalent in speed and CPU".to_string(),
        (Some(speed), Some("equivalent")) => format!("{speed} at the same CPU cost"),
        (Some("equivalent"), Some(cost)) => format!("as fast and {cost} in CPU"),
        (Some(speed), Some(cost)) => {
            let agree = (speed == point.lead.words().0) == (cost == "cheaper");
            format!("{speed} {} {cost} in CPU", if agree { "and" } else { "but" })
        }
        (Some("equivalent"), None) => "as fast (CPU unresolved)".to_string(),
        (Some(speed), None) => format!("{speed} (CPU unresolved)"),
        (None, Some("equivalent")) => "equally costly in CPU (speed unresolved)".to_string(),
        (None, Some(cost)) => format!("{cost} in CPU (speed unresolved)"),
        (None, None) => "unresolved".to_string(),
    }
}
