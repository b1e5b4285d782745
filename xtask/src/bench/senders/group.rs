//! The arms of a group, and their results block by block.

use super::super::goals::Values;
use super::rows::Group;
use anyhow::{Context, ensure};
use serde_json::Value;
use stats::words::short;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The finished programs.
pub struct Tools {
    pub roundhouse: PathBuf,
    /// The bare loops, if they could be built.
    pub bare: Option<PathBuf>,
}

/// One way to send in one rank, ours or bare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The name in rows.
    pub label: String,
    pub sender: String,
    pub is_bare: bool,
    /// Flags of its rank.
    pub rank: &'static str,
}

impl Arm {
    pub fn ours(sender: &str) -> Arm {
        let label = sender.to_owned();
        Arm { label: label.clone(), sender: label, is_bare: false, rank: "" }
    }

    pub fn bare(sender: &str) -> Arm {
        Arm { label: format!("bare {sender}"), is_bare: true, ..Arm::ours(sender) }
    }

    pub fn ranked(sender: &str, name: &str, rank: &'static str) -> Arm {
        Arm { label: format!("{sender}, {name}"), rank, ..Arm::ours(sender) }
    }
}

impl Tools {
    /// The senders that work here, and a doubt for each one that does not.
    ///
    /// # Errors
    /// If the table is not available.
    pub fn senders(&self) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let output = Command::new(&self.roundhouse).args(["senders", "--json"]).output()?;
        let table: Value = serde_json::from_slice(&output.stdout).context("a table in JSON")?;
        let rows = table["senders"].as_array().context("a list of senders")?;
        let (mut senders, mut doubts) = (Vec::new(), Vec::new());
        for row in rows {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            match row["missing"].as_str() {
                Some(why) => doubts.push(format!("`{name}` does not work here: {why}")),
                None => senders.push(name),
            }
        }
        Ok((senders, doubts))
    }

    /// One run of an arm.
    fn cast(&self, group: &Group, arm: &Arm) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.roundhouse);
        command.args(["senders", "cast", &arm.sender, "--json"]);
        command.args(group.flags.split_whitespace()).args(arm.rank.split_whitespace());
        if group.soaks(arm) {
            command.arg("--soak");
        }
        if let Some(bare) = self.bare.as_ref().filter(|_| arm.is_bare) {
            command.arg("--peer").arg(bare);
        }
        let output = command.stdin(Stdio::null()).output().context("start `roundhouse`")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", said.trim().trim_start_matches("Error: "));
        serde_json::from_slice(&output.stdout).context("a reading in JSON")
    }
}

/// The outcome of a group's arms.
#[derive(Default)]
pub struct Taken {
    /// By label, a reading for each block.
    readings: BTreeMap<String, Vec<Value>>,
    /// By label, why there are none.
    missing: BTreeMap<String, String>,
    /// The labels in the order of the registry.
    pub labels: Vec<String>,
}

impl Taken {
    /// Runs every arm once in each block. One that fails is left out from then on.
    pub fn blocks(tools: &Tools, group: &Group, arms: &[Arm], blocks: usize) -> Taken {
        let labels = arms.iter().map(|arm| arm.label.clone()).collect();
        let mut taken = Taken { labels, ..Taken::default() };
        for block in 0..blocks {
            for at in stats::Rng::new(block as u64).order(arms.len()) {
                let arm = &arms[at];
                if taken.missing.contains_key(&arm.label) {
                    continue;
                }
                match tools.cast(group, arm) {
                    Ok(reading) => {
                        taken.readings.entry(arm.label.clone()).or_default().push(reading);
                    }
                    Err(why) => {
                        eprintln!("   {}: {why:#}", arm.label);
                        taken.missing.insert(arm.label.clone(), format!("{why:#}"));
                    }
                }
            }
        }
        taken
    }

    fn of(&self, label: &str) -> Result<&[Value], String> {
        if let Some(why) = self.missing.get(label) {
            return Err(format!("{label}: {why}"));
        }
        let none = || format!("there is no `{label}` here");
        self.readings.get(label).map(Vec::as_slice).ok_or_else(none)
    }

    /// One value of one arm for each block.
    pub fn values(&self, label: &str, metric: Metric) -> Result<Values, String> {
        let blocks: Option<Vec<f64>> = self.of(label)?.iter().map(|it| (metric.of)(it)).collect();
        let blocks = blocks.ok_or_else(|| format!("{label} does not tell its {}", metric.name))?;
        Ok(Values { blocks, from: String::new() })
    }

    /// Left divided by right, block by block.
    pub fn ratio(&self, left: &str, right: &str, metric: Metric) -> Result<Values, String> {
        let (above, below) = (self.values(left, metric)?, self.values(right, metric)?);
        // Differences below a nanosecond are meaningless.
        let each = above.blocks.iter().zip(&below.blocks);
        let blocks = each.map(|(left, right)| left.max(1.0) / right.max(1.0)).collect();
        let [left, right] = [above, below].map(|it| short(it.middle() / metric.unit));
        Ok(Values { blocks, from: format!("{left} / {right} {}", metric.unit_name) })
    }
}

/// The quantity that is read from a run.
#[derive(Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub of: fn(&Value) -> Option<f64>,
    /// The number of the value's nanoseconds in one `unit_name`.
    pub unit: f64,
    pub unit_name: &'static str,
}

/// CPU of a packet, nanoseconds, of the sender's process.
pub const COST: Metric = Metric {
    name: "CPU a packet",
    of: |it| Some(it["cpu_ns"].as_f64()? / it["sent"].as_f64()?.max(1.0)),
    unit: 1e3,
    unit_name: "us",
};

/// The same for the whole core; a core that is not quiet gives no such figure.
pub const CORE: Metric =
    Metric { name: "core a packet (soak)", of: |it| it["soak_ns"].as_f64(), ..COST };

/// The 99.9th percentile of lateness, nanoseconds.
pub const LATE: Metric = Metric {
    name: "p99.9 of lateness",
    of: |it| it["late"]["p999_ns"].as_f64(),
    unit: 1e6,
    unit_name: "ms",
};

/// The 99th.
pub const LATE_P99: Metric =
    Metric { name: "p99 of lateness", of: |it| it["late"]["p99_ns"].as_f64(), ..LATE };

/// The drift in 30 s, nanoseconds without its sign.
pub const DRIFT: Metric =
    Metric { name: "drift", of: |it| it["late"]["drift_ns"].as_f64().map(f64::abs), ..LATE };

/// Sending calls.
pub const CALLS: Metric =
    Metric { name: "calls", of: |it| it["calls"].as_f64(), unit: 1.0, unit_name: "" };

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_are_of_one_block_and_what_is_missing_says_why() {
        let reading = |cpu: u64| json!({"cpu_ns": cpu, "sent": 10, "soak_ns": null});
        let mut taken = Taken::default();
        taken.readings.insert("a".into(), vec![reading(40_000), reading(80_000)]);
        taken.readings.insert("b".into(), vec![reading(20_000), reading(20_000)]);
        taken.missing.insert("c".into(), "no root".into());
        let found = taken.ratio("a", "b", COST).unwrap();
        assert_eq!((found.blocks, found.from.as_str()), (vec![2.0, 4.0], "6.00 / 2.00 us"));
        assert_eq!(taken.ratio("a", "c", COST), Err("c: no root".to_owned()));
        assert!(taken.ratio("d", "a", COST).unwrap_err().contains("`d`"));
        assert!(taken.values("a", LATE).unwrap_err().contains("p99.9"));
    }
}
