//! One sentence for a newcomer: the finding, its size and its certainty.

use crate::words;
use lab::plan::Plan;
use lab::verdict::{ArmVerdict, Metric, PointSummary, Summary, Verdict};

/// The first sentence of the page. It names the largest settled difference in the load points' lead
/// metrics, in percent and with its interval; an unsettled difference is never ranked.
pub fn headline(plan: &Plan, summary: &Summary) -> String {
    // A number and its sign stay on one line.
    found(plan, summary).replace(" %", "\u{a0}%")
}

fn found(plan: &Plan, summary: &Summary) -> String {
    let base = &plan.baseline;
    if !summary.broken.is_empty() {
        return "Wrong answers were seen, so no speed on this page counts.".to_string();
    }
    let measured = summary.points.iter().flat_map(|it| &it.arms).any(|it| it.absent.is_none());
    if !measured {
        return "Nothing could be measured.".to_string();
    }
    if summary.answer.is_some() {
        return summary.sentence.replace('`', "");
    }
    let others = plan.arms.iter().filter(|arm| arm.name != plan.baseline).count();
    if others == 0 {
        return format!("Only {base} ran: there is nothing to compare it with.");
    }
    let leads = leading(summary);
    if leads.is_empty() {
        return format!("Nothing but {base} could be measured.");
    }
    let best = largest(&leads, Verdict::Better);
    let worst = largest(&leads, Verdict::Worse);
    match (best, worst) {
        (Some(found), _) => format!("{}.", claim(base, found)),
        (None, Some(found)) => {
            let first = match leads.iter().all(|it| settled(it.judged)) {
                true => format!("No arm beats {base}"),
                false => format!("No arm was shown to beat {base}"),
            };
            format!("{first}; {}.", claim(base, found))
        }
        (None, None) if leads.iter().all(|it| is_limited(it.judged)) => cost(base, summary),
        (None, None) => same_or_open(plan, &leads),
    }
}

/// One comparison in the metric that its load point asks about.
#[derive(Clone, Copy)]
struct Lead<'a> {
    point: &'a PointSummary,
    arm: &'a str,
    judged: &'a ArmVerdict,
    alone: bool,
}

fn leading(summary: &Summary) -> Vec<Lead<'_>> {
    comparisons(summary, |point| point.lead)
}

/// The comparisons of all arms but the baseline and its twin, in one metric of each load point.
fn comparisons(summary: &Summary, metric: impl Fn(&PointSummary) -> Metric) -> Vec<Lead<'_>> {
    let alone = summary.points.len() == 1;
    let arms =
        summary.points.iter().flat_map(|point| point.arms.iter().map(move |arm| (point, arm)));
    arms.filter(|(_, arm)| !arm.twin && !arm.baseline)
        .filter_map(|(point, arm)| {
            Some(Lead { point, arm: &arm.arm, judged: arm.judged(metric(point))?, alone })
        })
        .collect()
}

fn is_limited(judged: &ArmVerdict) -> bool {
    judged.verdict == Verdict::GeneratorLimited
}

/// The headline if the generator was the limit everywhere: the cost of a request.
fn cost(base: &str, summary: &Summary) -> String {
    let leads: Vec<Lead<'_>> = comparisons(summary, |_| Metric::Cpu);
    let best = largest(&leads, Verdict::Better);
    let found = best.or_else(|| largest(&leads, Verdict::Worse));
    let limit = "the load generator was the bottleneck everywhere";
    match found {
        Some(found) => format!("{}; about speed nothing can be said, {limit}.", claim(base, found)),
        None => format!(
            "No difference in CPU per request could be shown; about speed nothing can be said, \
             {limit}."
        ),
    }
}

fn settled(judged: &ArmVerdict) -> bool {
    !matches!(judged.verdict, Verdict::Unresolved | Verdict::GeneratorLimited)
}

/// The comparison with this verdict that is farthest from 1.
fn largest<'a>(leads: &[Lead<'a>], verdict: Verdict) -> Option<Lead<'a>> {
    let size = |it: &Lead<'_>| it.judged.comparison.ratio.ln().abs();
    let mine = leads.iter().filter(|it| it.judged.verdict == verdict);
    mine.max_by(|a, b| size(a).total_cmp(&size(b))).copied()
}

/// `uring answers 12 % more requests than epoll at depth 16 (95 % interval: 9 % to 15 % more)`.
fn claim(base: &str, lead: Lead<'_>) -> String {
    let ArmVerdict { metric, comparison, at_least, .. } = lead.judged;
    let (verb, more, less) = match metric {
        Metric::Throughput => ("answers", "more requests per second", "fewer requests per second"),
        Metric::Capacity => ("can take", "more load within the promise", "less load within it"),
        Metric::P50 | Metric::P99 | Metric::P999 => ("takes", "longer", "less time"),
        Metric::Recovery => ("needs", "longer to recover", "less time to recover"),
        Metric::Cpu => ("needs", "more CPU per request", "less CPU per request"),
        Metric::Memory | Metric::ConnectionMemory => ("needs", "more memory", "less memory"),
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
        format!(
            ", with 95 % confidence between {} and {}",
            nearer(&low, &high).0,
            nearer(&low, &high).1
        )
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

fn same_or_open(plan: &Plan, leads: &[Lead<'_>]) -> String {
    let base = &plan.baseline;
    let margin = words::percent(plan.margin);
    let equal = leads.iter().filter(|it| it.judged.verdict == Verdict::Equivalent).count();
    match (equal, leads.len()) {
        (equal, all) if equal == all => {
            format!("No difference worth the name: every arm is within {margin} of {base}.")
        }
        (equal, all) => {
            let forecast = leads.iter().filter_map(|it| it.judged.forecast).min();
            let more = forecast.map_or_else(String::new, |it| format!("; {}", words::forecast(it)));
            match equal {
                0 => format!("No difference could be shown, and no equality either{more}."),
                _ => format!(
                    "No difference could be shown: {equal} of {all} comparisons are within \
                     {margin}, the others are open{more}."
                ),
            }
        }
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
