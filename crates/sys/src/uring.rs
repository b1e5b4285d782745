//! `io_uring(7)`: one ring, its provided buffers and what is in flight on it, behind safe calls.
//!
//! The ring owns every byte that the kernel may touch. What is sent is moved in
//! ([`Uring::send`]) and comes back with its last completion; what is received lies in a ring of
//! provided buffers that are read in place and given back ([`Uring::give_back`]). A caller
//! therefore cannot free a buffer that the kernel still writes to.
//!
//! Callers name an operation by a token of 60 bits; the top four bits tell the kinds apart.

mod buffers;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

pub use buffers::BufferId;
use buffers::BufferRing;

/// How a ring is made. Each flag is wished for and fallen back from where the kernel lacks it;
/// [`Uring::flags`] names those in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Submission queue entries; the completion queue has four times as many.
    pub entries: u32,
    /// `IORING_SETUP_SINGLE_ISSUER` (6.0): one thread submits.
    pub single_issuer: bool,
    /// `IORING_SETUP_DEFER_TASKRUN` (6.1): completions are made when we wait, not in between.
    pub defer_taskrun: bool,
    /// `IORING_SETUP_COOP_TASKRUN` (5.19), used where `defer_taskrun` is off or missing.
    pub coop_taskrun: bool,
    /// How many buffers are provided for receiving; a power of two, at most 32768.
    pub buffers: u16,
    /// Bytes in each of them.
    pub buffer_len: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            entries: 256,
            single_issuer: true,
            defer_taskrun: true,
            coop_taskrun: true,
            buffers: 256,
            buffer_len: 2048,
        }
    }
}

/// One piece of what is sent.
#[derive(Debug)]
pub enum Chunk {
    /// Bytes that come back with the last completion, to be used again.
    Owned(Vec<u8>),
    /// A range of bytes that others send too.
    Shared(Arc<[u8]>, Range<usize>),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Owned(bytes) => bytes,
            Chunk::Shared(bytes, range) => &bytes[range.clone()],
        }
    }
}

/// What one send carries.
#[derive(Debug)]
pub enum Load {
    /// The common case: one piece, sent by `send(2)`.
    One(Chunk),
    /// A rope, sent by `sendmsg(2)`; at most 1024 pieces (`IOV_MAX`).
    Rope(Vec<Chunk>),
}

impl Load {
    fn len(&self) -> usize {
        match self {
            Load::One(chunk) => chunk.bytes().len(),
            Load::Rope(chunks) => chunks.iter().map(|chunk| chunk.bytes().len()).sum(),
        }
    }
}

/// A completion as it came from the kernel; [`Uring::completion`] says what it means.
pub type Raw = cqueue::Entry;

/// What has happened.
#[derive(Debug)]
pub enum Completion {
    /// A connection came, or accepting failed; `more` is false when it must be armed again.
    Accepted {
        /// The token it was armed with.
        token: u64,
        /// The connection.
        result: io::Result<OwnedFd>,
        /// The operation goes on.
        more: bool,
    },
    /// Input came, or receiving ended.
    Received {
        /// The token it was armed with.
        token: u64,
        /// What came.
        input: Received,
        /// The operation goes on; false means that it holds the socket no longer.
        more: bool,
    },
    /// Some of a send is in the kernel's hands.
    Sent {
        /// The token it was sent with.
        token: u64,
        /// Bytes that left since the last completion of this send, or why it failed.
        result: io::Result<usize>,
        /// What was sent, when nothing of it is in flight any more.
        load: Option<Load>,
    },
    /// The watched descriptor is readable.
    Ready {
        /// The token it was watched with.
        token: u64,
        /// The operation goes on.
        more: bool,
    },
    /// A descriptor was closed or an operation cancelled; nothing is to be done.
    Quiet,
}

