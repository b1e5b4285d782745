//! What a worker does because time has passed: beats and reports, tries again, and loses patience.

use super::{ALONE, Act, BEAT, Exit, GRACE, Gauge, LINGER, LOGS, Now, PAUSE, REPORT, TRIES};
use super::{Test, Then, Tie, Worker};
use crate::crew::Level;
use crate::message::Said;
use std::time::Duration;

impl Worker {
    /// When to call [`Worker::tick`] if nothing else happens.
    pub fn wake(&self) -> Duration {
        let tie = match self.tie {
            Tie::Away { again, .. } | Tie::Knocking { again } => Some(again),
            Tie::Dialling { .. } => None,
            Tie::Known => {
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
        let wakes = [tie, test, abandoned, patience, self.adoption];
        wakes.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Time has passed.
    pub fn tick(&mut self, gauge: Gauge, now: Now) {
        self.gauge = gauge;
        self.tick_test(now);
        self.tick_alone(now);
        match self.tie {
            Tie::Away { again, pause } if now.run >= again => {
                self.tie = Tie::Dialling { pause };
                self.acts.push_back(Act::Dial(self.name.clone()));
            }
            Tie::Knocking { again } if now.run >= again => self.knock_again(now),
            Tie::Known => self.tick_known(now),
            _ => {}
        }
    }
}

impl Worker {
    /// Nobody has answered. Over the first connection of a name, or one over which we were known,
    /// the master is only slow, up to a point; any other it may not have taken, because it
    /// believes in an older one.
    fn knock_again(&mut self, now: Now) {
        let silent = now.run >= self.heard + self.settings.silence;
        if (self.proved || !self.second) && !silent {
            return self.knock(now);
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
        self.acts.push_back(Act::Hangup);
        self.away(PAUSE.0, now);
    }

    fn tick_test(&mut self, now: Now) {
        match self.test {
            Test::Stopping { until, .. } if now.run >= until => {
                let line = "the users were told to end and have not: they are counted out";
                self.note(Level::Warning, line, now);
                self.halted(now);
            }
            Test::Resting { until } if now.run >= until => {
                if self.tie == Tie::Known {
                    self.knock(now);
                }
                self.ready(now);
            }
            _ => {}
        }
    }

    /// What the lack of a master leads to.
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
            self.acts.push_back(Act::Exit(Exit::Alone(format!(
                "expected a Locust master that answers, found none in {waited:?}; is it started \
                 with --master, and are address and port (5557 unless --master-bind-port says \
                 otherwise) right?"
            ))));
            self.alone = Some(now.run);
        }
    }

    fn tick_known(&mut self, now: Now) {
        // A master that has forgotten us on our own word owes us no answer.
        if matches!(self.test, Test::Resting { .. }) {
            self.heard = now.run;
        }
        if now.run >= self.heard + self.settings.silence {
            let line = format!("the master was silent for {:?}", self.settings.silence);
            self.note(Level::Warning, &line, now);
            self.acts.push_back(Act::Hangup);
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
                self.say(&Said::Logs(lines));
            }
        }
    }
}
