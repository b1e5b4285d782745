//! Numbers in readable form: one form for terminals, pages and reports.
//!
//! Every program that prints a measurement calls these functions, so that a number looks the same
//! wherever it appears and two reports can be compared by eye. A function takes one unit, which its
//! documentation names (nanoseconds, kilobytes, a share from 0 to 1), and chooses digits and prefix
//! by size. The one subtle case is the end of an interval: it gets as many digits as it needs to
//! differ from 1, because a reader decides by that whether the interval contains 1.

use crate::{Comparison, Interval};
use std::time::Duration;

/// The sign that stands for a missing number.
pub const NONE: &str = "–";

/// The name that is at most two typing errors from `name`, the nearest of `all`.
pub fn nearest<'a>(name: &str, all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
    all.into_iter().min_by_key(distance).filter(|known| distance(known) <= 2)
}

/// At most `most` bytes of a peer's as text for a message: letters of every alphabet as they are,
/// controls and what is not UTF-8 with escapes of ASCII.
pub fn visible(bytes: &[u8], most: usize) -> String {
    let is_start = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let cut = bytes.len().min(most);
    let cut = (cut.saturating_sub(3)..=cut).rev().find(is_start).unwrap_or(cut);
    let mut out = String::new();
    for chunk in bytes[..cut].utf8_chunks() {
        for letter in chunk.valid().chars() {
            match u8::try_from(letter) {
                Ok(byte) if byte.is_ascii() => out.extend(byte.escape_ascii().map(char::from)),
                _ if letter.is_control() => out.extend(letter.escape_default()),
                _ => out.push(letter),
            }
        }
        out.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    out
}

/// The columns of `text` on a terminal: a letter of Hangul takes two.
pub fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// `text` with each line broken at blanks to at most `width` columns; what follows a break is
/// indented by `indent`. A longer word stands alone; a percent sign stays with its number.
pub fn folded(text: &str, width: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut now = String::new();
        // A word keeps the blanks after it, so those inside a line stay as they are.
        let mut words: Vec<String> = Vec::new();
        for word in line.split_inclusive(' ') {
            match words.last_mut() {
                Some(number) if word.starts_with('%') => number.push_str(word),
                _ => words.push(word.to_owned()),
            }
        }
        for word in words {
            let wide = columns(&now) + columns(word.trim_end());
            if wide > width && !now.trim().is_empty() {
                lines.push(now.trim_end().to_string());
                now = " ".repeat(indent);
            }
            now.push_str(&word);
        }
        lines.push(now.trim_end().to_string());
    }
    lines.join("\n")
}

/// A whole number with its thousands grouped: `-1,234,567`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let sign = if value < 0.0 && digits != "0" { "-" } else { "" };
    let mut out = sign.to_string();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Four significant digits, thousands grouped: `0.999`, `98.88`, `84,937`; whole numbers in full.
