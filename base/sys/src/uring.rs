//! `io_uring(7)`: one ring, its buffers and the operations in flight, behind safe calls.
//!
//! The ring owns every byte that the kernel may touch. Data to send is moved in ([`Uring::send`])
//! and returned with its last completion; received data lies in a buffer of the ring, is read in
//! place and returned ([`Uring::give_back`]). A caller therefore cannot free a buffer that the
//! kernel still writes to.
//!
//! There are two ways to receive ([`Receive`]): into a ring of provided buffers, of which the
//! kernel takes one when data arrives, or into a buffer that the connection owns while it waits.
//! Callers name an operation by a token of 60 bits; the top four bits tell the kinds apart.

mod buffers;
mod enter;
mod flights;
mod port;
mod refusal;
mod setup;
mod watch;

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use buffers::{BufferId, BufferRing};
use enter::Enter;
pub use flights::{Chunk, Load, OWN_LARGE, OWN_SMALL};
use flights::{Message, Receiving, Sending, Slots, Spare};
pub use port::{Port, PortGuard};
use refusal::Call;
pub use refusal::Refusal;
use setup::Issuers;
pub use setup::Setup;
use watch::Watching;

/// A completion as delivered by the kernel; [`Uring::completion`] interprets it.
pub type Raw = cqueue::Entry;

/// The way of accepting connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// One after another until cancelled (`IORING_ACCEPT_MULTISHOT`, 5.19).
    Multishot,
    /// One.
    Once,
}

/// The way of receiving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Into provided buffers, until cancelled (`IORING_RECV_MULTISHOT`, 6.0).
    Multishot,
    /// Into a buffer owned by this receive: [`OWN_SMALL`] bytes while it waits, or [`OWN_LARGE`] if
    /// input is known to be pending, because then the buffer comes back at once.
    Own,
}

/// An operation that continues until it is cancelled or reports its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed(u64);

/// A completion.
#[derive(Debug)]
pub enum Completion {
    /// A connection arrived, or accepting failed; `more` is false when it must be armed again.
    Accepted {
        /// The token it was armed with.
        token: u64,
        /// The connection.
        result: io::Result<OwnedFd>,
        /// Whether the operation continues.
        more: bool,
    },
    /// Input arrived, or receiving ended.
    Received {
        /// The token it was armed with.
        token: u64,
        /// The input.
        input: Received,
        /// Whether the operation continues; false means that it no longer holds the socket.
        more: bool,
        /// Further input, or its end, is known to be pending (`IORING_CQE_F_SOCK_NONEMPTY`, 5.19).
        waiting: bool,
    },
    /// The kernel has accepted part of a send.
    Sent {
        /// The token it was sent with.
        token: u64,
        /// Bytes accepted since the last completion of this send, or its error.
        result: io::Result<usize>,
        /// The payload, once none of it is in flight any more.
        load: Option<Load>,
    },
    /// The watched descriptor is readable.
    Ready {
        /// The token it was watched with.
        token: u64,
        /// Whether the operation continues.
        more: bool,
    },
    /// The descriptor accepts output again, or the wait for that was cancelled.
    Writable {
        /// The token it was watched with.
        token: u64,
    },
    /// A descriptor was closed or an operation cancelled; nothing to do.
    Quiet,
}

/// The result of a receive.
#[derive(Debug)]
pub enum Received {
    /// Bytes in a buffer, which must be given back.
    Bytes(Filled),
    /// The peer will send no more.
    Eof,
    /// No provided buffer was free: give some back, then arm again. Nothing is lost.
    NoBuffers,
    /// The receive was cancelled.
    Cancelled,
    /// The connection failed.
    Failed(io::Error),
}

/// A buffer that the kernel has filled. It is read by [`Uring::bytes`] and must be returned; it
/// cannot be copied, so it cannot be returned twice.
#[derive(Debug)]
pub struct Filled(Place);

#[derive(Debug)]
enum Place {
    Provided(BufferId),
    Own(Box<[u8]>, usize),
}

