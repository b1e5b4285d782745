//! A connection's next step, by kind of [`Work`].
//!
//! Own work: a user occupies a slot, sends a batch, waits for all replies, thinks, repeats, and
//! leaves after the last batch. Shared work: requests take any connection with room, round robin,
//! and wait in a queue when none has.

use super::{Driver, State};
use crate::Instant;
use crate::stop::Stop;
use crate::work::Work;
use std::cmp::Reverse;

impl Driver {
    pub(super) fn arrival(&mut self, due: Instant, stop: &Stop, now: Instant) {
        let held = self.run.outstanding as usize + self.arrivals.waiting.len();
        match self.arrivals.work {
            Work::Own { rounds, .. } => match self.vacancy() {
                Some(at) => self.take_place(at, rounds, due, stop, now),
                None if held < self.settings.outstanding_max => {
                    self.arrivals.waiting.push_back(due)
                }
                None => self.drop_arrival(due),
            },
            Work::Shared { .. } => {
                self.run.asked += 1;
                match self.roomy() {
                    Some(at) => {
                        self.append(at, 1, due, now);
                        self.list(at);
                        self.send(at, now);
                    }
                    None if held < self.settings.outstanding_max => {
                        self.arrivals.waiting.push_back(due)
                    }
                    None => self.drop_arrival(due),
                }
            }
        }
    }

    /// Counts an arrival for which there is no room as failed.
    fn drop_arrival(&mut self, due: Instant) {
        self.record.tally.dropped += 1;
        self.record.tally.failed += u64::from(due >= self.run.epoch);
        self.record.recorder.failed(1);
    }

    /// A slot without a user.
    fn vacancy(&mut self) -> Option<usize> {
        self.arrivals.free.pop_front().map(|at| at as usize)
    }

    fn take_place(&mut self, at: usize, rounds: u64, due: Instant, stop: &Stop, now: Instant) {
        let link = &mut self.links[at];
        (link.rounds, link.due, link.asked) = (rounds, due, 0);
        self.script.enter(at);
        self.go_on(at, stop, now);
    }

    /// Takes the next connection with room off the list.
    fn roomy(&mut self) -> Option<usize> {
        while let Some(at) = self.arrivals.free.pop_front() {
            let at = at as usize;
            self.links[at].listed = false;
            if self.room_on(at) > 0 {
                return Some(at);
            }
        }
        None
    }

    /// The number of requests of shared work that a connection can take now.
    fn room_on(&self, at: usize) -> u32 {
        let link = &self.links[at];
        if !link.is_up() {
            return 0;
        }
        let free = self.arrivals.work.depth().saturating_sub(link.outstanding);
        u64::from(free).min(self.left_on(at)) as u32
    }

    /// Appends a connection with room to the list.
    fn list(&mut self, at: usize) {
        if !self.links[at].listed && self.room_on(at) > 0 {
            self.links[at].listed = true;
            self.arrivals.free.push_back(at as u32);
        }
    }

    /// Takes a connection's next step: wait, send, close, or connect.
    pub(super) fn go_on(&mut self, at: usize, stop: &Stop, now: Instant) {
        match (self.arrivals.work, &self.links[at].state) {
            (_, &State::Down { again }) if self.links[at].outstanding > 0 => match again > now {
                true => self.set_alarm(at, again),
                false => drop(self.resend(at, now)),
            },
            (Work::Own { .. }, _) => self.go_on_own(at, stop, now),
            (Work::Shared { .. }, _) => self.go_on_shared(at, now),
        }
    }

    fn go_on_own(&mut self, at: usize, stop: &Stop, now: Instant) {
        let link = &self.links[at];
        // An open window is topped up; all other work waits until no request is outstanding.
        let open =
            self.settings.tops_up && !self.run.parting && link.rounds > 0 && self.left_on(at) > 0;
        let most = if open { self.arrivals.work.depth() - 1 } else { 0 };
        if link.outstanding > most || (link.rounds == 0 && !link.is_up()) {
            return;
        }
        let (due, rounds, may_ask) = (link.due, link.rounds, stop.room(self.run.asked) > 0);
        match link.state {
            State::Up(_) if rounds == 0 || self.run.parting => self.drop_link(at, now),
            State::Up(_) if link.dialled.is_some() => {}
            State::Up(_) if self.left_on(at) == 0 => {
                self.drop_link(at, now);
                self.go_on_own(at, stop, now);
            }
            _ if !may_ask || self.run.parting => {}
            _ if self.is_held() => self.wait_held(at, now),
            _ if let Some(back) = self.away_until(at, now) => {
                self.drop_link(at, now);
                self.links[at].due = back;
                self.set_alarm(at, back);
            }
            _ if due > now => self.set_alarm(at, due),
            State::Down { again } if again > now => self.set_alarm(at, again),
            State::Down { .. } => {
                if self.connect(at, now) && !self.settings.connect_apart {
                    self.ask(at, stop, now);
                }
            }
            State::Up(_) => self.ask(at, stop, now),
        }
    }

