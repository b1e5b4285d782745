//! The loop of the readiness engines, over any [`Poller`].
//!
//! A turn: wait, read the clock once, then for each ready session receive once, step, send, and
//! change the interest only if it differs. Everything that was received is stepped before anything
//! is sent, so a pipelined batch costs one `recv(2)` and one `send(2)`.
//!
//! The key of an event is the session's id. The session is looked up once an event
//! ([`EventLoop::at`]); from there the connection itself is passed on: [`Mover::advance`] receives
//! and feeds, [`Mover::settle`] sends and compares what the session wants with what is watched.
//! Both return false for a session that is over, and only the loop, which owns the table, closes
//! it.
//!
//! Three things keep one session from delaying the others. A receive takes at most one scratch
//! buffer. A send takes at most what is left of the turn. A session with more to do goes to the
//! list `again`, which the next turn walks before its events, and only as far as it was long then.
//! A turn that has moved much or lasted long becomes *long*: from then on each session gets little.
//!
//! Level-triggered pollers report a state again and again, so the loop watches for room only while
//! a send would block. Edge-triggered ones report a change once, so [`Watch`] remembers it.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use language::eprintln;
use memory::{Phase, Refusal, SlotState};
use seam::{Closed, Peer, SessionId};
use sys::ready::{Interest, Ready};
use sys::socket::Received;

use super::admission::Attempt;
use super::connection::{Connection, Overdue};
use super::event_loop::{At, EventLoop};
use super::transport::ByteStream;
use crate::accept::source::AcceptSource;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers::{self, Helpers};
use crate::limits::{ACCEPTS, DRAIN_LOOK, RECEIVE_BYTES};
use crate::member::Member;
use crate::wait::mechanism::Mechanism;

/// A system call that reports readiness.
pub trait Poller: Sized {
    /// Whether it can report a change (an edge), not only a state (a level).
    const TELLS_EDGES: bool;

    /// An empty set of one worker.
    fn open(context: &WorkerContext<'_>) -> io::Result<Self>;

    /// Whether it reports each change of a session once.
    fn is_edge(&self) -> bool {
        false
    }

    /// Whether it can watch this descriptor at all.
    fn can_watch(&self, _fd: BorrowedFd<'_>) -> bool {
        true
    }

    /// Starts watching a descriptor; `key` comes back with its events.
    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Changes the watched events.
    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Stops watching a descriptor that stays open.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Notes that a descriptor is about to be closed.
    fn forget(&mut self, fd: BorrowedFd<'_>);

    /// Waits for events, at most `timeout`, and appends them to `ready`.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;
}

/// A way to learn which connections are ready: a system call, or TCP in user space.
pub trait Watcher: Sized {
    /// The socket of a connection.
    type Socket: ByteStream;

    /// Whether it can report a change (an edge), not only a state (a level).
    const TELLS_EDGES: bool;

    /// Whether it reports each change of a session once.
    fn is_edge(&self) -> bool;

    /// The next new connection.
    fn take(&mut self, source: &dyn AcceptSource) -> io::Result<(Self::Socket, Peer)>;

    /// Whether further ones wait that it knows and the kernel does not.
    fn has_queue(&self) -> bool {
        false
    }

    /// Whether the output of all closed connections has left.
    fn is_flushed(&mut self, phase: Phase) -> bool {
        let _ = phase;
        true
    }

    /// Whether it can watch this connection at all; otherwise its number.
    fn can_watch(&self, socket: &Self::Socket) -> Result<(), i32>;

    /// Starts watching a descriptor of the server; `key` comes back with its events.
    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Stops watching a descriptor of the server.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Starts watching a connection.
    fn watch(&mut self, socket: &Self::Socket, interest: Interest, key: u64) -> io::Result<()>;

    /// Changes the watched events of a connection.
    fn modify(&mut self, socket: &Self::Socket, interest: Interest, key: u64) -> io::Result<()>;

    /// Closes a connection.
    fn close(&mut self, socket: Self::Socket);

    /// Waits for events, at most `timeout`, and appends them to `ready`.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;
}

impl<P: Poller> Watcher for P {
    type Socket = OwnedFd;

    const TELLS_EDGES: bool = P::TELLS_EDGES;

    fn is_edge(&self) -> bool {
        Poller::is_edge(self)
    }

    fn take(&mut self, source: &dyn AcceptSource) -> io::Result<(OwnedFd, Peer)> {
        source.take(false)
    }

    fn can_watch(&self, socket: &OwnedFd) -> Result<(), i32> {
        if Poller::can_watch(self, socket.as_fd()) { Ok(()) } else { Err(socket.as_raw_fd()) }
    }

    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        Poller::add(self, fd, interest, key)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Poller::remove(self, fd)
    }

    fn watch(&mut self, socket: &OwnedFd, interest: Interest, key: u64) -> io::Result<()> {
        Poller::add(self, socket.as_fd(), interest, key)
    }

    fn modify(&mut self, socket: &OwnedFd, interest: Interest, key: u64) -> io::Result<()> {
        Poller::modify(self, socket.as_fd(), interest, key)
    }

    fn close(&mut self, socket: OwnedFd) {
        Poller::forget(self, socket.as_fd());
    }

    #[inline]
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        Poller::wait(self, timeout, ready)
    }
}

