//! The stress client of a game server's library: a window of packets on each connection, topped up
//! as echoes arrive, and connections that are closed and reopened while packets are in flight.
//!
//! The counts of the library's client are kept here too, and exactly: a late echo is counted once,
//! however often the check runs. Packets in flight on a connection that the client itself closes
//! are abandoned, which is not a fault.

use super::{Driver, State};
use crate::Instant;
use crate::stop::Stop;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const ECHO_LATE: Duration = Duration::from_secs(1);
/// If no login packet arrives on a connection for this long, it is missing.
const LOGIN_LATE: Duration = Duration::from_secs(3);
/// The pause between two checks for late echoes.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before a held connection is checked again.
const HELD: Duration = Duration::from_millis(20);

/// The counts of a stress client over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StressCounts {
    /// Connections begun.
    pub connects: u64,
    /// Connections that the client closed to reopen them.
    pub renewals: u64,
    /// Packets in flight on renewed connections.
    pub abandoned: u64,
    /// Connections that could not be made.
    pub connect_failed: u64,
    /// Login packets, at most one per connection.
    pub logins: u64,
    /// Connections without a login packet within 3 s.
    pub logins_missing: u64,
    /// Login packets beyond the first of a connection.
    pub logins_twice: u64,
    /// Echoes that did not arrive within 1 s.
    pub echoes_late: u64,
    /// Packets with wrong content.
    pub invalid: u64,
    /// Connections that the server ended.
    pub closed_by_server: u64,
}

impl StressCounts {
    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &StressCounts) {
        self.connects += other.connects;
        self.renewals += other.renewals;
        self.abandoned += other.abandoned;
        self.connect_failed += other.connect_failed;
        self.logins += other.logins;
        self.logins_missing += other.logins_missing;
        self.logins_twice += other.logins_twice;
        self.echoes_late += other.echoes_late;
        self.invalid += other.invalid;
        self.closed_by_server += other.closed_by_server;
    }

    /// Whether the server did everything expected.
    pub fn is_clean(&self) -> bool {
        let StressCounts { connect_failed, logins_missing, logins_twice, echoes_late, .. } = self;
        let late = connect_failed + logins_missing + logins_twice + echoes_late;
        late + self.invalid + self.closed_by_server == 0
    }
}

/// The times of the next check and the next renewal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    look: Instant,
    renew: Option<Instant>,
}

impl Driver {
    /// Stops sending while `hold` is set; replies are still received.
    pub fn hold_by(&mut self, hold: Arc<AtomicBool>) {
        self.run.hold = Some(hold);
    }

    /// Whether sending is on hold.
    pub(super) fn is_held(&self) -> bool {
        self.run.hold.as_ref().is_some_and(|hold| hold.load(Ordering::Relaxed))
    }

    /// Postpones a connection while sending is on hold.
    pub(super) fn wait_held(&mut self, at: usize, now: Instant) {
        self.set_alarm(at, now + HELD);
    }

    /// The time of the next check.
    pub(super) fn windows_due(&self) -> Option<Instant> {
        let Round { look, renew } = self.run.round;
        self.settings.tops_up.then_some(renew.map_or(look, |renew| renew.min(look)))
    }

    /// Checks for late echoes, and renews the oldest connection when that is due.
    pub(super) fn check_windows(&mut self, stop: &Stop, now: Instant) {
        if !self.settings.tops_up {
            return;
        }
        if now >= self.run.round.look {
            self.run.round.look = now + LOOK;
            self.look(now);
        }
        let Some(every) = self.settings.renew else { return };
        let due = *self.run.round.renew.get_or_insert(now + every);
        if now >= due {
            // A late renewal postpones the others: two at once would be a different load.
            self.run.round.renew = Some(now + every);
            if !self.run.parting && !self.is_held() {
                self.renew(stop, now);
            }
        }
    }

    fn look(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            self.counts.stress.echoes_late += link.late(now, ECHO_LATE);
            let unlogged = self.script.greetings(at) == Some(0);
            if link.is_up() && unlogged && !link.unlogged && now.since(link.opened) > LOGIN_LATE {
                link.unlogged = true;
                self.counts.stress.logins_missing += 1;
            }
        }
    }

    /// Closes the connection that has been up longest and reopens it at once.
    fn renew(&mut self, stop: &Stop, now: Instant) {
        let up = (0..self.links.len()).filter(|&at| self.links[at].is_up());
        let Some(at) = up.min_by_key(|&at| self.links[at].opened) else { return };
        let unanswered = u64::from(self.links[at].outstanding);
        self.links[at].take_runs();
        self.run.outstanding -= unanswered;
        self.counts.stress.abandoned += unanswered;
        self.counts.stress.renewals += 1;
        self.drop_link(at, now);
        self.links[at].due = now;
        self.go_on(at, stop, now);
    }

    /// Counts the login packets received on a connection since the last call.
    pub(super) fn count_greetings(&mut self, at: usize) {
        let Some(found) = self.script.greetings(at) else { return };
        let known = std::mem::replace(&mut self.links[at].greetings, found);
        if found > known {
            let first = u64::from(known == 0);
            self.counts.stress.logins += first;
            self.counts.stress.logins_twice += u64::from(found - known) - first;
        }
    }

    /// Counts a connection closed by the server or the network.
    pub(super) fn count_end(&mut self, at: usize) {
        if matches!(self.links[at].state, State::Up(_)) {
            self.counts.stress.closed_by_server += 1;
        }
    }
}
