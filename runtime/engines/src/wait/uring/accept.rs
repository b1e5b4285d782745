//! Accepting on the loop's ring.

use std::io;
use std::os::fd::OwnedFd;

use super::ring_loop::{Ops, RingLoop};
use crate::parts::event_loop::EventLoop;
use crate::parts::ring::accepting::peer_of;

impl RingLoop<'_> {
    /// Opens a session for each connection that is admitted, and follows the admission.
    pub(super) fn accept(&mut self) {
        loop {
            let EventLoop { context, admission, table, now, .. } = &mut self.event_loop;
            let next = self.accepting.next(context, admission, table.len(), *now);
            let Some(incoming) = next else { break };
            let peer = peer_of(&incoming);
            let at = self.event_loop.open(incoming.0, peer, Ops::default());
            self.mover.touch(at.cx.me, &mut at.connection.x);
        }
        let EventLoop { context, admission, table, .. } = &self.event_loop;
        if let Some(change) = self.accepting.change(context, admission, table.len()) {
            self.accepting.apply(context, change, &mut self.mover.ring);
        }
    }

    pub(super) fn accepted(&mut self, result: io::Result<OwnedFd>, more: bool) {
        let EventLoop { context, admission, now, .. } = &mut self.event_loop;
        let change = self.accepting.accepted(context, admission, *now, (result, more));
        if let Some(change) = change {
            self.accepting.apply(context, change, &mut self.mover.ring);
        }
    }
}
