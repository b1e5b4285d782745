//! Numbers as people read them; shared by the page and the terminal.

use lab::plan::Plan;
use lab::stats::Interval;
use lab::verdict::{FORECAST_MAX, Judged, Metric, Verdict};

/// What stands where there is no number.
pub const NONE: &str = "–";
/// What is said beside a comparison that the plan did not promise to make.
pub const UNREGISTERED: &str = "not pre-registered";

/// A whole number with thin groups: `123,456`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value <= -0.5 { format!("-{out}") } else { out }
}

/// A time: `950 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns:.0} ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.places$} {unit}")
}

/// A size: `340 B`, `512 kB`, `3.4 MB`.
pub fn size(kb: f64) -> String {
    match kb {
        kb if kb < 1.0 => format!("{:.0} B", kb * 1e3),
        kb if kb < 10.0 => format!("{kb:.1} kB"),
        kb if kb < 1_000.0 => format!("{kb:.0} kB"),
        kb => format!("{:.1} MB", kb / 1_000.0),
    }
}

/// A small count per request: `0.001`, `0.25`, `3.1`.
pub fn rate(value: f64) -> String {
    match value {
        v if v > 0.0 && v < 0.0005 => "< 0.001".to_string(),
        v if v < 0.1 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// A share as a percentage: `3 %`, `0.5 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let whole = percent >= 9.95 || (percent - percent.round()).abs() < 0.005;
    if whole { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A number of things: `1 request`, `64 requests`.
pub fn counted(number: u64, thing: &str) -> String {
    let digits = grouped(number as f64);
    if number == 1 { format!("{digits} {thing}") } else { format!("{digits} {thing}s") }
}

/// A ratio: `1.27x`, with a proper sign.
pub fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}×") } else { format!("{value:.1}×") }
}

/// An interval of ratios: `[1.21, 1.34]`.
pub fn interval(it: &Interval) -> String {
    format!("[{:.2}, {:.2}]", it.low, it.high)
}

/// A ratio with its interval, and whether it is only a bound.
pub fn ratio_with_interval(judged: &Judged) -> String {
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

/// The verdict's word, with the forecast where nothing could be concluded.
pub fn verdict(judged: &Judged) -> String {
    let word = judged.verdict.word(judged.metric);
    match (judged.verdict, judged.forecast) {
        (Verdict::Unresolved, Some(blocks)) if blocks > FORECAST_MAX => word.to_string(),
        (Verdict::Unresolved, Some(blocks)) => format!("{word}: ~{blocks} blocks"),
        _ => word.to_string(),
    }
}

/// How much more work would settle it.
pub fn forecast(blocks: u32) -> String {
    match blocks > FORECAST_MAX {
        true => format!("more than {} blocks would be needed", grouped(f64::from(FORECAST_MAX))),
        false => format!("about {blocks} blocks would settle it"),
    }
}

/// The metric beside CPU per request in a table of two: the load point's own, or speed where the
/// load point asks about CPU alone.
pub fn first(lead: Metric) -> Metric {
    if lead == Metric::Cpu { Metric::Throughput } else { lead }
}

/// Whether a load point stands for itself and not for a place on a curve.
pub(crate) fn is_alone(plan: &Plan, point: &str) -> bool {
    plan.points.iter().any(|it| it.name == point && it.series.is_empty())
}

/// A value by `words`, or a dash.
pub fn or_none(value: Option<f64>, words: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_string(), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        fn check(found: String, want: &str) {
            assert_eq!(found, want);
        }
        check(grouped(1_234_567.4), "1,234,567");
        check(grouped(-1_000.0), "-1,000");
        check(grouped(999.0), "999");
        check(grouped(0.2), "0");
        check(time(950.0), "950 ns");
        check(time(4_560.0), "4.56 µs");
        check(time(12_340.0), "12.3 µs");
        check(time(123_400.0), "123 µs");
        check(time(1.2e9), "1.20 s");
        check(size(0.34), "340 B");
        check(size(4.0), "4.0 kB");
        check(size(512.0), "512 kB");
        check(size(3_400.0), "3.4 MB");
        check(rate(0.0012), "0.001");
        check(rate(12.34), "12.3");
        check(rate(0.0001), "< 0.001");
        check(percent(0.03), "3 %");
        check(percent(0.005), "0.5 %");
        check(percent(0.1234), "12 %");
        check(counted(1, "request"), "1 request");
        check(counted(1_024, "request"), "1,024 requests");
        check(ratio(1.274), "1.27×");
        check(ratio(12.74), "12.7×");
        check(interval(&Interval { low: 1.2, high: 1.344, cover: 0.969 }), "[1.20, 1.34]");
        check(or_none(None, time), "–");
        check(forecast(24), "about 24 blocks would settle it");
        check(forecast(1_001), "more than 1,000 blocks would be needed");
    }
}