/// A readiness loop's record for each session.
pub struct Watch {
    interest: Interest,
    /// There may be more to read.
    readable: bool,
    /// The peer's end was reported with its last bytes; no other event will report it.
    ending: bool,
    /// The last send would have blocked.
    blocked: bool,
    /// It is in the list of sessions that continue in the next turn.
    again: bool,
}

// Sessions have keys below 2^60; these are above.
pub const KEY_LISTENER: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_JOBS: u64 = 3 << 60;

struct Loop<'a, P: Watcher> {
    event_loop: EventLoop<'a, Watch, P::Socket>,
    mover: Mover<'a, P>,
    listening: bool,
    /// Connections since the listener was last registered.
    since_renewed: u32,
    /// The server drains, and the poller cannot report further changes of phase, so the loop polls
    /// for them.
    looking: bool,
    /// A connection arrived that the poller cannot watch.
    turned_away: bool,
}

/// The means to move the bytes of a session, apart from the sessions.
struct Mover<'a, P: Watcher> {
    poller: P,
    helpers: &'a dyn Helpers,
    scratch: Vec<u8>,
    /// Sessions that had more to do than a turn allows.
    again: VecDeque<SessionId>,
}

/// The mechanism of the workers of a poller, which share nothing.
pub struct Readiness<P>(PhantomData<fn() -> P>);

impl<P> Readiness<P> {
    /// The mechanism.
    pub fn new() -> Readiness<P> {
        Readiness(PhantomData)
    }
}

impl<P: Poller> Mechanism for Readiness<P> {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        serve(context, P::open(context).map_err(Fault::Wait)?)
    }
}

/// The life of a worker that learns of its connections from `poller`.
pub fn serve<P: Watcher>(context: &WorkerContext<'_>, poller: P) -> Result<(), Fault> {
    helpers::with(context, |helpers| {
        let mut this = Loop::open(context, helpers, poller).map_err(Fault::Wait)?;
        context.ready();
        let mut ready = Vec::new();
        loop {
            ready.clear();
            this.event_loop.end_turn();
            if let Err(error) = this.mover.poller.wait(this.timeout(), &mut ready) {
                context.endure(error).map_err(Fault::Wait)?;
            }
            this.event_loop.begin_turn();
            if this.turn(&ready).map_err(Fault::Wait)? {
                return Ok(());
            }
        }
    })
}

