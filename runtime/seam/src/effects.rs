//! The effects of a step beyond its own output: bytes to other sessions, a bell, and notes.
//!
//! The effects are plain values that the engine collects after the step;
//! a service makes no callbacks.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;

use crate::SessionId;

/// Bytes from one session for another's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The receiving session.
    pub to: SessionId,
    /// The bytes, appended whole to its output.
    pub bytes: Vec<u8>,
}

/// The engine cannot carry bytes from one session to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPush;

impl fmt::Display for NoPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this engine cannot push bytes to another session; an event engine can")
    }
}

impl std::error::Error for NoPush {}

/// The effects of one worker's sessions, for the engine to collect.
#[derive(Debug, Default)]
pub struct Effects {
    filled: Cell<bool>,
    rung: Cell<bool>,
    carries: bool,
    verbose: bool,
    pushes: RefCell<Vec<Push>>,
    notes: RefCell<Vec<String>>,
    answered: Cell<u64>,
    request_time: Option<Duration>,
    overloaded: Cell<bool>,
    refused: Cell<u64>,
}

impl Effects {
    /// No effects yet. `carries`: the engine can carry bytes between
    /// sessions; `verbose`: it prints notes.
    pub fn new(carries: bool, verbose: bool) -> Effects {
        Effects { carries, verbose, ..Effects::default() }
    }

    /// None yet, for another worker of the same engine.
    #[must_use]
    pub fn alike(&self) -> Effects {
        let Effects { carries, verbose, request_time, .. } = *self;
        Effects { carries, verbose, request_time, ..Effects::default() }
    }

    /// The same where a peer may take `time` for one request, from the step that uses none of it to
    /// the one that uses some; then the connection ends ([`crate::Closed::Idle`]). It counts only
    /// while the session has no deadline of its own.
    #[must_use]
    pub fn within(self, time: Duration) -> Effects {
        Effects { request_time: Some(time), ..self }
    }

    pub(crate) fn request_time(&self) -> Option<Duration> {
        self.request_time
    }

    /// Whether effects have come since the last [`Effects::take_pushes`], [`Effects::take_ring`]
    /// and [`Effects::take_notes`]. Costs one load.
    pub fn is_filled(&self) -> bool {
        self.filled.get()
    }

    /// Takes the pushes, oldest first.
    pub fn take_pushes(&self) -> Vec<Push> {
        let pushes = self.pushes.take();
        self.refill();
        pushes
    }

    /// Takes the notes, oldest first.
    pub fn take_notes(&self) -> Vec<String> {
        let notes = self.notes.take();
        self.refill();
        notes
    }

    /// Whether the bell of the streaming workers must ring; true once,
    /// however many sessions rang it.
    pub fn take_ring(&self) -> bool {
        let rung = self.rung.take();
        self.refill();
        rung
    }

    fn refill(&self) {
        let left = !self.pushes.borrow().is_empty() || !self.notes.borrow().is_empty();
        self.filled.set(left || self.rung.get());
    }

    pub(crate) fn ring(&self) {
        self.filled.set(true);
        self.rung.set(true);
    }

    /// The number of requests answered since the last call.
    #[inline]
    pub fn take_answered(&self) -> u64 {
        self.answered.replace(0)
    }

    #[inline]
    pub(crate) fn answered(&self, count: u64) {
        self.answered.set(self.answered.get() + count);
    }

    /// Makes requests that begin from here on be refused, or executed ([`crate::Cx::admit`]).
    #[inline]
    pub fn set_overloaded(&self, overloaded: bool) {
        self.overloaded.set(overloaded);
    }

    /// The number of requests refused since the last call.
    #[inline]
    pub fn take_refused(&self) -> u64 {
        self.refused.replace(0)
    }

    #[inline]
    pub(crate) fn admit(&self) -> bool {
        let overloaded = self.overloaded.get();
        if overloaded {
            self.refused.set(self.refused.get() + 1);
        }
        !overloaded
    }

    pub(crate) fn push(&self, to: SessionId, bytes: &[u8]) -> Result<(), NoPush> {
        if !self.carries {
            return Err(NoPush);
        }
        self.filled.set(true);
        self.pushes.borrow_mut().push(Push { to, bytes: bytes.to_vec() });
        Ok(())
    }

    pub(crate) fn note(&self, write: impl FnOnce(&mut String)) {
        if self.verbose {
            self.warn(write);
        }
    }

    pub(crate) fn warn(&self, write: impl FnOnce(&mut String)) {
        let mut note = String::new();
        write(&mut note);
        self.filled.set(true);
        self.notes.borrow_mut().push(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_filled_until_everything_was_taken() {
        let effects = Effects::new(true, true);
        assert!(!effects.is_filled() && !effects.take_ring());
        effects.ring();
        effects.ring();
        effects.note(|note| note.push('n'));
        effects.push(SessionId::NONE, b"p").expect("it carries");
        assert_eq!(effects.take_notes(), ["n"]);
        assert_eq!(effects.take_pushes().len(), 1);
        assert!(effects.is_filled() && effects.take_ring());
        assert!(!effects.is_filled() && !effects.take_ring());
    }
}
