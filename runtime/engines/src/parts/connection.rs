//! One connection, as every loop keeps it: the session, its socket, and its peer's pace.
//!
//! The duties of a loop for each connection next to moving its bytes are here, so that all loops do
//! the same. [`Connection::received`] and [`Connection::sent`] count the bytes, note the time and
//! tell the session. [`Connection::may_receive`] compares the memory that the connection holds with
//! the server's budget. [`Connection::overdue`] decides once a sweep whether it is of least use,
//! idle, stalled or has lingered long enough; the rule itself is [`seam::overdue`].
//!
//! The end has two forms. A session that the service ended *lingers*: the write half is shut down,
//! and the loop receives and drops what the peer still sends, because a close with unread input
//! resets the connection and can destroy the last reply. All others close at once, and a peer that
//! took no output is reset.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use language::eprintln;
use memory::Phase;
use seam::{Closed, Cx, Instant, Taking, overdue};
use sys::socket::Received;

use super::pace::Pace;
use super::transmit::CallMode;
use super::transport::ByteStream;
use crate::context::WorkerContext;
use crate::erased::Conn;
use crate::limits::{HELD_FREE, LINGER, LINGER_DRAINED, RECEIVE_BYTES, SILENCE_FULL};

/// A session and its socket; `X` is the additional record that one kind of loop needs.
pub struct Connection<X, S = OwnedFd> {
    pub conn: Conn,
    /// A descriptor, unless TCP is in user space.
    pub fd: S,
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
    /// The bytes of memory that it was counted to hold.
    held: usize,
    /// It does not receive because memory is short.
    gated: bool,
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
    /// Memory is short, and this connection is of least use: cut it off.
    Shed,
    /// Memory was short, and the connection may receive again.
    Resumed,
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took this number of bytes.
    Bytes(usize),
    /// The peer takes nothing, yet or in time.
    Later,
    /// The connection is broken; its session has been told.
    Broken,
}

impl<X, S: ByteStream> Connection<X, S> {
    /// The connection of a peer that came at `now`.
    pub fn new(conn: Conn, fd: S, now: Instant, x: X) -> Connection<X, S> {
        Connection {
            conn,
            fd,
            active: now,
            scheduled: Instant::NEVER,
            pace: Pace::new(),
            linger: None,
            ended: false,
            held: 0,
            gated: false,
            x,
        }
    }

    /// Records that the kernel took the oldest `bytes` of the output.
    #[inline]
    pub fn sent(&mut self, context: &WorkerContext<'_>, cx: &Cx<'_, ()>, bytes: usize) {
        self.note_sent(context, cx.now, bytes);
        self.conn.sent(context.service, cx, bytes);
    }

    /// Records that the kernel took `bytes` of the output that had been taken out for it.
    #[inline]
    pub fn landed(&mut self, context: &WorkerContext<'_>, cx: &Cx<'_, ()>, bytes: usize) {
        self.note_sent(context, cx.now, bytes);
        self.conn.landed(context.service, cx, bytes);
    }

    #[inline]
    fn note_sent(&mut self, context: &WorkerContext<'_>, now: Instant, bytes: usize) {
        self.active = now;
        self.pace.give(&self.fd, bytes);
        context.slot().bytes_out.add(bytes as u64);
    }

    /// Counts the memory that the connection holds; returns whether it may receive. While memory is
    /// short, a connection that holds much may not.
    #[inline]
    pub fn may_receive(&mut self, context: &WorkerContext<'_>, now: Instant) -> bool {
        self.count_held(context, now);
        self.gated = context.board.is_short() && (self.holds_much() || context.board.is_dire());
        !self.gated
    }

    /// Counts the memory that the connection holds.
    #[inline]
    pub fn count_held(&mut self, context: &WorkerContext<'_>, now: Instant) {
        let held = self.conn.held();
        if held != self.held {
            context.hold(std::mem::replace(&mut self.held, held), held, now);
        }
    }

    /// Counts the memory of a connection that holds much, or has held it; returns whether it does.
    /// A small reply that is sent at once costs no count.
    #[inline]
    pub fn count_much(&mut self, context: &WorkerContext<'_>, now: Instant) -> bool {
        if self.conn.held().max(self.held) <= HELD_FREE {
            return false;
        }
        self.count_held(context, now);
        self.holds_much()
    }

    /// Whether the peer has been silent for so long, while the service waits for it, that it may
    /// have to leave a full server.
    pub fn is_silent(&self, now: Instant) -> bool {
        let wants = self.conn.wants();
        now.since(self.active) >= SILENCE_FULL
            && self.linger.is_none()
            && wants.read
            && !wants.write
    }

    /// Whether it holds more than a connection may while memory is short.
    pub fn holds_much(&self) -> bool {
        self.held > HELD_FREE
    }

    /// Counts a connection that is closed because memory is short, if it is one.
    pub fn is_shed(&mut self, context: &WorkerContext<'_>, now: Instant) -> bool {
        if !self.count_much(context, now) || !context.board.is_short() {
            return false;
        }
        context.board.judge_memory(now.ns());
        let still = now.since(self.active);
        let still_ms = u64::try_from(still.as_millis()).unwrap_or(u64::MAX);
        if !context.board.is_least_useful(self.held, still_ms, now.ns()) {
            return false;
        }
        let slot = context.slot();
        if slot.shed.read() == 0 {
            eprintln!(
                "memory is short: connections hold {} of {} bytes (--memory-max); closing those of \
                 least use, first one of {} bytes that was still for {still_ms} ms",
                context.board.held_total(),
                context.board.settings().memory_max(),
                self.held
            );
        }
        slot.shed.add(1);
        true
    }

