//! The common part of every event loop: its sessions, their deadlines, the spare buffers, the time
//! of the turn. Each loop watches descriptors in its own way; `X` is its record for each session.
//!
//! A loop calls it in this order: [`EventLoop::begin_turn`] after its wait; [`EventLoop::at`] for
//! each event, which gives the session with all that its turn needs; then once a turn the sessions
//! whose deadline has come ([`EventLoop::wake_due`]), the service's tick, the sessions that are
//! overdue ([`EventLoop::sweep`]), the effects on other sessions ([`EventLoop::effects`]); and
//! [`EventLoop::end_turn`] before it waits again, at most for [`EventLoop::timeout`]. Calls that
//! concern several sessions return their ids, because the loop has to settle each in its own way.
//!
//! The clock is read once a turn, so all sessions of a turn see one time. The exception is a turn
//! that receives much: every few receives it looks whether the turn has become long.
//!
//! Deadlines of sessions are exact to the turn. Everything slower (idle, stalled, lingering
//! connections) is found by a sweep, which walks the table in parts with a pause between them,
//! because each look at a peer may cost a system call.

use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::{Doing, Phase};
use seam::{Buffers, Closed, Conn, Cx, Instant, Peer, SessionId};

use super::admission::Admission;
use super::connection::{Connection, Overdue, Sent};
use super::deadlines::Deadlines;
use super::table::Table;
use super::tick::tick;
use super::transmit::CallMode;
use super::transport::ByteStream;
use super::turn_length::TurnLength;
use crate::context::WorkerContext;
use crate::helpers::{Done, Helpers};
use crate::limits::{
    BUFFERS, DRAIN_LOOK, LINGER, SEND_BYTES, SEND_BYTES_LONG, SHORT_LOOK, SWEEP_CLOSES,
    SWEEP_PAUSE, SWEEP_SESSIONS, TURN_BYTES, WAIT, WAKES,
};

/// A session with everything that its turn needs, looked up once.
pub struct At<'f, 'a, X, S = OwnedFd> {
    pub context: &'a WorkerContext<'a>,
    pub connection: &'f mut Connection<X, S>,
    pub cx: Cx<'a, ()>,
    pub buffers: &'f mut Buffers,
    deadlines: &'f mut Deadlines,
    /// Bytes of all sessions that were moved in this turn.
    pub moved: &'f mut usize,
}

impl<X, S: ByteStream> At<'_, '_, X, S> {
    /// The number of bytes that this session may send in this turn.
    #[inline]
    pub fn send_bytes(&self) -> usize {
        if *self.moved < TURN_BYTES { SEND_BYTES } else { SEND_BYTES_LONG }
    }

    /// Hands out the job and sends what waits, up to a turn's limit; returns whether the socket is
    /// full. A socket that `is_full` is not tried.
    #[inline]
    pub fn send(&mut self, helpers: &dyn Helpers, mut is_full: bool) -> bool {
        let mut left = self.send_bytes();
        let At { context, connection, cx, moved, .. } = self;
        loop {
            if let Some(job) = connection.conn.take_job() {
                helpers.submit(cx.me, job);
            }
            if connection.conn.out().waiting() == 0 || is_full || left == 0 {
                return is_full;
            }
            match connection.send(context, cx, CallMode::Nonblocking) {
                Sent::Bytes(len) => {
                    left = left.saturating_sub(len);
                    **moved += len;
                }
                Sent::Later => is_full = true,
                Sent::Broken => return is_full,
            }
        }
    }

    /// Ends the turn of this session: takes back its spare memory and notes when it wants to be
    /// woken.
    #[inline]
    pub fn rest(&mut self, wake: Option<Instant>) {
        self.connection.conn.reclaim(self.buffers);
        self.schedule(wake);
    }

    /// Notes when the session wants to be woken.
    #[inline]
    pub fn schedule(&mut self, wake: Option<Instant>) {
        self.deadlines.ask(self.cx.me, wake, &mut self.connection.scheduled);
    }
}

/// A worker's sessions and their shared data.
pub struct EventLoop<'a, X, S = OwnedFd> {
    pub context: &'a WorkerContext<'a>,
    pub table: Table<Connection<X, S>>,
    pub buffers: Buffers,
    pub admission: Admission,
    /// The time of this turn.
    pub now: Instant,
    deadlines: Deadlines,
    next_sweep: Instant,
    /// The slot at which the next sweep continues.
    sweep_from: usize,
    sweep_every: Duration,
    /// When the silent may next have to make room.
    next_room: Instant,
    /// Bytes that were moved in this turn.
    moved: usize,
    length: TurnLength,
    next_tick: Option<Instant>,
    drained: bool,
    /// Memory was short at the last look.
    was_short: bool,
}

