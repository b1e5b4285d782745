//! Datagrams gathered from pieces and sent by one call, or by one call each.
//!
//! Senders of paced streams fill a `Batch` and then send it with sendmmsg(2) or sendmsg(2). A
//! datagram is an address, pieces of memory or of a mapped file (an `iovec` each), and up to two
//! control messages: a segment length (UDP_SEGMENT) and a mark.
//! The vectors keep their capacity between calls. The message headers point into these vectors, so
//! they are built last, when no vector can grow any more. The kernel accepts a prefix of the batch:
//! `Sent` reports its length and the error that stopped it.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use super::Udp;
use super::address::Address;
use crate::call::{check, check_count, uninterrupted};
use crate::mapped::MappedFile;

/// The maximum number of datagrams of one sendmmsg(2) (`UIO_MAXIOV`).
pub const MESSAGES_MAX: usize = 1024;
/// The maximum number of segments of one message (`UDP_MAX_SEGMENTS`): 128 since Linux 6.10, 64
/// before. The smaller number works on both.
pub const SEGMENTS_MAX: usize = 64;

/// The bytes of a control message that holds one number: 16 of header, 8 of value (cmsg(3)).
const CONTROL: usize = 24;
/// The maximum number of control messages of a datagram: one length, and one departure time or
/// mark.
const CONTROLS: usize = 2;

/// Control messages, and their number.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL * CONTROLS], usize);

/// Memory for calls that send many datagrams; empty between them.
#[derive(Default)]
pub struct Batch {
    headers: Vec<libc::mmsghdr>,
    /// The first piece of each datagram; its pieces end where the next one's begin.
    firsts: Vec<usize>,
    pieces: Vec<libc::iovec>,
    addresses: Vec<Address>,
    controls: Vec<Control>,
}

// SAFETY: the pointers inside are used within one call only, by the thread that holds the batch.
unsafe impl Send for Batch {}

/// Collects the datagrams of a call.
pub struct Filling<'b, 'd> {
    batch: &'b mut Batch,
    socket: &'b Udp,
    data: PhantomData<&'d [u8]>,
}

impl<'d> Filling<'_, 'd> {
    /// Begins the next datagram, to `address`.
    #[inline]
    pub fn datagram(&mut self, address: SocketAddr) {
        self.batch.firsts.push(self.batch.pieces.len());
        self.batch.addresses.push(Address::new(address, self.socket.is_v6));
        self.batch.controls.push(Control([0; CONTROL * CONTROLS], 0));
    }

    /// Adds bytes to the datagram.
    #[inline]
    pub fn piece(&mut self, bytes: &'d [u8]) {
        self.append(bytes.as_ptr(), bytes.len());
    }

    /// Adds a range of a mapped file to the datagram. This process does not touch its bytes: a file
    /// that became shorter fails the call (`EFAULT`) and does no harm.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[inline]
    pub fn mapped(&mut self, file: &'d MappedFile, range: std::ops::Range<u64>) {
        let (start, len) = file.range(range);
        self.append(start, len);
    }

    /// Makes the kernel segment the message into datagrams of `bytes`; the last one gets the rest.
    #[inline]
    pub fn segment(&mut self, bytes: u16) {
        self.control(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    /// Sets the datagram's mark (`SO_MARK`), which kernel filters can match; needs `CAP_NET_ADMIN`
    /// or `CAP_NET_RAW`.
    pub fn mark(&mut self, mark: u32) {
        self.control(libc::SOL_SOCKET, libc::SO_MARK, &mark.to_ne_bytes());
    }

    fn control(&mut self, level: libc::c_int, kind: libc::c_int, value: &[u8]) {
        let Control(controls, count) =
            self.batch.controls.last_mut().expect("a datagram was begun");
        assert!(*count < CONTROLS, "a length and a mark");
        let control = &mut controls[*count * CONTROL..(*count + 1) * CONTROL];
        *count += 1;
        // A cmsghdr: length of header and value, level, type; then the value. In native order.
        control[..8].copy_from_slice(&(16 + value.len()).to_ne_bytes());
        control[8..12].copy_from_slice(&level.to_ne_bytes());
        control[12..16].copy_from_slice(&kind.to_ne_bytes());
        control[16..16 + value.len()].copy_from_slice(value);
    }

    fn append(&mut self, start: *const u8, len: usize) {
        assert!(!self.batch.firsts.is_empty(), "a piece belongs to a datagram");
        self.batch.pieces.push(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len });
    }
}

/// The outcome of a call.
#[derive(Debug, Default)]
pub struct Sent {
    /// The number of datagrams that the kernel accepted, from the front.
    pub count: usize,
    /// The error of the next one, if the kernel refused it.
    pub error: Option<io::Error>,
    /// Calls made.
    pub calls: usize,
}