/// A ring with its buffers. Make it on the thread that uses it, after any `fork(2)`; it does not
/// leave that thread.
pub struct Uring {
    ring: IoUring,
    enter: Enter,
    buffers: BufferRing,
    spare: Spare,
    sends: Slots<Sending>,
    receives: Slots<Receiving>,
    watches: Slots<Watching>,
    /// The kernel takes submissions from one thread only.
    _thread: PhantomData<*const ()>,
}

const KIND_SHIFT: u32 = 60;
const KIND_ACCEPT: u64 = 1;
const KIND_RECEIVE: u64 = 2;
const KIND_SEND: u64 = 3;
const KIND_READY: u64 = 4;
const KIND_QUIET: u64 = 5;
const KIND_RECEIVE_OWN: u64 = 6;
const KIND_WRITABLE: u64 = 7;
/// The largest token: the top four bits belong to the ring.
pub const TOKEN_MAX: u64 = (1 << KIND_SHIFT) - 1;
const BUFFER_GROUP: u16 = 0;
/// `IORING_RECVSEND_POLL_FIRST` of <linux/io_uring.h>.
const POLL_FIRST: u16 = 1;

impl Uring {
    /// Makes a ring, registers its buffers and enters it once.
    ///
    /// # Errors
    /// The component that refused it, the reason and the remedy: see [`Refusal`].
    pub fn new(setup: &Setup) -> Result<Uring, Refusal> {
        Uring::made(setup, Issuers::One)
    }

    fn made(setup: &Setup, issuers: Issuers) -> Result<Uring, Refusal> {
        let ring = setup::build(setup, issuers).map_err(|error| Refusal::of(Call::Setup, error))?;
        let buffers = BufferRing::new(&ring, BUFFER_GROUP, setup.buffers, setup.buffer_len)
            .map_err(|error| Refusal::of(Call::Register, error))?;
        let mut uring = Uring {
            enter: Enter::new(&ring),
            ring,
            buffers,
            spare: Spare::new(),
            sends: Slots::new(),
            receives: Slots::new(),
            watches: Slots::new(),
            _thread: PhantomData,
        };
        // A filter may allow making the ring but not entering it.
        uring.knock();
        let entered = uring.enter.call(&mut uring.ring, 1, None);
        entered.map_err(|error| Refusal::of(Call::Enter, error))?;
        uring.ring.completion().for_each(drop);
        Ok(uring)
    }

    /// Lets each wait, before it sleeps, ask the network card of its sockets for packets
    /// (`IORING_REGISTER_NAPI`, io_uring_register_napi(3)).
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.9.
    pub fn poll_busily(&self, microseconds: u32) -> io::Result<()> {
        enter::poll_busily(&self.ring, microseconds).map(drop)
    }

