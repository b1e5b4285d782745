//! Blocking workers that never block: whoever has nothing to do for them is parked in an epoll
//! (Apache's event MPM).
//!
//! One thread of each process waits, for all of its sessions, and calls a worker to each that
//! moves; the workers are threads in a crowd, each attends to one session until that would block,
//! and parks it again. A keep-alive connection thus costs a worker nothing between two requests.
//! The price is a change of threads for each request, which is what tells this engine from a loop.

pub mod listener;
pub mod lobby;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use memory::{Doing, Phase};
use seam::{Buffers, Closed, Conn, Cx, Instant, Peer, Service, SessionId};
use sys::ready::Interest;
use sys::socket;

use self::lobby::{Call, Guest, Lobby};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::parts::pace::Taking;
use crate::parts::transmit::{Wait, transmit};

/// What is received at once, in bytes.
const SCRATCH: usize = 64 * 1024;
/// How often a peer that does not take its output is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Receives that a peer who ought to stop sending may cost at a time.
const LINGER_RECEIVES: usize = 16;

/// Attends to whoever it is called to, until the house drains. `shard` is the listener's seat,
/// after which sessions are named.
pub fn serve<S: Service>(desk: &Desk<'_, S>, lobby: &Lobby<S>, shard: usize) -> Result<(), Fault> {
    let (scratch, buffers) = (vec![0; SCRATCH], Buffers::new(4));
    let mut host = Host { desk, lobby, shard, scratch, buffers, now: desk.now(), with: None };
    desk.ready();
    loop {
        let Some(call) = lobby.answer() else {
            if desk.phase() > Phase::Ready && lobby.is_over() {
                return Ok(());
            }
            continue;
        };
        host.now = desk.now();
        desk.turn(host.now);
        desk.seat().serving.set(1);
        let attended = catch_unwind(AssertUnwindSafe(|| host.attend(call)));
        desk.seat().serving.set(0);
        desk.rest(Doing::Waiting);
        if let Err(panic) = attended {
            // The session went down with it; the listener must not wait for it.
            host.with.into_iter().for_each(|id| lobby.leave(id));
            resume_unwind(panic);
        }
    }
}

/// A worker.
struct Host<'a, 'd, S: Service> {
    desk: &'a Desk<'d, S>,
    lobby: &'a Lobby<S>,
    shard: usize,
    scratch: Vec<u8>,
    buffers: Buffers,
    now: Instant,
    /// Whom it attends to.
    with: Option<SessionId>,
}

