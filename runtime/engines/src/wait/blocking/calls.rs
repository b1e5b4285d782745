//! The calls of a turn that wait: on a thread those of the kernel, on a coroutine a switch of
//! stacks.

use std::io;
use std::ops::DerefMut;
use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::Doing;
use seam::{Instant, SessionId};
use sys::socket::{self, Received, SockRef};

use super::kept::Kept;
use crate::context::WorkerContext;
use crate::erased::Value;
use crate::limits::WAIT;
use crate::parts::connection::Sent;
use crate::parts::transmit::CallMode;

/// The calls of a turn that wait.
pub trait BlockingCalls {
    /// Whether a send waits in the kernel.
    const SEND: CallMode;
    /// The longest wait for input, after which the turn looks at the server.
    const LONGEST: Duration;
    /// The worker has other connections, which use its buffers while this one waits; it calls the
    /// service's tick itself.
    const IS_SHARED: bool;

    /// The worker's buffers.
    fn kept(&mut self) -> impl DerefMut<Target = Kept>;

    /// The time.
    fn now(&self, context: &WorkerContext<'_>) -> Instant;

    /// A wait for the peer is over; returns the time.
    fn resumed(&self, context: &WorkerContext<'_>) -> Instant;

    /// The turn is about to wait; `doing` names its state.
    fn rest(&self, context: &WorkerContext<'_>, doing: Doing);

    /// Whether clients wait for a place that this one has.
    fn is_awaited(&self, context: &WorkerContext<'_>) -> bool;

    /// Receives into the worker's scratch buffer; waits for at most about `timeout`, or as long as
    /// the last time.
    ///
    /// # Errors
    /// The kernel refuses the timeout.
    fn receive(&mut self, fd: &OwnedFd, timeout: Option<Duration>) -> io::Result<Received>;

    /// Waits for about `time`.
    fn sleep(&mut self, time: Duration);

    /// Waits for room after a send that did not take all output, where the send itself did not.
    fn await_room(&mut self, sent: Sent);

    /// Does a job of session `id`; `None` if it was given up.
    fn work(&mut self, context: &WorkerContext<'_>, id: SessionId, job: Value) -> Option<Value>;
}

/// The calls of a thread, which sleeps in the kernel.
pub struct ThreadCalls<'a> {
    kept: &'a mut Kept,
    /// The socket's receive timeout; accepted sockets inherit [`WAIT`].
    timeout: Duration,
}

impl<'a> ThreadCalls<'a> {
    /// For the next connection of a worker with these buffers.
    pub fn new(kept: &'a mut Kept) -> ThreadCalls<'a> {
        ThreadCalls { kept, timeout: WAIT }
    }
}

impl BlockingCalls for ThreadCalls<'_> {
    const SEND: CallMode = CallMode::Blocking;
    const LONGEST: Duration = WAIT;
    const IS_SHARED: bool = false;

    #[inline(always)]
    fn kept(&mut self) -> impl DerefMut<Target = Kept> {
        &mut *self.kept
    }

    #[inline(always)]
    fn now(&self, context: &WorkerContext<'_>) -> Instant {
        context.now()
    }

    #[inline(always)]
    fn resumed(&self, context: &WorkerContext<'_>) -> Instant {
        let now = context.now();
        context.turn(now);
        now
    }

    #[inline(always)]
    fn rest(&self, context: &WorkerContext<'_>, doing: Doing) {
        context.rest(doing);
    }

    fn is_awaited(&self, context: &WorkerContext<'_>) -> bool {
        context.is_awaited()
    }

    #[inline(always)]
    fn receive(&mut self, fd: &OwnedFd, timeout: Option<Duration>) -> io::Result<Received> {
        // A timeout of zero would mean "forever" (socket(7), SO_RCVTIMEO).
        let timeout = timeout.map_or(self.timeout, |it| it.max(Duration::from_micros(1)));
        if timeout != self.timeout {
            self.timeout = timeout;
            SockRef::from(fd).set_read_timeout(Some(timeout))?;
        }
        Ok(socket::recv_into(fd, &mut self.kept.scratch))
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    #[inline(always)]
    fn await_room(&mut self, _sent: Sent) {}

    fn work(&mut self, context: &WorkerContext<'_>, _id: SessionId, job: Value) -> Option<Value> {
        Some(context.service.work(&(), job))
    }
}
