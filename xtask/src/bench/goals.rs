//! Goals and figures of benches that are not duets of servers: one value per block, their median
//! with its interval, and whether the goal was reached.
//!
//! The interval is the one of every other measurement here (`stats::median_interval`, 95 %), so
//! fewer than six blocks resolve nothing.

use serde_json::json;
use stats::words::short;
use stats::{Goal, Interval};
use std::collections::BTreeMap;

/// One row.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The goal's number, or empty.
    pub goal: String,
    /// The label: `sendmmsg / plain`.
    pub name: String,
    /// The quantity: `CPU per packet`, with its unit unless it is a ratio.
    pub what: String,
    /// Under which load, and into which sink.
    pub load: String,
    /// The goal; a figure without one is shown for comparison.
    pub wanted: Option<Goal>,
    /// The reason why the goal is missed, if known.
    pub because: String,
    /// A value for each block and its sources, or the reason why there is none.
    pub found: Result<Values, String>,
}

/// Values of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    pub blocks: Vec<f64>,
    /// Left and right in words, such as `11.3 us / 2.0 us`.
    pub from: String,
}

impl Values {
    /// The median.
    pub fn middle(&self) -> f64 {
        stats::median(&self.blocks).unwrap_or(f64::NAN)
    }

    fn interval(&self) -> Option<Interval> {
        stats::median_interval(&self.blocks)
    }
}

impl Figure {
    /// `reached`, `missed` or `unresolved`; empty without a goal or a measurement.
    pub fn verdict(&self) -> &'static str {
        match (&self.found, self.wanted) {
            (Ok(values), Some(goal)) => Goal::word(goal.decide(values.interval().as_ref())),
            _ => "",
        }
    }

    /// The row as JSON.
    pub fn line(&self) -> serde_json::Value {
        let found = match &self.found {
            Ok(values) => {
                let interval = values.interval().map(|it| [it.low, it.high]);
                json!({"value": values.middle(), "interval": interval, "blocks": values.blocks,
                       "from": values.from})
            }
            Err(why) => json!({ "absent": why }),
        };
        json!({
            "goal": self.goal, "figure": self.name, "what": self.what, "load": self.load,
            "wanted": self.wanted, "verdict": self.verdict(), "found": found,
        })
    }
}

/// The rows as Markdown, then the reasons for missed goals, and the doubts.
pub fn text(note: &str, figures: &[Figure], doubts: &[String]) -> String {
    let mut text = format!(
        "{note}\n\n\
         | goal | figure | what | load, sink | left / right | found | wanted | verdict |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let mut reasons = BTreeMap::new();
    for it in figures {
        let wanted = it.wanted.map(|goal| goal.to_string()).unwrap_or_default();
        let (from, found) = match &it.found {
            Ok(values) => {
                let around = match values.interval() {
                    Some(it) => format!(" [{} {}]", short(it.low), short(it.high)),
                    None => String::new(),
                };
                (values.from.clone(), format!("{}{around}", short(values.middle())))
            }
            Err(why) => ("—".to_owned(), why.replace(['\n', '|'], " ")),
        };
        let verdict = it.verdict();
        if verdict == "missed" && !it.because.is_empty() {
            reasons.insert(format!("{} {}", it.goal, it.name), &it.because);
        }
        let Figure { goal, name, what, load, .. } = it;
        text += &format!(
            "| {goal} | {name} | {what} | {load} | {from} | {found} | {wanted} | {verdict} |\n"
        );
    }
    if !reasons.is_empty() {
        text += "\nMissed, as far as the reason has been found:\n\n";
        text.extend(reasons.iter().map(|(name, why)| format!("- {name}: {why}\n")));
    }
    if !doubts.is_empty() {
        text += "\nDoubts:\n\n";
        text.extend(doubts.iter().map(|doubt| format!("- {doubt}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(wanted: Option<Goal>, blocks: &[f64]) -> Figure {
        let found = Ok(Values { blocks: blocks.to_vec(), from: "2 us / 1 us".to_owned() });
        let (name, load) = ("a / b".to_owned(), "ten, ifb".to_owned());
        let [goal, what, because] = ["P0", "CPU", "it waits"].map(str::to_owned);
        Figure { goal, name, what, load, wanted, because, found }
    }

    #[test]
    fn a_verdict_needs_the_interval_of_six_blocks() {
        let verdict = |wanted, blocks: &[f64]| figure(wanted, blocks).verdict();
        assert_eq!(verdict(Some(Goal::AtLeast(2.0)), &[2.0, 2.5, 3.0, 2.2, 2.3, 2.4]), "reached");
        assert_eq!(
            verdict(Some(Goal::AtLeast(2.0)), &[1.9, 2.5, 3.0, 2.2, 2.3, 2.4]),
            "unresolved"
        );
        assert_eq!(verdict(Some(Goal::AtMost(2.0)), &[2.5, 2.1, 3.0, 2.2, 2.3, 2.4]), "missed");
        assert_eq!(verdict(Some(Goal::AtMost(2.0)), &[1.0; 5]), "unresolved");
        assert_eq!(verdict(None, &[1.0; 8]), "");
        // The ends of eight values are part of their interval (99.2 %), those of nine are not.
        let nine = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0];
        assert_eq!(verdict(Some(Goal::AtMost(2.0)), &nine[..8]), "unresolved");
        assert_eq!(verdict(Some(Goal::AtMost(2.0)), &nine), "reached");
    }

    #[test]
    fn a_missed_goal_says_why_and_a_row_without_a_value_too() {
        let missed = figure(Some(Goal::AtMost(1.0)), &[2.0; 6]);
        let absent = Figure { found: Err("no root | here".to_owned()), ..missed.clone() };
        let text = text("Note.", &[missed, absent], &["one core".to_owned()]);
        for want in [
            "| 2 us / 1 us | 2.00 [2.00 2.00] | <= 1 | missed |",
            "- P0 a / b: it",
            "| — | no root   here | <= 1 |  |",
            "- one core",
        ] {
            assert!(text.contains(want), "expected {want} in {text}");
        }
    }
}
