//! What every event loop keeps: its sessions, their deadlines, the spare buffers, the time of the
//! turn. How a loop watches descriptors is its own affair; `X` is its record for each session.

use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::Phase;
use seam::{Buffers, Closed, Conn, Cx, Instant, Peer, Service, SessionId};
use sys::socket;

use super::deadlines::Deadlines;
use super::door::Door;
use super::pace::{Pace, Taking};
use super::table::Table;
use crate::context::WorkerContext;
use crate::helpers::Helpers;

/// One session in its loop.
pub struct Connection<S: Service, X> {
    pub conn: Conn<S>,
    pub fd: OwnedFd,
    /// When bytes last moved, in either direction.
    pub active: Instant,
    /// The entry that counts among the deadlines.
    scheduled: Instant,
    /// How the peer takes its output.
    pace: Pace,
    /// The last reply is out; until then the peer may still send before it is cut off.
    pub linger: Option<Instant>,
    pub x: X,
}

/// A session with everything that a turn of it needs, looked up once.
pub struct At<'f, 'a, S: Service, X> {
    pub place: &'f mut Connection<S, X>,
    pub cx: Cx<'a, S::State>,
    pub buffers: &'f mut Buffers,
    deadlines: &'f mut Deadlines,
    /// Bytes of all sessions that were moved in this turn.
    pub moved: &'f mut usize,
}

impl<S: Service, X> Connection<S, X> {
    /// The kernel was given `bytes` of the output.
    #[inline]
    pub fn sent(&mut self, bytes: usize, now: Instant) {
        self.active = now;
        self.pace.give(&self.fd, bytes);
    }
}

impl<S: Service, X> At<'_, '_, S, X> {
    /// How many bytes of this session may be moved in this turn: `most`, or `least` where the turn
    /// is long already.
    #[inline]
    pub fn share(&self, least: usize, most: usize) -> usize {
        if *self.moved < TURN_BYTES { most } else { least }
    }

    /// The turn of this session is over: takes back what it does not need and notes when it wants
    /// to be woken.
    #[inline]
    pub fn rest(self, wake: Option<Instant>) {
        self.place.conn.reclaim(self.buffers);
        self.deadlines.ask(self.cx.me, wake, &mut self.place.scheduled);
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// Nothing moved for too long: flush and close.
    Idle,
    /// The peer takes no output: cut it off.
    Stalled,
    /// The peer does not stop sending: cut it off.
    Lingering,
}

/// A worker's sessions and what they share.
pub struct EventLoop<'a, S: Service, X> {
    pub context: &'a WorkerContext<'a, S>,
    pub table: Table<Connection<S, X>>,
    pub buffers: Buffers,
    pub door: Door,
    /// The time of this turn.
    pub now: Instant,
    deadlines: Deadlines,
    next_sweep: Instant,
    /// The slot from which the next sweep looks on.
    sweep_from: usize,
    sweep_every: Duration,
    /// Bytes that were moved in this turn.
    moved: usize,
    next_tick: Option<Instant>,
    drained: bool,
}

/// How many spare buffers a worker keeps: a turn seldom touches more sessions.
const BUFFERS_SPARE: usize = 256;
/// After so many bytes a turn is long: who had more to move goes on in the next one, and who has
/// come meanwhile is heard before. The kernel takes some 0.1 ms for them, of files or of memory.
const TURN_BYTES: usize = 256 << 10;
/// Sessions that one turn looks at to find those who overstay: some 0.1 ms, which all others wait.
const LOOKS: usize = 256;
/// Of those the most that it finds, for to end one that takes no output frees what the kernel holds
/// for it: 50 us, on a ring 200.
const FOUND_MAX: usize = 4;
/// Sessions that one turn wakes because their time has come. A crowd that came together is late
/// together, and is told so one after the other.
const WOKEN_MAX: usize = 32;
/// The pause between the parts of a sweep, in which others are served.
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

