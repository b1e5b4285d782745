//! Moving bytes from a file to a socket inside the kernel (sendfile(2), splice(2)).
//!
//! On a UDP socket the bytes of one call are one datagram, and those of several calls are one if
//! all but the last announce more. So a header from our memory and a body from the page cache form
//! one datagram without copying the body.
//! Since Linux 6.5 the kernel sums the pages of one call as if each began at an even offset of the
//! datagram (net/core/skbuff.c, skb_splice_from_iter). If a page ends after an odd number of bytes
//! the checksum is wrong, and the receiver silently drops the datagram. [`odd_part`] finds such
//! datagrams; the caller sends them by two calls, or as a copy.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::pipe::{SpliceFlags, splice};

/// The number of bytes of a range in its first page, if it is odd and not all of them: in one call
/// the kernel would compute a wrong checksum.
#[must_use]
pub fn odd_part(offset: u64, len: usize) -> Option<usize> {
    let page = rustix::param::page_size();
    let first = page - offset as usize % page;
    (first < len && !first.is_multiple_of(2)).then_some(first)
}

/// Sends `len` bytes of `file` from `offset` on to `socket`, after the data sent before with
/// `MSG_MORE`.
///
/// # Errors
/// `WouldBlock` while the send buffer is full; `UnexpectedEof` for a shorter file, part of which
/// may have been sent; those of the datagram.
pub fn sendfile(socket: impl AsFd, file: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
    let (mut at, socket, file) = (offset, socket.as_fd(), file.as_fd());
    all(len, |left| rustix::fs::sendfile(socket, file, Some(&mut at), left))
}

/// Repeats a call that moves a part of what is left, until `len` bytes are moved.
fn all(len: usize, mut call: impl FnMut(usize) -> rustix::io::Result<usize>) -> io::Result<()> {
    let mut left = len;
    while left > 0 {
        match retry_on_intr(|| call(left))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            moved => left -= moved,
        }
    }
    Ok(())
}

/// A pipe for moving pages (Fall and Pasquale's splice; Linux 2.6.17).
pub struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Pipe {
    /// An empty pipe for 16 pages or parts of pages.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`.
    pub fn new() -> io::Result<Pipe> {
        let (reader, writer) = io::pipe()?;
        Ok(Pipe { reader, writer })
    }

    /// Puts pages of `file` into the pipe: `len` bytes from `offset` on.
    ///
    /// # Errors
    /// `WouldBlock` for a full pipe, `UnexpectedEof` for a shorter file.
    pub fn put_file(&self, file: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
        let (mut at, file) = (offset, file.as_fd());
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        all(len, |left| splice(file, Some(&mut at), &self.writer, None, left, flags))
    }

    /// Sends `len` bytes of the pipe to `socket`, as one datagram on UDP.
    ///
    /// # Errors
    /// `WouldBlock` while the send buffer is full; those of the datagram.
    pub fn drain(&self, socket: impl AsFd, len: usize) -> io::Result<()> {
        self.push(socket, len, SpliceFlags::NONBLOCK)
    }

    /// [`Pipe::drain`] for the front of a datagram whose rest follows.
    ///
    /// # Errors
    /// As [`Pipe::drain`].
    pub fn drain_front(&self, socket: impl AsFd, len: usize) -> io::Result<()> {
        self.push(socket, len, SpliceFlags::NONBLOCK | SpliceFlags::MORE)
    }

    fn push(&self, socket: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<()> {
        let socket = socket.as_fd();
        all(len, |left| splice(&self.reader, None, socket, None, left, flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::tests::{file, pair, take};

    #[test]
    fn a_head_and_pages_of_a_file_leave_as_one_datagram() {
        let (sender, receiver, to) = pair();
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at / 7) as u8).collect();
        let file = file(&bytes);
        // The second range crosses a page.
        for (offset, len) in [(0, 32), (4000, 1316), (8192, 9000)] {
            sender.send_to(b"head", to, true).unwrap();
            sendfile(&sender, &file, offset, len).unwrap();
            let expected = [b"head", &bytes[offset as usize..offset as usize + len]].concat();
            assert_eq!(take(&receiver), expected, "{offset} {len}");
        }
    }

    #[test]
    fn a_page_that_ends_at_an_odd_place_is_found_and_its_parts_leave_as_one_datagram() {
        assert_eq!((odd_part(0, 9000), odd_part(4000, 96), odd_part(4001, 95)), (None, None, None));
        let (sender, receiver, to) = pair();
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at / 7 * 31) as u8).collect();
        let (file, pipe) = (file(&bytes), Pipe::new().unwrap());
        for (offset, len) in [(4001, 300), (8003, 301), (12_287, 2)] {
            let first = odd_part(offset, len).unwrap();
            assert_eq!((offset as usize + first) % 4096, 0, "where pages have 4 KiB");
            sender.send_to(b"head", to, true).unwrap();
            pipe.put_file(&file, offset, len).unwrap();
            pipe.drain_front(&sender, first).unwrap();
            pipe.drain(&sender, len - first).unwrap();
            let expected = [b"head", &bytes[offset as usize..offset as usize + len]].concat();
            assert_eq!(take(&receiver), expected, "{offset} {len}");
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error() {
        let (sender, _receiver, to) = pair();
        let file = file(b"short");
        sender.send_to(b"head", to, true).unwrap();
        let error = sendfile(&sender, &file, 0, 50).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(Pipe::new().unwrap().put_file(&file, 3, 50).is_err());
    }
}
