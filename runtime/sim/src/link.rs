//! The network between one client and its session: two queues of bytes and two ends.

use std::collections::VecDeque;

use seam::{Instant, SessionId};

use crate::transcript::End;

/// A message from a client to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Bytes(Vec<u8>),
    Fin,
    Rst,
}

/// One connection as the two kernels see it.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Arrived at the server and not received by the engine.
    pub(crate) inbox: VecDeque<u8>,
    /// The end of the client's half has arrived.
    pub(crate) fin: bool,
    /// The client's reset has arrived.
    pub(crate) rst: bool,
    /// Sent by the engine and not read by the client.
    pub(crate) outbox: VecDeque<u8>,
    pub(crate) window: usize,
    /// The server has closed its descriptor.
    pub(crate) closed: bool,
    /// The arrival of the last packet under way.
    pub(crate) last_arrival: Instant,
}

impl Link {
    pub(crate) fn arrive(&mut self, packet: Packet) {
        match packet {
            Packet::Bytes(bytes) => self.inbox.extend(bytes),
            Packet::Fin => self.fin = true,
            Packet::Rst => {
                self.rst = true;
                self.inbox.clear();
            }
        }
    }

    /// The number of bytes that a send could take now; a reset connection takes, and loses, all.
    pub(crate) fn room(&self) -> usize {
        if self.rst { usize::MAX } else { self.window.saturating_sub(self.outbox.len()) }
    }

    pub(crate) fn send(&mut self, bytes: impl Iterator<Item = u8>) {
        if self.rst {
            bytes.for_each(drop);
        } else {
            self.outbox.extend(bytes);
        }
    }
}

/// A client that plays its script.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) link: Link,
    pub(crate) connection: Option<SessionId>,
    /// The index of the next act.
    pub(crate) next: usize,
    pub(crate) heard: Vec<u8>,
    /// It waits for this many bytes.
    pub(crate) expects: Option<usize>,
    /// It has ended its half.
    pub(crate) ended: bool,
    /// A read is under way.
    pub(crate) sipping: bool,
    pub(crate) end: Option<End>,
    pub(crate) closed: Option<seam::Closed>,
}
