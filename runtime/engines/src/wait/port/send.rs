//! Output: one send at a time for each session, with all the output that waits; files are sent by
//! calls, as in `uring`.

use std::os::fd::AsFd;

use seam::SessionId;

use super::completion_port::Connection;
use super::thread::PortThread;
use crate::limits::PORT_FILE_BYTES;
use crate::parts::connection::Sent;
use crate::parts::ring::output::load;
use crate::parts::transmit::CallMode;

impl PortThread<'_, '_> {
    /// Sends everything that waits, if nothing is in flight.
    pub(super) fn send(&mut self, id: SessionId, connection: &mut Connection) {
        if connection.x.flight.sending || connection.conn.out().waiting() == 0 {
            return;
        }
        if connection.conn.out().has_file() {
            return self.send_files(id, connection);
        }
        self.launch(id, connection);
    }

    /// One send on the ring of everything that waits.
    fn launch(&mut self, id: SessionId, connection: &mut Connection) {
        if let Some(load) = load(connection.conn.out()) {
            connection.x.flight.sending = true;
            self.port.ring.hub().send(connection.fd.as_fd(), id.bits(), load);
        }
    }

    /// Sends files, and what lies before them, as far as the peer takes it, up to
    /// [`PORT_FILE_BYTES`].
    fn send_files(&mut self, id: SessionId, connection: &mut Connection) {
        let (context, cx) = (self.context, self.cx(id));
        let mut left = PORT_FILE_BYTES;
        while left > 0 && connection.conn.out().has_file() {
            match connection.send(context, &cx, CallMode::Nonblocking) {
                Sent::Bytes(len) => left = left.saturating_sub(len),
                Sent::Later => break,
                Sent::Broken => {}
            }
        }
        if connection.conn.out().has_file() {
            // The peer would take more, but other sessions come first.
            connection.x.flight.sending = true;
            self.port.ring.hub().watch_writable(connection.fd.as_fd(), id.bits());
            return;
        }
        self.launch(id, connection);
    }
}