    /// Accepts connections of a listener.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, token: u64, how: Acceptance) -> Armed {
        let fd = types::Fd(listener.as_raw_fd());
        let entry = match how {
            Acceptance::Multishot => opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build(),
            Acceptance::Once => {
                let nowhere = (std::ptr::null_mut(), std::ptr::null_mut());
                opcode::Accept::new(fd, nowhere.0, nowhere.1).flags(libc::SOCK_CLOEXEC).build()
            }
        };
        self.arm(entry, tag(KIND_ACCEPT, token))
    }

    /// Receives bytes. `waiting` says that input, or its end, is known to be pending.
    #[inline]
    pub fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        how: Receive,
        waiting: bool,
    ) -> Armed {
        let fd = types::Fd(fd.as_raw_fd());
        match how {
            Receive::Multishot => {
                let entry = opcode::RecvMulti::new(fd, BUFFER_GROUP).build();
                self.arm(entry, tag(KIND_RECEIVE, token))
            }
            Receive::Own => {
                let buffer = self.spare.take(waiting);
                let index = self.receives.put(Receiving { token, buffer });
                let buffer = &mut self.receives.at(index).buffer;
                let entry = opcode::Recv::new(fd, buffer.as_mut_ptr(), buffer.len() as u32);
                // A receive that will have to wait is not tried first.
                let entry = entry.ioprio(if waiting { 0 } else { POLL_FIRST }).build();
                self.arm(entry, tag(KIND_RECEIVE_OWN, index.into()))
            }
        }
    }

    /// Cancels an operation; its last completion has `more: false`, and until then it holds its
    /// resources. No effect if it has ended.
    pub fn cancel(&mut self, armed: Armed) {
        self.push(opcode::AsyncCancel::new(armed.0).build().user_data(tag(KIND_QUIET, 0)));
    }

    /// Sends `load` in order; at most one send per descriptor may be in flight. It is returned in
    /// [`Completion::Sent`], possibly after several that report progress.
    pub fn send(&mut self, fd: BorrowedFd<'_>, token: u64, load: Load) {
        let len = load.len();
        let fd = fd.as_raw_fd();
        let index = self.sends.put(Sending { token, fd, load, sent: 0, len, message: None });
        self.launch(index);
    }

    /// Cancels everything in flight on `fd`.
    pub fn cancel_all(&mut self, fd: BorrowedFd<'_>) {
        self.end_watches(fd);
        let builder = types::CancelBuilder::fd(types::Fd(fd.as_raw_fd())).all();
        self.push(opcode::AsyncCancel2::new(builder).build().user_data(tag(KIND_QUIET, 0)));
    }

    /// Closes a descriptor on the ring: with many short connections a synchronous close is most of
    /// the work.
    pub fn close(&mut self, fd: OwnedFd) {
        let entry = opcode::Close::new(types::Fd(fd.into_raw_fd())).build();
        self.push(entry.user_data(tag(KIND_QUIET, 0)));
    }

    /// Submits a no-op, whose completion wakes a waiting thread.
    pub fn knock(&mut self) {
        self.push(opcode::Nop::new().build().user_data(tag(KIND_QUIET, 0)));
    }

    /// The bytes of a receive.
    #[inline]
    pub fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        match &filled.0 {
            Place::Provided(id) => self.buffers.pages().bytes(id),
            Place::Own(buffer, len) => &buffer[..*len],
        }
    }

    /// Returns a buffer, to the kernel or for the next receive.
    #[inline]
    pub fn give_back(&mut self, filled: Filled) {
        match filled.0 {
            Place::Provided(id) => self.buffers.give_back(id),
            Place::Own(buffer, _) => self.spare.put(buffer),
        }
    }

    /// Submits queued entries and waits for one completion, at most `timeout`; appends all
    /// available completions to `batch`. One `io_uring_enter(2)`.
    ///
    /// # Errors
    /// Those of `io_uring_enter(2)`, except `EINTR`, `ETIME` and `EBUSY`, which are harmless.
    pub fn wait(&mut self, timeout: Option<Duration>, batch: &mut Vec<Raw>) -> io::Result<()> {
        if let Err(error) = self.enter.call(&mut self.ring, 1, timeout) {
            harmless(error)?;
        }
        batch.extend(self.ring.completion());
        Ok(())
    }

    /// Interprets a completion. Call it exactly once for each.
    #[inline]
    pub fn completion(&mut self, raw: &Raw) -> Completion {
        let token = raw.user_data() & TOKEN_MAX;
        let more = cqueue::more(raw.flags());
        match raw.user_data() >> KIND_SHIFT {
            KIND_RECEIVE => {
                let input = self.received(raw);
                let waiting = cqueue::sock_nonempty(raw.flags());
                Completion::Received { token, input, more, waiting }
            }
            KIND_RECEIVE_OWN => self.received_own(token as u32, raw),
            KIND_SEND => self.landed(token as u32, raw.result()),
            KIND_ACCEPT => Completion::Accepted { token, result: accepted(raw.result()), more },
            KIND_READY => Completion::Ready { token, more },
            KIND_WRITABLE => self.writable(token as u32, raw),
            _ => Completion::Quiet,
        }
    }

    #[inline]
    fn received(&mut self, raw: &Raw) -> Received {
        let result = raw.result();
        let index = cqueue::buffer_select(raw.flags());
        let buffer = index.map(|index| self.buffers.taken(index, result.max(0) as u32));
        match (result, buffer) {
            (1.., Some(buffer)) => Received::Bytes(Filled(Place::Provided(buffer))),
            (_, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.give_back(buffer);
                }
                nothing(result)
            }
        }
    }

    #[inline]
    fn received_own(&mut self, index: u32, raw: &Raw) -> Completion {
        let Receiving { token, buffer } = self.receives.take(index);
        let input = match usize::try_from(raw.result()) {
            Ok(len @ 1..) if len <= buffer.len() => {
                Received::Bytes(Filled(Place::Own(buffer, len)))
            }
            _ => {
                self.spare.put(buffer);
                nothing(raw.result())
            }
        };
        let waiting = cqueue::sock_nonempty(raw.flags());
        Completion::Received { token, input, more: false, waiting }
    }

    fn landed(&mut self, index: u32, result: i32) -> Completion {
        let token = self.sends.at(index).token;
        match -result {
            libc::EINTR => self.launch(index),
            libc::EAGAIN => self.send_later(index),
            _ => return self.ended_send(index, token, result),
        }
        Completion::Quiet
    }

    fn ended_send(&mut self, index: u32, token: u64, result: i32) -> Completion {
        let sending = self.sends.at(index);
        if result > 0 {
            sending.sent += result as usize;
            if sending.sent < sending.len {
                self.launch(index);
                return Completion::Sent { token, result: Ok(result as usize), load: None };
            }
        }
        let load = Some(self.sends.take(index).load);
        let result = match result {
            0.. => Ok(result as usize),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        };
        Completion::Sent { token, result, load }
    }

    /// Submits the rest of a send.
    fn launch(&mut self, index: u32) {
        let sending = self.sends.at(index);
        let fd = types::Fd(sending.fd);
        let entry = match &sending.load {
            Load::One(chunk) => {
                let rest = &chunk.bytes()[sending.sent..];
                let len = rest.len().min(u32::MAX as usize) as u32;
                opcode::Send::new(fd, rest.as_ptr(), len).flags(libc::MSG_NOSIGNAL).build()
            }
            Load::Rope(chunks) => {
                let message = sending.message.insert(Message::of(chunks, sending.sent));
                let flags = libc::MSG_NOSIGNAL as u32;
                opcode::SendMsg::new(fd, &raw const message.header).flags(flags).build()
            }
        };
        self.push(entry.user_data(tag(KIND_SEND, u64::from(index))));
    }

    #[inline]
    fn arm(&mut self, entry: squeue::Entry, name: u64) -> Armed {
        self.push(entry.user_data(name));
        Armed(name)
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: what the entry points to is owned by this ring (sends, receives,
            // buffers) and lives until its completion; descriptors are checked by the kernel.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // The queue is full: submit it. A kernel short of memory takes only part of it, and the
            // next round continues.
            let _ = self.enter.call(&mut self.ring, 0, None);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Descriptors may still be queued to be closed.
        let _ = self.enter.call(&mut self.ring, 0, None);
        let patience = types::Timespec::new().sec(1);
        let cancelled =
            self.ring.submitter().register_sync_cancel(Some(patience), types::CancelBuilder::any());
        let quiet = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        if !quiet {
            // The kernel may still write: leak the memory rather than free it.
            self.buffers.leak();
            self.sends.leak();
            self.receives.leak();
        }
    }
}

/// An enter that failed may have been interrupted, have timed out, or have found no room.
fn harmless(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
        _ => Err(error),
    }
}

/// The meaning of a receive without bytes.
fn nothing(result: i32) -> Received {
    match -result {
        0 => Received::Eof,
        libc::ENOBUFS => Received::NoBuffers,
        libc::ECANCELED => Received::Cancelled,
        errno => Received::Failed(io::Error::from_raw_os_error(errno)),
    }
}

fn tag(kind: u64, token: u64) -> u64 {
    debug_assert!(token <= TOKEN_MAX);
    kind << KIND_SHIFT | token
}

fn accepted(result: i32) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