    fn go_on_shared(&mut self, at: usize, now: Instant) {
        let wanted = !self.run.parting || !self.arrivals.waiting.is_empty();
        let link = &self.links[at];
        match link.state {
            State::Down { again } if again > now => self.set_alarm(at, again),
            State::Down { .. } if wanted => {
                if self.connect(at, now) {
                    self.fill(at, now);
                }
            }
            State::Down { .. } => {}
            State::Up(_) if link.outstanding == 0 && (!wanted || self.left_on(at) == 0) => {
                self.drop_link(at, now);
                if wanted {
                    self.go_on_shared(at, now);
                }
            }
            State::Up(_) => self.fill(at, now),
        }
    }

    /// Sends a user's next batch.
    fn ask(&mut self, at: usize, stop: &Stop, now: Instant) {
        let room = stop.room(self.run.asked).min(self.left_on(at));
        let depth = self.arrivals.work.depth() - self.links[at].outstanding;
        let count = u64::from(depth).min(room) as u32;
        if count > 0 {
            let mut due = self.links[at].due;
            if self.settings.tops_up {
                // No request was due before the window had room.
                due = now;
                self.links[at].due = now + self.arrivals.think.draw(&mut self.arrivals.random);
            }
            self.append(at, count, due, now);
            self.run.asked += u64::from(count);
            self.send(at, now);
        }
    }

    /// Sends queued requests on a connection in one write, and lists it if it still has room.
    fn fill(&mut self, at: usize, now: Instant) {
        let room = self.room_on(at);
        let mut filled = false;
        for _ in 0..room {
            let Some(due) = self.arrivals.waiting.pop_front() else { break };
            self.append(at, 1, due, now);
            filled = true;
        }
        self.list(at);
        if filled {
            self.send(at, now);
        }
    }

    /// Encodes requests; the caller sends them.
    pub(super) fn append(&mut self, at: usize, count: u32, due: Instant, now: Instant) {
        let link = &mut self.links[at];
        self.script.ask(at, count, &mut link.unsent);
        link.asked(count, due, now);
        self.run.outstanding += u64::from(count);
    }

    /// Handles the end of a user's batch: the user thinks, or leaves.
    pub(super) fn batch_done(&mut self, at: usize, now: Instant) {
        if !self.arrivals.work.is_own() || self.settings.tops_up {
            return;
        }
        let link = &mut self.links[at];
        let pause = self.script.pause(at);
        let usual = || self.arrivals.think.draw(&mut self.arrivals.random);
        link.due = now + pause.unwrap_or_else(usual);
        match link.rounds {
            u64::MAX => {}
            0 | 1 => self.leave(at, now),
            _ if self.script.is_through(at) => self.leave(at, now),
            _ => link.rounds -= 1,
        }
    }

    /// Removes a user; the slot is free for the next one.
    pub(super) fn leave(&mut self, at: usize, now: Instant) {
        self.links[at].rounds = 0;
        self.drop_link(at, now);
        match (self.arrivals.waiting.pop_front(), self.arrivals.work) {
            (Some(due), Work::Own { rounds, .. }) => {
                // The connection is made at its alarm, which is already due, because handling an
                // event must not recurse.
                let link = &mut self.links[at];
                (link.rounds, link.due, link.asked) = (rounds, due, 0);
                self.script.enter(at);
                self.set_alarm(at, now);
            }
            _ => self.arrivals.free.push_back(at as u32),
        }
    }

    /// The number of further requests that this connection may carry.
    pub(super) fn left_on(&self, at: usize) -> u64 {
        let most = self.settings.requests_per_connection.unwrap_or(u64::MAX);
        most.saturating_sub(self.links[at].asked)
    }

    /// Sets an alarm for the connection at `moment`.
    pub(super) fn set_alarm(&mut self, at: usize, moment: Instant) {
        let link = &mut self.links[at];
        if link.alarm.is_none_or(|set| moment < set) {
            link.alarm = Some(moment);
            self.arrivals.alarms.push(Reverse((moment, at as u32)));
        }
    }
}
