//! The first trial of a foreign server: if the generator cannot talk to it, thirty more trials
//! cannot either, so the race stops there and says what to give.

use lab::block::Slot;
use lab::race::Observer;
use lab::trial::{Ending, Trial};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches the first trials on behalf of another observer.
pub struct Preflight<'a> {
    inner: &'a mut dyn Observer,
    /// Foreign arms without a trial so far.
    unproved: BTreeSet<String>,
    stop: &'a AtomicBool,
    /// Why the race was stopped.
    refused: Option<String>,
}

impl<'a> Preflight<'a> {
    /// `foreign` are the arms that are not this program.
    pub fn new(
        inner: &'a mut dyn Observer,
        foreign: BTreeSet<String>,
        stop: &'a AtomicBool,
    ) -> Preflight<'a> {
        Preflight { inner, unproved: foreign, stop, refused: None }
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
            self.unproved.remove(&trial.arm);
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
        if self.unproved.remove(&trial.arm)
            && let Ending::Failed { reason } = &trial.ending
        {
            self.refused = Some(format!(
                "{} cannot be raced: {reason}. A race asks over the market's protocol (`race \
                 stock`) or over HTTP (`race web`); name the framing of the market's replies by \
                 --framing {}=fixed:8192",
                trial.arm, trial.arm
            ));
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn skip(&mut self, arm: &str) {
        self.inner.skip(arm);
    }
}
