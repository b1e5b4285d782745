//! Numbers as people read them; shared by the page and the terminal.

use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmVerdict, FORECAST_MAX, Metric, Room, Verdict};
pub use stats::words::{
    NONE, counted, folded, grouped, interval, or_none, percent, rate, ratio, size, span, time,
};
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
    let word = judged.verdict.word(judged.metric);
    match (judged.verdict, judged.forecast) {
        (Verdict::Unresolved, Some(blocks)) if blocks > FORECAST_MAX => word.to_string(),
        (Verdict::Unresolved, Some(blocks)) => format!("{word}: ~{blocks} blocks"),
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

/// The mean time of a block, milliseconds.
pub fn block_ms(run: &Run) -> f64 {
    run.trials.iter().map(|it| it.took_ms).sum::<f64>() / f64::from(run.blocks().max(1))
}

/// The length of a race that would settle an unresolved comparison.
pub fn forecast(blocks: u32, block_ms: f64) -> String {
    let time = Duration::from_secs_f64(f64::from(blocks) * block_ms / 1e3);
    match blocks > FORECAST_MAX || time > RACE_MAX {
        true => "too close to settle on this machine".to_string(),
        false => format!("about {} ({blocks} blocks) would settle it", span(time)),
    }
}

/// A ratio with both ends of its interval, if it has one: `0.96 [0.93 0.99]`.
pub fn over((ratio, low, high): (f64, f64, f64)) -> String {
    let figure = |ratio: f64| match ratio < 9.995 {
        true => format!("{ratio:.2}"),
        false => format!("{ratio:.1}"),
    };
    match low < high {
        true => format!("{} [{} {}]", figure(ratio), figure(low), figure(high)),
        false => figure(ratio),
    }
}

/// The memory of each silent connection, or how many were answered.
pub fn room(room: &Room) -> String {
    match room.bytes_each {
        Some(bytes) => size(bytes / 1e3),
        None => format!("{:.0} of {}", room.answered, room.wanted),
    }
}

/// The metric beside CPU per request in a table of two: the load point's own, or speed if its own
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
        assert_eq!(forecast(1_001, 1.0), "too close to settle on this machine");
        assert_eq!(forecast(900, 1e6), "too close to settle on this machine");
    }
}
