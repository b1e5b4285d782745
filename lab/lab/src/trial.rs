//! One trial: a fresh server on one core, the generator on the other, one report.
//!
//! `/proc` and the state of the generator decide the environment's gates, never the generator's
//! figures ([`objections`]). [`Trials`] is the interface: the race only knows that something runs a
//! slot and returns a [`Trial`], so tests can replace it. The real implementation is
//! [`crate::runner::Runner`].

mod gates;
mod laws;

pub use gates::objections;
pub use laws::in_flight;

use crate::block::Slot;
use crate::census::Census;
use crate::far::Far;
use crate::load::Load;
use crate::machine::Conditions;
use crate::observations::Observations;
use crate::server::Process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The beginning of [`Trial::exit`] of a server that ended before it was asked to.
pub(crate) const DIED: &str = "died during the block";

/// The outcome of one slot of the race; a row of the raw file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The position in the order of running.
    pub order: u32,
    /// Block, from 0.
    pub block: u32,
    /// Name of the load point.
    pub point: String,
    /// Name of the arm.
    pub arm: String,
    /// Seed of arrivals and mix, shared by the block.
    pub seed: u64,
    /// Whether server and generator had swapped cores.
    pub swapped: bool,
    /// The time since the race began, milliseconds.
    pub begun_ms: f64,
    /// The time from server start to server end, milliseconds.
    pub took_ms: f64,
    /// The time from server start to readiness, milliseconds.
    pub boot_ms: Option<f64>,
    /// The other activity of the machine.
    pub conditions: Conditions,
    /// Gates that failed, as text; decided before the outcome is seen.
    pub objections: Vec<String>,
    /// How the server ended after TERM, if it had to be stopped.
    pub exit: Option<String>,
    /// The server ended by itself with status 0.
    pub exit_clean: bool,
    /// The outcome.
    pub ending: Ending,
    /// The laboratory's own observations.
    #[serde(default)]
    pub seen: Observations,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// The generator reported.
    Measured {
        /// Its report.
        load: Box<Load>,
    },
    /// The server did not start.
    Unavailable {
        /// Its last words.
        reason: String,
    },
    /// The generator did not report.
    Failed {
        /// Its last words.
        reason: String,
    },
}

impl Trial {
    /// How the server ended before it was asked to, and its last words; `None` if it did not.
    pub fn death(&self) -> Option<&str> {
        self.exit.as_deref()?.strip_prefix(DIED)
    }

    /// The fault that a race shows of it, if there is one.
    pub fn fault(&self) -> Option<String> {
        let place = format!("{}, {}, block {}", self.arm, self.point, self.block + 1);
        match &self.ending {
            Ending::Measured { load } => load
                .checked()
                .filter(|check| !check.ok)
                .map(|check| format!("MODEL CHECK FAILED: {place}: {}", check.detail)),
            Ending::Unavailable { reason } => Some(format!("{}: {reason}", self.arm)),
            Ending::Failed { reason } => Some(format!("{place}: {reason}")),
        }
    }

    /// The generator's report, if there is one.
    pub fn result(&self) -> Option<&Load> {
        match &self.ending {
            Ending::Measured { load } => Some(load),
            _ => None,
        }
    }
}

/// The interface through which slots are run. `None` means interrupted.
pub trait Trials {
    /// Runs the slots of one block: a trial for each slot. `begun` is when the race began.
    fn block(&mut self, slots: &[Slot], begun: Instant) -> Option<Vec<Trial>>;

    /// Measures an entrant's capacity in a closed loop at the load of the open points, for the
    /// `round`th time. `None` if it was interrupted; an error is a sentence.
    fn pilot(&mut self, _entrant: usize, _round: u32) -> Option<Result<Load, String>> {
        Some(Err("this race has no pilot".to_string()))
    }

    /// Passes on the capacities that the pilots measured, in requests per second by the name of the
    /// arm.
    fn capacities(&mut self, _found: &BTreeMap<String, f64>) {}

    /// Counts the system calls of an entrant at a load point. `None` when it was interrupted.
    fn census(&mut self, _entrant: usize, _point: usize) -> Option<Census> {
        Some(Census::default())
    }
}

/// Runs a generator by `command`, on the other machine if there is one, to its end, at most
/// `longest`, and reads its output by `parse`. `None` if `stop` became true; an error is a
/// sentence, that of the generator if it wrote one.
pub(crate) fn generate<T>(
    far: Option<&Far>,
    command: &[String],
    dir: &Path,
    longest: Duration,
    stop: &AtomicBool,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<Result<T, String>> {
    let started = match far {
        Some(far) => far.generate(command, dir, "load"),
        None => Process::start(command, dir, "load"),
    };
    let mut process = match started {
        Ok(process) => process,
        Err(reason) => return Some(Err(reason)),
    };
    let begun = Instant::now();
    let ended = loop {
        if let Some(ended) = process.ended() {
            break ended;
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        if begun.elapsed() > longest {
            let limit = longest.as_millis();
            return Some(Err(format!("the generator did not end within {limit} ms")));
        }
        // The interval is long on purpose: the laboratory shares the cores that are being measured.
        std::thread::sleep(Duration::from_millis(5));
    };
    let (text, complaint) = (process.output(), process.complaint());
    // A failed model check makes the generator's status 1; its report states the failure.
    Some(parse(&text).map_err(|why| match (complaint.as_str(), text.as_str()) {
        ("", "") => {
            format!("expected a report from the generator, found {} without a word", ended.how)
        }
        ("", _) => why,
        _ => complaint,
    }))
}