impl<'a, P: Watcher> Loop<'a, P> {
    /// The loop, which watches the listener, the server's stop and the helpers' bell.
    fn open(
        context: &'a WorkerContext<'a>,
        helpers: &'a dyn Helpers,
        mut poller: P,
    ) -> io::Result<Loop<'a, P>> {
        let source = context.accept_source;
        poller.add(source.fd(), source.interest(), KEY_LISTENER)?;
        // The descriptor stays readable once rung; an edge reports each further ring.
        let stop = Interest { edge: P::TELLS_EDGES, ..Interest::READ };
        poller.add(context.stop.as_fd(), stop, KEY_STOP)?;
        poller.add(helpers.bell(), Interest::READ, KEY_JOBS)?;
        Ok(Loop {
            event_loop: EventLoop::new(context),
            mover: Mover {
                poller,
                helpers,
                scratch: vec![0; RECEIVE_BYTES],
                again: VecDeque::new(),
            },
            listening: true,
            since_renewed: 0,
            looking: false,
            turned_away: false,
        })
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.mover.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let timeout = self.event_loop.timeout();
        if self.looking {
            Some(timeout.map_or(DRAIN_LOOK, |time| time.min(DRAIN_LOOK)))
        } else {
            timeout
        }
    }

    /// One round; true when the server has drained.
    fn turn(&mut self, ready: &[Ready]) -> io::Result<bool> {
        let mut is_acceptable = false;
        // Only as many as were waiting, so that large transfers do not delay new events.
        for _ in 0..self.mover.again.len() {
            let Some(id) = self.mover.again.pop_front() else { break };
            self.resume(id);
            if self.event_loop.is_long() {
                break;
            }
        }
        for event in ready {
            match event.key {
                KEY_LISTENER => is_acceptable = true,
                KEY_STOP => self.on_stop()?,
                KEY_JOBS => {
                    for id in self.event_loop.outcomes(self.mover.helpers) {
                        self.settle(id);
                    }
                }
                bits => self.on_ready(SessionId::from_bits(bits), *event),
            }
        }
        self.follow_admission(is_acceptable)?;
        for id in self.event_loop.wake_due() {
            self.settle(id);
        }
        self.event_loop.tick();
        for (id, why) in self.event_loop.sweep() {
            self.overdue(id, why);
        }
        for (id, why) in self.event_loop.make_room(self.mover.poller.has_queue()) {
            self.overdue(id, why);
        }
        loop {
            let changed = self.event_loop.effects();
            if changed.is_empty() {
                break;
            }
            changed.into_iter().for_each(|id| self.settle(id));
        }
        Ok(self.leave())
    }

    /// Handles the server's leaving its Ready phase.
    fn on_stop(&mut self) -> io::Result<()> {
        let context = self.event_loop.context;
        context.slot().set_state(SlotState::Draining);
        if !P::TELLS_EDGES && !self.looking {
            self.looking = true;
            self.mover.poller.remove(context.stop.as_fd())?;
        }
        Ok(())
    }

    /// Follows the phase of the server; true when no connection is left and none can come.
    fn leave(&mut self) -> bool {
        let context = self.event_loop.context;
        match context.phase() {
            Phase::Starting | Phase::Ready => return false,
            Phase::Leaving => self.event_loop.stop_admitting(),
            Phase::Draining => {
                for id in self.event_loop.drain() {
                    self.settle(id);
                }
            }
            Phase::Forced | Phase::Done => {
                for id in self.event_loop.force() {
                    self.close(id);
                }
            }
        }
        self.event_loop.table.len() == 0
            && context.is_over()
            && self.mover.poller.is_flushed(context.phase())
    }

    // ---- accept

    /// Accepts if the listener is readable, and watches it only while connections are admitted.
    fn follow_admission(&mut self, is_acceptable: bool) -> io::Result<()> {
        let context = self.event_loop.context;
        let mut open =
            self.event_loop.admission.is_open(self.event_loop.table.len(), self.event_loop.now);
        if open && (is_acceptable || !self.listening) {
            open = self.accept();
        }
        let renew =
            context.accept_source.renew_after().is_some_and(|most| self.since_renewed >= most);
        if self.listening && (!open || renew) {
            self.mover.poller.remove(context.accept_source.fd())?;
            self.listening = false;
        }
        if open && !self.listening {
            self.mover.poller.add(
                context.accept_source.fd(),
                context.accept_source.interest(),
                KEY_LISTENER,
            )?;
            (self.listening, self.since_renewed) = (true, 0);
        }
        Ok(())
    }

    /// Accepts up to [`ACCEPTS`] connections; false if accepting must stop.
    fn accept(&mut self) -> bool {
        let context = self.event_loop.context;
        for count in 0..ACCEPTS {
            // New connections may request much at once; they wait while others are served.
            if count > 0 && self.event_loop.is_long() {
                return true;
            }
            let EventLoop { admission, table, now, .. } = &mut self.event_loop;
            if !admission.is_open(table.len(), *now) {
                return false;
            }
            let poller = &mut self.mover.poller;
            match admission.sort(poller.take(context.accept_source), *now, context.slot()) {
                Attempt::Taken((fd, peer)) => match poller.can_watch(&fd) {
                    Ok(()) => self.admit(fd, peer),
                    Err(number) => self.turn_away(number),
                },
                Attempt::Gone => {}
                Attempt::Empty => return true,
                Attempt::Exhausted => return false,
            }
        }
        true
    }

    /// Closes a connection that the poller cannot watch, and reports that the first time.
    fn turn_away(&mut self, number: i32) {
        self.event_loop.context.slot().refuse(Refusal::Unwatchable);
        if !std::mem::replace(&mut self.turned_away, true) {
            eprintln!(
                "a connection was closed, as others will be, because this engine cannot watch its \
                 descriptor {number}: say --wait poll or --wait epoll, or lower --max-connections"
            );
        }
    }

    fn admit(&mut self, fd: P::Socket, peer: Peer) {
        let interest = if self.mover.poller.is_edge() {
            Interest { read: true, write: true, edge: true, rdhup: true, ..Interest::NONE }
        } else {
            Interest::READ
        };
        let watch =
            Watch { interest, readable: false, ending: false, blocked: false, again: false };
        let mut at = self.event_loop.open(fd, peer, watch);
        let id = at.cx.me;
        let added = self.mover.poller.watch(&at.connection.fd, interest, id.bits());
        // A greeting goes out at once.
        let stays = match added {
            Ok(()) => self.mover.settle(&mut at),
            Err(_) => {
                at.connection.conn.abort(Closed::Reset);
                false
            }
        };
        self.since_renewed += u32::from(added.is_ok());
        if !stays {
            self.close(id);
        }
    }

    // ---- move bytes

    fn on_ready(&mut self, id: SessionId, event: Ready) {
        let is_output = event.writable && !event.readable && !event.hangup && !event.error;
        let is_postponed = is_output && self.event_loop.is_long();
        let most = if is_postponed { 0 } else { self.event_loop.receive_bytes() };
        let Some(mut at) = self.event_loop.at(id) else { return };
        let connection = &mut *at.connection;
        connection.x.readable |= event.readable;
        connection.x.ending |= event.hangup;
        connection.x.blocked &= !event.writable;
        // If the end of the peer is not watched, a hang-up means the whole connection.
        let broken = event.error || (event.hangup && !connection.x.interest.rdhup);
        if broken && !connection.x.interest.read {
            // No receive would report the error, and its event would come back forever.
            connection.conn.abort(Closed::Reset);
        }
        if is_postponed {
            self.mover.postpone(&mut at);
        } else if !self.mover.advance(&mut at, most) {
            self.close(id);
        }
    }

    /// Continues a session that had more to do than its turn allowed.
    fn resume(&mut self, id: SessionId) {
        let most = self.event_loop.receive_bytes();
        let Some(mut at) = self.event_loop.at(id) else { return };
        at.connection.x.again = false;
        if !self.mover.advance(&mut at, most) {
            self.close(id);
        }
    }

    fn settle(&mut self, id: SessionId) {
        let Some(mut at) = self.event_loop.at(id) else { return };
        if !self.mover.settle(&mut at) {
            self.close(id);
        }
    }

    // ---- close

    fn close(&mut self, id: SessionId) {
        if let Some(fd) = self.event_loop.close(id) {
            self.mover.poller.close(fd);
        }
    }

    fn overdue(&mut self, id: SessionId, why: Overdue) {
        let Some(mut at) = self.event_loop.at(id) else { return };
        if at.connection.end_overdue(why) || !self.mover.settle(&mut at) {
            self.close(id);
        }
    }
}

