//! The loop of the readiness engines, over whatever tells readiness.
//!
//! A turn: wait, read the clock once, then for each ready session receive once, step, send, and
//! change the interest only if it differs. Everything that was received is stepped before anything
//! is sent, so a pipelined batch costs one `recv(2)` and one `send(2)`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use memory::{Doing, Phase, Refusal, SlotState};
use seam::{Closed, Peer, Service, SessionId};
use sys::ready::{Interest, Ready};
use sys::socket;

use super::door::Failure;
use super::event_loop::{At, Connection, EventLoop, Overdue};
use super::transmit::{Wait, transmit};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers::{self, Helpers};
use crate::say::say;

/// What tells readiness.
pub trait Poller: Sized {
    /// Whether it can tell that something has come about, and not only that it is so.
    const TELLS_EDGES: bool;

    /// Whether sessions are told each change once.
    fn is_edge(&self) -> bool {
        false
    }

    /// Whether it can watch this descriptor at all.
    fn can_watch(&self, _fd: BorrowedFd<'_>) -> bool {
        true
    }

    /// Starts watching a descriptor; `key` comes back with its events.
    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Changes what is watched for.
    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Stops watching a descriptor that stays open.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// A descriptor is about to be closed.
    fn forget(&mut self, fd: BorrowedFd<'_>);

    /// Waits for events, at most `timeout`, and appends them to `ready`.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;
}

/// What a readiness loop keeps for each session.
pub struct Watch {
    interest: Interest,
    /// There may be more to read than was read.
    readable: bool,
    /// The peer's end was told beside its last bytes: no other event will tell it.
    ending: bool,
    /// The last send would have blocked.
    blocked: bool,
    /// It waits in the list of those to go on with.
    again: bool,
    /// The peer has stopped sending.
    ended: bool,
}

// Sessions have keys below 2^60; these are above.
const KEY_DOOR: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_JOBS: u64 = 3 << 60;

/// How long a loop that is not told edges sleeps at most while the server drains.
const LOOK: Duration = Duration::from_millis(50);
/// What is received at once, in bytes: one scratch buffer serves all sessions of a worker.
const SCRATCH: usize = 64 * 1024;

struct Loop<'a, S: Service, P: Poller> {
    event_loop: EventLoop<'a, S, Watch>,
    poller: P,
    helpers: &'a dyn Helpers<S>,
    scratch: Vec<u8>,
    /// Sessions that had more to do than a turn allows.
    again: VecDeque<SessionId>,
    listening: bool,
    /// Connections since the door was last watched anew.
    since_renewed: u32,
    /// The server drains, and the poller cannot tell what else happens to it.
    looking: bool,
    /// Somebody came whom the poller cannot hold.
    turned_away: bool,
}

/// Serves until the server drains.
pub fn serve<S: Service, P: Poller>(
    context: &WorkerContext<'_, S>,
    poller: P,
) -> Result<(), Fault> {
    helpers::with(context, |helpers| {
        let mut this = Loop {
            event_loop: EventLoop::new(context),
            poller,
            helpers,
            scratch: vec![0; SCRATCH],
            again: VecDeque::new(),
            listening: true,
            since_renewed: 0,
            looking: false,
            turned_away: false,
        };
        this.run().map_err(Fault::Wait)
    })
}

