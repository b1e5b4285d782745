//! One ring for several threads: a completion port, like `CreateIoCompletionPort` on Windows.
//!
//! A thread takes the ring's lock only to queue entries; the lock is free while the kernel is
//! entered, so one thread can wait while others submit. Received bytes are read without it.
//!
//! A submission is completed in the name of the thread that made it (`task_work`): the kernel
//! briefly wakes that very thread even if another waits for the completion, and cancels everything
//! a thread has submitted when the thread ends. Receives are therefore re-armed when they come back
//! cancelled.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::buffers::Pages;
use super::enter::Enter;
use super::setup::{Issuers, Setup};
use super::{Completion, Filled, Place, Refusal, Uring, harmless};

/// A ring shared by threads.
pub struct Port {
    hub: Mutex<Held>,
    enter: Enter,
    pages: Arc<Pages>,
}

/// A ring not tied to a thread.
struct Held(Uring);

// SAFETY: a ring is tied to a thread by the single-issuer flag, which `Port::new` does not use; the
// rest is memory and descriptors.
unsafe impl Send for Held {}

/// The locked ring.
pub struct PortGuard<'a>(MutexGuard<'a, Held>);

impl Port {
    /// Makes a ring as [`Uring::new`] does, but for several threads.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub fn new(setup: &Setup) -> Result<Port, Refusal> {
        let uring = Uring::made(setup, Issuers::Many)?;
        let enter = uring.enter;
        let pages = Arc::clone(uring.buffers.pages());
        Ok(Port { hub: Mutex::new(Held(uring)), enter, pages })
    }

    /// Locks the ring. Hold the lock as briefly as possible.
    pub fn hub(&self) -> PortGuard<'_> {
        // A panic elsewhere leaves every entry complete.
        PortGuard(self.hub.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bytes of a receive.
    #[inline]
    pub fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        match &filled.0 {
            Place::Provided(id) => self.pages.bytes(id),
            Place::Own(buffer, len) => &buffer[..*len],
        }
    }

    /// Submits queued entries, if any.
    ///
    /// # Errors
    /// As [`Port::wait`].
    pub fn submit(&self) -> io::Result<()> {
        match self.queued() {
            0 => Ok(()),
            queued => self.enter.go(queued, 0, None).or_else(harmless),
        }
    }

    /// Submits queued entries, waits for one completion, at most `timeout`, and appends all
    /// available ones to `found`. One `io_uring_enter(2)`. Only one thread at a time may call this,
    /// or completions of one connection could be reported out of order.
    ///
    /// # Errors
    /// As [`Uring::wait`].
    pub fn wait(&self, timeout: Option<Duration>, found: &mut Vec<Completion>) -> io::Result<()> {
        self.enter.go(self.queued(), 1, timeout).or_else(harmless)?;
        self.hub().reap(found);
        Ok(())
    }

    /// The number of entries not yet submitted.
    fn queued(&self) -> u32 {
        self.hub().0.0.ring.submission().len() as u32
    }
}

impl PortGuard<'_> {
    /// Interprets the available completions.
    fn reap(&mut self, found: &mut Vec<Completion>) {
        let uring = &mut self.0.0;
        loop {
            // The queue is read again for each: handling one may queue another entry.
            let next = uring.ring.completion().next();
            let Some(raw) = next else { return };
            found.push(uring.completion(&raw));
        }
    }
}

impl Deref for PortGuard<'_> {
    type Target = Uring;

    fn deref(&self) -> &Uring {
        &self.0.0
    }
}

impl DerefMut for PortGuard<'_> {
    fn deref_mut(&mut self) -> &mut Uring {
        &mut self.0.0
    }
}
