//! Checks of the machine, each with its consequence for measurements.

mod counters;
mod kernel;
mod machine;

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// No limitation.
    Good,
    /// Measurements work, with a limitation.
    Note,
    /// Measurements make no sense.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The part of the machine.
    pub part: &'static str,
    /// The checked property.
    pub what: &'static str,
    /// The severity.
    pub mark: Mark,
    /// The finding.
    pub found: String,
    /// The recommended change; empty if there is none.
    pub advice: String,
}

/// Makes all checks; takes about a second, in which it observes the machine.
pub fn all() -> Vec<Check> {
    let mut found = machine::checks();
    found.extend(kernel::checks());
    found.extend(counters::checks());
    found
}

/// Makes the checks of one part.
struct Part {
    name: &'static str,
    checks: Vec<Check>,
}

impl Part {
    fn new(name: &'static str) -> Part {
        Part { name, checks: Vec::new() }
    }

    fn good(&mut self, what: &'static str, found: impl Into<String>) {
        self.add(what, Mark::Good, found.into(), String::new());
    }

    fn note(&mut self, what: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.add(what, Mark::Note, found.into(), advice.into());
    }

    /// A finding that is a limitation if `limits`.
    fn judge(&mut self, what: &'static str, limits: bool, found: String, advice: &str) {
        match limits {
            true => self.note(what, found, advice),
            false => self.good(what, found),
        }
    }

    fn bad(&mut self, what: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.add(what, Mark::Bad, found.into(), advice.into());
    }

    fn add(&mut self, what: &'static str, mark: Mark, found: String, advice: String) {
        self.checks.push(Check { part: self.name, what, mark, found, advice });
    }
}

/// A file of the kernel, trimmed; `None` if it cannot be read.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// The number in a file of the kernel.
fn number(path: &str) -> Option<u64> {
    read(path)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_looked_at_and_bad_things_come_with_advice() {
        let found = all();
        let parts = ["cores and clocks", "noise", "limits", "io_uring", "counters", "tools"];
        for part in parts {
            assert!(found.iter().any(|check| check.part == part), "nothing about {part}");
        }
        for check in &found {
            assert!(!check.found.is_empty(), "{check:?}");
            assert!(check.mark != Mark::Bad || !check.advice.is_empty(), "{check:?}");
        }
    }
}
