//! The number of sessions that a core carries: it is increased until they miss the objective.
//!
//! The knee is reported with all steps, because one number would hide the behaviour of a sender
//! beyond it.

use super::{Reading, Trial};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One tried number of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Sessions.
    pub streams: u32,
    /// The 99.9th percentile of lateness, milliseconds; absent where it is unknown.
    pub late_ms: Option<f64>,
    /// The fraction of the core that the sender used.
    pub share: f64,
    /// Packets that the kernel refused.
    pub failed: u64,
    /// Whether it met the objective.
    pub kept: bool,
}

/// The result of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Knee {
    /// The highest number of sessions that met the objective; 0 if none did.
    pub streams: u32,
    /// The lowest number that missed it; `None` if the search ended before.
    pub missed: Option<u32>,
    /// All steps.
    pub steps: Vec<Step>,
}

/// The minimum number of sessions that is tried.
const LEAST: u32 = 8;

/// Doubles the sessions of `trial` until the 99.9th percentile of lateness exceeds a third of the
/// gap, a packet is refused or `most` is reached; then halves the interval `halvings` times. If the
/// first number is too high, it is halved until one meets the objective. A step that missed is
/// repeated once before it counts.
///
/// # Errors
/// If a trial cannot run.
pub fn knee(
    trial: &Trial<'_>,
    most: u32,
    halvings: u32,
    stop: &AtomicBool,
) -> Result<Knee, String> {
    let objective = trial.work.gap() / 3;
    let mut found = Knee::default();
    let mut streams = trial.work.streams.max(1);
    let mut halved = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut one = *trial;
        one.work.streams = streams;
        let first = step(&one.run(stop)?, objective);
        let step = if first.kept { first } else { step(&one.run(stop)?, objective) };
        let kept = step.kept;
        found.steps.push(step);
        if kept {
            found.streams = found.streams.max(streams);
        } else {
            found.missed = Some(found.missed.map_or(streams, |most| most.min(streams)));
        }
        streams = match found.missed {
            None if streams >= most => return Ok(found),
            None => (streams * 2).min(most),
            Some(missed) if found.streams == 0 && missed / 2 >= LEAST => missed / 2,
            Some(missed) if halved < halvings && missed > found.streams + 1 => {
                halved += 1;
                (found.streams + missed) / 2
            }
            Some(_) => return Ok(found),
        };
    }
    Ok(found)
}

fn step(reading: &Reading, objective: Duration) -> Step {
    let late_ms = reading.late_ms();
    let kept = late_ms.is_some_and(|late| late <= objective.as_secs_f64() * 1e3);
    let (streams, share, failed) = (reading.streams, reading.share(), reading.failed);
    Step { streams, late_ms, share, failed, kept: kept && failed == 0 }
}
