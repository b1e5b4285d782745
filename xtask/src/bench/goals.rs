//! Goals and figures of benches that measure something else than a duet of servers: a value for
//! each block, its median with an interval, and whether the bound was kept.
//!
//! With six blocks and more the interval is that of the median by order statistics; with fewer it
//! is the range, and a verdict of fewer than three blocks is marked as a guess.

use super::record;
use serde_json::json;
use std::collections::BTreeMap;

/// Blocks from which on a range is an interval, and from which on a verdict is no guess.
const INTERVAL: usize = 6;
const VERDICT: usize = 3;

/// What is wanted of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Nothing: it is shown.
    Shown,
    /// So much or more.
    AtLeast(f64),
    /// So much or less.
    AtMost(f64),
}

/// One row.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The goal's number, or nothing.
    pub goal: &'static str,
    /// What is said: `sendmmsg / plain`.
    pub name: String,
    /// Of what: `CPU a packet`, with its unit where it is no ratio.
    pub what: &'static str,
    /// Under which load, and into which sink.
    pub load: String,
    pub bound: Bound,
    /// Why it is missed, as far as that has been found out.
    pub because: &'static str,
    /// A value for each block and what it was made of, or why there is none.
    pub found: Result<Values, String>,
}

/// Values of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    pub blocks: Vec<f64>,
    /// Left and right in words, such as `11.3 us / 2.0 us`.
    pub from: String,
}

/// Sorts, and says what stands in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (low + high) / 2.0
}

impl Values {
    /// The median, and the interval or range around it.
    pub fn summary(&self) -> (f64, f64, f64) {
        let mut all = self.blocks.clone();
        let value = median(&mut all);
        // The order statistics that hold the median of 8 in 93 % of cases, of 6 in 97 %.
        let cut = usize::from(all.len() >= 8);
        (value, all[cut], all[all.len() - 1 - cut])
    }
}

impl Figure {
    /// `reached`, `missed` or `unresolved`, with a question mark where it is a guess; nothing where
    /// nothing is wanted or was measured.
    pub fn verdict(&self) -> String {
        let Ok(values) = &self.found else { return String::new() };
        let (_, low, high) = values.summary();
        let word = match self.bound {
            Bound::Shown => return String::new(),
            Bound::AtLeast(bound) if low >= bound => "reached",
            Bound::AtLeast(bound) if high < bound => "missed",
            Bound::AtMost(bound) if high <= bound => "reached",
            Bound::AtMost(bound) if low > bound => "missed",
            _ => "unresolved",
        };
        let mark = if values.blocks.len() < VERDICT { "?" } else { "" };
        format!("{word}{mark}")
    }

    fn line(&self) -> serde_json::Value {
        let found = match &self.found {
            Ok(values) => {
                let (value, low, high) = values.summary();
                json!({"value": value, "low": low, "high": high, "blocks": values.blocks,
                       "from": values.from})
            }
            Err(why) => json!({ "absent": why }),
        };
        let wanted = match self.bound {
            Bound::Shown => json!(null),
            Bound::AtLeast(bound) => json!({ "at_least": bound }),
            Bound::AtMost(bound) => json!({ "at_most": bound }),
        };
        json!({
            "goal": self.goal, "figure": self.name, "what": self.what, "load": self.load,
            "wanted": wanted, "verdict": self.verdict(), "found": found,
        })
    }
}

/// The rows as Markdown; beneath them why goals were missed, and what is doubtful.
pub fn text(note: &str, figures: &[Figure], doubts: &[String]) -> String {
    let mut text = format!(
        "{note}\n\n\
         | goal | figure | what | load, sink | left / right | found | wanted | verdict |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let mut reasons = BTreeMap::new();
    for it in figures {
        let wanted = match it.bound {
            Bound::Shown => String::new(),
            Bound::AtLeast(bound) => format!(">= {bound}"),
            Bound::AtMost(bound) => format!("<= {bound}"),
        };
        let (from, found) = match &it.found {
            Ok(values) => {
                let (value, low, high) = values.summary();
                let kind = if values.blocks.len() >= INTERVAL { "" } else { "range " };
                let around = match values.blocks.len() {
                    1 => String::new(),
                    _ => format!(" [{kind}{} {}]", short(low), short(high)),
                };
                (values.from.clone(), format!("{}{around}", short(value)))
            }
            Err(why) => ("—".to_owned(), why.replace(['\n', '|'], " ")),
        };
        let verdict = it.verdict();
        if verdict.starts_with("missed") && !it.because.is_empty() {
            reasons.insert(format!("{} {}", it.goal, it.name), it.because);
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

/// Three digits that matter.
pub fn short(value: f64) -> String {
    match value.abs() {
        it if it >= 100.0 => format!("{value:.0}"),
        it if it >= 10.0 => format!("{value:.1}"),
        it if it >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Keeps text and lines in `runs/`.
///
/// # Errors
/// Where the folder cannot be written.
pub fn save(
    name: &str,
    title: &str,
    text: &str,
    figures: &[Figure],
    doubts: &[String],
) -> anyhow::Result<std::path::PathBuf> {
    let lines: Vec<_> = figures.iter().map(Figure::line).collect();
    record::keep(name, title, text, &lines, doubts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(bound: Bound, blocks: &[f64]) -> Figure {
        let found = Ok(Values { blocks: blocks.to_vec(), from: "2 us / 1 us".to_owned() });
        let (name, load) = ("a / b".to_owned(), "ten, ifb".to_owned());
        Figure { goal: "P0", name, what: "CPU", load, bound, because: "it waits", found }
    }

    #[test]
    fn a_verdict_needs_all_blocks_on_one_side_and_three_of_them() {
        let verdict = |bound, blocks: &[f64]| figure(bound, blocks).verdict();
        assert_eq!(verdict(Bound::AtLeast(2.0), &[2.0, 2.5, 3.0]), "reached");
        assert_eq!(verdict(Bound::AtLeast(2.0), &[1.9, 2.5, 3.0]), "unresolved");
        assert_eq!(verdict(Bound::AtMost(2.0), &[2.5, 2.1, 3.0]), "missed");
        assert_eq!(verdict(Bound::AtMost(2.0), &[1.0]), "reached?");
        assert_eq!(verdict(Bound::Shown, &[1.0]), "");
        // Of eight the ends are no part of the interval.
        let eight = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0];
        assert_eq!(verdict(Bound::AtMost(2.0), &eight), "reached");
    }

    #[test]
    fn a_missed_goal_says_why_and_a_row_without_a_value_too() {
        let missed = figure(Bound::AtMost(1.0), &[2.0, 2.0, 2.0]);
        let absent = Figure { found: Err("no root | here".to_owned()), ..missed.clone() };
        let text = text("Note.", &[missed, absent], &["one core".to_owned()]);
        for want in [
            "| 2 us / 1 us | 2.00 [range 2.00 2.00] | <= 1 | missed |",
            "- P0 a / b: it",
            "| — | no root   here | <= 1 |  |",
            "- one core",
        ] {
            assert!(text.contains(want), "expected {want} in {text}");
        }
    }
}
