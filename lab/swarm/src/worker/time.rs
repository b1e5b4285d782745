//! The worker's timed tasks: heartbeats and reports, retries, and giving up.

use super::{
    ALONE, Action, BEAT, Exit, GRACE, LINGER, LOGS, Now, PAUSE, ProcessUsage, REPORT, TRIES,
};
use super::{Connection, Test, Then, Worker};
use crate::crew::Level;
use crate::message::WorkerMessage;
use std::time::Duration;

impl Worker {
    /// When to call [`Worker::tick`] if no event comes before.
    pub fn wake(&self) -> Duration {
        let connection = match self.connection {
            Connection::Away { again, .. } | Connection::Introduced { again } => Some(again),
            Connection::Dialling { .. } => None,
            Connection::Known => {
                let silence = self.heard + self.settings.silence;
                Some(self.beat.min(self.report).min(self.logs).min(silence))
            }
        };
        let test = match self.test {
            Test::Stopping { until, .. } | Test::Resting { until } => Some(until),
            _ => None,
        };
        let abandoned = self.alone.filter(|_| self.has_users()).map(|since| since + ALONE);
        let patience = self.alone.map(|since| since + self.settings.patience);
        let wakes = [connection, test, abandoned, patience, self.adoption];
        wakes.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Handles what is due.
    pub fn tick(&mut self, usage: ProcessUsage, now: Now) {
        self.usage = usage;
        self.tick_test(now);
        self.tick_alone(now);
        match self.connection {
            Connection::Away { again, pause } if now.run >= again => {
                self.connection = Connection::Dialling { pause };
                self.actions.push_back(Action::Dial(self.name.clone()));
            }
            Connection::Introduced { again } if now.run >= again => self.introduce_again(now),
            Connection::Known => self.tick_known(now),
            _ => {}
        }
    }
}

impl Worker {
    /// Handles an unanswered introduction. Over the first connection of a name, or one over which
    /// the master has answered before, the master may just be slow, up to a point. Any other
    /// connection it may have refused, because it still believes in an older one.
    fn introduce_again(&mut self, now: Now) {
        let silent = now.run >= self.heard + self.settings.silence;
        if (self.proved || !self.second) && !silent {
            return self.introduce(now);
        }
        self.unanswered += 1;
        if self.unanswered > TRIES {
            self.unanswered = 0;
            self.renamed += 1;
            self.name = format!("{}.{}", self.settings.name, self.renamed);
            self.name_used = false;
            let line = format!("not answered under the old name, now called {}", self.name);
            self.note(Level::Warning, &line, now);
        }
        self.actions.push_back(Action::Hangup);
        self.away(PAUSE.0, now);
    }

    fn tick_test(&mut self, now: Now) {
        match self.test {
            Test::Stopping { until, .. } if now.run >= until => {
                let line = "the users were told to end and have not: counting them as gone";
                self.note(Level::Warning, line, now);
                self.halted(now);
            }
            Test::Resting { until } if now.run >= until => {
                if self.connection == Connection::Known {
                    self.introduce(now);
                }
                self.ready(now);
            }
            _ => {}
        }
    }

    /// Handles the absence of a master.
    fn tick_alone(&mut self, now: Now) {
        let over = |since: Option<Duration>, span| since.is_some_and(|at| now.run >= at + span);
        let unwanted = over(self.adoption, Duration::ZERO);
        if self.has_users() && (unwanted || over(self.alone, ALONE)) {
            self.adoption = None;
            let line = "no master wants these users any more: letting them go";
            self.note(Level::Warning, line, now);
            self.halt(LINGER, GRACE, Then::Forget, now);
        }
        if over(self.alone, self.settings.patience) {
            let waited = self.settings.patience;
            self.actions.push_back(Action::Exit(Exit::Alone(format!(
                "expected a Locust master that answers, found none in {waited:?}; is it started \
                 with --master, and are address and port (5557 unless --master-bind-port says \
                 otherwise) right?"
            ))));
            self.alone = Some(now.run);
        }
    }

    fn tick_known(&mut self, now: Now) {
        // A resting worker has sent `client_stopped`: the master has forgotten it and owes it no
        // answer.
        if matches!(self.test, Test::Resting { .. }) {
            self.heard = now.run;
        }
        if now.run >= self.heard + self.settings.silence {
            let line = format!("the master was silent for {:?}", self.settings.silence);
            self.note(Level::Warning, &line, now);
            self.actions.push_back(Action::Hangup);
            return self.away(PAUSE.0, now);
        }
        if now.run >= self.report {
            self.report = now.run + REPORT;
            self.tell(now);
        }
        if now.run >= self.beat {
            self.beat = now.run + BEAT;
            self.beat(now);
        }
        if now.run >= self.logs {
            self.logs = now.run + LOGS;
            if let Some(lines) = self.log.news() {
                self.say(&WorkerMessage::Logs(lines));
            }
        }
    }
}