impl<'a, S: Service> Host<'a, '_, S> {
    fn attend(&mut self, call: Call<S>) {
        match call {
            Call::Come((fd, peer)) => {
                let id = self.lobby.name(self.shard);
                self.with = Some(id);
                let (cx, peer) = (self.cx(id), Peer::Net(peer));
                let conn = Conn::open(self.desk.service, &cx, peer, &mut self.buffers);
                self.serve(Guest::new(fd, id, conn, self.now), true);
            }
            Call::Back(mut guest, moved) => {
                self.with = Some(guest.id);
                guest.conn.lend(&mut self.buffers);
                if guest.linger.is_some() {
                    self.listen_on(guest);
                } else {
                    self.check(&mut guest, moved);
                    self.serve(guest, moved);
                }
            }
        }
        self.with = None;
    }

    fn cx(&self, id: SessionId) -> Cx<'a, S::State> {
        self.desk.cx(self.now, id)
    }

    /// Sees what has become of a session while it was parked.
    fn check(&mut self, guest: &mut Guest<S>, moved: bool) {
        let cx = self.cx(guest.id);
        guest.conn.deadline(self.desk.service, &cx);
        if guest.blocked {
            match guest.pace.look(&guest.fd, self.now, self.desk.knobs) {
                Taking::Some => guest.active = self.now,
                Taking::Nothing if self.now.since(guest.active) < self.desk.write_stall() => {}
                Taking::Nothing if moved => {}
                Taking::Nothing | Taking::TooLittle => guest.conn.abort(Closed::Stalled),
            }
        } else if self.now.since(guest.active) >= self.desk.idle() {
            guest.conn.shut(Closed::Idle);
        }
        guest.blocked = false;
    }

    /// Goes on with a session until it would block.
    fn serve(&mut self, mut guest: Box<Guest<S>>, mut readable: bool) {
        loop {
            self.work_and_send(&mut guest);
            self.desk.see_to_wishes();
            match self.desk.phase() {
                Phase::Starting | Phase::Ready | Phase::Leaving => {}
                Phase::Draining => {
                    guest.drained = true;
                    let cx = self.cx(guest.id);
                    guest.conn.drain(self.desk.service, &cx);
                }
                Phase::Forced | Phase::Done => guest.conn.abort(Closed::Forced),
            }
            let wants = guest.conn.wants();
            if wants.done {
                return self.part(guest);
            }
            if wants.job || (wants.write && !guest.blocked) {
                continue;
            }
            if !readable || !wants.read {
                return self.park(guest);
            }
            readable = self.receive(&mut guest);
            if readable {
                // Whoever sends without end does not keep a worker from the others.
                self.work_and_send(&mut guest);
                match self.lobby.queue(guest) {
                    None => return,
                    Some(back) => guest = back,
                }
            }
        }
    }

    /// Receives once; says whether there may be more.
    fn receive(&mut self, guest: &mut Guest<S>) -> bool {
        let limit = SCRATCH.min(self.desk.knobs.turn_bytes);
        let received = socket::recv_nowait(&guest.fd, &mut self.scratch[..limit]);
        self.now = self.desk.now();
        let cx = self.cx(guest.id);
        match received {
            Ok(0) => {
                guest.ended = true;
                guest.conn.eof(self.desk.service, &cx);
                false
            }
            Ok(len) => {
                guest.active = self.now;
                self.desk.seat().bytes_in.add(len as u64);
                guest.conn.feed(self.desk.service, &cx, &self.scratch[..len]);
                len == limit
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                guest.conn.abort(Closed::Reset);
                false
            }
        }
    }

    /// Works on jobs in place and sends until nothing waits or it would block.
    fn work_and_send(&mut self, guest: &mut Guest<S>) {
        loop {
            if let Some(job) = guest.conn.take_job() {
                let outcome = self.desk.service.work(self.desk.state, job);
                self.now = self.desk.now();
                let cx = self.cx(guest.id);
                guest.conn.done(self.desk.service, &cx, outcome);
                continue;
            }
            if guest.conn.out().waiting() == 0 {
                guest.pace.rest();
                return;
            }
            if guest.blocked {
                return;
            }
            match transmit(self.desk.assets, &guest.fd, guest.conn.out(), Wait::Not) {
                Ok(len) => {
                    guest.active = self.now;
                    guest.pace.give(&guest.fd, len);
                    self.desk.seat().bytes_out.add(len as u64);
                    let cx = self.cx(guest.id);
                    guest.conn.sent(self.desk.service, &cx, len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guest.blocked = true,
                Err(_) => guest.conn.abort(Closed::Reset),
            }
        }
    }

    /// Leaves a session until something moves or a time is over.
    fn park(&mut self, mut guest: Box<Guest<S>>) {
        guest.conn.reclaim(&mut self.buffers);
        let wants = guest.conn.wants();
        let still = match (guest.linger, guest.blocked) {
            (Some(until), _) => until,
            (None, false) => guest.active + self.desk.idle(),
            // It is looked at before, for a peer may be slow without being stalled.
            (None, true) => self.now + LOOK.min(self.desk.write_stall() / 4),
        };
        guest.due = still.min(wants.wake.unwrap_or(Instant::NEVER));
        let interest = Interest {
            read: guest.linger.is_some() || wants.read,
            write: guest.blocked,
            oneshot: true,
            ..Interest::NONE
        };
        if let Err((mut guest, _)) = self.lobby.park(guest, interest) {
            guest.conn.abort(Closed::Reset);
            self.finish(*guest);
        }
    }

    /// The session is over: lets the peer finish, so that the last reply is not lost to a reset.
    fn part(&mut self, mut guest: Box<Guest<S>>) {
        let lingers = matches!(guest.conn.why(), Closed::Service | Closed::Overlong);
        if guest.ended || !lingers || socket::shutdown_write(&guest.fd).is_err() {
            return self.finish(*guest);
        }
        guest.linger = Some(self.now + self.desk.knobs.linger);
        self.park(guest);
    }

    /// Drops what a peer still sends that was told goodbye.
    fn listen_on(&mut self, guest: Box<Guest<S>>) {
        let over = guest.linger.is_none_or(|until| until <= self.now);
        if over || self.desk.phase() >= Phase::Forced {
            return self.finish(*guest);
        }
        for _ in 0..LINGER_RECEIVES {
            match socket::recv_nowait(&guest.fd, &mut self.scratch) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => return self.finish(*guest),
                Ok(_) => {}
            }
        }
        self.park(guest);
    }

    fn finish(&mut self, mut guest: Guest<S>) {
        if guest.conn.why() == Closed::Stalled {
            // The kernel would keep what the peer does not take, for minutes.
            let _ = socket::set_linger_reset(&guest.fd);
        }
        guest.conn.reclaim(&mut self.buffers);
        let (id, cx) = (guest.id, self.cx(guest.id));
        let Guest { conn, fd, .. } = guest;
        conn.close(self.desk.service, &cx);
        drop(fd);
        self.lobby.leave(id);
    }
}
