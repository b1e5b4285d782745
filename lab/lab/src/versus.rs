//! The comparison of two runs: does the second confirm the first, and what changed?
//!
//! Two things are compared. An arm's ratio to the baseline was measured against the same
//! disturbances in each run, so it may be compared across days; *confirmed* and *contradicted*
//! refer to it (a claim needs at least two runs with the same sign). The baseline's own figures
//! include everything that changed in between, such as the machine, and are labelled so.

use crate::metric::Metric;
use crate::record::Run;
use crate::trial::Trial;
use crate::verdict::{ArmVerdict, Summary, analyse};
use serde::{Deserialize, Serialize};
use stats::{Decision, Interval, median};

/// The joint conclusion of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Versus {
    /// One for each load point, arm and metric that both runs have.
    pub rows: Vec<Row>,
    /// The differences between the runs, apart from the results.
    pub differences: Vec<String>,
    /// The result in one sentence.
    pub sentence: String,
}

/// One arm at one load point in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the load point.
    pub point: String,
    /// Name of the arm.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Whether it is the baseline; `change` is then of its own figures, the machine's changes
    /// included.
    pub baseline: bool,
    /// Ratio to the baseline in the first run; 1 for the baseline.
    pub before: f64,
    /// Its interval.
    pub before_interval: Option<Interval>,
    /// Ratio to the baseline in the second run.
    pub after: f64,
    /// Its interval.
    pub after_interval: Option<Interval>,
    /// The factor of change from the first to the second run.
    pub change: Option<f64>,
    /// The conclusion.
    pub agreement: Agreement,
}

/// The joint conclusion of two verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Both found the same difference.
    Confirmed,
    /// Both found it equivalent.
    BothEquivalent,
    /// They found opposite differences, so neither supports a claim.
    Contradicted,
    /// At least one of them was unresolved.
    Open,
    /// The baseline, which needs no confirmation.
    Baseline,
}

impl Agreement {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Agreement::Confirmed => "confirmed",
            Agreement::BothEquivalent => "equivalent in both",
            Agreement::Contradicted => "contradicted",
            Agreement::Open => "open",
            Agreement::Baseline => "baseline",
        }
    }
}

/// Compares `second` with `first`.
pub fn versus(first: &Run, second: &Run) -> Versus {
    let (before, after) = (analyse(first), analyse(second));
    let mut rows = Vec::new();
    for point in &before.points {
        let Some(then) = after.points.iter().find(|it| it.point == point.point) else { continue };
        for arm in point.arms.iter().filter(|arm| !arm.twin) {
            let Some(other) = then.arms.iter().find(|it| it.arm == arm.arm) else { continue };
            if arm.baseline && other.baseline {
                rows.extend(Metric::ALL.iter().filter_map(|&metric| {
                    own_change(first, second, &point.point, &arm.arm, metric)
                }));
            }
            rows.extend(arm.judged.iter().filter_map(|judged| {
                let later = other.judged(judged.metric)?;
                Some(ratio_change(&point.point, &arm.arm, judged, later))
            }));
        }
    }
    let sentence = sentence(&rows, &before, &after);
    Versus { rows, differences: differences(first, second), sentence }
}

/// The change of the ratio to the baseline.
fn ratio_change(point: &str, arm: &str, before: &ArmVerdict, after: &ArmVerdict) -> Row {
    Row {
        point: point.to_string(),
        arm: arm.to_string(),
        metric: before.metric,
        baseline: false,
        before: before.comparison.ratio,
        before_interval: before.comparison.interval,
        after: after.comparison.ratio,
        after_interval: after.comparison.interval,
        change: Some(after.comparison.ratio / before.comparison.ratio),
        agreement: agreement(before.decision, after.decision),
    }
}

fn agreement(before: Decision, after: Decision) -> Agreement {
    match (before, after) {
        (Decision::Better, Decision::Better) | (Decision::Worse, Decision::Worse) => {
            Agreement::Confirmed
        }
        (Decision::Better, Decision::Worse) | (Decision::Worse, Decision::Better) => {
            Agreement::Contradicted
        }
        (Decision::Equal, Decision::Equal) => Agreement::BothEquivalent,
        _ => Agreement::Open,
    }
}

/// The change of the baseline's own figures.
fn own_change(first: &Run, second: &Run, point: &str, arm: &str, metric: Metric) -> Option<Row> {
    let middle = |run: &Run| {
        let mine = |trial: &&Trial| trial.point == point && trial.arm == arm;
        let found = run.trials.iter().filter(mine).filter_map(|it| metric.in_trial(it));
        median(&found.filter(|value| *value > 0.0).collect::<Vec<f64>>())
    };
    let change = middle(second)? / middle(first)?;
    Some(Row {
        point: point.to_string(),
        arm: arm.to_string(),
        metric,
        baseline: true,
        before: 1.0,
        before_interval: None,
        after: 1.0,
        after_interval: None,
        change: Some(change),
        agreement: Agreement::Baseline,
    })
}

