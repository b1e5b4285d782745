//! One connection, as every loop keeps it: the session, its socket, and its peer's pace.

use std::os::fd::OwnedFd;

use memory::Phase;
use seam::{Closed, Conn, Cx, Instant, Service};
use sys::socket;

use super::pace::{Pace, Taking};
use crate::context::WorkerContext;
use crate::limits::LINGER;

/// A session and its socket; `X` is the additional record that one kind of loop needs.
pub struct Connection<S: Service, X> {
    pub conn: Conn<S>,
    pub fd: OwnedFd,
    /// The time when bytes last moved, in either direction.
    pub active: Instant,
    /// When the loop checks it even if no bytes move; [`Instant::NEVER`] if it need not.
    pub scheduled: Instant,
    /// The peer's pace in taking its output.
    pub pace: Pace,
    /// Set when the last reply has left; until then the peer may still send before it is cut off.
    pub linger: Option<Instant>,
    /// The peer has stopped sending.
    pub ended: bool,
    pub x: X,
}

/// The reason why a connection is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// No bytes moved for too long: flush and close.
    Idle,
    /// The peer takes no output: cut it off.
    Stalled,
    /// The peer does not stop sending: cut it off.
    Lingering,
}

impl<S: Service, X> Connection<S, X> {
    /// The connection of a peer that came at `now`.
    pub fn new(conn: Conn<S>, fd: OwnedFd, now: Instant, x: X) -> Connection<S, X> {
        Connection {
            conn,
            fd,
            active: now,
            scheduled: Instant::NEVER,
            pace: Pace::new(),
            linger: None,
            ended: false,
            x,
        }
    }

    /// Records that the kernel took the oldest `bytes` of the output.
    #[inline]
    pub fn sent(&mut self, context: &WorkerContext<'_, S>, cx: &Cx<'_, S::State>, bytes: usize) {
        self.note_sent(context, cx.now, bytes);
        self.conn.sent(context.service, cx, bytes);
    }

    /// Records that the kernel took `bytes` of the output that had been taken out for it.
    #[inline]
    pub fn landed(&mut self, context: &WorkerContext<'_, S>, cx: &Cx<'_, S::State>, bytes: usize) {
        self.note_sent(context, cx.now, bytes);
        self.conn.landed(context.service, cx, bytes);
    }

    #[inline]
    fn note_sent(&mut self, context: &WorkerContext<'_, S>, now: Instant, bytes: usize) {
        self.active = now;
        self.pace.give(&self.fd, bytes);
        context.slot().bytes_out.add(bytes as u64);
    }

    /// Whether the connection is overdue at `now`.
    pub fn overdue(&mut self, context: &WorkerContext<'_, S>, now: Instant) -> Option<Overdue> {
        let owes = !self.conn.out().is_empty();
        let mut slow = false;
        if owes {
            match self.pace.look(&self.fd, now, context.knobs) {
                Taking::Some => self.active = now,
                Taking::Nothing => {}
                Taking::TooLittle => slow = true,
            }
        } else {
            self.pace.rest();
        }
        let still = now.since(self.active);
        if self.linger.is_some_and(|until| until <= now) {
            Some(Overdue::Lingering)
        } else if slow || (owes && still >= context.write_stall()) {
            Some(Overdue::Stalled)
        } else if still >= context.idle() {
            Some(Overdue::Idle)
        } else {
            None
        }
    }

    /// Whether the connection lingers, now that the session is over and its output flushed. It
    /// lingers if the service ended it and the peer may still send: the write half is shut down,
    /// and until [`LINGER`] is over the loop receives and drops input.
    pub fn lingers(&mut self, now: Instant, phase: Phase) -> bool {
        let is_ours = matches!(self.conn.why(), Closed::Service | Closed::Overlong);
        if self.ended || !is_ours || phase >= Phase::Forced {
            return false;
        }
        if self.linger.is_none() {
            // A ring leaves a shutdown to a kernel thread, which looks the descriptor up later and
            // may find the next connection under its number. So this is a system call.
            if socket::shutdown_write(&self.fd).is_err() {
                return false;
            }
            self.linger = Some(now + LINGER);
        }
        true
    }

    /// Makes the close of a stalled connection a reset, because the kernel would keep its output
    /// for minutes.
    pub fn reset_if_stalled(&self) {
        if self.conn.why() == Closed::Stalled {
            let _ = socket::set_linger_reset(&self.fd);
        }
    }

    /// Ends the session; the caller closes the descriptor.
    pub fn close(self, service: &S, cx: &Cx<'_, S::State>) -> OwnedFd {
        self.reset_if_stalled();
        self.conn.close(service, cx);
        self.fd
    }
}