    /// Whether the connection is overdue at `now`.
    pub fn overdue(&mut self, context: &WorkerContext<'_>, now: Instant) -> Option<Overdue> {
        let owes = !self.conn.out().is_empty();
        let why = self.why_over(context, now, owes);
        if self.is_shed(context, now) {
            Some(Overdue::Shed)
        } else if self.gated && !context.board.is_short() {
            Some(Overdue::Resumed)
        } else if self.linger.is_some() && self.has_lingered(now, context.phase()) {
            Some(Overdue::Lingering)
        } else {
            why.map(|why| if why == Closed::Idle { Overdue::Idle } else { Overdue::Stalled })
        }
    }

    /// Looks at the peer's pace, if it `owes` the taking of output, and decides whether the
    /// connection is over because nothing moves.
    pub fn why_over(
        &mut self,
        context: &WorkerContext<'_>,
        now: Instant,
        owes: bool,
    ) -> Option<Closed> {
        let taking = owes.then(|| self.pace.look(&self.fd, now, context.pace()));
        match taking {
            Some(Taking::Some) => self.active = now,
            Some(Taking::Nothing | Taking::TooLittle) => {}
            None => self.pace.rest(),
        }
        overdue(taking, now.since(self.active), context.write_stall(), context.idle())
    }

    /// Carries out the verdict of [`Connection::overdue`]. True if the loop cuts the connection
    /// off; otherwise it settles it.
    pub fn end_overdue(&mut self, why: Overdue) -> bool {
        match why {
            Overdue::Idle => self.conn.shut(Closed::Idle),
            Overdue::Stalled => self.conn.abort(Closed::Stalled),
            Overdue::Shed => self.conn.abort(Closed::Shed),
            // The peer may still read the data that the kernel holds for it; the server receives no
            // longer.
            Overdue::Lingering => self.ended = true,
            Overdue::Resumed => {}
        }
        !matches!(why, Overdue::Idle | Overdue::Resumed)
    }

    /// Sends the oldest output by one call.
    #[inline]
    pub fn send(&mut self, context: &WorkerContext<'_>, cx: &Cx<'_, ()>, mode: CallMode) -> Sent {
        match self.fd.transmit(context.assets, self.conn.out(), mode) {
            Ok(len) => {
                self.sent(context, cx, len);
                Sent::Bytes(len)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Later,
            Err(_) => {
                self.conn.abort(Closed::Reset);
                Sent::Broken
            }
        }
    }

    /// Ends the session because nothing moves.
    pub fn end(&mut self, why: Closed) {
        match why {
            Closed::Idle => self.conn.shut(why),
            _ => self.conn.abort(why),
        }
    }

    /// Feeds input.
    #[inline]
    pub fn feed(&mut self, context: &WorkerContext<'_>, cx: &Cx<'_, ()>, bytes: &[u8]) {
        self.active = cx.now;
        context.slot().bytes_in.add(bytes.len() as u64);
        context.judge_input(&self.fd, cx.now);
        self.conn.feed(context.service, cx, bytes);
    }

    /// Feeds what a receive into `buffer` brought.
    #[inline]
    pub fn received(
        &mut self,
        context: &WorkerContext<'_>,
        cx: &Cx<'_, ()>,
        received: Received,
        buffer: &[u8],
    ) {
        match received {
            Received::Bytes(len) => self.feed(context, cx, &buffer[..len]),
            Received::End => {
                self.ended = true;
                self.conn.eof(context.service, cx);
            }
            Received::Later => {}
            Received::Broken => self.conn.abort(Closed::Reset),
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
            if self.fd.shutdown_write().is_err() {
                return false;
            }
            self.linger = Some(now + LINGER);
        }
        true
    }

    /// Whether a lingering connection has lingered long enough. While the server drains that is
    /// shorter, once the peer's kernel has everything.
    pub fn has_lingered(&self, now: Instant, phase: Phase) -> bool {
        let left = self.linger.map_or(Duration::ZERO, |until| until.since(now));
        let is_drained = phase >= Phase::Draining && left <= LINGER - LINGER_DRAINED;
        left.is_zero() || (is_drained && self.fd.unsent_bytes() == 0)
    }

    /// The server drains: receives what has arrived, and tells the session of the drain when no
    /// more is there. A reply of the session that ends with it leaves in one segment with the end
    /// of output, so a peer that has the reply sees the end before it asks again.
    pub fn last_look(
        &mut self,
        context: &WorkerContext<'_>,
        cx: &Cx<'_, ()>,
        scratch: &mut Vec<u8>,
    ) {
        scratch.resize(RECEIVE_BYTES, 0);
        while self.conn.looks() {
            let is_over = self.ended || self.conn.is_past_call(cx.now);
            let received = if is_over { Received::Later } else { self.fd.receive(scratch) };
            self.received(context, cx, received, scratch);
            if received == Received::Later {
                self.conn.drain(context.service, cx);
            }
        }
        if self.conn.is_closing() {
            self.fd.cork();
        }
    }

    /// A stalled connection is reset by its close: the kernel would keep its output for minutes.
    pub fn reset_if_stalled(&self) {
        if matches!(self.conn.why(), Closed::Stalled | Closed::Shed) {
            self.fd.reset_at_close();
        }
    }

    /// The connection holds no memory any more.
    pub fn release(&mut self, context: &WorkerContext<'_>, now: Instant) {
        if self.held > 0 {
            context.hold(std::mem::take(&mut self.held), 0, now);
        }
    }

    /// Ends the session; the caller closes the socket.
    pub fn close(mut self, context: &WorkerContext<'_>, cx: &Cx<'_, ()>) -> S {
        self.release(context, cx.now);
        self.reset_if_stalled();
        self.conn.close(context.service, cx);
        self.fd
    }
}