fn differences(first: &Run, second: &Run) -> Vec<String> {
    let (a, b) = (&first.manifest, &second.manifest);
    let mut found = Vec::new();
    let mut compare = |what: &str, a: &str, b: &str| {
        if a != b {
            found.push(format!("{what}: {a}, then {b}"));
        }
    };
    compare("plan", &a.plan_hash, &b.plan_hash);
    compare("program", &a.program, &b.program);
    compare("version", &a.version, &b.version);
    compare("processor", &a.host.machine.cpu, &b.host.machine.cpu);
    compare("kernel", &a.host.machine.kernel, &b.host.machine.kernel);
    compare("baseline", &a.plan.baseline, &b.plan.baseline);
    for program in &a.programs {
        if let Some(other) = b.programs.iter().find(|it| it.arm == program.arm) {
            compare(&format!("program of {}", program.arm), &program.hash, &other.hash);
        }
    }
    let setting = |run: &Run, name: &str| -> String {
        let settings = &run.manifest.host.settings;
        settings.iter().find(|it| it.0 == name).map_or("unknown", |it| it.1.as_str()).to_string()
    };
    for (name, value) in &a.host.settings {
        compare(name, value, &setting(second, name));
    }
    found
}

fn sentence(rows: &[Row], before: &Summary, after: &Summary) -> String {
    let broken = before.broken.len() + after.broken.len();
    if broken > 0 {
        return format!("{broken} servers gave wrong answers: nothing may be concluded.");
    }
    let led = |row: &&Row| {
        let lead = before.points.iter().find(|it| it.point == row.point).map(|it| it.lead);
        !row.baseline && (Some(row.metric) == lead || row.metric == Metric::Cpu)
    };
    let count =
        |wanted: Agreement| rows.iter().filter(led).filter(|row| row.agreement == wanted).count();
    let all = rows.iter().filter(led).count();
    if all == 0 {
        return "The runs have no arm at a load point in common except the baseline.".to_string();
    }
    format!(
        "Of {all} comparisons of speed and CPU, {} are confirmed, {} are equivalent in both runs, \
         {} contradict each other and {} are open.",
        count(Agreement::Confirmed),
        count(Agreement::BothEquivalent),
        count(Agreement::Contradicted),
        count(Agreement::Open)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{manifest, trial};

    fn run(speed: f64) -> Run {
        let mut run = Run { manifest: manifest(), ..Run::default() };
        run.manifest.plan.points.truncate(1);
        run.manifest.plan.arms.truncate(2);
        for block in 0..6 {
            let wobble = 1.0 + f64::from(block) / 1_000.0;
            run.trials.push(trial("epoll", block, 1_000.0));
            run.trials.push(trial("uring", block, 1_000.0 * speed * wobble));
            run.trials.push(trial("epoll (twin)", block, 1_001.0));
        }
        run
    }

    fn agreements(first: f64, second: f64) -> Agreement {
        let found = versus(&run(first), &run(second));
        let row = found.rows.iter().find(|row| row.arm == "uring").expect("both have it");
        assert_eq!(row.metric, Metric::Throughput);
        row.agreement
    }

    #[test]
    fn runs_confirm_or_contradict_each_other() {
        assert_eq!(agreements(1.2, 1.3), Agreement::Confirmed);
        assert_eq!(agreements(1.2, 0.8), Agreement::Contradicted);
        assert_eq!(agreements(1.0, 1.0), Agreement::BothEquivalent);
        assert_eq!(agreements(1.2, 1.0), Agreement::Open);
    }

    #[test]
    fn changes_have_factors_and_differences_names() {
        let mut second = run(1.5);
        second.manifest.plan_hash = "other".to_string();
        let found = versus(&run(1.2), &second);
        let row = found.rows.iter().find(|row| row.arm == "uring").expect("both have it");
        assert!(row.change.is_some_and(|it| (it - 1.25).abs() < 1e-9), "{row:?}");
        let base = found.rows.iter().find(|row| row.baseline).expect("the baseline has its rows");
        assert!(base.change.is_some_and(|it| (it - 1.0).abs() < 1e-9), "{base:?}");
        assert!(found.differences[0].starts_with("plan: "), "{:?}", found.differences);
        assert!(found.sentence.contains("2 are confirmed"), "{}", found.sentence);
    }
}
