//! The end of a blocking worker's connection.

use memory::{Doing, Phase};
use sys::socket::{self, Received};

use super::Turn;

impl Turn<'_, '_> {
    /// Closes the connection, after lingering if that is due.
    pub(super) fn finish(mut self) {
        self.now = self.context.now();
        if self.connection.lingers(self.now, self.context.phase()) {
            self.linger();
        }
        self.context.rest(Doing::Working);
        self.connection.conn.reclaim(&mut self.kept.buffers);
        let cx = self.cx();
        // The socket stays open until the end is counted: a client that sees the close may look at
        // the counts.
        let fd = self.connection.close(self.context, &cx);
        self.context.closed(self.now);
        drop(fd);
    }

    /// Receives and drops input until the peer stops sending or its time is over.
    fn linger(&mut self) {
        self.context.rest(Doing::Closing);
        let lingers = |phase| {
            phase < Phase::Forced && !self.connection.has_lingered(self.context.now(), phase)
        };
        while lingers(self.context.phase()) {
            match socket::recv_into(&self.connection.fd, &mut self.kept.scratch) {
                Received::Bytes(_) | Received::Later => {}
                Received::End | Received::Broken => return,
            }
        }
    }
}
