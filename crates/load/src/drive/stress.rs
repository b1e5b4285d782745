//! The stress client of a game server's library: a window of packets on each connection, topped up
//! as echoes come, and connections that are given up and made anew while packets are under way.
//!
//! What the library's client counts is counted here too, and exactly: an echo is late once, however
//! often somebody looks; what is under way on a connection that we close ourselves is abandoned,
//! which is nobody's fault.

use super::{Drive, State};
use crate::stop::Stop;
use seam::Instant;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An echo that takes longer has not come in time.
pub const ECHO_LATE: Duration = Duration::from_secs(1);
/// A connection without a login packet for so long will get none.
pub const LOGIN_LATE: Duration = Duration::from_secs(3);
/// Between two looks at what is late.
const LOOK: Duration = Duration::from_millis(100);
/// How soon a connection that was held is looked at again.
const HELD: Duration = Duration::from_millis(20);

/// How connections are strained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stress {
    /// Every so often each thread closes its oldest connection and makes it anew.
    pub renew: Option<Duration>,
}

/// What a stress client counts, of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strain {
    /// Connections begun.
    pub connects: u64,
    /// Connections that we closed to make them anew.
    pub renewals: u64,
    /// Packets that were under way on those.
    pub abandoned: u64,
    /// Connections that could not be made.
    pub connect_failed: u64,
    /// Login packets, one for each connection at the most.
    pub logins: u64,
    /// Connections on which none came within 3 s.
    pub logins_missing: u64,
    /// Login packets beyond the first of a connection.
    pub logins_twice: u64,
    /// Echoes that had not come within 1 s.
    pub echoes_late: u64,
    /// Packets that were not what they had to be.
    pub invalid: u64,
    /// Connections that the server ended.
    pub closed_by_server: u64,
}

impl Strain {
    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Strain) {
        let Strain { connects, renewals, abandoned, connect_failed, logins, .. } = other;
        self.connects += connects;
        self.renewals += renewals;
        self.abandoned += abandoned;
        self.connect_failed += connect_failed;
        self.logins += logins;
        self.logins_missing += other.logins_missing;
        self.logins_twice += other.logins_twice;
        self.echoes_late += other.echoes_late;
        self.invalid += other.invalid;
        self.closed_by_server += other.closed_by_server;
    }

    /// Whether the server did everything that it should.
    pub fn is_clean(&self) -> bool {
        let Strain { connect_failed, logins_missing, logins_twice, echoes_late, .. } = self;
        let late = connect_failed + logins_missing + logins_twice + echoes_late;
        late + self.invalid + self.closed_by_server == 0
    }
}

/// When to look, and when to renew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    look: Instant,
    renew: Option<Instant>,
}

impl Drive {
    /// Stops the sending while `hold` is set; what is under way is still received.
    pub fn hold_by(&mut self, hold: Arc<AtomicBool>) {
        self.hold = Some(hold);
    }

    /// Whether somebody has stopped the sending.
    pub(super) fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.load(Ordering::Relaxed))
    }

    /// A connection may not send now: it is looked at again a little later.
    pub(super) fn wait_held(&mut self, at: usize, now: Instant) {
        self.set_alarm(at, now + HELD);
    }

    /// Whether windows are topped up.
    pub(super) fn is_stress(&self) -> bool {
        self.settings.stress.is_some()
    }

    /// When the next look is due.
    pub(super) fn stress_due(&self) -> Option<Instant> {
        self.settings.stress?;
        Some(self.round.renew.map_or(self.round.look, |renew| renew.min(self.round.look)))
    }

    /// Looks for what is late, and gives up the oldest connection if it is time.
    pub(super) fn strain(&mut self, stop: &dyn Stop, now: Instant) {
        let Some(stress) = self.settings.stress else { return };
        if now >= self.round.look {
            self.round.look = now + LOOK;
            self.look(now);
        }
        let Some(every) = stress.renew else { return };
        let due = *self.round.renew.get_or_insert(now + every);
        if now >= due {
            // A late renewal moves the others: two at once would be another load.
            self.round.renew = Some(now + every);
            if !self.parting && !self.is_held() {
                self.renew(stop, now);
            }
        }
    }

    fn look(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            self.strain.echoes_late += link.late(now, ECHO_LATE);
            let unlogged = self.script.greetings(at) == Some(0);
            if link.is_up() && unlogged && !link.unlogged && now.since(link.opened) > LOGIN_LATE {
                link.unlogged = true;
                self.strain.logins_missing += 1;
            }
        }
    }

    /// Closes the connection that has been up longest, and makes it anew at once.
    fn renew(&mut self, stop: &dyn Stop, now: Instant) {
        let up = (0..self.links.len()).filter(|&at| self.links[at].is_up());
        let Some(at) = up.min_by_key(|&at| self.links[at].opened) else { return };
        let unanswered = u64::from(self.links[at].outstanding);
        self.links[at].take_runs();
        self.outstanding -= unanswered;
        self.strain.abandoned += unanswered;
        self.strain.renewals += 1;
        self.drop_link(at, now);
        self.links[at].due = now;
        self.go_on(at, stop, now);
    }

    /// Counts the login packets that have come on a connection since the last time.
    pub(super) fn count_greetings(&mut self, at: usize) {
        let Some(found) = self.script.greetings(at) else { return };
        let known = std::mem::replace(&mut self.links[at].greetings, found);
        if found > known {
            let first = u64::from(known == 0);
            self.strain.logins += first;
            self.strain.logins_twice += u64::from(found - known) - first;
        }
    }

    /// The server, or the network, has ended a connection.
    pub(super) fn count_end(&mut self, at: usize) {
        if matches!(self.links[at].state, State::Up(_)) {
            self.strain.closed_by_server += 1;
        }
    }
}
