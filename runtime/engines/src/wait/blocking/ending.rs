//! The end of a blocking worker's connection.

use memory::{Doing, Phase};
use sys::socket::Received;

use super::Turn;
use super::calls::BlockingCalls;

impl<C: BlockingCalls> Turn<'_, '_, C> {
    /// The service has panicked in this session, and is not called for it again.
    pub fn abandon(mut self) {
        self.now = self.calls.now(self.context);
        self.context.slot().panics.add(1);
        self.connection.release(self.context, self.now);
        self.context.closed(self.now);
    }

    /// Closes the connection, after lingering if that is due.
    pub fn finish(mut self) {
        self.now = self.calls.now(self.context);
        if self.connection.lingers(self.now, self.context.phase()) {
            self.linger();
        }
        self.calls.rest(self.context, Doing::Working);
        self.connection.conn.reclaim(&mut self.calls.kept().buffers);
        let cx = self.cx();
        // The socket stays open until the end is counted: a client that sees the close may look at
        // the counts.
        let fd = self.connection.close(self.context, &cx);
        self.context.closed(self.now);
        drop(fd);
    }

    /// Receives and drops input until the peer stops sending or its time is over.
    fn linger(&mut self) {
        self.calls.rest(self.context, Doing::Closing);
        let (context, calls) = (self.context, &mut self.calls);
        loop {
            let (now, phase) = (calls.now(context), context.phase());
            if phase >= Phase::Forced || self.connection.has_lingered(now, phase) {
                return;
            }
            match calls.receive(&self.connection.fd, None) {
                Ok(Received::Bytes(_) | Received::Later) => {}
                Ok(Received::End | Received::Broken) | Err(_) => return,
            }
        }
    }
}
