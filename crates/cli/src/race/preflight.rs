//! The first trial of a foreign server: if the generator cannot talk to it, thirty more trials
//! cannot either, so the race stops there and says what to give.

use super::Foreign;
use lab::block::Slot;
use lab::race::Observer;
use lab::trial::{Ending, Trial};
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches the first trials on behalf of another observer.
pub struct Preflight<'a> {
    inner: &'a mut dyn Observer,
    /// Those without a trial so far.
    foreign: Foreign,
    stop: &'a AtomicBool,
    /// Why the race was stopped.
    refused: Option<String>,
}

impl<'a> Preflight<'a> {
    /// Watches the arms of `foreign`.
    pub fn new(
        inner: &'a mut dyn Observer,
        foreign: Foreign,
        stop: &'a AtomicBool,
    ) -> Preflight<'a> {
        Preflight { inner, foreign, stop, refused: None }
    }

    /// Why the race was stopped, if it was.
    pub fn refused(self) -> Option<String> {
        self.refused
    }
}

impl Observer for Preflight<'_> {
    fn race(&mut self, trials: u32) {
        self.inner.race(trials);
    }

    fn known(&mut self, trial: &Trial) {
        if matches!(trial.ending, Ending::Measured { .. }) {
            self.foreign.arms.remove(&trial.arm);
        }
        self.inner.known(trial);
    }

    fn news(&mut self, text: &str) {
        self.inner.news(text);
    }

    fn begin(&mut self, slot: &Slot, arm: &str, point: &str) {
        self.inner.begin(slot, arm, point);
    }

    fn end(&mut self, trial: &Trial) {
        self.inner.end(trial);
        if self.foreign.arms.remove(&trial.arm)
            && let Ending::Failed { reason } = &trial.ending
        {
            let arm = &trial.arm;
            let advice = self.foreign.advice.replace("NAME", arm);
            self.refused = Some(format!("{arm} cannot be raced: {reason}. {advice}"));
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn skip(&mut self, arm: &str) {
        self.inner.skip(arm);
    }
}