impl<S: Service, P: Poller> Loop<'_, S, P> {
    fn run(&mut self) -> io::Result<()> {
        let context = self.event_loop.context;
        self.poller.add(context.accept_source.fd(), context.accept_source.interest(), KEY_DOOR)?;
        // It stays readable once rung; each further ring is told by its edge.
        let stop = Interest { edge: P::TELLS_EDGES, ..Interest::READ };
        self.poller.add(context.stop.as_fd(), stop, KEY_STOP)?;
        self.poller.add(self.helpers.bell(), Interest::READ, KEY_JOBS)?;
        context.ready();
        let mut ready = Vec::new();
        loop {
            ready.clear();
            context.rest(Doing::Waiting);
            self.poller.wait(self.timeout(), &mut ready)?;
            self.event_loop.begin_turn();
            if self.turn(&ready)? {
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let timeout = self.event_loop.timeout();
        if self.looking { Some(timeout.map_or(LOOK, |time| time.min(LOOK))) } else { timeout }
    }

    /// One round; true when the server has drained.
    fn turn(&mut self, ready: &[Ready]) -> io::Result<bool> {
        let mut knocked = false;
        // As many as fit a turn, or a crowd with much to move would be all that is served.
        for _ in 0..self.again.len() {
            let Some(id) = self.again.pop_front() else { break };
            if let Some(place) = self.event_loop.table.lookup(id) {
                place.x.again = false;
                self.advance(id);
            }
            if self.event_loop.is_long() {
                break;
            }
        }
        for event in ready {
            match event.key {
                KEY_DOOR => knocked = true,
                KEY_STOP => self.hear_stop()?,
                KEY_JOBS => {
                    for id in self.event_loop.outcomes(self.helpers) {
                        self.settle(id);
                    }
                }
                bits => self.on_ready(SessionId::from_bits(bits), *event),
            }
        }
        self.watch_door(knocked)?;
        for id in self.event_loop.wake_due() {
            self.settle(id);
        }
        self.event_loop.tick();
        for (id, why) in self.event_loop.sweep() {
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

    /// The server has left its Ready phase.
    fn hear_stop(&mut self) -> io::Result<()> {
        let context = self.event_loop.context;
        context.slot().set_state(SlotState::Draining);
        if !P::TELLS_EDGES && !self.looking {
            self.looking = true;
            self.poller.remove(context.stop.as_fd())?;
        }
        Ok(())
    }

    /// Follows the phase of the server; true when nobody is left.
    fn leave(&mut self) -> bool {
        let context = self.event_loop.context;
        match context.phase() {
            Phase::Starting | Phase::Ready => return false,
            Phase::Leaving => self.event_loop.shut_door(),
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
        self.event_loop.table.len() == 0 && context.is_over()
    }

    // ---- accept

    /// Accepts if somebody knocked, and listens only while the door is open.
    fn watch_door(&mut self, knocked: bool) -> io::Result<()> {
        let context = self.event_loop.context;
        let mut open =
            self.event_loop.door.is_open(self.event_loop.table.len(), self.event_loop.now);
        if open && (knocked || !self.listening) {
            open = self.accept();
        }
        let renew =
            context.accept_source.renew_after().is_some_and(|most| self.since_renewed >= most);
        if self.listening && (!open || renew) {
            self.poller.remove(context.accept_source.fd())?;
            self.listening = false;
        }
        if open && !self.listening {
            self.poller.add(
                context.accept_source.fd(),
                context.accept_source.interest(),
                KEY_DOOR,
            )?;
            (self.listening, self.since_renewed) = (true, 0);
        }
        Ok(())
    }

    /// Accepts those who wait, a bounded number of them; false if the door must be shut.
    fn accept(&mut self) -> bool {
        let context = self.event_loop.context;
        for count in 0..context.knobs.turn_accepts {
            // A crowd that asks for much as soon as it is in waits outside while others are served.
            if count > 0 && self.event_loop.is_long() {
                return true;
            }
            if !self.event_loop.door.is_open(self.event_loop.table.len(), self.event_loop.now) {
                return false;
            }
            match context.accept_source.take(false) {
                Ok((fd, _)) if !self.poller.can_watch(fd.as_fd()) => self.turn_away(&fd),
                Ok((fd, peer)) => self.admit(fd, peer),
                Err(error) => match self.event_loop.door.failed(&error, self.event_loop.now) {
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

    /// The poller cannot hold this one: it is closed, and the first time that is said.
    fn turn_away(&mut self, fd: &OwnedFd) {
        self.event_loop.context.slot().refuse(Refusal::Unwatchable);
        if !std::mem::replace(&mut self.turned_away, true) {
            say!(
                "a connection was closed, as others will be, for its descriptor {} is more than \
                 this engine can watch: say --wait poll or --wait epoll, or let less in by \
                 --max-connections",
                fd.as_raw_fd()
            );
        }
    }

    fn admit(&mut self, fd: OwnedFd, peer: core::net::SocketAddr) {
        let interest = if self.poller.is_edge() {
            Interest { read: true, write: true, edge: true, rdhup: true, ..Interest::NONE }
        } else {
            Interest::READ
        };
        let watch = Watch {
            interest,
            readable: false,
            ending: false,
            blocked: false,
            again: false,
            ended: false,
        };
        let id = self.event_loop.open(fd, Peer::Net(peer), watch);
        let place = self.event_loop.table.lookup(id).expect("opened just now");
        if self.poller.add(place.fd.as_fd(), interest, id.bits()).is_err() {
            place.conn.abort(Closed::Reset);
            self.close(id);
            return;
        }
        self.since_renewed += 1;
        // A greeting goes out at once.
        self.settle(id);
    }

    // ---- move bytes

    fn on_ready(&mut self, id: SessionId, event: Ready) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        place.x.readable |= event.readable;
        place.x.ending |= event.hangup;
        place.x.blocked &= !event.writable;
        // Where the peer's end is not asked for, a hang-up is the whole connection's.
        let broken = event.error || (event.hangup && !place.x.interest.rdhup);
        if broken && !place.x.interest.read {
            // Nobody will find out by receiving, and the event would come back for ever.
            place.conn.abort(Closed::Reset);
        }
        let is_output = event.writable && !event.readable && !event.hangup && !event.error;
        if is_output && self.event_loop.is_long() {
            self.postpone(id);
        } else {
            self.advance(id);
        }
    }

    /// A peer takes output again that others have no time for: it goes on in a later turn, after
    /// those who wait for the same, and is not told about once more meanwhile.
    fn postpone(&mut self, id: SessionId) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        let Connection { x, fd, .. } = place;
        if !std::mem::replace(&mut x.again, true) {
            self.again.push_back(id);
        }
        if !x.interest.edge && x.interest.write {
            let interest = Interest { write: false, ..x.interest };
            if self.poller.modify(fd.as_fd(), interest, id.bits()).is_ok() {
                x.interest = interest;
            }
        }
    }

    /// Receives once if that is wanted and possible, then settles.
    fn advance(&mut self, id: SessionId) {
        let context = self.event_loop.context;
        let Some(At { place, cx, buffers, moved, .. }) = self.event_loop.at(id) else { return };
        place.conn.lend(buffers);
        if place.x.readable && (place.linger.is_some() || place.conn.wants().read) {
            let limit = SCRATCH.min(context.knobs.turn_bytes);
            match socket::recv_nowait(&place.fd, &mut self.scratch[..limit]) {
                Ok(0) => {
                    (place.x.readable, place.x.ended) = (false, true);
                    if place.linger.is_some() {
                        self.close(id);
                        return;
                    }
                    place.conn.eof(context.service, &cx);
                }
                Ok(len) => {
                    // A short read has emptied the socket (epoll(7), on stream sockets).
                    place.x.readable = len == limit || place.x.ending;
                    place.active = cx.now;
                    *moved += len;
                    context.slot().bytes_in.add(len as u64);
                    place.conn.feed(context.service, &cx, &self.scratch[..len]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    place.x.readable = false;
                }
                Err(_) => place.conn.abort(Closed::Reset),
            }
        }
        self.settle(id);
    }

    /// Hands out the job, sends until it would block, then asks what is wanted and changes the
    /// difference.
    fn settle(&mut self, id: SessionId) {
        let context = self.event_loop.context;
        let Some(mut at) = self.event_loop.at(id) else { return };
        send(context, &mut at, self.helpers);
        let wants = at.place.conn.wants();
        if wants.done && at.place.linger.is_none() && !self.part(id) {
            return;
        }
        let Some(at) = self.event_loop.at(id) else { return };
        let Connection { x, linger, fd, conn, .. } = &mut *at.place;
        let reads = wants.read || linger.is_some();
        let more = (x.readable && reads) || (wants.write && !x.blocked) || wants.job;
        if more && !x.again {
            x.again = true;
            self.again.push_back(id);
        }
        let interest = Interest { read: reads, write: wants.write && x.blocked, ..Interest::NONE };
        if !x.interest.edge && interest != x.interest {
            x.interest = interest;
            if self.poller.modify(fd.as_fd(), interest, id.bits()).is_err() {
                conn.abort(Closed::Reset);
                self.close(id);
                return;
            }
        }
        at.rest(wants.wake);
    }

    // ---- close

    /// Ends a session.
    fn close(&mut self, id: SessionId) {
        if let Some(fd) = self.event_loop.close(id) {
            self.poller.forget(fd.as_fd());
        }
    }

    /// Everything is flushed: closes, or lets the peer finish first so that the last reply is not
    /// lost to a reset. True if the session lingers.
    fn part(&mut self, id: SessionId) -> bool {
        let Some(place) = self.event_loop.table.lookup(id) else { return false };
        let gone = place.x.ended || !matches!(place.conn.why(), Closed::Service | Closed::Overlong);
        let forced = self.event_loop.context.phase() == Phase::Forced;
        if gone || forced || socket::shutdown_write(&place.fd).is_err() {
            self.close(id);
            return false;
        }
        self.event_loop.start_linger(id);
        true
    }

    fn overdue(&mut self, id: SessionId, why: Overdue) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        match why {
            Overdue::Idle => {
                place.conn.shut(Closed::Idle);
                self.settle(id);
            }
            Overdue::Stalled => {
                place.conn.abort(Closed::Stalled);
                self.close(id);
            }
            Overdue::Lingering => {
                self.close(id);
            }
        }
    }
}

/// Hands out the job and sends what waits, at most a turn's share.
fn send<S: Service>(
    context: &WorkerContext<'_, S>,
    at: &mut At<'_, '_, S, Watch>,
    helpers: &dyn Helpers<S>,
) {
    let least = context.knobs.turn_bytes.max(SCRATCH);
    let mut share = at.share(least, least * 4);
    let At { place, cx, moved, .. } = at;
    loop {
        if let Some(job) = place.conn.take_job() {
            helpers.submit(cx.me, job);
        }
        if place.conn.out().waiting() == 0 || place.x.blocked || share == 0 {
            return;
        }
        let sent = match transmit(context.assets, &place.fd, place.conn.out(), Wait::Not) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                place.x.blocked = true;
                return;
            }
            Err(_) => {
                place.conn.abort(Closed::Reset);
                return;
            }
        };
        share = share.saturating_sub(sent);
        **moved += sent;
        place.sent(sent, cx.now);
        context.slot().bytes_out.add(sent as u64);
        place.conn.sent(context.service, cx, sent);
    }
}
