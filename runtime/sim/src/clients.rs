//! The clients' half of a run: scripts, segments, reads.

use core::time::Duration;

use seam::Service;

use crate::connection::{Connection, Order};
use crate::link::Packet;
use crate::rng::Choices as _;
use crate::script::Act;
use crate::transcript::End;
use crate::world::{What, World};

impl<S: Service> World<'_, S> {
    pub(crate) fn act(&mut self, client: usize) {
        let plan = &self.script.clients[client];
        while self.callers[client].end.is_none() && self.callers[client].expects.is_none() {
            let caller = &mut self.callers[client];
            let Some(act) = plan.acts.get(caller.next) else {
                if !caller.ended && !plan.acts.contains(&Act::Stay) {
                    caller.ended = true;
                    self.send(client, Packet::Fin);
                }
                return;
            };
            caller.next += 1;
            match act {
                Act::Send(_) | Act::End if caller.ended => {}
                Act::Send(bytes) => self.send_cut(client, bytes),
                Act::Wait(span) => return self.after(*span, What::Act(client)),
                Act::Expect(bytes) => {
                    if caller.heard.len() < *bytes {
                        caller.expects = Some(*bytes);
                    }
                }
                Act::End => {
                    caller.ended = true;
                    self.send(client, Packet::Fin);
                }
                Act::Reset => self.reset(client),
                Act::Stay => {}
            }
        }
    }

    /// Cuts `bytes` at random and sends the segments.
    fn send_cut(&mut self, client: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = self.rng.size(self.faults.segment).min(rest.len());
            self.send(client, Packet::Bytes(rest[..len].to_vec()));
            rest = &rest[len..];
        }
    }

    /// Sends `packet` after all others; half of the packets arrive together with the previous one.
    fn send(&mut self, client: usize, packet: Packet) {
        let delay = if self.rng.coin() { self.rng.span(self.faults.delay) } else { Duration::ZERO };
        let link = &mut self.callers[client].link;
        link.last_arrival = (self.now + delay).max(link.last_arrival);
        let arrival = link.last_arrival;
        self.at(arrival, What::Arrive(client, packet));
    }

    pub(crate) fn reset(&mut self, client: usize) {
        let caller = &mut self.callers[client];
        if caller.end.is_some() {
            return;
        }
        caller.end = Some(End::Reset);
        if caller.connection.is_none() {
            self.backlog.retain(|waiting| *waiting != client);
        }
        // A reset may overtake packets under way.
        if self.rng.coin() {
            self.soon(What::Arrive(client, Packet::Rst));
        } else {
            self.send(client, Packet::Rst);
        }
    }

    /// The client reads, if there are bytes to read.
    pub(crate) fn sip(&mut self, client: usize) {
        let caller = &mut self.callers[client];
        caller.sipping = false;
        if caller.end.is_some() {
            return;
        }
        let len = caller.link.outbox.len().min(self.rng.size(self.faults.sip));
        caller.heard.extend(caller.link.outbox.drain(..len));
        if caller.expects.is_some_and(|bytes| bytes <= caller.heard.len()) {
            caller.expects = None;
            self.soon(What::Act(client));
        }
        let connection = self.callers[client].connection;
        if let Some(connection) = connection {
            self.mark(Some(connection));
            if self.connection(connection).is_some_and(Connection::wants_landing) {
                self.soon(What::Connection(Order::Land(connection)));
            }
        }
        self.hear(client);
    }

    /// Tells the client that there are bytes to read, or that the server has closed.
    pub(crate) fn hear(&mut self, client: usize) {
        let caller = &mut self.callers[client];
        if caller.end.is_some() || caller.sipping {
            return;
        }
        if !caller.link.outbox.is_empty() {
            caller.sipping = true;
            self.soon(What::Sip(client));
        } else if caller.link.closed {
            caller.end = Some(End::Closed);
        }
    }
}
