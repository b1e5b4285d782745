//! Where the time of a CI run went: printed as a table, and kept as `target/ci-times.json`.

use crate::steps;
use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Suites that took less than this are summed up in one row.
const SHORT: f64 = 2.0;

/// The times of one run.
#[derive(Debug, Default)]
pub struct Times {
    /// Each step, in order: its name and its seconds.
    pub steps: Vec<(&'static str, f64)>,
    /// Each test suite, in order.
    pub suites: Vec<Suite>,
}

/// The time of one test suite.
#[derive(Clone, Debug, Serialize)]
pub struct Suite {
    /// `package::target`.
    pub name: String,
    /// From its start to its end, second tries too.
    pub seconds: f64,
    /// The number of passed tests.
    pub tests: u64,
}

impl Times {
    /// The table, the longest suite first.
    pub fn table(&self) -> String {
        let row = |name: &str, seconds: f64, tests: &str| {
            let time = steps::elapsed(Duration::from_secs_f64(seconds));
            format!("  {name:<28} {time:>12} {tests:>7}\n")
        };
        let mut text = format!("  {:<28} {:>12} {:>7}\n", "step or suite", "time", "tests");
        for (name, seconds) in &self.steps {
            text += &row(name, *seconds, "");
        }
        let mut suites: Vec<&Suite> = self.suites.iter().collect();
        suites.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let (long, short): (Vec<&Suite>, Vec<&Suite>) =
            suites.into_iter().partition(|it| it.seconds >= SHORT);
        for suite in long {
            text += &row(&suite.name, suite.seconds, &suite.tests.to_string());
        }
        if !short.is_empty() {
            let sum = |of: fn(&&Suite) -> f64| short.iter().map(of).sum::<f64>();
            let tests = sum(|it| it.tests as f64).to_string();
            text += &row(&format!("{} shorter suites", short.len()), sum(|it| it.seconds), &tests);
        }
        text
    }

    /// Writes them below `target`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, target: &Path) -> anyhow::Result<PathBuf> {
        let steps = self.steps.iter();
        let document = json!({
            "schema": "roundhouse.ci-times/1",
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "steps": steps.map(|(name, seconds)| json!({ "name": name, "seconds": seconds }))
                .collect::<Vec<_>>(),
            "suites": self.suites,
        });
        let path = target.join("ci-times.json");
        std::fs::write(&path, format!("{document:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        let suite = |name: &str, seconds, tests| Suite { name: name.into(), seconds, tests };
        let suites = vec![suite("a::a", 0.5, 3), suite("b::b", 1.0, 4), suite("c::c", 90.0, 5)];
        Times { steps: vec![("test", 92.0)], suites }
    }

    #[test]
    fn the_longest_suite_comes_first_and_short_ones_are_one_row() {
        let table = times().table();
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["test", "1", "min", "32", "s"]);
        assert_eq!(rows[2], ["c::c", "1", "min", "30", "s", "5"]);
        assert_eq!(rows[3], ["2", "shorter", "suites", "1.5", "s", "7"]);
    }

    #[test]
    fn they_are_kept_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = times().keep(folder.path()).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(kept["suites"][2]["tests"], 5);
        assert_eq!(kept["steps"][0]["name"], "test");
    }
}
