//! Numbers as people read them; shared by the page and the terminal.

use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmSummary, ArmVerdict, FORECAST_MAX, Metric, Room, Summary};
use stats::Decision;
pub use stats::words::{
    NONE, counted, folded, grouped, interval, or_none, percent, rate, ratio, size, span, time,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A race that takes longer than this to settle a comparison is not worth a forecast.
const RACE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The label of a comparison that the plan did not promise.
pub const UNREGISTERED: &str = "not pre-registered";

/// A ratio with its interval, and whether it is only a bound.
pub fn ratio_with_interval(judged: &ArmVerdict) -> String {
    let bound = match (judged.at_least, judged.comparison.ratio > 1.0) {
        (false, _) => "",
        (true, true) => "≥ ",
        (true, false) => "≤ ",
    };
    let number = ratio(judged.comparison.ratio);
    match &judged.comparison.interval {
        Some(it) => format!("{bound}{number} {}", interval(it)),
        None => format!("{bound}{number}"),
    }
}

/// The verdict's word, with the forecast if it is unresolved.
pub fn verdict(judged: &ArmVerdict) -> String {
    let word = judged.word();
    match (judged.decision, judged.forecast) {
        (Decision::Open, Some(blocks)) if blocks > FORECAST_MAX => word.to_string(),
        (Decision::Open, Some(blocks)) => format!("{word}: ~{blocks} blocks"),
        _ => word.to_string(),
    }
}

/// A median with its unit.
pub fn value(metric: Metric, median: f64) -> String {
    match metric {
        Metric::Throughput | Metric::Capacity => format!("{} requests/s", grouped(median)),
        Metric::Switches => rate(median),
        Metric::Memory => size(median),
        Metric::ConnectionMemory => size(median / 1e3),
        Metric::Recovery => time(median * 1e6),
        _ => time(median),
    }
}

/// The mean time of a block, milliseconds. Trials of servers that take turns overlap.
pub fn block_ms(run: &Run) -> f64 {
    let mut spans: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
    for trial in &run.trials {
        let (begun, ended) = (trial.begun_ms, trial.begun_ms + trial.took_ms);
        let span = spans.entry((trial.seen.sitting, trial.block)).or_insert((begun, ended));
        *span = (span.0.min(begun), span.1.max(ended));
    }
    let all: f64 = spans.values().map(|(begun, ended)| ended - begun).sum();
    all / f64::from(run.blocks().max(1))
}

/// The length of a race that would settle an unresolved comparison.
pub fn forecast(blocks: u32, block_ms: f64) -> String {
    let seconds = f64::from(blocks) * block_ms / 1e3;
    // A damaged record may have any number.
    match blocks <= FORECAST_MAX && (0.0..=RACE_MAX.as_secs_f64()).contains(&seconds) {
        false => "too close to settle on this machine".to_string(),
        true => {
            let time = span(Duration::from_secs_f64(seconds));
            format!("about {time} ({blocks} blocks) would settle it")
        }
    }
}

/// A ratio with both ends of its interval, if it has one: `0.96 [0.93 0.99]`.
pub fn over((ratio, low, high): (f64, f64, f64)) -> String {
    let figure = |ratio: f64| match ratio < 9.995 {
        true => format!("{ratio:.2}"),
        false => format!("{ratio:.1}"),
    };
    let end = |ratio: f64| match ratio < 9.995 {
        true => stats::words::end(ratio),
        false => figure(ratio),
    };
    match low < high {
        true => format!("{} [{} {}]", figure(ratio), end(low), end(high)),
        false => figure(ratio),
    }
}

/// The memory of each idle connection, or how many were answered.
pub fn room(room: &Room) -> String {
    match room.bytes_each {
        Some(bytes) => size(bytes / 1e3),
        None => format!("{:.0} of {}", room.answered, room.wanted),
    }
}

/// A median in a table, `=` before that of the cheapest arms.
pub(crate) fn median(
    summary: &Summary,
    point: &str,
    arm: &ArmSummary,
    metric: Metric,
) -> Option<String> {
    let shown = match metric {
        Metric::Throughput | Metric::Capacity => grouped(arm.median(metric)?),
        _ => value(metric, arm.median(metric)?),
    };
    let cost = summary.answer.costs.iter().find(|it| it.point == point);
    let is_cheapest = cost.is_some_and(|it| it.cheapest().any(|rank| rank.arm == arm.arm));
    Some(if metric == Metric::Cpu && is_cheapest { format!("= {shown}") } else { shown })
}

/// The metric next to CPU per request in a table of two: the load point's own, or speed if its own
/// is CPU.
pub fn first(lead: Metric) -> Metric {
    if lead == Metric::Cpu { Metric::Throughput } else { lead }
}

/// Whether a load point is separate and not a place on a curve.
pub(crate) fn is_alone(plan: &Plan, point: &str) -> bool {
    plan.points.iter().any(|it| it.name == point && it.series.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_a_time_or_says_that_it_takes_too_long() {
        assert_eq!(forecast(24, 9_000.0), "about 4 min (24 blocks) would settle it");
        for ms in [f64::MAX, f64::INFINITY, f64::NAN, -1.0] {
            assert_eq!(forecast(24, ms), "too close to settle on this machine");
        }
        assert_eq!(forecast(1_001, 1.0), "too close to settle on this machine");
        assert_eq!(forecast(900, 1e6), "too close to settle on this machine");
    }

    #[test]
    fn a_block_lasts_from_its_first_trial_to_its_last() {
        let mut run = crate::sample::small();
        for trial in &mut run.trials {
            (trial.begun_ms, trial.took_ms) = (f64::from(trial.block) * 2_000.0, 1_500.0);
        }
        assert_eq!(block_ms(&run), 1_500.0);
    }
}
