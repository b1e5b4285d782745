//! JUnit XML: model checks and conditions as tests that pass or fail, comparisons as tests that
//! report.
//!
//! A comparison never fails a build by itself: *slower* is a finding, and only `--fail-if` says
//! which findings are failures. An unresolved comparison counts as skipped, JUnit's only third
//! result.

use crate::words;
use lab::condition::Condition;
use lab::record::Run;
use lab::verdict::{ArmVerdict, Summary};
use stats::Decision;
use std::fmt::Write;

pub(crate) enum Outcome {
    Passed(String),
    Skipped(String),
    Failed(String),
}

pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// The run as one test suite.
pub fn junit(run: &Run, summary: &Summary, conditions: &[Condition]) -> String {
    let mut cases = vec![checks(summary)];
    for point in &summary.points {
        for arm in point.arms.iter().filter(|arm| !arm.twin && !arm.baseline) {
            let class = format!("{}.{}", point.point, arm.arm);
            if let Some(why) = &arm.absent {
                let (name, outcome) = ("measured".to_string(), Outcome::Skipped(why.clone()));
                cases.push(Case { class: class.clone(), name, outcome });
            }
            cases.extend(arm.judged.iter().filter(|it| it.registered).map(|judged| Case {
                class: class.clone(),
                name: judged.metric.name().to_string(),
                outcome: told(judged),
            }));
        }
    }
    for condition in conditions {
        cases.extend(asked(run, condition));
    }
    suite(&run.manifest.plan.question, &run.manifest.date, &cases)
}

fn checks(summary: &Summary) -> Case {
    let outcome = match summary.broken.is_empty() {
        true => Outcome::Passed("every reply was right".to_string()),
        false => Outcome::Failed(summary.broken.join("\n")),
    };
    Case { class: "race".to_string(), name: "replies".to_string(), outcome }
}

fn told(judged: &ArmVerdict) -> Outcome {
    let text = format!("{}: {}", words::verdict(judged), words::ratio_with_interval(judged));
    match judged.forecast {
        Some(_) => Outcome::Skipped(text),
        None => Outcome::Passed(text),
    }
}

fn asked(run: &Run, condition: &Condition) -> Vec<Case> {
    let name = format!("not ({})", condition.text);
    match condition.ask(run) {
        Err(why) => {
            vec![Case { class: "condition".to_string(), name, outcome: Outcome::Failed(why) }]
        }
        Ok(findings) => findings
            .into_iter()
            .map(|finding| Case {
                class: format!("condition.{}", finding.point),
                name: name.clone(),
                outcome: match finding.decision {
                    // As the exit code has it: a gate that has measured nothing is not passed.
                    Some(Decision::Worse) | None => Outcome::Failed(finding.text),
                    Some(Decision::Better) => Outcome::Passed(finding.text),
                    Some(Decision::Equal | Decision::Open) => Outcome::Skipped(finding.text),
                },
            })
            .collect(),
    }
}

pub(crate) fn suite(name: &str, date: &str, cases: &[Case]) -> String {
    let failed = cases.iter().filter(|it| matches!(it.outcome, Outcome::Failed(_))).count();
    let skipped = cases.iter().filter(|it| matches!(it.outcome, Outcome::Skipped(_))).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\" \
         errors=\"0\" timestamp=\"{}\">",
        escaped(name),
        cases.len(),
        escaped(date.trim_end_matches('Z'))
    );
    for case in cases {
        let (class, name) = (escaped(&case.class), escaped(&case.name));
        let _ = write!(text, "  <testcase classname=\"{class}\" name=\"{name}\">");
        let _ = match &case.outcome {
            Outcome::Passed(why) => write!(text, "<system-out>{}</system-out>", escaped(why)),
            Outcome::Skipped(why) => write!(text, "<skipped message=\"{}\"/>", escaped(why)),
            Outcome::Failed(why) => write!(text, "<failure message=\"{}\"/>", escaped(why)),
        };
        text.push_str("</testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

/// Text for XML 1.0: markup is escaped, characters that it forbids are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if (c as u32) < 0x20 && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
