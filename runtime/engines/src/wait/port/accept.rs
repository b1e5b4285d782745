//! Accepting on a port: the leader admits connections, and any free thread opens their sessions.

use std::io;
use std::os::fd::OwnedFd;

use super::completion_port::WorkItem;
use super::leader::LeaderState;
use super::thread::PortThread;

impl PortThread<'_, '_> {
    /// Queues each connection that is admitted, and follows the admission.
    pub(super) fn accept(&mut self, leader: &mut LeaderState) {
        let (context, port) = (self.context, self.port);
        let LeaderState { accepting, admission, inside, .. } = leader;
        while let Some(incoming) = accepting.next(context, admission, *inside, self.now) {
            *inside += 1;
            self.new_items.push(WorkItem::Open(incoming));
        }
        if let Some(change) = accepting.change(context, admission, *inside) {
            accepting.apply(context, change, &mut port.ring.hub());
        }
    }

    pub(super) fn accepted(
        &mut self,
        leader: &mut LeaderState,
        result: io::Result<OwnedFd>,
        more: bool,
    ) {
        let port = self.port;
        let LeaderState { accepting, admission, .. } = leader;
        let context = self.context;
        if let Some(change) = accepting.accepted(context, admission, self.now, (result, more)) {
            accepting.apply(context, change, &mut port.ring.hub());
        }
    }
}
