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

use socket2::{SockAddr, SockAddrStorage};

use super::{Udp, read_address};
use crate::call::{check, uninterrupted};

/// The size of the buffer for control messages. A time takes 16 bytes of header and 16 of value;
/// the buffer has twice that, because the kernel may add messages.
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

/// Room for many datagrams.
pub struct Mail {
    bytes: Vec<u8>,
    room: usize,
    headers: Vec<libc::mmsghdr>,
    pieces: Vec<libc::iovec>,
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
        // SAFETY: headers and addresses are made of integers and pointers; zero is a value.
        let (header, address) = unsafe { mem::zeroed::<(libc::mmsghdr, libc::sockaddr_storage)>() };
        Mail {
            bytes: vec![0; count * room],
            room,
            headers: vec![header; count],
            pieces: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; count],
            addresses: vec![address; count],
            controls: vec![Control([0; CONTROL]); count],
        }
    }

    /// Enables the kernel's timestamps.
    ///
    /// # Errors
    /// None in practice.
    pub fn ask_for_times(socket: &Udp) -> io::Result<()> {
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
    }

    /// Receives the waiting datagrams, as many as there is room for; never blocks.
    ///
    /// # Errors
    /// `WouldBlock` when nothing waits.
    pub fn receive(&mut self, socket: &Udp) -> io::Result<impl Iterator<Item = Letter<'_>>> {
        for at in 0..self.headers.len() {
            let start = &mut self.bytes[at * self.room..(at + 1) * self.room];
            self.pieces[at] =
                libc::iovec { iov_base: start.as_mut_ptr().cast(), iov_len: start.len() };
            let message = &mut self.headers[at].msg_hdr;
            message.msg_iov = &raw mut self.pieces[at];
            message.msg_iovlen = 1;
            message.msg_name = (&raw mut self.addresses[at]).cast();
            message.msg_namelen = size_of_val(&self.addresses[at]) as libc::socklen_t;
            message.msg_control = self.controls[at].0.as_mut_ptr().cast();
            message.msg_controllen = CONTROL;
        }
        let (fd, len) = (socket.as_fd().as_raw_fd(), self.headers.len() as libc::c_uint);
        let (start, flags) = (self.headers.as_mut_ptr(), libc::MSG_DONTWAIT);
        let count = uninterrupted(|| {
            // SAFETY: each header points to memory of ours, with its size, which is not touched
            // elsewhere while the call lasts.
            check(unsafe { libc::recvmmsg(fd, start, len, flags, std::ptr::null_mut()) })
        })?;
        Ok((0..count as usize).filter_map(|at| self.letter(at)))
    }

    fn letter(&self, at: usize) -> Option<Letter<'_>> {
        let header = &self.headers[at];
        let len = (header.msg_len as usize).min(self.room);
        let bytes = &self.bytes[at * self.room..at * self.room + len];
        let mut storage = SockAddrStorage::zeroed();
        // SAFETY: the storage of socket2 is a sockaddr_storage, whatever the name.
        *unsafe { storage.view_as::<libc::sockaddr_storage>() } = self.addresses[at];
        // SAFETY: the kernel has filled the address and set its length.
        let from = unsafe { SockAddr::new(storage, header.msg_hdr.msg_namelen) };
        let from = read_address(&from).ok()?;
        Some(Letter { bytes, from, came_ns: time(&self.controls[at], header) })
    }
}

/// The time in a control message, if it holds one.
fn time(control: &Control, header: &libc::mmsghdr) -> u64 {
    let word = |at: usize| {
        let bytes = control.0[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let kind = u64::from(libc::SOL_SOCKET.cast_unsigned())
        | u64::from(libc::SCM_TIMESTAMPNS.cast_unsigned()) << 32;
    if header.msg_hdr.msg_controllen < 32 || word(8) != kind {
        return 0;
    }
    word(16) * 1_000_000_000 + word(24)
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
}
