//! Datagrams received many at a time (recvmmsg(2)), each with the kernel's time of arrival
//! (`SO_TIMESTAMPNS`).
//!
//! These times are those of the wall clock, and on the loopback device and a `veth` pair they are
//! taken within the sender's call. So they show when a datagram left, no matter when the receiver
//! runs.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::{Udp, address};
use crate::call::{check, set_option, uninterrupted};

/// The size of the buffer for control messages: a time takes 16 bytes of header and 16 of value.
const CONTROL: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// One received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter<'m> {
    /// Its bytes, truncated to the room of [`Mail::new`].
    pub bytes: &'m [u8],
    /// The sender.
    pub from: SocketAddr,
    /// The kernel's time of arrival, in nanoseconds of the wall clock; 0 if missing.
    pub came_ns: u64,
}

impl<'m> Letter<'m> {
    /// A letter from the parts that the kernel returns; `None` if the sender has no address.
    #[inline]
    pub(crate) fn of(bytes: &'m [u8], name: &[u8], control: &[u8]) -> Option<Letter<'m>> {
        let from = address::read(name)?;
        let mut letter = Letter { bytes, from, came_ns: 0 };
        letter.read_control(control);
        Some(letter)
    }

    /// Reads the control messages: each has its length (8 bytes), level (4) and type (4), then its
    /// value, padded to 8 bytes (cmsg(3)).
    fn read_control(&mut self, mut control: &[u8]) {
        let number = |bytes: &[u8], at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let kind = |level: libc::c_int, kind: libc::c_int| {
            u64::from(level.cast_unsigned()) | u64::from(kind.cast_unsigned()) << 32
        };
        while control.len() > HEADER {
            let len = number(control, 0) as usize;
            if len <= HEADER || len > control.len() {
                return;
            }
            let found = number(control, 8);
            if found == kind(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                self.came_ns = number(control, 16) * 1_000_000_000 + number(control, 24);
            }
            control = control.get(len.next_multiple_of(8)..).unwrap_or_default();
        }
    }
}

/// The header of a control message (cmsg(3)).
const HEADER: usize = 16;

/// Room for many datagrams.
pub struct Mail {
    bytes: Vec<u8>,
    room: usize,
    /// They point to the other vectors, which keep their memory.
    headers: Vec<libc::mmsghdr>,
    /// Headers that the last receive has changed.
    used: usize,
    _pieces: Vec<libc::iovec>,
    addresses: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
}

// SAFETY: the pointers inside are used within one call only, by the thread that holds the mail.
unsafe impl Send for Mail {}

impl Mail {
    /// Room for `count` datagrams of `room` bytes.
    #[must_use]
    pub fn new(count: usize, room: usize) -> Mail {
        let count = count.max(1);
        let mut bytes = vec![0; count * room];
        // SAFETY: headers and addresses are made of integers and pointers; zero is a value.
        let (header, address) = unsafe { mem::zeroed::<(libc::mmsghdr, libc::sockaddr_storage)>() };
        let mut headers = vec![header; count];
        let mut pieces = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: room }; count];
        let mut addresses = vec![address; count];
        let mut controls = vec![Control([0; CONTROL]); count];
        for (at, header) in headers.iter_mut().enumerate() {
            pieces[at].iov_base = bytes.as_mut_ptr().wrapping_add(at * room).cast();
            let message = &mut header.msg_hdr;
            message.msg_iov = pieces.as_mut_ptr().wrapping_add(at);
            message.msg_iovlen = 1;
            message.msg_name = addresses.as_mut_ptr().wrapping_add(at).cast();
            message.msg_control = controls.as_mut_ptr().wrapping_add(at).cast();
        }
        let _pieces = pieces;
        Mail { bytes, room, used: count, headers, _pieces, addresses, controls }
    }

    /// Enables the kernel's timestamps.
    ///
    /// # Errors
    /// None in practice.
    pub fn ask_for_times(socket: &Udp) -> io::Result<()> {
        set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
    }

    /// Receives the waiting datagrams, as many as there is room for; never blocks.
    ///
    /// # Errors
    /// `WouldBlock` when nothing waits; an error that an earlier send caused, such as
    /// `ConnectionRefused`.
    pub fn receive(&mut self, socket: &Udp) -> io::Result<impl Iterator<Item = Letter<'_>>> {
        for header in &mut self.headers[..self.used] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        self.used = 0;
        let (fd, len) = (socket.as_fd().as_raw_fd(), self.headers.len() as libc::c_uint);
        let (start, flags) = (self.headers.as_mut_ptr(), libc::MSG_DONTWAIT);
        let count = uninterrupted(|| {
            // SAFETY: each header points to memory of ours, with its size, which is not touched
            // elsewhere while the call lasts.
            check(unsafe { libc::recvmmsg(fd, start, len, flags as _, std::ptr::null_mut()) })
        });
        self.used = count.as_ref().map_or(0, |count| *count as usize);
        count?;
        Ok((0..self.used).filter_map(|at| self.letter(at)))
    }

    /// The letter `at` of the last receive; `None` beyond its number, and for a sender without an
    /// address.
    #[inline]
    fn letter(&self, at: usize) -> Option<Letter<'_>> {
        let header = self.headers[..self.used].get(at)?;
        let len = (header.msg_len as usize).min(self.room);
        let bytes = &self.bytes[at * self.room..at * self.room + len];
        let message = &header.msg_hdr;
        let name_len = (message.msg_namelen as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: a sockaddr_storage is plain bytes, all of which are initialised.
        let name = unsafe {
            let start = (&raw const self.addresses[at]).cast::<u8>();
            std::slice::from_raw_parts(start, name_len)
        };
        let control = &self.controls[at].0[..CONTROL.min(message.msg_controllen as _)];
        Letter::of(bytes, name, control)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;
    use std::time::Duration;

    #[test]
    fn letters_come_in_their_order_with_their_times() {
        let (sender, receiver, to) = pair();
        Mail::ask_for_times(&receiver).unwrap();
        for text in ["one", "two", "a long one", "four"] {
            sender.send_to(text.as_bytes(), to, false).unwrap();
        }
        let mut mail = Mail::new(3, 5);
        let mut heard = Vec::new();
        let mut times = Vec::new();
        while heard.len() < 4 && receiver.wait_readable(Duration::from_secs(10)).unwrap() {
            for letter in mail.receive(&receiver).unwrap() {
                assert_eq!(letter.from, sender.local_addr().unwrap());
                heard.push(String::from_utf8_lossy(letter.bytes).into_owned());
                times.push(letter.came_ns);
            }
        }
        assert_eq!(heard, ["one", "two", "a lon", "four"]);
        assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
        assert!(
            mail.receive(&receiver)
                .err()
                .is_some_and(|error| { error.kind() == io::ErrorKind::WouldBlock })
        );
    }

    #[test]
    fn empty_datagrams_arrive_and_long_ones_are_cut() {
        let (sender, receiver, to) = pair();
        sender.send_to(b"", to, false).unwrap();
        sender.send_to(&[7; 100], to, false).unwrap();
        let (mut mail, mut received) = (Mail::new(8, 64), Vec::new());
        while received.len() < 2 && receiver.wait_readable(Duration::from_secs(10)).unwrap() {
            let letters = mail.receive(&receiver).unwrap();
            received.extend(letters.map(|letter| letter.bytes.to_vec()));
        }
        assert_eq!(received, [vec![], vec![7; 64]]);
    }
}
