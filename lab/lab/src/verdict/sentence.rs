//! The result in words: of two servers what differs, the worst first; of more servers which use the
//! least CPU time per request, then in further sentences which uses the most and what else differs.
//!
//! The verdict calls `sentence` last, when every comparison is decided; the functions here choose
//! words and never decide. A wrong answer comes before everything else. Every amount carries its
//! interval. Load points with the same result share a clause.

use super::{ArmVerdict, CostAnswer, Metric, PointSummary, RaceAnswer, Rank};
use crate::plan::Plan;
use stats::Decision;
use stats::words::{capital, end, listed, percent, short};

/// Intervals that are wider than this describe the lack of blocks, not the arms.
const APART_MAX: f64 = 0.5;

/// A sentence with more names is harder to read than the table.
const NAMES_MAX: usize = 4;

/// The same of more clauses about the cheapest.
const CLAUSES_MAX: usize = 3;

/// The result of a race.
pub(super) fn sentence(
    plan: &Plan,
    points: &[PointSummary],
    answer: &RaceAnswer,
    broken: &[String],
) -> String {
    let arms = || points.iter().flat_map(|it| &it.arms);
    let measured = arms().any(|it| it.absent.is_none());
    let compared = arms().flat_map(|it| &it.judged).any(|it| it.comparison.interval.is_some());
    let absent = arms().find_map(|it| Some((&it.arm, it.absent.as_ref()?)));
    let base = &plan.baseline;
    match (broken, measured, plan.arms.len()) {
        ([first, ..], ..) => {
            let more = match broken.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("Wrong answers were seen, so nothing else counts: {first}{more}.")
        }
        (_, false, _) => "Nothing could be measured.".to_string(),
        (_, _, 1) => format!("Only `{base}` ran: there is nothing to compare it with."),
        _ if let (false, Some((arm, reason))) = (compared, absent) => {
            format!("`{arm}` could not be measured: {reason}.")
        }
        (_, _, 2) => of_two(plan, points),
        _ => of_many(plan, points, answer),
    }
}

/// One comparison that the plan promised.
#[derive(Clone, Copy)]
struct Lead<'a> {
    point: &'a PointSummary,
    arm: &'a str,
    judged: &'a ArmVerdict,
}

impl Lead<'_> {
    fn size(&self) -> f64 {
        self.judged.comparison.floor()
    }
}

/// The registered comparisons of all arms with the baseline.
fn leads(points: &[PointSummary]) -> Vec<Lead<'_>> {
    let arms = points.iter().flat_map(|point| point.arms.iter().map(move |arm| (point, arm)));
    let arms = arms.filter(|(_, arm)| !arm.twin && !arm.baseline);
    let leads = arms.flat_map(|(point, arm)| {
        let judged = arm.judged.iter().filter(|it| it.registered);
        judged.map(move |judged| Lead { point, arm: &arm.arm, judged })
    });
    leads.collect()
}

/// Of two servers everything that was asked: differences, the harmful ones first and the largest
/// before the others, then what is equal, then what is open.
fn of_two(plan: &Plan, points: &[PointSummary]) -> String {
    let all = leads(points);
    let base = &plan.baseline;
    let Some(arm) = plan.arms.iter().find(|arm| arm.name != *base) else { return String::new() };
    if all.is_empty() {
        return format!("`{}` could not be measured together with `{base}`.", arm.name);
    }
    if all.iter().all(|it| it.judged.comparison.interval.is_none()) {
        let least = stats::VALUES_MIN;
        return format!("No answer yet: it takes {least} blocks with two servers or more.");
    }
    let of = |decision: Decision| {
        let mut some: Vec<Lead<'_>> =
            all.iter().filter(|it| it.judged.decision == decision).copied().collect();
        some.sort_by(|a, b| b.size().total_cmp(&a.size()));
        some
    };
    let named = |leads: &[Lead<'_>]| {
        let names: Vec<String> = leads
            .iter()
            .map(|it| it.judged.metric.name().to_string() + &place(it, points))
            .collect();
        listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), "and")
    };
    let (limited, open): (Vec<Lead<'_>>, Vec<Lead<'_>>) =
        of(Decision::Open).into_iter().partition(|it| it.judged.limited);
    let equal = of(Decision::Equal);
    let differ = [of(Decision::Worse), of(Decision::Better)].concat();
    let mut clauses: Vec<String> = differ
        .iter()
        .enumerate()
        .map(|(at, it)| match at {
            0 => against(it, base) + &place(it, points),
            _ => claim(it).1 + &place(it, points),
        })
        .collect();
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    if !equal.is_empty() {
        let within = percent(plan.margin);
        clauses.push(format!("{} {} equal within {within}", named(&equal), are(equal.len())));
    }
    if !open.is_empty() {
        clauses.push(format!("{} {} unresolved", named(&open), are(open.len())));
    }
    if !limited.is_empty() {
        clauses.push("speed is unknown, because the load generator was the limit".to_string());
    }
    capital(&clauses.join("; ")) + "."
}

