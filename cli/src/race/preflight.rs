//! The first trial of a foreign server: if the generator cannot talk to it, thirty more trials
//! cannot either, so the race stops there and says what to give.

use super::Foreign;
use lab::race::RaceEvent;
use lab::trial::Ending;
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches the first trials.
pub struct Preflight<'a> {
    /// Those without a trial so far.
    foreign: Foreign,
    stop: &'a AtomicBool,
    /// Why the race was stopped, if it was.
    pub refused: Option<String>,
}

impl<'a> Preflight<'a> {
    /// Watches the arms of `foreign`.
    pub fn new(foreign: Foreign, stop: &'a AtomicBool) -> Preflight<'a> {
        Preflight { foreign, stop, refused: None }
    }

    pub fn hear(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::Known(trial) if matches!(trial.ending, Ending::Measured { .. }) => {
                self.foreign.arms.remove(&trial.arm);
            }
            RaceEvent::End(trial) => {
                if self.foreign.arms.remove(&trial.arm)
                    && let Ending::Failed { reason } = &trial.ending
                {
                    let arm = &trial.arm;
                    let advice = self.foreign.advice.replace("NAME", arm);
                    self.refused = Some(format!("{arm} cannot be raced: {reason}. {advice}"));
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
}
