//! One sentence for a newcomer: the best, the worst, and how sure that is.

use crate::words;
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmVerdict, Metric, PointSummary, Summary, Verdict};

/// A sentence with more names is harder to read than the table.
const NAMES_MAX: usize = 4;

/// The first sentence of the page. It takes all settled comparisons in the load points' lead
/// metrics and in CPU per request: the largest gain, or the arms that nothing beats, then the
/// largest loss. An unsettled difference is never ranked.
pub(super) fn headline(run: &Run, summary: &Summary) -> String {
    // A number and its sign stay on one line.
    language::tr(&found(run, summary)).replace('`', "").replace(" %", "\u{a0}%")
}

fn found(run: &Run, summary: &Summary) -> String {
    let plan = &run.manifest.plan;
    let base = &plan.baseline;
    if !summary.broken.is_empty() {
        return "Wrong answers were seen, so no speed on this page counts.".to_string();
    }
    let measured = summary.points.iter().flat_map(|it| &it.arms).any(|it| it.absent.is_none());
    if !measured {
        return "Nothing could be measured.".to_string();
    }
    if summary.answer.is_some() {
        return summary.sentence.clone();
    }
    if plan.arms.len() == 1 {
        return format!("Only {base} ran: there is nothing to compare it with.");
    }
    let all = comparisons(summary);
    if all.is_empty() {
        return format!("Nothing but {base} could be measured.");
    }
    let worst = largest(&all, Verdict::Worse);
    let mut said = match (largest(&all, Verdict::Better), worst) {
        (Some(best), _) => vec![claim(base, best)],
        (None, Some(_)) => vec![unbeaten(base, &all)],
        (None, None) => vec![same_or_open(run, &all)],
    };
    said.extend(worst.map(|it| claim(base, it) + &reason(base, it)));
    let mut speeds = all.iter().filter(|it| it.judged.metric != Metric::Cpu).peekable();
    let is_limited = |it: &Lead<'_>| it.judged.verdict == Verdict::GeneratorLimited;
    if speeds.peek().is_some() && speeds.all(is_limited) {
        said.push("about speed nothing can be said, the load generator was the limit".to_string());
    }
    said.join("; ") + "."
}

/// One comparison.
#[derive(Clone, Copy)]
struct Lead<'a> {
    point: &'a PointSummary,
    arm: &'a str,
    judged: &'a ArmVerdict,
    alone: bool,
}

/// The comparisons of all arms but the baseline and its twin, in the lead metric of each load point
/// and in CPU.
fn comparisons(summary: &Summary) -> Vec<Lead<'_>> {
    let alone = summary.points.len() == 1;
    let arms =
        summary.points.iter().flat_map(|point| point.arms.iter().map(move |arm| (point, arm)));
    arms.filter(|(_, arm)| !arm.twin && !arm.baseline)
        .flat_map(|(point, arm)| {
            let shown = |it: &&ArmVerdict| it.metric == point.lead || it.metric == Metric::Cpu;
            let judged = arm.judged.iter().filter(shown);
            judged.map(move |judged| Lead { point, arm: &arm.arm, judged, alone })
        })
        .collect()
}

/// The comparison with this verdict that is farthest from 1.
fn largest<'a>(all: &[Lead<'a>], verdict: Verdict) -> Option<Lead<'a>> {
    let size = |it: &Lead<'_>| it.judged.comparison.ratio.ln().abs();
    let mine = all.iter().filter(|it| it.judged.verdict == verdict);
    mine.max_by(|a, b| size(a).total_cmp(&size(b))).copied()
}