/// What a receive brought.
#[derive(Debug)]
pub enum Received {
    /// Bytes in a provided buffer, which must be given back.
    Bytes(BufferId),
    /// The peer will send no more.
    Eof,
    /// No buffer was free: give some back, then arm again. Nothing is lost.
    NoBuffers,
    /// The receive was cancelled.
    Cancelled,
    /// The connection failed.
    Failed(io::Error),
}

/// A ring with its buffers. To be made by the thread that uses it, after any `fork(2)`.
pub struct Uring {
    ring: IoUring,
    buffers: BufferRing,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    flags: Vec<&'static str>,
}

/// A send that the kernel may be reading from.
struct Flight {
    token: u64,
    fd: i32,
    load: Load,
    sent: usize,
    len: usize,
    /// The message header and slices of a rope; the kernel reads them at submission.
    message: Option<Box<Message>>,
}

struct Message {
    header: libc::msghdr,
    /// What the header points to.
    _slices: Vec<libc::iovec>,
}

const KIND_SHIFT: u32 = 60;
const KIND_ACCEPT: u64 = 1;
const KIND_RECEIVE: u64 = 2;
const KIND_SEND: u64 = 3;
const KIND_READY: u64 = 4;
const KIND_QUIET: u64 = 5;
/// The largest token: the top four bits belong to the ring.
pub const TOKEN_MAX: u64 = (1 << KIND_SHIFT) - 1;
const BUFFER_GROUP: u16 = 0;

impl Uring {
    /// Makes a ring and registers its buffers.
    ///
    /// # Errors
    /// The kernel's errno with its usual reason in words: `ENOSYS` (no `io_uring`), `EPERM`
    /// (refused by `kernel.io_uring_disabled` or a seccomp filter), `ENOMEM` (`ulimit -l`),
    /// `EINVAL` (a kernel before 6.0 lacks multishot receive).
    pub fn new(setup: &Setup) -> io::Result<Uring> {
        let (ring, flags) = build(setup).map_err(explain)?;
        let buffers = BufferRing::new(&ring, BUFFER_GROUP, setup.buffers, setup.buffer_len)
            .map_err(explain)?;
        Ok(Uring { ring, buffers, flights: Vec::new(), free: Vec::new(), flags })
    }

    /// The setup flags in force.
    pub fn flags(&self) -> &[&'static str] {
        &self.flags
    }

