//! Reasons for trust and distrust, next to each number.

use super::{BUSY_MAX, Lamp, Light};
use crate::load::Load;
use crate::trial::{Ending, Trial};

/// The reason why an arm has no result.
pub(super) fn reason(all: &[&Trial]) -> String {
    let words = all.iter().rev().find_map(|trial| match &trial.ending {
        Ending::Unavailable { reason } | Ending::Failed { reason } => Some(reason.clone()),
        Ending::Measured { .. } => None,
    });
    words.unwrap_or_else(|| "the race was stopped before its first trial".to_string())
}

pub(super) fn lamps(
    trials: &[&Trial],
    loads: &[&Load],
    busy: Option<f64>,
    late: bool,
) -> Vec<Lamp> {
    let mut found = Vec::new();
    let mut lamp = |light: Light, text: String| found.push(Lamp { light, text });
    let n = loads.len();
    let checked = loads.iter().filter(|load| load.checked().is_some()).count();
    let wrong = loads.iter().filter(|load| load.checked().is_some_and(|it| !it.ok)).count();
    let faults: u64 = loads.iter().map(|load| load.faults()).sum();
    let failed = trials.len() - n;
    let unclean = trials.iter().filter(|it| it.exit.is_some() && !it.exit_clean).count();
    let noisy = trials.iter().filter(|trial| !trial.objections.is_empty()).count();
    if wrong > 0 {
        lamp(Light::Red, format!("WRONG REPLIES {wrong}/{n}"));
    }
    if faults > 0 {
        lamp(Light::Red, format!("{faults} errors"));
    }
    if failed > 0 {
        lamp(Light::Amber, format!("no result {failed}/{}", trials.len()));
    }
    if let Some(busy) = busy.filter(|&busy| busy > BUSY_MAX) {
        lamp(Light::Amber, format!("generator-limited, {:.0} % busy", busy * 100.0));
    }
    // A generator that is so busy is late because of that; one reason is enough.
    if late && busy.is_none_or(|busy| busy <= BUSY_MAX) {
        let invalid = loads.iter().filter(|load| load.invalid().is_some()).count() * 2 > n;
        let text =
            if invalid { "machine busy: the generator had to wait" } else { "generator late" };
        lamp(Light::Amber, text.to_string());
    }
    if unclean > 0 {
        lamp(Light::Amber, format!("unclean end {unclean}/{n}"));
    }
    if noisy > 0 {
        lamp(Light::Amber, format!("machine busy {noisy}/{n}"));
    }
    if n > 0 && wrong == 0 {
        match checked {
            0 => lamp(Light::Amber, "replies not checked".to_string()),
            _ => lamp(Light::Green, format!("replies right {checked}/{n}")),
        }
    }
    found.sort_by_key(|lamp| std::cmp::Reverse(lamp.light));
    found
}

/// The faults of a run, one for each server at a load point: that of its first wrong trial, and the
/// number of further blocks in which it was wrong.
pub(crate) fn faults(trials: &[Trial]) -> Vec<String> {
    let mut all: Vec<(&Trial, String, u32)> = Vec::new();
    for trial in trials {
        let Some(text) = broken(trial) else { continue };
        let same = |it: &&mut (&Trial, String, u32)| {
            (&it.0.arm, &it.0.point) == (&trial.arm, &trial.point)
        };
        match all.iter_mut().find(same) {
            Some((.., more)) => *more += 1,
            None => all.push((trial, text, 0)),
        }
    }
    let text = |(_, text, more): (&Trial, String, u32)| match more {
        0 => text,
        1 => format!("{text}; wrong in 1 more block"),
        more => format!("{text}; wrong in {more} more blocks"),
    };
    all.into_iter().map(text).collect()
}

/// The fault of a trial that is wrong, not merely slow.
pub(crate) fn broken(trial: &Trial) -> Option<String> {
    let Ending::Measured { load } = &trial.ending else { return None };
    let place = format!("{}, {}, block {}", trial.arm, trial.point, trial.block + 1);
    let died = trial.death();
    match load.checked() {
        _ if died.is_some() && load.faults() > 0 => {
            let replies = load.requests_total.max(load.requests);
            Some(format!("{place}: it died after {replies} replies{}", died.unwrap_or_default()))
        }
        Some(check) if !check.ok && check.kind == "http" => {
            Some(format!("{place}: {}", check.detail))
        }
        Some(check) if !check.ok => {
            Some(format!("{place}: the model check failed: {}", check.detail))
        }
        _ if load.faults() > 0 => {
            let kinds: Vec<String> = load.errors.iter().map(|it| it.to_string()).collect();
            Some(format!("{place}: {}", kinds.join("; ")))
        }
        _ => None,
    }
}

impl std::fmt::Display for crate::load::Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.count, self.kind)?;
        if self.example.is_empty() { Ok(()) } else { write!(f, " (as `{}`)", self.example) }
    }
}
