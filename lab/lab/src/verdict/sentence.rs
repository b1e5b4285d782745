//! The result in one sentence.

use super::{CostAnswer, Metric, PointSummary, RaceAnswer, Rank, Verdict};
use crate::plan::Plan;
use stats::words::{capital, percent, short};

/// Intervals that are wider than this describe the lack of blocks, not the arms.
const APART_MAX: f64 = 0.5;

/// A sentence with more names is harder to read than the table.
const NAMES_MAX: usize = 4;

/// One sentence on a race whose servers take turns: the cheapest at each load point, the dearest,
/// and the kernel's share.
pub(super) fn answered(plan: &Plan, answer: &RaceAnswer) -> String {
    let costs: Vec<&CostAnswer> = answer.costs.iter().filter(|it| it.is_known()).collect();
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for cost in &costs {
        add(&mut said, cheapest(plan, cost), &cost.point);
    }
    if said.is_empty() {
        let least = stats::VALUES_MIN;
        return format!("No answer yet: it takes {least} blocks with two servers or more.");
    }
    let many = costs.len() > 1;
    let mut clauses: Vec<String> = said
        .into_iter()
        .map(|(words, at)| match many {
            true if at.len() == costs.len() => format!("at every load point {words}"),
            true => format!("at {} {words}", listed(&at)),
            false => words,
        })
        .collect();
    clauses.extend(leanest(&costs, answer));
    clauses.extend(dearest(&costs));
    clauses.extend(kernel(&costs));
    capital(&clauses.join("; ")) + "."
}

/// The cheapest arm and its lead, or the arms that share the first place.
fn cheapest(plan: &Plan, cost: &CostAnswer) -> String {
    let best: Vec<&Rank> = cost.cheapest().collect();
    if let [winner] = best[..] {
        // Against the baseline; the baseline itself against the next arm.
        let (other, (ratio, low, high)) = match winner.arm == plan.baseline {
            false => (plan.baseline.as_str(), winner.over_baseline),
            true => {
                let next = &cost.ranks[1];
                let (ratio, low, high) = next.over_cheapest;
                (next.arm.as_str(), (1.0 / ratio, 1.0 / high, 1.0 / low))
            }
        };
        let saved = |ratio: f64| short((1.0 - ratio) * 100.0);
        return format!(
            "`{}` is cheapest: {} % [{}, {}] less CPU a request than `{other}`",
            winner.arm,
            saved(ratio),
            saved(high),
            saved(low)
        );
    }
    let mut names: Vec<String> =
        best.iter().take(NAMES_MAX).map(|rank| format!("`{}`", rank.arm)).collect();
    match best.len().saturating_sub(NAMES_MAX) {
        0 => {}
        1 => names.extend(best.last().map(|rank| format!("`{}`", rank.arm))),
        more => names.push(format!("{more} others")),
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let apart = best.iter().map(|rank| rank.over_cheapest.2).fold(1.0, f64::max) - 1.0;
    let all = if best.len() == cost.ranks.len() { "all" } else { "the cheapest" };
    let word = match apart {
        it if it < plan.margin => format!("are equal within {}", percent(it)),
        it if it < APART_MAX => format!("cannot be told apart within {}", percent(it)),
        _ => "cannot be told apart in this number of blocks".to_string(),
    };
    format!("{all} ({}) {word}", listed(&names))
}

/// Of several arms that are cheapest everywhere, the one that needs least memory.
fn leanest(costs: &[&CostAnswer], answer: &RaceAnswer) -> Option<String> {
    let is_cheapest =
        |arm: &str| costs.iter().all(|cost| cost.cheapest().any(|rank| rank.arm == arm));
    let rooms = answer.rooms.iter().filter(|room| is_cheapest(&room.arm));
    let known: Vec<(f64, &str)> =
        rooms.filter_map(|room| Some((room.bytes_each?, room.arm.as_str()))).collect();
    let (bytes, arm) = known.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let size = stats::words::size(bytes / 1e3);
    (known.len() > 1)
        .then(|| format!("of these `{arm}` needs least memory, {size} for a silent connection"))
}

/// The arm that takes most, where one of several arms does so beyond doubt.
fn dearest(costs: &[&CostAnswer]) -> Option<String> {
    if costs.iter().all(|cost| cost.ranks.len() < 3) {
        return None;
    }
    let last = |cost: &&CostAnswer| cost.ranks.last().filter(|rank| rank.dearer).cloned();
    let worst: Vec<Rank> = costs.iter().map(last).collect::<Option<_>>()?;
    let first = worst.first()?;
    let same = worst.iter().all(|rank| rank.arm == first.arm);
    let most = worst.iter().max_by(|a, b| a.over_cheapest.0.total_cmp(&b.over_cheapest.0))?;
    let lead = short(most.over_cheapest.0);
    Some(match same {
        true => format!("`{}` is dearest, up to {lead} times the cheapest", first.arm),
        false => format!("the dearest, `{}`, takes {lead} times the cheapest", most.arm),
    })
}

/// The kernel's share in the CPU time of the cheapest.
fn kernel(costs: &[&CostAnswer]) -> Option<String> {
    let known = costs.iter().filter_map(|cost| Some((cost.kernel_share?, &cost.point)));
    let (share, point) = known.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("at {point}, {} of the cheapest's time is the kernel's", percent(share)))
}

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
