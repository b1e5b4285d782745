//! The administration's visitors, between two looks at the crew.

use std::time::Duration;

use memory::Phase;
use seam::{Instant, Service};
use sys::poll::{PollFd, poll};

use super::{Crew, Supervisor, clock};
use crate::admin::{Answer, Order};

/// How long those who were told the last word may take to hear it.
const FAREWELL: Duration = Duration::from_millis(200);

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// The door and those inside, for a wait.
    pub(super) fn watched_visitors(&self) -> Vec<PollFd<'_>> {
        let handler = self.admin.handler.as_ref();
        handler.map_or_else(Vec::new, |(door, _)| self.admin_queue.watched(door))
    }

    /// Keeps the windows, and answers whoever has finished asking; never waits for anybody.
    pub(super) fn attend(&mut self, now: Instant, knocked: bool) {
        let Some((door, mut handler)) = self.admin.handler.take() else { return };
        let board = self.common.board;
        self.windows.look(now, || board.totals());
        self.admin_queue.sweep(now);
        if knocked {
            for asked in self.admin_queue.listen(&door, now) {
                let said = self.admin_queue.said(&asked).to_vec();
                let answer = match handler.hear(&said, &mut || self.sample()) {
                    Answer::More => continue,
                    Answer::Say(words) => words,
                    Answer::Obey(order) => {
                        let words = self.obey(order);
                        handler.carried_out(order, &words)
                    }
                };
                self.admin_queue.answer(&asked, answer);
            }
            self.admin_queue.tell();
        }
        self.admin.handler = Some((door, handler));
    }

    fn obey(&mut self, order: Order) -> Vec<String> {
        match order {
            Order::Reload => return self.reload(),
            Order::Drain if self.told_phase() >= Phase::Draining => {}
            Order::Drain => self.stop(),
            Order::Quit if self.phase() >= Phase::Forced => {}
            Order::Quit => self.force("as was ordered"),
        }
        vec![format!("the server is {}", super::sample::word(self.told_phase()))]
    }

    /// Lets the last answers out, and closes the door.
    pub(super) fn close_handler(&mut self) {
        let Some((door, _)) = self.admin.handler.take() else { return };
        let until = clock() + FAREWELL;
        self.admin_queue.tell();
        while self.admin_queue.is_telling() && clock() < until {
            let mut list = self.admin_queue.watched(&door);
            if poll(&mut list, Some(until.since(clock()))).is_err() {
                return;
            }
            self.admin_queue.tell();
        }
    }
}
