//! Serves the administration's clients, between two checks of the workers.

use std::time::Duration;

use memory::Phase;
use seam::Instant;
use sys::poll::{PollFd, poll};

use super::crew::Crew;
use super::state::{Supervisor, clock};
use crate::admin::{Answer, Order};

/// The time that clients may take to read the last answers.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

impl<C: Crew> Supervisor<'_, C> {
    /// Gives a sign of life when it is due.
    pub(super) fn pulse(&mut self, now: Instant) {
        if let Some((every, pulse)) = &mut self.administration.admin.pulse
            && self.administration.pulse_at.is_some_and(|due| due <= now)
        {
            self.administration.pulse_at = Some(now + *every);
            pulse();
        }
    }

    /// The administration's descriptors, for a wait.
    pub(super) fn watched_clients(&self) -> Vec<PollFd<'_>> {
        let handler = self.administration.admin.handler.as_ref();
        handler.map_or_else(Vec::new, |(door, _)| self.administration.queue.watched(door))
    }

    /// Updates the windows of the rates, and answers the administration's clients; never waits.
    pub(super) fn administer(&mut self, now: Instant, is_readable: bool) {
        let Some((door, mut handler)) = self.administration.admin.handler.take() else { return };
        let board = self.common.board;
        self.administration.windows.look(now, || board.totals());
        self.administration.queue.sweep(now);
        if is_readable {
            for place in self.administration.queue.receive(&door, now) {
                let bytes = self.administration.queue.bytes(place).to_vec();
                let answer = match handler.handle(&bytes, &mut || self.sample()) {
                    Answer::More => continue,
                    Answer::Say(words) => words,
                    Answer::Obey(order) => {
                        let words = self.obey(order);
                        handler.carried_out(order, &words)
                    }
                };
                self.administration.queue.answer(place, answer);
            }
            self.administration.queue.send();
        }
        self.administration.admin.handler = Some((door, handler));
    }

    fn obey(&mut self, order: Order) -> Vec<String> {
        match order {
            Order::Reload => return self.reload(),
            Order::Drain if self.public_phase() >= Phase::Draining => {}
            Order::Drain => self.stop(),
            Order::Leave if self.phase() == Phase::Ready => {
                self.enter(Phase::Leaving, self.drain())
            }
            Order::Leave => {}
            Order::Quit if self.phase() >= Phase::Forced => {}
            Order::Quit => self.force("as ordered"),
        }
        vec![format!("the server is {}", self.public_phase())]
    }

    /// Sends the last answers, and closes the administration.
    pub(super) fn close_handler(&mut self) {
        let Some((door, _)) = self.administration.admin.handler.take() else { return };
        let until = clock() + LAST_ANSWERS;
        self.administration.queue.send();
        while self.administration.queue.is_sending() && clock() < until {
            let mut list = self.administration.queue.watched(&door);
            if poll(&mut list, Some(until.since(clock()))).is_err() {
                return;
            }
            self.administration.queue.send();
        }
    }
}