/// Where a comparison was made, if there are several load points.
fn place(lead: &Lead<'_>, points: &[PointSummary]) -> String {
    if points.len() > 1 { format!(" at {}", lead.point.point) } else { String::new() }
}

/// A difference with both servers: `new` uses 11 % [6, 19] more CPU time per request than `old`.
fn against(lead: &Lead<'_>, base: &str) -> String {
    let (verb, amount, than) = claim(lead);
    format!("`{}` {verb} {amount} {than} `{base}`", lead.arm)
}

/// A difference in three parts: `uses`, `11 % [6, 19] more CPU time per request` and `than`, the
/// word before the other server.
fn claim(lead: &Lead<'_>) -> (&'static str, String, &'static str) {
    let ArmVerdict { metric, comparison, at_least, .. } = lead.judged;
    let (ratio, low, high) = comparison.triple();
    let bound = if *at_least { "at least " } else { "" };
    let (verb, thing) = match metric {
        Metric::Throughput => ("answers", "requests per second"),
        Metric::Capacity => ("carries", "requests per second within the promise"),
        Metric::Cpu => ("uses", "CPU time per request"),
        _ => ("has", metric.name()),
    };
    if ratio >= 2.0 {
        let times = format!("{} times [{}, {}]", short(ratio), end(low), end(high));
        return (verb, format!("{bound}{times} the {thing}"), "of");
    }
    let less = if verb == "uses" || verb == "has" { "less" } else { "fewer" };
    let (near, far, word) = if ratio > 1.0 { (low, high, "more") } else { (high, low, less) };
    let amount = format!("{} % [{}, {}]", share(ratio), share(near), share(far));
    (verb, format!("{bound}{amount} {word} {thing}"), "than")
}

/// The distance of a ratio from 1 in percent, two digits.
fn share(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    match percent {
        it if it >= 9.95 => format!("{it:.0}"),
        it if it >= 0.995 => format!("{it:.1}"),
        it => format!("{it:.2}"),
    }
}

/// Of more servers the cheapest at each load point, the most expensive, the kernel's share, and the
/// largest differences in what else the plan registers.
fn of_many(plan: &Plan, points: &[PointSummary], answer: &RaceAnswer) -> String {
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
    let one = |(words, at): (String, Vec<&str>)| match many {
        true if at.len() == costs.len() => format!("at every load point {words}"),
        true => format!("at {} {words}", listed(&at, "and")),
        false => words,
    };
    let mut clauses: Vec<String> = match said.len() > CLAUSES_MAX {
        true => winners(&costs),
        false => said.into_iter().map(one).collect(),
    };
    let mut sentences = vec![std::mem::take(&mut clauses).join("; ")];
    sentences.extend(most_expensive(&costs));
    sentences.extend(families(plan, &costs));
    sentences.extend(leanest(&costs, answer));
    sentences.extend(beside(plan, points));
    sentences.extend(kernel(&costs));
    sentences.iter().map(|words| capital(words) + ".").collect::<Vec<_>>().join(" ")
}

/// The arms that are cheapest, and at how many of the load points.
fn winners(costs: &[&CostAnswer]) -> Vec<String> {
    let mut all: Vec<(Vec<&str>, usize)> = Vec::new();
    for cost in costs {
        let best: Vec<&str> = cost.cheapest().map(|rank| rank.arm.as_str()).collect();
        match all.iter_mut().find(|(known, _)| *known == best) {
            Some((_, count)) => *count += 1,
            None => all.push((best, 1)),
        }
    }
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words = |(best, count): &(Vec<&str>, usize)| {
        let (at, of) = (count, costs.len());
        match best[..] {
            [winner] => format!(
                "`{winner}` uses the least CPU time per request at {at} of {of} load points"
            ),
            _ => format!("{} servers share the least at {at} of {of} load points", best.len()),
        }
    };
    all.iter().take(CLAUSES_MAX).map(words).collect()
}

/// The largest loss and the largest gain against the baseline in other metrics than the cost.
fn beside(plan: &Plan, points: &[PointSummary]) -> Vec<String> {
    let all = leads(points);
    let largest = |decision: Decision| {
        let some = all
            .iter()
            .filter(|it| it.judged.metric != Metric::Cpu && it.judged.decision == decision);
        some.max_by(|a, b| a.size().total_cmp(&b.size()))
    };
    let both = [largest(Decision::Worse), largest(Decision::Better)].into_iter().flatten();
    both.map(|it| against(it, &plan.baseline) + &place(it, points)).collect()
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
            "`{}` uses the least CPU time per request: {} % [{}, {}] less than `{other}`",
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
    let amount = if best.len() == cost.ranks.len() { "the same" } else { "the least" };
    let word = match apart {
        it if it < plan.margin => format!("equal within {}", percent(it)),
        it if it < APART_MAX => format!("no difference found within {}", percent(it)),
        _ => "no difference found in this number of blocks".to_string(),
    };
    format!("{} use {amount} CPU time per request, {word}", listed(&names, "and"))
}

