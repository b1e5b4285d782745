//! The last lines of the log, dated in Locust's format.

use crate::crew::Level;
use std::collections::VecDeque;

/// The number of lines that are kept. Each log message carries all of them, because it replaces the
/// previous one.
const LINES_MAX: usize = 100;

/// The last lines.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
    fresh: bool,
}

impl Log {
    /// Adds a line of the worker `name` at the Unix time `unix` (s); returns it as shown.
    pub(super) fn push(&mut self, name: &str, level: Level, line: &str, unix: f64) -> String {
        let level = match level {
            Level::Info => "INFO",
            Level::Warning => "WARNING",
        };
        let line = format!("[{}] {name}/{level}/roundhouse: {line}", date(unix));
        self.lines.push_back(line.clone());
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
        self.fresh = true;
        line
    }

    /// All lines, if one was added since the last call.
    pub(super) fn news(&mut self) -> Option<Vec<String>> {
        std::mem::take(&mut self.fresh).then(|| self.lines.iter().cloned().collect())
    }
}

/// A Unix time (s) as `2026-11-21 23:36:39,123` in UTC.
fn date(unix: f64) -> String {
    let ms = (unix.max(0.0) * 1000.0) as u64;
    let (days, second) = (ms / 86_400_000, ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, rest) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{rest:02},{:03}", ms % 1000)
}

/// The date of a day since 1970-01-01. Years are counted from March, so that the leap day is the
/// last of its year, and in eras of 400 years of 146,097 days (H. Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |unix: f64, text: &str| assert_eq!(date(unix), text);
        check(0.0, "1970-01-01 00:00:00,000");
        check(951_782_400.5, "2000-02-29 00:00:00,500");
        check(1_709_251_199.0, "2024-02-29 23:59:59,000");
        check(1_709_251_200.0, "2024-03-01 00:00:00,000");
        check(4_102_444_800.0, "2100-01-01 00:00:00,000");
    }

    #[test]
    fn only_the_last_lines_are_kept_and_told_once() {
        let mut log = Log::default();
        assert_eq!(log.news(), None);
        for at in 0..250 {
            log.push("w", Level::Info, &format!("line {at}"), 0.0);
        }
        let lines = log.news().expect("something was added");
        assert_eq!(lines.len(), LINES_MAX);
        assert!(lines[0].ends_with("w/INFO/roundhouse: line 150"), "{}", lines[0]);
        assert_eq!(log.news(), None);
    }
}