    /// Accepts connections of a listener until told otherwise (`IORING_ACCEPT_MULTISHOT`, 5.19).
    pub fn accept(&mut self, listener: BorrowedFd<'_>, token: u64) {
        let fd = types::Fd(listener.as_raw_fd());
        let entry = opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(tag(KIND_ACCEPT, token)));
    }

    /// Stops an accept; its last completion says `more: false`.
    pub fn cancel_accept(&mut self, token: u64) {
        self.cancel(tag(KIND_ACCEPT, token));
    }

    /// Receives into provided buffers until told otherwise (`IORING_RECV_MULTISHOT`, 6.0).
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>, token: u64) {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, BUFFER_GROUP).build();
        self.push(entry.user_data(tag(KIND_RECEIVE, token)));
    }

    /// Stops a receive; its last completion says `more: false`. It holds the socket until then.
    pub fn cancel_receive(&mut self, token: u64) {
        self.cancel(tag(KIND_RECEIVE, token));
    }

    /// Sends `load` in order; at most one send a descriptor may be in flight. It comes back in
    /// [`Completion::Sent`], maybe after several that report progress.
    pub fn send(&mut self, fd: BorrowedFd<'_>, token: u64, load: Load) {
        let len = load.len();
        let flight = Flight { token, fd: fd.as_raw_fd(), load, sent: 0, len, message: None };
        let index = match self.free.pop() {
            Some(index) => {
                self.flights[index as usize] = Some(flight);
                index
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() as u32 - 1
            }
        };
        self.launch(index);
    }

    /// Cancels whatever is in flight on `fd`.
    pub fn cancel_all(&mut self, fd: BorrowedFd<'_>) {
        let builder = types::CancelBuilder::fd(types::Fd(fd.as_raw_fd())).all();
        self.push(opcode::AsyncCancel2::new(builder).build().user_data(tag(KIND_QUIET, 0)));
    }

    /// Closes a descriptor on the ring: under churn a synchronous close is most of the work.
    pub fn close(&mut self, fd: OwnedFd) {
        let entry = opcode::Close::new(types::Fd(fd.into_raw_fd())).build();
        self.push(entry.user_data(tag(KIND_QUIET, 0)));
    }

    /// Watches a descriptor for readability until told otherwise (`IORING_POLL_ADD_MULTI`, 5.13).
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build();
        self.push(entry.user_data(tag(KIND_READY, token)));
    }

    /// The bytes that a receive brought.
    #[inline]
    pub fn bytes(&self, buffer: &BufferId) -> &[u8] {
        self.buffers.bytes(buffer)
    }

    /// Gives a buffer back to the kernel.
    #[inline]
    pub fn give_back(&mut self, buffer: BufferId) {
        self.buffers.give_back(buffer);
    }

    /// Submits what was asked for and waits for one completion, at most `timeout`; appends all
    /// that are there to `batch`. One `io_uring_enter(2)`.
    ///
    /// # Errors
    /// What `io_uring_enter(2)` reports, but for `EINTR`, `ETIME` and `EBUSY`, which are no errors.
    pub fn wait(&mut self, timeout: Option<Duration>, batch: &mut Vec<Raw>) -> io::Result<()> {
        let submitted = match timeout {
            Some(timeout) => {
                let timespec = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
            None => self.ring.submitter().submit_and_wait(1),
        };
        match submitted {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => {}
                _ => return Err(error),
            },
        }
        batch.extend(self.ring.completion());
        Ok(())
    }

    /// Says what a completion means. Each must be asked exactly once.
    #[inline]
    pub fn completion(&mut self, raw: &Raw) -> Completion {
        let token = raw.user_data() & TOKEN_MAX;
        let more = cqueue::more(raw.flags());
        match raw.user_data() >> KIND_SHIFT {
            KIND_RECEIVE => Completion::Received { token, input: self.received(raw), more },
            KIND_SEND => self.landed(token as u32, raw.result()),
            KIND_ACCEPT => Completion::Accepted { token, result: accepted(raw.result()), more },
            KIND_READY => Completion::Ready { token, more },
            _ => Completion::Quiet,
        }
    }

    #[inline]
    fn received(&mut self, raw: &Raw) -> Received {
        let result = raw.result();
        let buffer = cqueue::buffer_select(raw.flags())
            .map(|index| self.buffers.taken(index, result.max(0) as u32));
        match (result, buffer) {
            (1.., Some(buffer)) => Received::Bytes(buffer),
            (_, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.give_back(buffer);
                }
                match -result {
                    0 => Received::Eof,
                    libc::ENOBUFS => Received::NoBuffers,
                    libc::ECANCELED => Received::Cancelled,
                    errno => Received::Failed(io::Error::from_raw_os_error(errno)),
                }
            }
        }
    }

    fn landed(&mut self, index: u32, result: i32) -> Completion {
        let slot = &mut self.flights[index as usize];
        let flight = slot.as_mut().expect("a send completes while it is in flight");
        let token = flight.token;
        if result == -libc::EINTR || result == -libc::EAGAIN {
            self.launch(index);
            return Completion::Quiet;
        }
        if result > 0 {
            flight.sent += result as usize;
            if flight.sent < flight.len {
                self.launch(index);
                return Completion::Sent { token, result: Ok(result as usize), load: None };
            }
        }
        let flight = slot.take().expect("seen above");
        self.free.push(index);
        let result = match result {
            0.. => Ok(result as usize),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        };
        Completion::Sent { token, result, load: Some(flight.load) }
    }

    /// Submits what is left of a flight.
    fn launch(&mut self, index: u32) {
        let flight = self.flights[index as usize].as_mut().expect("launched while in flight");
        let fd = types::Fd(flight.fd);
        let entry = match &flight.load {
            Load::One(chunk) => {
                let rest = &chunk.bytes()[flight.sent..];
                let len = rest.len().min(u32::MAX as usize) as u32;
                opcode::Send::new(fd, rest.as_ptr(), len).flags(libc::MSG_NOSIGNAL).build()
            }
            Load::Rope(chunks) => {
                let message = flight.message.insert(Message::of(chunks, flight.sent));
                let flags = libc::MSG_NOSIGNAL as u32;
                opcode::SendMsg::new(fd, &raw const message.header).flags(flags).build()
            }
        };
        self.push(entry.user_data(tag(KIND_SEND, u64::from(index))));
    }

    fn cancel(&mut self, target: u64) {
        self.push(opcode::AsyncCancel::new(target).build().user_data(tag(KIND_QUIET, 0)));
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: what the entry points to is owned by this ring (flights, buffers) and lives
            // until its completion; descriptors are checked by the kernel.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // The queue is full: hand it over. Where the kernel is out of memory for requests it
            // takes a part, and the next round goes on.
            let _ = self.ring.submit();
        }
    }
}