/// Of several arms that are cheapest everywhere, the one that needs least memory.
fn leanest(costs: &[&CostAnswer], answer: &RaceAnswer) -> Option<String> {
    let is_cheapest =
        |arm: &str| costs.iter().all(|cost| cost.cheapest().any(|rank| rank.arm == arm));
    // A connection that was not served takes nothing, and that is no merit.
    let is_served = |bytes: f64| bytes >= 1.0;
    let rooms = answer
        .rooms
        .iter()
        .filter(|room| is_cheapest(&room.arm) && room.bytes_each.is_some_and(is_served));
    let known: Vec<(f64, &str)> =
        rooms.filter_map(|room| Some((room.bytes_each?, room.arm.as_str()))).collect();
    let (bytes, arm) = known.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let size = stats::words::size(bytes / 1e3);
    (known.len() > 1).then(|| {
        format!("of the cheapest `{arm}` uses the least memory: {size} per idle connection")
    })
}

/// The arm that takes most, where one of several arms does so beyond doubt.
fn most_expensive(costs: &[&CostAnswer]) -> Option<String> {
    if costs.iter().all(|cost| cost.ranks.len() < 3) {
        return None;
    }
    let last = |cost: &&CostAnswer| cost.ranks.last().filter(|rank| rank.costlier).cloned();
    let worst: Vec<Rank> = costs.iter().map(last).collect::<Option<_>>()?;
    let first = worst.first()?;
    let same = worst.iter().all(|rank| rank.arm == first.arm);
    let most = worst.iter().max_by(|a, b| a.over_cheapest.0.total_cmp(&b.over_cheapest.0))?;
    let lead = short(most.over_cheapest.0);
    Some(match same {
        true => format!("`{}` uses the most CPU time, up to {lead} times as much", first.arm),
        false => format!("the most expensive, `{}`, uses {lead} times as much CPU time", most.arm),
    })
}

/// The costs of each family of architectures, where too many servers are cheapest to name them.
fn families(plan: &Plan, costs: &[&CostAnswer]) -> Option<String> {
    let mut all: Vec<(&str, f64, f64)> = Vec::new();
    let known = costs.iter().flat_map(|cost| &cost.ranks);
    for rank in known.filter(|rank| rank.blocks as usize >= stats::VALUES_MIN) {
        let ratio = rank.over_cheapest.0;
        let family = plan.arms.iter().find(|arm| arm.name == rank.arm).map(|arm| &*arm.family);
        match (family, all.iter_mut().find(|it| Some(it.0) == family)) {
            (None | Some(""), _) => {}
            (_, Some((_, low, high))) => (*low, *high) = (low.min(ratio), high.max(ratio)),
            (Some(family), None) => all.push((family, ratio, ratio)),
        }
    }
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let words = all.iter().map(|(family, low, high)| match (short(*low), short(*high)) {
        (low, high) if low == high => format!("{family} {low}"),
        (low, high) => format!("{family} {low} to {high}"),
    });
    let words: Vec<String> = words.collect();
    let is_crowded = costs.iter().any(|cost| cost.cheapest().count() > NAMES_MAX);
    (is_crowded && words.len() > 1)
        .then(|| format!("by family, CPU time as a multiple of the cheapest: {}", words.join(", ")))
}

/// The kernel's share in the CPU time of the cheapest.
fn kernel(costs: &[&CostAnswer]) -> Option<String> {
    let known = costs.iter().filter_map(|cost| Some((cost.kernel_share?, &cost.point)));
    let (share, point) = known.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let share = percent(share);
    Some(format!("at {point} the kernel accounts for {share} of the cheapest server's time"))
}

/// Puts `item` under `words`, in the order of first use.
fn add<'a>(said: &mut Vec<(String, Vec<&'a str>)>, words: String, item: &'a str) {
    match said.iter_mut().find(|(known, _)| *known == words) {
        Some((_, items)) => items.push(item),
        None => said.push((words, vec![item])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arm;

    #[test]
    fn families_are_summed_up_where_many_servers_are_equal() {
        let arms = [
            ("a", "event loops", 1.0),
            ("b", "event loops", 1.041),
            ("c", "event loops", 1.02),
            ("d", "tasks", 1.04),
            ("e", "tasks", 1.04),
            ("f", "threads", 1.5),
            ("redis", "", 3.0),
        ];
        let ranks = arms.map(|(arm, _, ratio)| Rank {
            arm: arm.to_owned(),
            over_cheapest: (ratio, ratio, ratio),
            costlier: ratio > 1.1,
            blocks: 6,
            ..Rank::default()
        });
        let mut cost = CostAnswer { ranks: ranks.to_vec(), ..CostAnswer::default() };
        let arm = |(name, family, _): (&str, &str, f64)| Arm {
            name: name.to_owned(),
            family: family.to_owned(),
            ..Arm::default()
        };
        let plan = Plan { arms: arms.map(arm).to_vec(), ..Plan::default() };
        let words = "by family, CPU time as a multiple of the cheapest: event loops 1.00 to 1.04, \
                     tasks 1.04, threads 1.50";
        assert_eq!(families(&plan, &[&cost]).as_deref(), Some(words));
        cost.ranks[1].costlier = true;
        assert_eq!(families(&plan, &[&cost]), None, "four can be named");
    }
}
