//! Servers that take turns under one generator process.

use crate::far::Far;
use crate::load::Load;
use crate::trial::generate;
use serde::Deserialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The schema of the generator's report.
const SCHEMA: &str = "roundhouse.turns/1";
/// The time that the generator may take beyond its windows.
const SLACK: Duration = Duration::from_secs(20);
/// The longest warm-up of a server that grows cheaper, with the part that ends it (milliseconds).
const WARM_MAX_MS: u64 = 13_000;

/// One call of the generator.
pub(crate) struct Turns<'a> {
    /// The program that offers `load`.
    pub exe: &'a Path,
    /// The generator on another machine, if there is one.
    pub far: Option<&'a Far>,
    /// An existing directory for its files.
    pub dir: &'a Path,
    /// Windows on each server.
    pub windows: u32,
    /// Length of one window, milliseconds.
    pub window_ms: u64,
    /// Load on each server before its first window, milliseconds.
    pub warmup_ms: u64,
    /// The seed of the order.
    pub seed: u64,
    /// The generator's processor, if any.
    pub cpu: Option<usize>,
}

/// One server's report.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    /// The sums of its windows.
    pub load: Load,
    /// The 99th percentile of the service time (ns), however few requests support it.
    pub p99_ns: Option<u64>,
    /// How long it was warmed up, milliseconds.
    pub warmed_ms: u64,
}

impl Turns<'_> {
    /// Runs the generator with the arguments of one run for each server: the report of each, or
    /// the reason why there is none. `None` if `stop` became true; the error is why nothing was
    /// reported.
    pub(crate) fn take(
        &self,
        runs: &[Vec<String>],
        stop: &AtomicBool,
    ) -> Option<Result<Vec<Result<Played, String>>, String>> {
        let file = self.dir.join("turns.json");
        let written = serde_json::to_vec(runs)
            .map_err(|why| why.to_string())
            .and_then(|json| std::fs::write(&file, json).map_err(|why| why.to_string()));
        if let Err(why) = written {
            return Some(Err(format!("cannot write {}: {why}", file.display())));
        }
        let mut words = vec![self.exe.display().to_string(), "load".to_string()];
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        flag("--turns", file.display().to_string());
        flag("--windows", self.windows.to_string());
        flag("--window", format!("{}ms", self.window_ms));
        flag("--seed", self.seed.to_string());
        if let Some(cpu) = self.cpu {
            flag("--cpu", cpu.to_string());
        }
        words.push("--json".to_string());
        let each = self.warmup_ms + u64::from(self.windows) * self.window_ms;
        // A server that grows cheaper is warmed up for twice that at most, and drained.
        let longest = Duration::from_millis(runs.len() as u64 * (4 * each + WARM_MAX_MS)) + SLACK;
        generate(self.far, &words, self.dir, longest, stop, |text| parsed(text, runs.len()))
    }
}

/// The part of the generator's report that the laboratory reads.
#[derive(Deserialize)]
struct Report {
    schema: String,
    turns: Vec<Turn>,
}

/// One server of it.
#[derive(Deserialize)]
struct Turn {
    report: Option<serde_json::Value>,
    #[serde(default)]
    p99_ns: u64,
    #[serde(default)]
    warmed_ns: u64,
    failure: Option<String>,
}

impl Turn {
    fn played(self) -> Result<Played, String> {
        let p99_ns = Some(self.p99_ns).filter(|ns| *ns > 0);
        match (self.report, self.failure) {
            (Some(report), _) => {
                let warmed_ms = self.warmed_ns / 1_000_000;
                Load::parse(&report.to_string()).map(|load| Played { load, p99_ns, warmed_ms })
            }
            (None, why) => Err(why.unwrap_or_else(|| "no report and no reason".to_string())),
        }
    }
}

fn parsed(text: &str, wanted: usize) -> Result<Vec<Result<Played, String>>, String> {
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    let line = line.ok_or("expected a line of JSON from the generator, found none")?;
    let report: Report = serde_json::from_str(line)
        .map_err(|why| format!("the generator's report cannot be read: {why}"))?;
    if report.schema != SCHEMA {
        return Err(format!("expected schema `{SCHEMA}`, found `{}`", report.schema));
    }
    if report.turns.len() != wanted {
        return Err(format!("expected {wanted} servers, found {}", report.turns.len()));
    }
    Ok(report.turns.into_iter().map(Turn::played).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_report_or_a_reason() {
        let load = "{\"schema\":\"roundhouse.load/1\",\"requests\":10,\"throughput_rps\":5.5,\
            \"service\":{\"count\":10}}";
        let text = |schema: &str| {
            format!(
                "a doubt\n{{\"schema\":\"{schema}\",\"turns\":[{{\"report\":{load},\
                 \"p99_ns\":7}},{{\"report\":null,\"failure\":\"it stalls\"}}]}}\n"
            )
        };
        let found = parsed(&text(SCHEMA), 2).expect("well formed");
        assert_eq!(
            found[0].as_ref().ok().map(|it| (it.load.requests, it.p99_ns)),
            Some((10, Some(7)))
        );
        assert_eq!(found[1].as_ref().err().map(String::as_str), Some("it stalls"));
        let refused = |text: &str, wanted| parsed(text, wanted).expect_err("it is refused");
        assert!(refused(&text("x/1"), 2).contains("expected schema"));
        assert!(refused(&text(SCHEMA), 3).contains("expected 3 servers"));
        assert!(refused("nothing", 1).contains("expected a line of JSON"));
    }
}