impl<P: Watcher> Mover<'_, P> {
    /// Handles a peer that takes output again in a turn that is long already. Its session continues
    /// in a later turn, after other sessions that wait for the same, and its event is not reported
    /// again until then.
    fn postpone(&mut self, at: &mut At<'_, '_, Watch, P::Socket>) {
        let Connection { x, fd, .. } = &mut *at.connection;
        if !std::mem::replace(&mut x.again, true) {
            self.again.push_back(at.cx.me);
        }
        if !x.interest.edge && x.interest.write {
            let interest = Interest { write: false, ..x.interest };
            if self.poller.modify(fd, interest, at.cx.me.bits()).is_ok() {
                x.interest = interest;
            }
        }
    }

    /// Receives up to `most` bytes once if that is wanted and possible, then settles; false if the
    /// session is over.
    fn advance(&mut self, at: &mut At<'_, '_, Watch, P::Socket>, most: usize) -> bool {
        let At { context, connection, cx, buffers, moved, .. } = at;
        connection.conn.lend(buffers);
        let lingers = connection.linger.is_some();
        let may_receive =
            lingers || (connection.conn.wants().read && connection.may_receive(context, cx.now));
        if connection.x.readable && may_receive {
            let received = connection.fd.receive(&mut self.scratch[..most]);
            match received {
                Received::Bytes(len) => {
                    // A short read has emptied the socket (epoll(7), on stream sockets).
                    connection.x.readable = len == most || connection.x.ending;
                    **moved += len;
                }
                Received::End if lingers => return false,
                Received::End | Received::Later => connection.x.readable = false,
                Received::Broken => {}
            }
            connection.received(context, cx, received, &self.scratch);
        }
        self.settle(at)
    }

    /// Hands out the job, sends until it would block, then compares what the session wants with
    /// what is watched, and changes the difference; false if the session is over.
    fn settle(&mut self, at: &mut At<'_, '_, Watch, P::Socket>) -> bool {
        if at.connection.conn.looks() {
            at.connection.last_look(at.context, &at.cx, &mut self.scratch);
        }
        at.connection.x.blocked = at.send(self.helpers, at.connection.x.blocked);
        let wants = at.connection.conn.wants();
        let is_over = wants.close && at.connection.linger.is_none();
        if is_over && !at.connection.lingers(at.cx.now, at.context.phase()) {
            return false;
        }
        let may_receive = at.connection.may_receive(at.context, at.cx.now);
        let Connection { x, linger, fd, conn, .. } = &mut *at.connection;
        let reads = (wants.read && may_receive) || linger.is_some();
        let more = (x.readable && reads) || (wants.write && !x.blocked) || wants.job;
        if more && !x.again {
            x.again = true;
            self.again.push_back(at.cx.me);
        }
        let interest = Interest { read: reads, write: wants.write && x.blocked, ..Interest::NONE };
        if !x.interest.edge && interest != x.interest {
            x.interest = interest;
            if self.poller.modify(fd, interest, at.cx.me.bits()).is_err() {
                conn.abort(Closed::Reset);
                return false;
            }
        }
        at.rest(wants.wake);
        true
    }
}