impl<'a, X, S: ByteStream> EventLoop<'a, X, S> {
    pub fn new(context: &'a WorkerContext<'a>) -> EventLoop<'a, X, S> {
        let now = context.now();
        let sweep_every = sweep_every(context);
        let (table, buffers) = (Table::new(context.id.slot()), Buffers::new(BUFFERS));
        EventLoop {
            context,
            table,
            buffers,
            admission: Admission::new(context.sessions_max()),
            now,
            deadlines: Deadlines::default(),
            next_sweep: now + sweep_every,
            sweep_from: 0,
            sweep_every,
            next_room: Instant::ZERO,
            moved: 0,
            length: TurnLength::default(),
            // One worker of all calls the service's tick.
            next_tick: context.is_first.then_some(now),
            drained: false,
            was_short: false,
        }
    }

    /// Begins a turn: reads the clock, once.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.now = self.context.now();
        (self.moved, self.length) = (0, TurnLength::default());
        if self.context.board.is_short() != self.was_short {
            self.was_short = !self.was_short;
            self.sweep_every = sweep_every(self.context);
            // Connections that were kept from receiving resume with the next sweep.
            self.next_sweep = self.next_sweep.min(self.now + SHORT_LOOK);
        }
        if self.context.turn(self.now) {
            self.admission.set_limit(self.context.sessions_max());
            self.sweep_every = sweep_every(self.context);
            self.next_sweep = self.next_sweep.min(self.now + self.sweep_every);
        }
    }

    /// The turn is over, and the loop is about to wait; `doing` names its state.
    #[inline]
    pub fn end_turn(&mut self) {
        self.context.rest(Doing::Waiting);
    }

    /// The context of a call for session `me`.
    pub fn cx(&self, me: SessionId) -> Cx<'a, ()> {
        let context = self.context;
        context.cx(self.now, me)
    }

    /// Opens the session of a new connection; the loop settles it.
    pub fn open(&mut self, fd: S, peer: Peer, x: X) -> At<'_, 'a, X, S> {
        let id = self.table.next_id();
        let cx = self.cx(id);
        let conn = Conn::open(self.context.service, &cx, peer, &mut self.buffers);
        self.table.insert(Connection::new(conn, fd, self.now, x));
        self.context.opened(self.now);
        let (now, drained) = (self.now, self.drained);
        let at = self.at(id).expect("inserted just now");
        if drained {
            // The connection was on its way when the drain began.
            at.connection.conn.last_call(now, now);
        }
        at
    }

    /// Ends a session of which no operation is in flight.
    pub fn close(&mut self, id: SessionId) -> Option<S> {
        let connection = self.table.remove(id)?;
        let fd = connection.close(self.context, &self.cx(id));
        self.context.closed(self.now);
        Some(fd)
    }

    /// A session and the context of a call for it, with the spare buffers.
    #[inline]
    pub fn at(&mut self, id: SessionId) -> Option<At<'_, 'a, X, S>> {
        let context = self.context;
        let cx = context.cx(self.now, id);
        let connection = self.table.lookup(id)?;
        let EventLoop { buffers, deadlines, moved, .. } = self;
        Some(At { context, connection, cx, buffers, deadlines, moved })
    }

    /// The bytes that the next receive may take. A turn that lasts too long is long from here on.
    #[inline]
    pub fn receive_bytes(&mut self) -> usize {
        self.length.receive_bytes(&mut self.moved, self.now, || self.context.now())
    }

    /// Whether this turn has moved so much that the rest can wait.
    pub fn is_long(&self) -> bool {
        self.moved >= TURN_BYTES
    }

    /// The time that the loop may sleep; `None`: until an event.
    pub fn timeout(&self) -> Option<Duration> {
        let mut soonest = if self.table.len() > 0 { self.next_sweep } else { Instant::NEVER };
        if self.admission.is_full() {
            soonest = soonest.min(self.next_room);
        }
        if self.drained {
            // Another worker may have accepted the last connection.
            soonest = soonest.min(self.now + DRAIN_LOOK);
        }
        for moment in [self.deadlines.next(), self.admission.resumes_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        (soonest != Instant::NEVER).then(|| soonest.since(self.now))
    }

    /// Wakes up to [`WAKES`] sessions whose deadline has come, and returns them.
    pub fn wake_due(&mut self) -> Vec<SessionId> {
        let mut woken = Vec::new();
        while woken.len() < WAKES
            && let Some((entry, id)) = self.deadlines.due(self.now)
        {
            let cx = self.cx(id);
            let Some(connection) = self.table.lookup(id) else { continue };
            if connection.scheduled != entry {
                continue;
            }
            connection.scheduled = Instant::NEVER;
            self.context.note_late(entry, self.now);
            connection.conn.lend(&mut self.buffers);
            connection.conn.deadline(self.context.service, &cx);
            self.deadlines.ask(id, connection.conn.wants().wake, &mut connection.scheduled);
            woken.push(id);
        }
        woken
    }

    /// Gives sessions the outcomes of their jobs, and returns the sessions. A job that panicked
    /// ends its session.
    pub fn outcomes(&mut self, helpers: &dyn Helpers) -> Vec<SessionId> {
        let mut changed = Vec::new();
        for Done { id, outcome, times } in helpers.collect() {
            let (context, service) = (self.context, self.context.service);
            context.job_ended(times);
            let Some(At { connection, cx, buffers, .. }) = self.at(id) else { continue };
            connection.conn.lend(buffers);
            match outcome {
                Some(outcome) => connection.conn.outcome(service, &cx, outcome),
                None => connection.conn.abort(Closed::Reset),
            }
            changed.push(id);
        }
        changed
    }

    /// Calls the service's tick if it is due.
    pub fn tick(&mut self) {
        self.next_tick = tick(self.context, self.next_tick, self.now);
    }

    /// Checks for overdue sessions periodically, and in parts: each check can be a system call, and
    /// thousands of them at once would delay all sessions.
    pub fn sweep(&mut self) -> Vec<(SessionId, Overdue)> {
        if self.now < self.next_sweep {
            return Vec::new();
        }
        if self.table.len() > 0 {
            self.context.note_late(self.next_sweep, self.now);
        }
        let (mut found, from) = (Vec::new(), self.sweep_from);
        let mut reached = from + SWEEP_SESSIONS;
        for id in self.table.ids_within(from..reached) {
            if found.len() == SWEEP_CLOSES {
                reached = id.index() as usize;
                break;
            }
            let Some(connection) = self.table.lookup(id) else { continue };
            found.extend(connection.overdue(self.context, self.now).map(|why| (id, why)));
        }
        let is_last = reached >= self.table.slots();
        self.sweep_from = if is_last { 0 } else { reached };
        self.next_sweep = self.now + if is_last { self.sweep_every } else { SWEEP_PAUSE };
        found
    }

    /// At the limit, while others wait: the connections that were silent for longest, as many as
    /// must leave before the next one is admitted. `has_more`: the loop itself holds some that
    /// wait.
    pub fn make_room(&mut self, has_more: bool) -> Vec<(SessionId, Overdue)> {
        if !self.admission.is_full() || self.now < self.next_room {
            return Vec::new();
        }
        self.next_room = self.now + WAIT;
        if !has_more && !self.context.is_awaited() {
            return Vec::new();
        }
        let mut silent = Vec::new();
        for id in self.table.ids() {
            let Some(connection) = self.table.lookup(id) else { continue };
            if connection.is_silent(self.now) {
                silent.push((connection.active, id));
            }
        }
        silent.sort_unstable_by_key(|(active, _)| *active);
        silent.truncate(self.admission.excess(self.table.len()));
        silent.into_iter().map(|(_, id)| (id, Overdue::Idle)).collect()
    }

    /// Stops accepting, once the connections on their way from an acceptor are in.
    pub fn stop_admitting(&mut self) {
        if self.context.is_over() {
            self.admission.drain();
        }
    }

    /// Announces the drain to every session, once, and returns all sessions.
    pub fn drain(&mut self) -> Vec<SessionId> {
        self.stop_admitting();
        if std::mem::replace(&mut self.drained, true) {
            return Vec::new();
        }
        self.sweep_every = DRAIN_LOOK;
        self.next_sweep = self.next_sweep.min(self.now + DRAIN_LOOK);
        let ids = self.table.ids();
        for &id in &ids {
            if let Some(connection) = self.table.lookup(id) {
                connection.conn.lend(&mut self.buffers);
                connection.conn.last_call(self.now, connection.active);
            }
        }
        ids
    }

    /// Drops the output of every session, because the server is forced.
    pub fn force(&mut self) -> Vec<SessionId> {
        self.admission.drain();
        let ids = self.table.ids();
        for &id in &ids {
            if let Some(connection) = self.table.lookup(id) {
                connection.conn.abort(Closed::Forced);
            }
        }
        ids
    }

    /// Carries out the effects of sessions beyond their own output; returns sessions whose output
    /// changed.
    pub fn effects(&mut self) -> Vec<SessionId> {
        if !self.context.effects.is_filled() {
            return Vec::new();
        }
        self.context.carry_out_effects();
        let mut changed = Vec::new();
        for push in self.context.effects.take_pushes() {
            let (service, cx) = (self.context.service, self.cx(push.to));
            let connection = self.table.lookup(push.to);
            let pushed =
                connection.is_some_and(|it| it.conn.push(service, &cx, &push.bytes).is_ok());
            if pushed {
                changed.push(push.to);
            } else {
                self.context.slot().pushes_dropped.add(1);
            }
        }
        changed
    }
}

/// The interval between two searches for overdue sessions.
pub fn sweep_every(context: &WorkerContext<'_>) -> Duration {
    if context.phase() >= Phase::Draining {
        return DRAIN_LOOK;
    }
    if context.board.is_short() {
        return SHORT_LOOK;
    }
    let shortest = context.idle().min(context.write_stall()).min(LINGER);
    (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(5))
}
