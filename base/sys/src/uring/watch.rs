//! Waiting for a descriptor to be readable or writable (`IORING_OP_POLL_ADD`).
//!
//! The kernel adds `POLLRDHUP`, `POLLHUP` and `POLLERR` to every mask of a poll (io_uring/poll.c,
//! `IO_POLL_UNMASK`). So a poll for output on a socket whose peer has ended its own output
//! completes at once, however full the socket is, and waiting again in the same way is a loop
//! without a pause. Such a wait continues as a multishot poll: that one is edge-triggered, so it
//! reports the half close once and after that only the wake-ups of the socket.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{cqueue, opcode, types};

use super::{Armed, Completion, KIND_READY, KIND_WRITABLE, Raw, Uring, tag};

/// A wait for output in flight.
pub(super) struct Watching {
    goal: Goal,
    fd: i32,
    /// The socket accepts output: the wait is cancelled, and its last completion is to come.
    is_over: bool,
    /// The caller has cancelled everything on the descriptor.
    is_cancelled: bool,
}

/// The step after a wait for output.
#[derive(Clone, Copy)]
enum Goal {
    /// The caller of [`Uring::watch_writable`] is told, by its token.
    Report(u64),
    /// The send of this number goes on.
    Send(u32),
}

/// The events that end a wait for output; after an error or a hang-up, the next send reports it.
const OUTPUT: i32 = (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) as i32;

impl Uring {
    /// Watches a descriptor for readability until cancelled (`IORING_POLL_ADD_MULTI`, 5.13).
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> Armed {
        self.poll(fd, token, true)
    }

    /// Watches a descriptor until it is readable.
    pub fn watch_once(&mut self, fd: BorrowedFd<'_>, token: u64) -> Armed {
        self.poll(fd, token, false)
    }

    fn poll(&mut self, fd: BorrowedFd<'_>, token: u64, multi: bool) -> Armed {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(multi).build();
        self.arm(entry, tag(KIND_READY, token))
    }

    /// Waits until a socket accepts output, for callers that send by system calls. The descriptor
    /// must stay open until [`Completion::Writable`]; [`Uring::cancel_all`] brings that early.
    pub fn watch_writable(&mut self, fd: BorrowedFd<'_>, token: u64) {
        self.begin(Goal::Report(token), fd.as_raw_fd());
    }

    /// Continues a send when its socket has room. The kernel waits in the send itself, but gives up
    /// on a non-blocking socket whose peer has ended its output (`APOLL_MAX_RETRY`).
    pub(super) fn send_later(&mut self, send: u32) {
        let fd = self.sends.at(send).fd;
        self.begin(Goal::Send(send), fd);
    }

    fn begin(&mut self, goal: Goal, fd: i32) {
        let watching = Watching { goal, fd, is_over: false, is_cancelled: false };
        let index = self.watches.put(watching);
        self.await_output(index, false);
    }

    fn await_output(&mut self, index: u32, multi: bool) {
        let fd = types::Fd(self.watches.at(index).fd);
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32).multi(multi).build();
        self.arm(entry, tag(KIND_WRITABLE, index.into()));
    }

    /// Lets no wait for output on `fd` continue: its next last completion is its end, even if the
    /// kernel has posted that before the cancellation.
    pub(super) fn end_watches(&mut self, fd: BorrowedFd<'_>) {
        let of_fd = |watching: &&mut Watching| watching.fd == fd.as_raw_fd();
        for watching in self.watches.iter_mut().filter(of_fd) {
            (watching.is_over, watching.is_cancelled) = (true, true);
        }
    }

    pub(super) fn writable(&mut self, index: u32, raw: &Raw) -> Completion {
        let is_out = raw.result() < 0 || raw.result() & OUTPUT != 0;
        let watching = self.watches.at(index);
        let was_over = watching.is_over;
        watching.is_over |= is_out;
        match cqueue::more(raw.flags()) {
            false if watching.is_over => return self.watched(index),
            // A half close ended it.
            false => self.await_output(index, true),
            true if is_out && !was_over => self.cancel(Armed(tag(KIND_WRITABLE, index.into()))),
            true => {}
        }
        Completion::Quiet
    }

    fn watched(&mut self, index: u32) -> Completion {
        let Watching { goal, is_cancelled, .. } = self.watches.take(index);
        match goal {
            Goal::Report(token) => Completion::Writable { token },
            Goal::Send(send) if is_cancelled => self.landed(send, -libc::ECANCELED),
            Goal::Send(send) => {
                self.launch(send);
                Completion::Quiet
            }
        }
    }
}