/// The baseline and the arms that are nowhere worse.
fn unbeaten(base: &str, all: &[Lead<'_>]) -> String {
    let worse =
        |arm: &str| all.iter().any(|it| it.arm == arm && it.judged.verdict == Verdict::Worse);
    let mut names = vec![base];
    for it in all.iter().filter(|it| !worse(it.arm)) {
        if !names.contains(&it.arm) {
            names.push(it.arm);
        }
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    let others = format!("{more} others");
    if more > 1 {
        names.truncate(NAMES_MAX);
        names.push(&others);
    }
    match &names[..] {
        [some @ .., last] if !some.is_empty() => {
            format!("Best: {} or {last}, not told apart here", some.join(", "))
        }
        _ => format!("Best: {base}"),
    }
}

/// The usual reason of a loss, if it is this one.
fn reason(base: &str, lead: Lead<'_>) -> String {
    let switches = |name: &str| lead.point.arms.iter().find(|it| it.arm == name)?.switches;
    match switches(lead.arm).zip(switches(base)) {
        Some((more, less)) if more > 2.0 * less + 0.2 => {
            let [more, less] = [more, less].map(words::rate);
            format!(": {more} context switches a request against {less}")
        }
        _ => String::new(),
    }
}

/// `uring answers 12 % more requests than epoll at depth 16 (95 % interval: 9 % to 15 %)`.
fn claim(base: &str, lead: Lead<'_>) -> String {
    let ArmVerdict { metric, comparison, at_least, .. } = lead.judged;
    let (verb, more, less) = match metric {
        Metric::Throughput => ("answers", "more requests per second", "fewer requests per second"),
        Metric::Capacity => ("can take", "more load within the promise", "less load within it"),
        Metric::Recovery => ("needs", "longer to recover", "less time to recover"),
        Metric::Cpu => ("needs", "more CPU per request", "less CPU per request"),
        Metric::Memory | Metric::ConnectionMemory => ("needs", "more memory", "less memory"),
        _ if metric.is_latency() => ("takes", "longer", "less time"),
        _ => ("needs", "more", "less"),
    };
    let tail = if metric.is_latency() { format!(" ({})", metric.name()) } else { String::new() };
    let amount = change(comparison.ratio);
    let bound = if *at_least { "at least " } else { "" };
    let words = match (comparison.ratio, metric) {
        (ratio, Metric::Throughput) if ratio >= 2.0 => "as many requests per second",
        (ratio, Metric::Capacity) if ratio >= 2.0 => "as much load within the promise",
        (ratio, Metric::Cpu) if ratio >= 2.0 => "as much CPU per request",
        (ratio, Metric::Memory | Metric::ConnectionMemory) if ratio >= 2.0 => "as much memory",
        (ratio, _) if ratio >= 2.0 => "as much",
        (ratio, _) => {
            if ratio > 1.0 {
                more
            } else {
                less
            }
        }
    };
    let place =
        if lead.alone { String::new() } else { format!(" at {}", whole(&lead.point.point)) };
    let range = comparison.interval.map_or_else(String::new, |it| {
        let (low, high) = (change(it.low), change(it.high));
        let (near, far) = nearer(&low, &high);
        format!(" (95 % interval: {near} to {far})")
    });
    let than = if comparison.ratio >= 2.0 { "as" } else { "than" };
    format!("{} {verb} {bound}{amount} {words}{tail} {than} {base}{place}{range}", lead.arm)
}

/// A short name stays on one line.
fn whole(name: &str) -> String {
    if name.len() <= 12 { name.replace(' ', "\u{a0}") } else { name.to_string() }
}

/// The distance of a ratio from 1, in percent; from a factor of two on as a factor.
fn change(ratio: f64) -> String {
    match ratio {
        it if it >= 2.0 => format!("{:.1} times", it),
        it => {
            let percent = (it - 1.0).abs() * 100.0;
            if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
        }
    }
}

/// Both ends, the one nearer to no difference first.
fn nearer<'a>(low: &'a str, high: &'a str) -> (&'a str, &'a str) {
    let number = |text: &str| -> f64 {
        let value = text.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0.0);
        if text.ends_with("times") { value * 100.0 } else { value }
    };
    if number(low) <= number(high) { (low, high) } else { (high, low) }
}

fn same_or_open(run: &Run, all: &[Lead<'_>]) -> String {
    let plan: &Plan = &run.manifest.plan;
    let margin = words::percent(plan.margin);
    let equal = all.iter().filter(|it| it.judged.verdict == Verdict::Equivalent).count();
    if equal == all.len() {
        let base = &plan.baseline;
        return format!("No difference worth the name: every server is within {margin} of {base}");
    }
    let forecast = all.iter().filter_map(|it| it.judged.forecast).min();
    let more = forecast
        .map_or_else(String::new, |it| format!("; {}", words::forecast(it, words::block_ms(run))));
    let count = all.len();
    match equal {
        0 => format!("No difference could be shown, and no equality either{more}"),
        _ => format!(
            "No difference could be shown: {equal} of {count} comparisons are within {margin}, the \
             others are open{more}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_well() {
        fn check(ratio: f64, want: &str) {
            assert_eq!(change(ratio), want);
        }
        check(1.121, "12 %");
        check(0.963, "3.7 %");
        check(2.04, "2.0 times");
        check(0.4, "60 %");
        assert_eq!(nearer("20 %", "9.5 %"), ("9.5 %", "20 %"));
        assert_eq!(nearer("80 %", "2.5 times"), ("80 %", "2.5 times"));
    }
}
