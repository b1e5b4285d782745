//! The end of a parked connection: it lingers until the peer stops sending, and is closed.

use memory::Phase;
use sys::socket::{self, Received};

use super::Worker;
use super::parking::Connection;
use crate::limits::LINGER_RECEIVES;

impl Worker<'_, '_> {
    /// Ends a session: its connection lingers, or is closed.
    pub(super) fn part(&mut self, mut connection: Box<Connection>) {
        if connection.lingers(self.now, self.context.phase()) {
            self.park(connection);
        } else {
            self.finish(*connection);
        }
    }

    /// Receives and drops what a peer sends while its connection lingers.
    pub(super) fn drop_input(&mut self, connection: Box<Connection>) {
        let phase = self.context.phase();
        if phase >= Phase::Forced || connection.has_lingered(self.now, phase) {
            return self.finish(*connection);
        }
        for _ in 0..LINGER_RECEIVES {
            match socket::recv_nowait(&connection.fd, &mut self.scratch) {
                Received::Bytes(_) => {}
                Received::Later => break,
                Received::End | Received::Broken => return self.finish(*connection),
            }
        }
        self.park(connection);
    }

    pub(super) fn finish(&mut self, mut connection: Connection) {
        connection.conn.reclaim(&mut self.buffers);
        let id = connection.x.id;
        drop(connection.close(self.context, &self.cx(id)));
        self.parking.end(id);
    }
}