pub fn number(value: f64) -> String {
    match value.abs() {
        it if it.fract() == 0.0 => grouped(value),
        it if it < 10.0 => format!("{value:.3}"),
        it if it < 100.0 => format!("{value:.2}"),
        it if it < 1_000.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// Three significant digits: `0.123`, `1.23`, `12.3`, `123`.
pub fn short(value: f64) -> String {
    match value.abs() {
        it if it < 1.0 => format!("{value:.3}"),
        it if it < 10.0 => format!("{value:.2}"),
        it if it < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A count with a metric prefix from ten thousand on: `9999`, `12.3k`, `4.56M`.
pub fn compact(value: f64) -> String {
    match value {
        it if it < 1e4 => format!("{it:.0}"),
        it if it < 1e6 => format!("{}k", short(it / 1e3)),
        it if it < 1e9 => format!("{}M", short(it / 1e6)),
        it => format!("{}G", short(it / 1e9)),
    }
}

/// A whole number: `1,024`.
pub fn count(value: impl Into<u64>) -> String {
    grouped(value.into() as f64)
}

/// A number of things: `1 request`, `1,024 requests`.
pub fn counted(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// The same text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `a`, `a and b`, `a, b and c`, or with another last `word`.
pub fn listed(items: &[&str], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_string(),
        [some @ .., last] => format!("{} {word} {last}", some.join(", ")),
    }
}

/// A measured time in nanoseconds: `950 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        it if it < 1e3 => return format!("{ns:.0} ns"),
        it if it < 1e6 => (ns / 1e3, "µs"),
        it if it < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", short(value))
}

/// A chosen time or an age in its usual words: `250 µs`, `100 ms`, `1.2 s`, `3 min`, `5 h`, `9 d`.
pub fn span(value: Duration) -> String {
    match value.as_secs_f64() {
        it if it < 0.001 => format!("{:.0} µs", it * 1e6),
        it if it < 1.0 => format!("{} ms", tenths(it * 1e3)),
        it if it < 120.0 => format!("{} s", tenths(it)),
        it if it < 7_200.0 => format!("{:.0} min", it / 60.0),
        it if it < 172_800.0 => format!("{:.0} h", it / 3_600.0),
        it => format!("{:.0} d", it / 86_400.0),
    }
}

fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// Seconds in a column: `10.013 s`.
pub fn seconds(value: f64) -> String {
    format!("{value:.3} s")
}

/// Microseconds in a column, from nanoseconds: `4.76 µs`.
pub fn micros(ns: f64) -> String {
    format!("{:.2} µs", ns / 1e3)
}

/// A size from kilobytes: `340 B`, `4.0 kB`, `512 kB`, `3.4 MB`, `24.7 GB`.
pub fn size(kb: f64) -> String {
    match kb {
        it if it < 1.0 => format!("{:.0} B", it * 1e3),
        it if it < 10.0 => format!("{it:.1} kB"),
        it if it < 1e3 => format!("{it:.0} kB"),
        it if it < 999_950.0 => format!("{:.1} MB", it / 1e3),
        it => format!("{:.1} GB", it / 1e6),
    }
}

/// A small number per request: `0.001`, `0.25`, `3.1`.
pub fn rate(value: f64) -> String {
    match value {
        it if it > 0.0 && it < 0.0005 => "< 0.001".to_string(),
        it if it < 0.1 => format!("{it:.3}"),
        it if it < 10.0 => format!("{it:.2}"),
        it => format!("{it:.1}"),
    }
}

/// A share as a percentage: `0.5 %`, `3 %`, `12 %`, `99.9 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let whole = (9.95..99.05).contains(&percent.abs()) || (percent - percent.round()).abs() < 0.005;
    if whole { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A ratio: `1.27×`, `12.7×`.
pub fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}×") } else { format!("{value:.1}×") }
}

/// An interval of ratios: `[1.21, 1.34]`. An end next to 1 has as many digits as tell it from 1, so
/// that the text excludes 1 where the interval does.
pub fn interval(it: &Interval) -> String {
    format!("[{}, {}]", end(it.low), end(it.high))
}

/// One end of an interval of ratios.
pub fn end(ratio: f64) -> String {
    let distance = (ratio - 1.0).abs();
    match distance {
        it if !(5e-5..0.005).contains(&it) => format!("{ratio:.2}"),
        it if it >= 0.0005 => format!("{ratio:.3}"),
        _ => format!("{ratio:.4}"),
    }
}

/// `4.12× [4.01, 4.25]`; below six blocks it says that there is no interval.
pub fn compared(it: &Comparison) -> String {
    match &it.interval {
        Some(range) => format!("{} {}", ratio(it.ratio), interval(range)),
        None => format!("{} (no interval)", ratio(it.ratio)),
    }
}

/// A value in the words of `form`, or a dash.
pub fn or_none(value: Option<f64>, form: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_string(), form)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: String, want: &str) {
        assert_eq!(found, want);
    }

    #[test]
    fn letters_of_every_alphabet_are_shown() {
        check(visible("한글\tä".as_bytes(), 99), "한글\\tä");
        check(visible("한글".as_bytes(), 5), "한");
        check(visible(b"\x00\xff\x1b'", 9), r"\x00\xff\x1b\'");
        check(visible("\u{9b}1m".as_bytes(), 9), r"\u{9b}1m");
    }

    #[test]
    fn lines_are_folded_by_columns() {
        check(folded("한글 가나다 라", 9, 2), "한글\n  가나다\n  라");
        check(folded("costs 6.08 % more", 10, 2), "costs\n  6.08 %\n  more");
        assert_eq!(columns("한글 a"), 6);
    }

    #[test]
    fn long_lines_are_broken_and_indented() {
        let text = "name   one two three\nshort\n\nunbreakable-word x";
        let want = "name   one\n  two three\nshort\n\nunbreakable-word\n  x";
        assert_eq!(folded(text, 11, 2), want);
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        check(grouped(1_234_567.4), "1,234,567");
        check(grouped(-1_234_567.0), "-1,234,567");
        check(grouped(-0.2), "0");
        check(grouped(999.0), "999");
        check(number(0.999_454), "0.999");
        check(number(98.883), "98.88");
        check(number(417.554), "417.6");
        check(number(84_937.2), "84,937");
        check(number(371.0), "371");
        check(short(0.1234), "0.123");
        check(short(12.34), "12.3");
        check(compact(9_999.0), "9999");
        check(compact(12_345.0), "12.3k");
        check(compact(4_560_000.0), "4.56M");
        check(counted(1_u32, "request"), "1 request");
        check(counted(1_024_u32, "request"), "1,024 requests");
        check(capital("blocks"), "Blocks");
        check(listed(&["a"], "or"), "a");
        check(listed(&["a", "b"], "or"), "a or b");
        check(listed(&["a", "b", "c"], "and"), "a, b and c");
        check(or_none(None, time), "–");
    }

    #[test]
    fn times_and_sizes_choose_their_unit() {
        check(time(950.0), "950 ns");
        check(time(4_560.0), "4.56 µs");
        check(time(12_340.0), "12.3 µs");
        check(time(123_400.0), "123 µs");
        check(time(1.2e9), "1.20 s");
        check(span(Duration::from_millis(100)), "100 ms");
        check(span(Duration::from_secs(1)), "1 s");
        check(span(Duration::from_millis(1_200)), "1.2 s");
        check(span(Duration::from_secs(180)), "3 min");
        check(span(Duration::from_hours(5)), "5 h");
        check(span(Duration::from_hours(216)), "9 d");
        check(span(Duration::from_micros(250)), "250 µs");
        check(size(0.34), "340 B");
        check(size(4.0), "4.0 kB");
        check(size(512.0), "512 kB");
        check(size(3_400.0), "3.4 MB");
        check(size(24_684_100.0), "24.7 GB");
    }

    #[test]
    fn shares_and_ratios() {
        check(rate(0.0012), "0.001");
        check(rate(12.34), "12.3");
        check(rate(0.0001), "< 0.001");
        check(percent(0.03), "3 %");
        check(percent(0.005), "0.5 %");
        check(percent(0.1234), "12 %");
        check(percent(0.9994), "99.9 %");
        check(percent(1.0), "100 %");
        check(ratio(1.274), "1.27×");
        check(ratio(12.74), "12.7×");
        check(interval(&Interval { low: 1.2, high: 1.344, cover: 0.969 }), "[1.20, 1.34]");
        let found = crate::compare(&[(2.0, 1.0); 6]).expect("six pairs");
        check(compared(&found), "2.00× [2.00, 2.00]");
        let found = crate::compare(&[(2.0, 1.0)]).expect("a pair");
        check(compared(&found), "2.00× (no interval)");
    }
}