impl<'a, S: Service, X> EventLoop<'a, S, X> {
    pub fn new(context: &'a WorkerContext<'a, S>) -> EventLoop<'a, S, X> {
        let now = context.now();
        let sweep_every = sweep_every(context);
        let (table, buffers) = prepared(context);
        EventLoop {
            context,
            table,
            buffers,
            door: Door::new(context.sessions_max()),
            now,
            deadlines: Deadlines::default(),
            next_sweep: now + sweep_every,
            sweep_from: 0,
            sweep_every,
            moved: 0,
            // A world ticks once, so one worker calls it.
            next_tick: context.is_first.then_some(now),
            drained: false,
        }
    }

    /// A turn begins: reads the clock, once.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.now = self.context.now();
        self.moved = 0;
        if self.context.turn(self.now) {
            self.door.set_limit(self.context.sessions_max());
            self.sweep_every = sweep_every(self.context);
            self.next_sweep = self.next_sweep.min(self.now + self.sweep_every);
        }
    }

    /// The context of a call for session `me`.
    pub fn cx(&self, me: SessionId) -> Cx<'a, S::State> {
        let context = self.context;
        context.cx(self.now, me)
    }

    /// A peer has come: gives it a session.
    pub fn open(&mut self, fd: OwnedFd, peer: Peer, x: X) -> SessionId {
        let id = self.table.next_id();
        let cx = self.cx(id);
        let conn = Conn::open(self.context.service, &cx, peer, &mut self.buffers);
        let (active, scheduled) = (self.now, Instant::NEVER);
        self.table.insert(Connection {
            conn,
            fd,
            active,
            scheduled,
            pace: Pace::new(),
            linger: None,
            x,
        });
        self.context.opened(self.now);
        if self.drained {
            // It was on its way when the others were told.
            let cx = self.cx(id);
            let place = self.table.lookup(id).expect("inserted just now");
            place.conn.drain(self.context.service, &cx);
        }
        self.schedule(id);
        id
    }

    /// Ends a session; nothing of it may be in flight.
    pub fn close(&mut self, id: SessionId) -> Option<OwnedFd> {
        let place = self.table.remove(id)?;
        if place.conn.why() == Closed::Stalled {
            // The kernel would keep what the peer does not take, for minutes.
            let _ = socket::set_linger_reset(&place.fd);
        }
        place.conn.close(self.context.service, &self.cx(id));
        self.context.closed(self.now);
        Some(place.fd)
    }

    /// Notes the deadline that the session wants by now.
    pub fn schedule(&mut self, id: SessionId) {
        if let Some(place) = self.table.lookup(id) {
            let wake = place.conn.wants().wake;
            self.deadlines.ask(id, wake, &mut place.scheduled);
        }
    }

    /// A session and the context of a call for it, with the spare buffers beside.
    #[inline]
    pub fn at(&mut self, id: SessionId) -> Option<At<'_, 'a, S, X>> {
        let context = self.context;
        let cx = context.cx(self.now, id);
        let place = self.table.lookup(id)?;
        let EventLoop { buffers, deadlines, moved, .. } = self;
        Some(At { place, cx, buffers, deadlines, moved })
    }

    /// Whether so much was moved in this turn that the rest has time.
    pub fn is_long(&self) -> bool {
        self.moved >= TURN_BYTES
    }

    /// The last reply is out: from here on the peer has `knobs.linger` to stop sending.
    pub fn start_linger(&mut self, id: SessionId) {
        let until = self.now + self.context.knobs.linger;
        if let Some(place) = self.table.lookup(id) {
            place.linger = Some(until);
        }
    }

    /// How long the loop may sleep; `None`: until something happens.
    pub fn timeout(&self) -> Option<Duration> {
        let mut soonest = if self.table.len() > 0 { self.next_sweep } else { Instant::NEVER };
        for moment in [self.deadlines.next(), self.door.opens_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        (soonest != Instant::NEVER).then(|| soonest.since(self.now))
    }

    /// Wakes the sessions whose deadline has come, a bounded number of them, and says which they
    /// were.
    pub fn wake_due(&mut self) -> Vec<SessionId> {
        let mut woken = Vec::new();
        while woken.len() < WOKEN_MAX
            && let Some((entry, id)) = self.deadlines.due(self.now)
        {
            let cx = self.cx(id);
            let Some(place) = self.table.lookup(id) else { continue };
            if place.scheduled != entry {
                continue;
            }
            place.scheduled = Instant::NEVER;
            self.context.note_late(entry, self.now);
            place.conn.lend(&mut self.buffers);
            place.conn.deadline(self.context.service, &cx);
            woken.push(id);
            self.schedule(id);
        }
        woken
    }

    /// Gives the sessions back what their jobs have come to, and says which they were. A job that
    /// panicked ends its session.
    pub fn outcomes(&mut self, helpers: &dyn Helpers<S>) -> Vec<SessionId> {
        let mut changed = Vec::new();
        for (id, outcome) in helpers.collect() {
            let service = self.context.service;
            let Some(At { place, cx, buffers, .. }) = self.at(id) else { continue };
            place.conn.lend(buffers);
            match outcome {
                Some(outcome) => place.conn.done(service, &cx, outcome),
                None => place.conn.abort(Closed::Reset),
            }
            changed.push(id);
        }
        changed
    }

    /// Lets the world tick if its moment has come.
    pub fn tick(&mut self) {
        if self.next_tick.is_some_and(|moment| moment <= self.now) {
            if self.context.phase() == Phase::Leaving {
                // The world is the successor's to move.
                self.next_tick = None;
                return;
            }
            self.next_tick = self.context.service.tick(&self.cx(SessionId::NONE));
        }
    }

    /// Looks for sessions that overstay, now and then, and at a part of many at a time: each look
    /// can be a system call, and thousands of those at once would be heard by everybody.
    pub fn sweep(&mut self) -> Vec<(SessionId, Overdue)> {
        if self.now < self.next_sweep {
            return Vec::new();
        }
        if self.table.len() > 0 {
            self.context.note_late(self.next_sweep, self.now);
        }
        let (idle, write_stall) = (self.context.idle(), self.context.write_stall());
        let (mut found, from) = (Vec::new(), self.sweep_from);
        let mut reached = from + LOOKS;
        for id in self.table.ids_within(from..reached) {
            if found.len() == FOUND_MAX {
                reached = id.index() as usize;
                break;
            }
            let Some(place) = self.table.lookup(id) else { continue };
            let mut slow = false;
            if place.conn.out().is_empty() {
                place.pace.rest();
            } else {
                match place.pace.look(&place.fd, self.now, self.context.knobs) {
                    Taking::Some => place.active = self.now,
                    Taking::Nothing => {}
                    Taking::TooLittle => slow = true,
                }
            }
            let still = self.now.since(place.active);
            if place.linger.is_some_and(|until| until <= self.now) {
                found.push((id, Overdue::Lingering));
            } else if slow || (!place.conn.out().is_empty() && still >= write_stall) {
                found.push((id, Overdue::Stalled));
            } else if still >= idle {
                found.push((id, Overdue::Idle));
            }
        }
        let is_last = reached >= self.table.slots();
        self.sweep_from = if is_last { 0 } else { reached };
        self.next_sweep = self.now + if is_last { self.sweep_every } else { SWEEP_PAUSE };
        found
    }

    /// Takes no more connections, once those are in that were accepted for us already.
    pub fn shut_door(&mut self) {
        if self.context.is_over() {
            self.door.drain();
        }
    }

    /// Tells every session that the server drains, once, and says which sessions there are.
    pub fn drain(&mut self) -> Vec<SessionId> {
        self.shut_door();
        if std::mem::replace(&mut self.drained, true) {
            return Vec::new();
        }
        let ids = self.table.ids();
        for &id in &ids {
            let cx = self.cx(id);
            if let Some(place) = self.table.lookup(id) {
                place.conn.lend(&mut self.buffers);
                place.conn.drain(self.context.service, &cx);
            }
        }
        ids
    }

    /// Drops what is left of every session's output: the server is forced.
    pub fn force(&mut self) -> Vec<SessionId> {
        self.door.drain();
        let ids = self.table.ids();
        for &id in &ids {
            if let Some(place) = self.table.lookup(id) {
                place.conn.abort(Closed::Forced);
            }
        }
        ids
    }

    /// Carries out what sessions wished for beside their own output; says whose output changed.
    pub fn effects(&mut self) -> Vec<SessionId> {
        if !self.context.effects.is_filled() {
            return Vec::new();
        }
        self.context.see_to_wishes();
        let mut changed = Vec::new();
        for push in self.context.effects.take_pushes() {
            let pushed = match self.table.lookup(push.to) {
                Some(place) => place.conn.push(&push.bytes).is_ok(),
                None => false,
            };
            if pushed {
                changed.push(push.to);
            } else {
                self.context.slot().pushes_dropped.add(1);
            }
        }
        changed
    }
}

/// A table and buffers, with memory for as many sessions as are to be prepared; what the kernel
/// gives is touched now, so that the first peers need not wait for it.
fn prepared<S: Service, X>(context: &WorkerContext<'_, S>) -> (Table<Connection<S, X>>, Buffers) {
    let count = context.knobs.prepared.min(context.sessions_max());
    let (mut table, mut buffers) = (Table::new(context.id.slot()), Buffers::new(BUFFERS_SPARE));
    table.prepare(count);
    let warm = |mut buffer: Vec<u8>| {
        buffer.resize(buffer.capacity(), 0);
        buffer
    };
    let made: Vec<_> = (0..count.min(BUFFERS_SPARE)).map(|_| warm(buffers.take())).collect();
    made.into_iter().for_each(|buffer| buffers.put(buffer));
    (table, buffers)
}

/// How often to look for sessions that overstay.
pub fn sweep_every<S: Service>(context: &WorkerContext<'_, S>) -> Duration {
    let shortest = context.idle().min(context.write_stall()).min(context.knobs.linger);
    (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(5))
}
