//! One ring for several threads: a completion port, as `CreateIoCompletionPort` of Windows has it.
//!
//! Whoever has something to ask takes the [`Hub`], which is the ring under a lock, for as long as
//! it takes to write the wishes down; nobody has it while the kernel is entered, so one thread can
//! wait while others submit. Received bytes are read without it.
//!
//! The surprising thing: what a thread has submitted is completed in its name (`task_work`), so the
//! kernel wakes that very thread for a moment even if another waits for the completion, and cancels
//! everything a thread has submitted when it ends. Receives are therefore armed anew when they come
//! back cancelled.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::buffers::Pages;
use super::enter::Enter;
use super::setup::{Flag, Setup};
use super::{Completion, Filled, Place, Refusal, Uring, harmless};

/// A ring that threads have in common.
pub struct Port {
    hub: Mutex<Held>,
    enter: Enter,
    pages: Option<Arc<Pages>>,
}

/// A ring that no thread can call its own.
struct Held(Uring);

// SAFETY: what ties a ring to a thread is the flag of one issuer and a registered descriptor, and
// `Port::new` asks for neither; the rest is memory and descriptors.
unsafe impl Send for Held {}

/// The ring, for as long as it is held.
pub struct Hub<'a>(MutexGuard<'a, Held>);

impl Port {
    /// Makes a ring as [`Uring::new`] does, without the flags that allow it one thread only
    /// ([`Flag::SingleIssuer`], [`Flag::DeferTaskrun`], [`Flag::RegisteredFd`]), and without
    /// [`Flag::CoopTaskrun`], by which a completion would wait for a thread that computes.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub fn new(setup: &Setup) -> Result<Port, Refusal> {
        let alone = [Flag::SingleIssuer, Flag::DeferTaskrun, Flag::RegisteredFd];
        let flags = alone.into_iter().fold(setup.flags, |flags, flag| flags.without(flag));
        let uring = Uring::new(&Setup { flags, ..*setup })?;
        let enter = uring.enter;
        let pages = uring.buffers.as_ref().map(|buffers| Arc::clone(buffers.pages()));
        Ok(Port { hub: Mutex::new(Held(uring)), enter, pages })
    }

    /// The ring, when nobody else has it. To be held for as short a time as possible.
    pub fn hub(&self) -> Hub<'_> {
        // A panic elsewhere leaves every entry whole.
        Hub(self.hub.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bytes that a receive brought.
    #[inline]
    pub fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        match (&filled.0, &self.pages) {
            (Place::Provided(id), Some(pages)) => pages.bytes(id),
            (Place::Provided(_), None) => &[],
            (Place::Own(buffer, len), _) => &buffer[..*len],
        }
    }

    /// Submits what was asked for, if that is anything.
    ///
    /// # Errors
    /// As [`Port::wait`].
    pub fn submit(&self) -> io::Result<()> {
        match self.queued() {
            0 => Ok(()),
            queued => self.enter.go(queued, 0, None).or_else(harmless),
        }
    }

    /// Submits what was asked for, waits for one completion, at most `timeout`, and appends what
    /// those that are there mean to `found`. One `io_uring_enter(2)`. Threads must do this one at a
    /// time, or what came for one connection could be told in the wrong order.
    ///
    /// # Errors
    /// As [`Uring::wait`].
    pub fn wait(&self, timeout: Option<Duration>, found: &mut Vec<Completion>) -> io::Result<()> {
        self.enter.go(self.queued(), 1, timeout).or_else(harmless)?;
        self.hub().reap(found);
        Ok(())
    }

    /// Entries that nobody has submitted yet.
    fn queued(&self) -> u32 {
        self.hub().0.0.ring.submission().len() as u32
    }
}

impl Hub<'_> {
    /// Says what the completions mean that are there.
    fn reap(&mut self, found: &mut Vec<Completion>) {
        let uring = &mut self.0.0;
        loop {
            // The queue is looked at anew for each: what one means may ask for another entry.
            let next = uring.ring.completion().next();
            let Some(raw) = next else { return };
            found.push(uring.completion(&raw));
        }
    }
}

impl Deref for Hub<'_> {
    type Target = Uring;

    fn deref(&self) -> &Uring {
        &self.0.0
    }
}

impl DerefMut for Hub<'_> {
    fn deref_mut(&mut self) -> &mut Uring {
        &mut self.0.0
    }
}
