//! The last lines of the log, dated in Locust's format.

use crate::crew::Level;
use std::collections::VecDeque;
use std::time::{Duration, UNIX_EPOCH};

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
    let since = Duration::from_millis((unix.max(0.0) * 1000.0) as u64);
    let date = humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string();
    date.replace('T', " ").replace('.', ",").replace('Z', "")
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