impl Batch {
    /// Sends the datagrams that `fill` adds by one sendmmsg(2) for every 1024 of them.
    pub fn send<'d>(&mut self, socket: &Udp, fill: impl FnOnce(&mut Filling<'_, 'd>)) -> Sent {
        self.send_by(socket, fill, |fd, rest| {
            let len = rest.len().min(MESSAGES_MAX) as libc::c_uint;
            let flags = libc::MSG_NOSIGNAL as _;
            // SAFETY: the headers point to data that `fill` borrowed for longer than this call,
            // and to our own vectors, which stay as they are; there are `len` headers.
            let sent = check(unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), len, flags) })?;
            Ok(sent as usize)
        })
    }

    /// Sends each datagram by a separate sendmsg(2).
    pub fn send_each<'d>(&mut self, socket: &Udp, fill: impl FnOnce(&mut Filling<'_, 'd>)) -> Sent {
        self.send_by(socket, fill, |fd, rest| {
            // SAFETY: as in `send`.
            check_count(unsafe { libc::sendmsg(fd, &rest[0].msg_hdr, libc::MSG_NOSIGNAL) })?;
            Ok(1)
        })
    }

    fn send_by<'d>(
        &mut self,
        socket: &Udp,
        fill: impl FnOnce(&mut Filling<'_, 'd>),
        call: impl Fn(libc::c_int, &mut [libc::mmsghdr]) -> io::Result<usize>,
    ) -> Sent {
        self.fill(socket, fill);
        let (mut sent, fd) = (Sent::default(), socket.as_fd().as_raw_fd());
        while sent.error.is_none() && sent.count < self.headers.len() {
            sent.calls += 1;
            match uninterrupted(|| call(fd, &mut self.headers[sent.count..])) {
                Ok(count) => sent.count += count,
                Err(error) => sent.error = Some(error),
            }
        }
        self.clear();
        sent
    }

    fn fill<'d>(&mut self, socket: &Udp, fill: impl FnOnce(&mut Filling<'_, 'd>)) {
        self.clear();
        fill(&mut Filling { batch: self, socket, data: PhantomData });
        // Pointers into our own vectors are taken only after these have stopped growing.
        for at in 0..self.firsts.len() {
            let first = self.firsts[at];
            let last = self.firsts.get(at + 1).copied().unwrap_or(self.pieces.len());
            // SAFETY: an mmsghdr is made of integers and pointers, for which zero is a value.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            let message = &mut header.msg_hdr;
            message.msg_name = self.addresses[at].as_ptr().cast_mut().cast();
            message.msg_namelen = self.addresses[at].len();
            message.msg_iov = self.pieces[first..last].as_mut_ptr();
            message.msg_iovlen = (last - first) as _;
            let Control(controls, count) = &mut self.controls[at];
            message.msg_controllen = (*count * CONTROL) as _;
            message.msg_control =
                if *count > 0 { controls.as_mut_ptr().cast() } else { ptr::null_mut() };
            self.headers.push(header);
        }
    }

    fn clear(&mut self) {
        self.headers.clear();
        self.firsts.clear();
        self.pieces.clear();
        self.addresses.clear();
        self.controls.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pair, take};
    use super::*;

    #[test]
    fn many_leave_by_one_call_in_their_order() {
        let (sender, receiver, to) = pair();
        let text = b"abcdefghijklmnopqrst";
        let mut batch = Batch::default();
        for _ in 0..3 {
            let sent = batch.send(&sender, |filling| {
                for at in 0..10 {
                    filling.datagram(to);
                    filling.piece(&text[at..at + 1]);
                    filling.piece(&text[at + 10..at + 11]);
                }
            });
            assert_eq!((sent.count, sent.calls), (10, 1), "{sent:?}");
            for at in 0..10 {
                assert_eq!(take(&receiver), [text[at], text[at + 10]]);
            }
        }
        assert_eq!(batch.send_each(&sender, |_| {}).count, 0);
    }

    #[test]
    fn the_kernel_cuts_a_message_into_datagrams() {
        let (sender, receiver, to) = pair();
        let mut batch = Batch::default();
        let sent = batch.send(&sender, |filling| {
            filling.datagram(to);
            filling.piece(b"aaaabbb");
            filling.piece(b"bcc");
            filling.segment(4);
        });
        assert_eq!((sent.count, sent.calls), (1, 1), "{sent:?}");
        assert_eq!(
            [take(&receiver), take(&receiver), take(&receiver)],
            ["aaaa", "bbbb", "cc"].map(|text| text.as_bytes().to_vec())
        );
    }

    #[test]
    fn the_first_that_cannot_leave_is_told() {
        let (sender, receiver, to) = pair();
        let long = vec![0; 70_000];
        let mut batch = Batch::default();
        let sent = batch.send(&sender, |filling| {
            filling.datagram(to);
            filling.piece(b"fits");
            filling.datagram(to);
            filling.piece(&long);
        });
        assert_eq!(sent.count, 1);
        assert_eq!(sent.error.unwrap().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(take(&receiver), b"fits");
    }
}
