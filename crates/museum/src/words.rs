//! Numbers as people read them.

use lab::stats::{Comparison, Interval};
use std::time::Duration;

/// What stands where there is no number.
pub const NONE: &str = "–";

/// Four digits that matter, thousands grouped: `0.999`, `98.9`, `84,937`; whole numbers as they
/// are.
pub fn number(value: f64) -> String {
    match value.abs() {
        it if it.fract() == 0.0 => grouped(value as i64),
        it if it < 10.0 => format!("{value:.3}"),
        it if it < 100.0 => format!("{value:.2}"),
        it if it < 1_000.0 => format!("{value:.1}"),
        _ => grouped(value.round() as i64),
    }
}

/// `-1,234,567`.
pub fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut out = if value < 0 { "-".to_string() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of clients and the like.
pub fn count(value: impl Into<u64>) -> String {
    grouped(i64::try_from(value.into()).unwrap_or(i64::MAX))
}

/// `1 client`, `1,000 clients`.
pub fn counted(number: u32, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// The same with a capital letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `10.013 s`.
pub fn seconds(value: f64) -> String {
    format!("{value:.3} s")
}

/// A span as one would say it: `100 ms`, `1.2 s`, `3 min`.
pub fn span(value: Duration) -> String {
    match value.as_secs_f64() {
        it if it < 0.001 => format!("{:.0} µs", it * 1e6),
        it if it < 1.0 => format!("{} ms", trimmed(it * 1e3)),
        it if it < 120.0 => format!("{} s", trimmed(it)),
        it => format!("{:.0} min", it / 60.0),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// `4.76 µs`, from nanoseconds.
pub fn micros(ns: f64) -> String {
    format!("{:.2} µs", ns / 1e3)
}

/// `2.4 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `4.12×`.
pub fn ratio(value: f64) -> String {
    format!("{value:.2}×")
}

/// `[4.01, 4.25]`.
pub fn interval(it: &Interval) -> String {
    format!("[{:.2}, {:.2}]", it.low, it.high)
}

/// `4.12× [4.01, 4.25]`; below six blocks it says that there is no interval.
pub fn compared(it: &Comparison) -> String {
    match &it.interval {
        Some(range) => format!("{} {}", ratio(it.ratio), interval(range)),
        None => format!("{} (no interval)", ratio(it.ratio)),
    }
}

/// A value by `words`, or a dash.
pub fn or_none(value: Option<f64>, words: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_string(), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        let check = |value: f64, want: &str| assert_eq!(number(value), want);
        check(0.999_454, "0.999");
        check(98.883, "98.88");
        check(417.554, "417.6");
        check(84_937.2, "84,937");
        check(371.0, "371");
        assert_eq!(grouped(-1_234_567), "-1,234,567");
    }

    #[test]
    fn spans_are_said_in_their_unit() {
        let check = |ms: u64, want: &str| assert_eq!(span(Duration::from_millis(ms)), want);
        check(100, "100 ms");
        check(1_000, "1 s");
        check(1_200, "1.2 s");
        check(180_000, "3 min");
        assert_eq!(span(Duration::from_micros(250)), "250 µs");
    }

    #[test]
    fn a_ratio_without_an_interval_says_so() {
        let found = lab::stats::compare(&[(2.0, 1.0); 6], 0, 0).expect("six pairs");
        assert_eq!(compared(&found), "2.00× [2.00, 2.00]");
        let found = lab::stats::compare(&[(2.0, 1.0)], 0, 0).expect("a pair");
        assert_eq!(compared(&found), "2.00× (no interval)");
    }
}