impl Message {
    fn of(chunks: &[Chunk], mut skip: usize) -> Box<Message> {
        let mut slices = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let bytes = chunk.bytes();
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            let rest = &bytes[skipped..];
            if !rest.is_empty() {
                let iov_base = rest.as_ptr().cast_mut().cast();
                slices.push(libc::iovec { iov_base, iov_len: rest.len() });
            }
        }
        // SAFETY: an all-zero message header is valid: no name, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = slices.as_mut_ptr();
        header.msg_iovlen = slices.len();
        Box::new(Message { header, _slices: slices })
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Descriptors may still wait in the queue to be closed.
        let _ = self.ring.submit();
        let patience = types::Timespec::new().sec(1);
        let cancelled =
            self.ring.submitter().register_sync_cancel(Some(patience), types::CancelBuilder::any());
        let quiet = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        if !quiet {
            // The kernel may still write: better lose the memory than have it written to.
            self.buffers.leak();
            std::mem::forget(std::mem::take(&mut self.flights));
        }
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

/// Tries the wished flags, then fewer, and says which are in force.
fn build(setup: &Setup) -> io::Result<(IoUring, Vec<&'static str>)> {
    let defer = setup.defer_taskrun && setup.single_issuer;
    let wishes = [
        (setup.single_issuer, defer, setup.coop_taskrun && !defer),
        (false, false, setup.coop_taskrun),
        (false, false, false),
    ];
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for (single, defer, coop) in wishes {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(setup.entries * 4).setup_clamp().dontfork();
        let mut flags = Vec::new();
        if single {
            builder.setup_single_issuer();
            flags.push("SINGLE_ISSUER");
        }
        if defer {
            builder.setup_defer_taskrun();
            flags.push("DEFER_TASKRUN");
        }
        if coop {
            builder.setup_coop_taskrun();
            flags.push("COOP_TASKRUN");
        }
        match builder.build(setup.entries) {
            Ok(ring) => return Ok((ring, flags)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// Adds to an errno what it usually means here and what to do.
fn explain(error: io::Error) -> io::Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring; use Linux 6.1 or newer, or epoll",
        Some(libc::EPERM) => {
            "io_uring is refused here: see `sysctl kernel.io_uring_disabled` and the container's \
             seccomp profile, or use epoll"
        }
        Some(libc::ENOMEM) => "no memory for the ring: raise `ulimit -l`, or use fewer workers",
        Some(libc::EINVAL) => {
            "this kernel lacks a part of io_uring that is needed (multishot receive, provided \
             buffer rings): use Linux 6.1 or newer, or epoll"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{reason} ({error})"))
}
