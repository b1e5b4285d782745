//! Connecting as a separate time, and users that come and go.
//!
//! By default a request is sent with its connection, and its time includes both. Jeon, Lee and Kang
//! ("Analysis of Multi-thread Pool Utilization Scheme on the Apache Web Server", Journal of KISS
//! 32(1), 2005) measured otherwise: a client whose connect times out tries again, and the response
//! time runs from the request, *without connecting*. With [`Settings::connect_apart`] a request is
//! sent once the server's kernel has answered: service times leave connecting out, response times
//! include it. A client in the accept queue is already connected, so its service time includes the
//! queue. A client whose SYN was dropped is not, so the published time leaves out the worst case.
//!
//! [`Settings::connect_apart`]: super::Settings::connect_apart

use super::link::State;
use super::{Driver, Guests};
use crate::Instant;
use crate::stop::Stop;
use crate::tally::nanos;
use std::io::ErrorKind;
use sys::socket::SockRef;

impl Driver {
    /// The server's kernel has answered a connection that is timed apart, or refused it.
    pub(super) fn connected(&mut self, at: usize, stop: &Stop, now: Instant) {
        let link = &mut self.links[at];
        let State::Up(wire) = &link.state else { return };
        match SockRef::from(&wire.fd()).take_error().unwrap_or_else(Some) {
            Some(error) if error.kind() == ErrorKind::TimedOut => self.dial_again(at, now),
            Some(error) => self.fail_io(at, now, &error, "connecting"),
            None => {
                let begun = link.dialled.take().unwrap_or(now);
                link.moved = now;
                if link.due >= self.run.epoch {
                    self.counts.connect.record(nanos(begun, now), 1);
                }
                self.watch_room(at, now);
                self.go_on(at, stop, now);
            }
        }
    }

    /// Tries a connection again that was not made in time; the time of connecting goes on.
    pub(super) fn dial_again(&mut self, at: usize, now: Instant) {
        let begun = self.links[at].dialled;
        self.counts.retries += 1;
        self.drop_link(at, now);
        if self.connect(at, now) {
            self.links[at].dialled = begun;
        }
    }

    /// When a user that is away comes back: by its stage, or as a guest. Guests have the last
    /// connections, and are present in every second period.
    pub(super) fn away_until(&self, at: usize, now: Instant) -> Option<Instant> {
        if let Some(presence) = &self.arrivals.presence {
            let start = self.arrivals.started?;
            return presence.away_until(at, now.since(start)).map(|back| start + back);
        }
        let Guests { count, stay } = self.settings.guests?;
        if at + count < self.links.len() {
            return None;
        }
        let start = self.arrivals.started?;
        let periods = now.since(start).as_nanos() / stay.as_nanos().max(1);
        let next = start + stay * u32::try_from(periods + 1).unwrap_or(u32::MAX);
        periods.is_multiple_of(2).then_some(next)
    }
}
