//! One connection without a network, for tests of exact replies: the test sets the clock, and jobs
//! finish at once.

use seam::{
    Buffers, Closed, Conn, Cx, Effects, Instant, Peer, Service, SessionId, Wants, WorkerId,
};
use std::io::IoSlice;
use std::time::Duration;

/// The connection.
pub struct Talk<'a, S: Service> {
    service: &'a S,
    state: &'a S::State,
    conn: Conn<S::Session, S::Job>,
    /// The effects of the steps, such as notes.
    pub effects: Effects,
    /// The time.
    pub now: Instant,
}

impl<'a, S: Service> Talk<'a, S> {
    /// A connection of this machine, opened at [`Instant::ZERO`].
    pub fn new(service: &'a S, state: &'a S::State) -> Talk<'a, S> {
        Talk::from(Peer::Local, service, state)
    }

    /// A connection of `peer`.
    pub fn from(peer: Peer, service: &'a S, state: &'a S::State) -> Talk<'a, S> {
        Talk::at(Instant::ZERO, peer, service, state)
    }

    /// The same, opened at `now`.
    pub fn at(now: Instant, peer: Peer, service: &'a S, state: &'a S::State) -> Talk<'a, S> {
        let effects = Effects::new(true, true);
        let conn = Conn::open(service, &cx(now, state, &effects), peer, &mut Buffers::new(1));
        Talk { service, state, conn, effects, now }
    }

    /// Triggers an event, runs the jobs, and leaves the output in place.
    pub fn quietly(
        &mut self,
        event: impl FnOnce(&mut Conn<S::Session, S::Job>, &S, &Cx<'_, S::State>),
    ) {
        let cx = cx(self.now, self.state, &self.effects);
        event(&mut self.conn, self.service, &cx);
        while let Some(job) = self.conn.take_job() {
            let outcome = self.service.work(self.state, job);
            self.conn.outcome(self.service, &cx, outcome);
        }
    }

    /// Triggers an event and takes the output.
    pub fn hear(
        &mut self,
        event: impl FnOnce(&mut Conn<S::Session, S::Job>, &S, &Cx<'_, S::State>),
    ) -> String {
        self.quietly(event);
        String::from_utf8_lossy(&self.drink()).into_owned()
    }

    /// Sends bytes and takes the output.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.hear(|conn, service, cx| conn.feed(service, cx, bytes.as_ref()))
    }

    /// Lets time pass and takes the output.
    pub fn after(&mut self, span: Duration) -> String {
        self.now = self.now + span;
        self.hear(Conn::deadline)
    }

    /// Ends the input and takes the output.
    pub fn ends(&mut self) -> String {
        self.hear(Conn::eof)
    }

    /// Drains the server and takes the output.
    pub fn drains(&mut self) -> String {
        self.hear(Conn::drain)
    }

    /// Bytes waiting to be sent.
    pub fn waiting(&mut self) -> usize {
        self.conn.out().len()
    }

    /// The capacity of the output in bytes.
    pub fn held(&mut self) -> usize {
        self.conn.out().bytes().capacity()
    }

    /// Sends at most `len` waiting bytes.
    pub fn sip(&mut self, len: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = self.conn.out().gather(&mut slices);
        let bytes = slices[..filled].iter().flat_map(|slice| slice.iter().copied());
        let bytes: Vec<u8> = bytes.take(len).collect();
        self.quietly(|conn, service, cx| conn.sent(service, cx, bytes.len()));
        bytes
    }

    /// Sends everything and returns it.
    pub fn drink(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.waiting() > 0 {
            bytes.extend(self.sip(usize::MAX));
        }
        bytes
    }

    /// Ends the connection and drops what is not sent; returns the effects.
    pub fn leaves(mut self, why: Closed) -> Effects {
        if !self.closes() {
            self.conn.abort(why);
        }
        self.conn.close(self.service, &cx(self.now, self.state, &self.effects));
        self.effects
    }

    /// The next wishes of the connection.
    pub fn wants(&self) -> Wants {
        self.conn.wants()
    }

    /// Whether the service closes.
    pub fn closes(&self) -> bool {
        self.wants().close
    }
}

fn cx<'c, T>(now: Instant, state: &'c T, effects: &'c Effects) -> Cx<'c, T> {
    Cx::new(now, SessionId::new(0, 0, 1), WorkerId::new(0, 1), state, effects)
}
