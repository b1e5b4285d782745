//! Who comes: an accept or a poll that is armed while the door is open, by whoever leads.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use memory::{Phase, Refusal};
use seam::Service;
use sys::poll::{PollFd, poll};
use sys::uring::{Acceptance, Armed};

use super::completion_port::Errand;
use super::watch::Watch;
use super::{Hand, TOKEN_DOOR};
use crate::parts::door::Failure;

/// A connection without a session, and its peer if that was told.
pub(super) type Comer = (OwnedFd, Option<SocketAddr>);

/// What is known about those who come.
pub(super) struct Arrivals {
    /// How the ring accepts; `None`: it polls, and we accept.
    how: Option<Acceptance>,
    /// Those that the kernel took for us and that are too many.
    parked: VecDeque<Comer>,
    /// The accept or poll that waits.
    armed: Option<Armed>,
    /// It has been asked to stop.
    stopping: bool,
    /// A poll has ended: somebody may be there.
    knocked: bool,
}

impl Arrivals {
    pub fn new(how: Option<Acceptance>) -> Arrivals {
        let parked = VecDeque::new();
        Arrivals { how, parked, armed: None, stopping: false, knocked: false }
    }

    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// The poll has ended.
    pub fn knocked(&mut self) {
        (self.armed, self.stopping, self.knocked) = (None, false, true);
    }

    /// Nobody is served any more.
    pub fn forget(&mut self) {
        self.parked.clear();
    }
}

impl<S: Service> Hand<'_, '_, S> {
    /// Accepts while the door is open and stops while it is not.
    ///
    /// A multishot accept takes all who wait at once, so those who are too many wait here. When we
    /// leave or drain they are served whatever the limit: no successor can see them, and they may
    /// have asked already.
    pub(super) fn watch_door(&mut self, watch: &mut Watch) {
        let is_leaving = matches!(self.context.phase(), Phase::Leaving | Phase::Draining);
        let mut open = watch.door.is_open(watch.inside, self.now);
        while (open || is_leaving)
            && let Some(comer) = watch.arrivals.parked.pop_front()
        {
            self.admit(watch, comer);
            open = watch.door.is_open(watch.inside, self.now);
        }
        if open && std::mem::take(&mut watch.arrivals.knocked) {
            open = self.accept(watch);
        }
        if open && watch.arrivals.armed.is_none() {
            self.arm(watch);
        } else if !open
            && let Some(armed) = watch.arrivals.armed
            && !watch.arrivals.stopping
        {
            watch.arrivals.stopping = true;
            self.completion_port.ring.hub().cancel(armed);
        }
    }

    fn arm(&mut self, watch: &mut Watch) {
        let mut hub = self.completion_port.ring.hub();
        watch.arrivals.armed = Some(match watch.arrivals.how {
            Some(how) => hub.accept(self.context.listener, TOKEN_DOOR, how),
            // It looks first, so that nobody is forgotten whom this round had no time for.
            None => hub.watch_once(self.context.accept_source.fd(), TOKEN_DOOR),
        });
    }

    /// Accepts those who wait, a bounded number of them; false if the door must be shut.
    fn accept(&mut self, watch: &mut Watch) -> bool {
        let context = self.context;
        for _ in 0..context.knobs.turn_accepts {
            if !watch.door.is_open(watch.inside, self.now) {
                return false;
            }
            match context.accept_source.take(false) {
                Ok((fd, peer)) => self.admit(watch, (fd, Some(peer))),
                Err(error) => match watch.door.failed(&error, self.now) {
                    Failure::Empty => return true,
                    Failure::Peer => context.slot().refuse(Refusal::Gone),
                    Failure::Exhausted => {
                        context.slot().refuse(Refusal::Exhausted);
                        return false;
                    }
                },
            }
        }
        true
    }

    pub(super) fn accepted(&mut self, watch: &mut Watch, result: io::Result<Comer>, more: bool) {
        let context = self.context;
        let mut is_exhausted = false;
        match result {
            Ok(comer) => watch.arrivals.parked.push_back(comer),
            // Whoever armed it has ended, or the door was shut.
            Err(error) if error.raw_os_error() == Some(CANCELLED) => {}
            Err(error) => {
                is_exhausted = watch.door.failed(&error, self.now) == Failure::Exhausted;
                let why = if is_exhausted { Refusal::Exhausted } else { Refusal::Gone };
                context.slot().refuse(why);
            }
        }
        if more {
            return;
        }
        (watch.arrivals.armed, watch.arrivals.stopping) = (None, false);
        let is_leaving = context.phase() == Phase::Leaving;
        if is_leaving && !is_exhausted && is_readable(context.listener) {
            // The kernel wakes one accept for each connection; if it woke ours, and that was
            // cancelled before it ran, nobody else knows. One more round takes what waits.
            self.arm(watch);
        }
    }

    fn admit(&mut self, watch: &mut Watch, comer: Comer) {
        watch.inside += 1;
        self.brought.push(Errand::Come(comer));
    }
}

/// Whether somebody waits to be accepted.
fn is_readable(listener: BorrowedFd<'_>) -> bool {
    let mut list = [PollFd::new(listener, true, false)];
    poll(&mut list, Some(Duration::ZERO)).is_ok_and(|ready| ready > 0)
}

/// `ECANCELED` (errno(3)).
const CANCELLED: i32 = 125;
