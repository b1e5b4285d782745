//! The operations of one connection on a ring: a receive that stays armed, and a send.

use sys::uring::{Armed, Receive, Received};

/// Receives that a session makes into its own buffers after it found the ring empty. With 64
/// sessions on 8 buffers, trying the ring again at once costs a quarter more CPU per request: 1.24
/// [1.19 1.31] at depth 16, 1.29 [1.22 1.33] at depth 1 (2 cores, Linux 6.18).
const OWN_BUFFERS: u8 = 64;

/// A change of the receive of a connection.
#[derive(Clone, Copy, Debug)]
pub enum ReceiveChange {
    /// It is armed, in this way; `waiting`: input is known to wait.
    Arm { how: Receive, waiting: bool },
    /// It is cancelled.
    Stop(Armed),
}

/// A connection's operations that are armed or in flight on a ring.
#[derive(Default)]
pub struct Flight {
    /// The receive that holds the socket.
    pub armed: Option<Armed>,
    /// The receive has been told to stop.
    pub stopping: bool,
    /// A send is in flight, or the wait for a peer that takes no more of a file.
    pub sending: bool,
    /// Input is known to be waiting in the socket.
    waiting: bool,
    /// The number of receives that still go into the session's own buffers.
    own: u8,
}

impl Flight {
    /// Whether any operation holds the socket.
    pub fn is_busy(&self) -> bool {
        self.sending || self.armed.is_some()
    }

    /// Handles the completion of a receive; `more`: it stays armed.
    pub fn received(&mut self, input: &Received, more: bool, waiting: bool) {
        self.waiting = waiting;
        if !more {
            (self.armed, self.stopping) = (None, false);
        }
        if matches!(input, Received::NoBuffers) {
            // The bytes that found no buffer are still in the socket.
            (self.own, self.waiting) = (OWN_BUFFERS, true);
        }
    }

    /// The change of the receive: `reads` if input is wanted.
    #[inline]
    pub fn change(&mut self, reads: bool) -> Option<ReceiveChange> {
        match self.armed {
            None if reads => {
                let how = if self.own > 0 { Receive::Own } else { Receive::Multishot };
                self.own = self.own.saturating_sub(1);
                Some(ReceiveChange::Arm { how, waiting: self.waiting })
            }
            Some(_) if !reads => self.stop().map(ReceiveChange::Stop),
            _ => None,
        }
    }

    /// The receive to be cancelled, unless it has been told to stop already. Everything that the
    /// ring has received comes before the end of an armed receive.
    pub fn stop(&mut self) -> Option<Armed> {
        let armed = self.armed.filter(|_| !self.stopping);
        self.stopping |= armed.is_some();
        armed
    }
}
