//! The one thread of a process that waits for others: for peers to come, for parked sessions to
//! move or fall due, and for the house to drain.

use std::io;
use std::os::fd::AsFd;

use memory::{Doing, Phase, Refusal, SeatState};
use seam::{Closed, Instant, Service, SessionId};
use sys::epoll::Events;
use sys::ready::{Interest, Ready};

use super::lobby::{Call, Guest, LOOK, Lobby};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::parts::door::{Door, Failure};

// Sessions have keys below 2^60; these are above.
const KEY_DOOR: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_BELL: u64 = 3 << 60;

/// Events taken in one call.
const EVENTS: usize = 256;
/// How long settings that were reloaded may take to be noticed, at the most.
const RELOAD: std::time::Duration = std::time::Duration::from_secs(5);
/// One of several processes that watch one listener is woken.
const DOOR: Interest = Interest { exclusive: true, ..Interest::READ };

/// Listens until the house drains. `first` is the seat of the process's first worker.
pub fn serve<S: Service>(desk: &Desk<'_, S>, lobby: &Lobby<S>, first: usize) -> Result<(), Fault> {
    let mut listener = Listener {
        desk,
        lobby,
        door: Door::new(desk.sessions_max()),
        first,
        accepted: 0,
        listening: false,
        now: desk.now(),
        next_tick: desk.is_first.then_some(Instant::ZERO),
    };
    listener.run().map_err(Fault::Wait)
}

struct Listener<'a, 'd, S: Service> {
    desk: &'a Desk<'d, S>,
    lobby: &'a Lobby<S>,
    door: Door,
    first: usize,
    /// Connections accepted, by which the process's life is measured.
    accepted: u64,
    listening: bool,
    now: Instant,
    /// When the world wants to tick, if this process lets it.
    next_tick: Option<Instant>,
}

impl<S: Service> Listener<'_, '_, S> {
    fn run(&mut self) -> io::Result<()> {
        let (desk, lobby) = (self.desk, self.lobby);
        let stop = Interest { edge: true, ..Interest::READ };
        lobby.epoll.add(desk.stop.as_fd(), stop, KEY_STOP)?;
        lobby.epoll.add(&lobby.bell, Interest::READ, KEY_BELL)?;
        desk.ready();
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.accept()?;
            desk.rest(Doing::Waiting);
            lobby.epoll.wait(&mut events, self.timeout())?;
            self.now = desk.now();
            if desk.turn(self.now) {
                self.door.set_limit(desk.sessions_max());
                // They were parked until a time that may be another by now.
                let parked = lobby.sift(|_| true);
                parked.into_iter().for_each(|guest| self.call(guest, false));
            }
            events.iter().for_each(|event| self.hear(event));
            (0..lobby.take_gone()).for_each(|_| desk.closed(self.now));
            self.follow_phase();
            if lobby.soonest() <= self.now {
                let now = self.now;
                let due = lobby.sift(|guest| guest.due <= now);
                due.into_iter().for_each(|guest| self.call(guest, false));
            }
            self.tick();
            desk.see_to_wishes();
            if desk.phase() > Phase::Ready && desk.seat().open.read() == 0 {
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        let mut soonest = self.lobby.soonest();
        for moment in [self.door.opens_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        let timeout = (soonest != Instant::NEVER).then(|| soonest.since(self.now));
        match self.desk.phase() {
            // With somebody here it looks now and then whether it was reloaded.
            Phase::Starting | Phase::Ready if self.desk.seat().open.read() > 0 => {
                Some(timeout.map_or(RELOAD, |time| time.min(RELOAD)))
            }
            Phase::Starting | Phase::Ready => timeout,
            _ => Some(timeout.map_or(LOOK, |time| time.min(LOOK))),
        }
    }

    fn hear(&mut self, event: Ready) {
        match event.key {
            KEY_DOOR => {}
            KEY_STOP => self.desk.seat().set_state(SeatState::Draining),
            KEY_BELL => {
                self.lobby.bell.clear();
            }
            bits => {
                if let Some(guest) = self.lobby.claim(SessionId::from_bits(bits)) {
                    self.call(guest, true);
                }
            }
        }
    }

    fn call(&mut self, guest: Box<Guest<S>>, moved: bool) {
        if let Err(Call::Back(guest, _)) = self.lobby.call(Call::Back(guest, moved)) {
            // There is room for every session, so this cannot be; nobody must be lost by it.
            self.end(*guest, Closed::Reset);
        }
    }

    // ---- accept

    /// Takes those who wait, a bounded number, each for a worker that is free; watches the door
    /// only while it is open.
    fn accept(&mut self) -> io::Result<()> {
        let (desk, lobby) = (self.desk, self.lobby);
        let mut wants = false;
        for _ in 0..desk.knobs.turn_accepts {
            let open = desk.seat().open.read() as usize;
            wants = desk.phase() <= Phase::Ready
                && self.door.is_open(open, self.now)
                && lobby.has_free();
            if !wants {
                break;
            }
            match desk.entrance.take(false) {
                Ok(arrival) => self.admit(arrival),
                Err(error) => match self.door.failed(&error, self.now) {
                    Failure::Empty => break,
                    Failure::Peer => desk.seat().refuse(Refusal::Gone),
                    Failure::Exhausted => {
                        desk.seat().refuse(Refusal::Exhausted);
                        wants = false;
                        break;
                    }
                },
            }
        }
        if wants != self.listening {
            match wants {
                true => lobby.epoll.add(desk.entrance.fd(), DOOR, KEY_DOOR)?,
                false => lobby.epoll.remove(desk.entrance.fd())?,
            }
            self.listening = wants;
        }
        Ok(())
    }

    fn admit(&mut self, arrival: crate::accept::Arrival) {
        let desk = self.desk;
        desk.opened(self.now);
        if self.lobby.call(Call::Come(arrival)).is_err() {
            desk.seat().refuse(Refusal::NoWorker);
            desk.closed(self.now);
        }
        self.accepted += 1;
        if self.accepted >= desk.lifetime {
            (self.first..=desk.id.slot()).for_each(|slot| desk.board.seat(slot).dismiss());
        }
    }

    // ---- the way out

    /// Calls workers to those who were not told yet that the house drains; cuts the parked when it
    /// is forced.
    fn follow_phase(&mut self) {
        match self.desk.phase() {
            Phase::Starting | Phase::Ready | Phase::Leaving => {}
            Phase::Draining => {
                let untold = self.lobby.sift(|guest| !guest.drained && guest.linger.is_none());
                untold.into_iter().for_each(|guest| self.call(guest, false));
            }
            Phase::Forced | Phase::Done => {
                let parked = self.lobby.sift(|_| true);
                parked.into_iter().for_each(|guest| self.end(*guest, Closed::Forced));
            }
        }
    }

    fn end(&mut self, mut guest: Guest<S>, why: Closed) {
        let id = guest.id;
        guest.conn.abort(why);
        guest.conn.close(self.desk.service, &self.desk.cx(self.now, id));
        self.lobby.leave(id);
    }

    fn tick(&mut self) {
        if self.next_tick.is_some_and(|moment| moment <= self.now) {
            let here = self.desk.phase() != Phase::Leaving;
            let cx = self.desk.cx(self.now, SessionId::NONE);
            // From here on the world is a successor's to move, if there is one.
            self.next_tick = here.then(|| self.desk.service.tick(&cx)).flatten();
        }
    }
}
