//! Datagrams made of pages: headers from our memory, payloads from the page cache, without a copy.
//!
//! There are two forms, both segmented by the kernel (`UDP_SEGMENT`). If complete datagrams lie one
//! after the other in a file, sendfile(2) sends many by one call ([`send_records`]). If headers are
//! made at run time, vmsplice(2) adds headers and mapped payloads to a pipe in turn, and splice(2)
//! sends the pipe ([`Pages`]).
//!
//! A message holds at most 17 page fragments (`MAX_SKB_FRAGS`), so headers between payloads fill it
//! after seven packets of 1316 bytes, where a copy holds fifty.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

use super::Udp;
use super::address::Address;
use crate::call::{check_count, uninterrupted};
use crate::mapped::MappedFile;
use crate::splice::{Pipe, sendfile};

/// The maximum number of page fragments in one message (the usual `MAX_SKB_FRAGS`).
pub const PIECES_MAX: usize = 17;
/// The longest header that is passed by reference.
pub const FRONT_MAX: usize = 512;
/// The smallest page size; with larger pages, fewer pieces are needed than are counted.
const PAGE: u64 = 4096;
/// The size of the memory for headers. Memory that is used up is given to the kernel, which costs
/// as much as two packets.
const HEADS: usize = 16 * PAGE as usize;

/// One datagram: a front, then a range of a mapped file.
#[derive(Clone, Debug)]
pub struct Leaf<'d> {
    /// At most [`FRONT_MAX`] bytes that are copied.
    pub front: &'d [u8],
    /// The file of the rest.
    pub file: &'d MappedFile,
    /// Its range in the file; not empty.
    pub range: Range<u64>,
}

/// The number of page fragments of a file range.
#[must_use]
pub fn pieces_of(range: &Range<u64>) -> usize {
    (range.end.div_ceil(PAGE) - range.start / PAGE) as usize
}

/// Sends messages of pages through a pipe.
pub struct Pages {
    pipe: Pipe,
    heads: NonNull<u8>,
    /// How many bytes of the memory for headers are in use.
    used: usize,
    parts: Vec<libc::iovec>,
}

// SAFETY: the memory is ours alone, and the parts point somewhere within one call only.
unsafe impl Send for Pages {}

impl Pages {
    /// # Errors
    /// No memory or descriptor is left, or no room for pipes (`EPERM`, pipe(7)).
    pub fn new() -> io::Result<Pages> {
        let pipe = pipe()?;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a null address lets the kernel choose a free range, so no memory in use is
        // touched.
        let heads = unsafe { libc::mmap(ptr::null_mut(), HEADS, access, flags, -1, 0) };
        match NonNull::new(heads.cast::<u8>()) {
            Some(heads) if heads.as_ptr() != libc::MAP_FAILED.cast() => {
                Ok(Pages { pipe, heads, used: 0, parts: Vec::new() })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends `leaves` as one message to `to`, segmented into datagrams of `segment` bytes; returns
    /// the number of calls. Heads and ranges have at most [`PIECES_MAX`] pieces.
    ///
    /// # Errors
    /// None of it has left then. `WouldBlock` while the send buffer is full; `EFAULT` for a file
    /// that became shorter; `EMSGSIZE` for more pieces than this kernel takes; `EIO` where the
    /// device can neither cut nor compute checksums.
    ///
    /// # Panics
    /// If there is no leaf, a front is too long or a range is not inside its file.
    pub fn send<'d>(
        &mut self,
        socket: &Udp,
        to: SocketAddr,
        segment: u16,
        mut leaves: impl Iterator<Item = Leaf<'d>>,
    ) -> io::Result<usize> {
        self.parts.clear();
        let first = leaves.next().expect("a message has a datagram");
        self.put_range(&first);
        for leaf in leaves {
            self.put_head(leaf.front)?;
            self.put_range(&leaf);
        }
        let len: usize = self.parts.iter().map(|part| part.iov_len).sum();
        let sent = self.fill(len).and_then(|()| begin(socket, first.front, to, segment));
        match sent.and_then(|()| self.pipe.drain(socket, len)) {
            Ok(()) => Ok(3),
            Err(error) => {
                // The rest in the pipe is dropped with it, and so is the data that waits at the
                // socket.
                discard(socket);
                self.pipe = pipe()?;
                Err(error)
            }
        }
    }

    /// Copies a header to memory that stays unchanged as long as it is in use.
    fn put_head(&mut self, front: &[u8]) -> io::Result<()> {
        assert!(front.len() <= FRONT_MAX, "a head of {} bytes", front.len());
        let room = PAGE as usize - self.used % PAGE as usize;
        // A head must not cross a page boundary.
        let at = self.used + if front.len() > room { room } else { 0 };
        if at + front.len() > HEADS {
            return self.give_away().and_then(|()| self.put_head(front));
        }
        // SAFETY: the range is inside our memory, of which nothing borrows.
        let start = unsafe {
            let start = self.heads.as_ptr().add(at);
            ptr::copy_nonoverlapping(front.as_ptr(), start, front.len());
            start
        };
        self.used = at + front.len();
        if !front.is_empty() {
            self.parts.push(libc::iovec { iov_base: start.cast(), iov_len: front.len() });
        }
        Ok(())
    }

    /// Gives the pages to the messages that hold them, and takes new ones.
    fn give_away(&mut self) -> io::Result<()> {
        // The headers of this message would be lost, so they are copied into new pages.
        let range = self.heads.as_ptr().addr()..self.heads.as_ptr().addr() + HEADS;
        let mine = self.parts.iter().filter(|part| range.contains(&part.iov_base.addr()));
        // SAFETY: the parts point into our memory with the lengths that they were given.
        let kept: Vec<Vec<u8>> = mine
            .map(|part| unsafe {
                std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len).to_vec()
            })
            .collect();
        // SAFETY: our own private mapping, whose pages read as zero from here on.
        let done = unsafe { libc::madvise(self.heads.as_ptr().cast(), HEADS, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        self.used = 0;
        let mut kept = kept.into_iter();
        for at in 0..self.parts.len() {
            if !range.contains(&self.parts[at].iov_base.addr()) {
                continue;
            }
            let head = kept.next().expect("as many as were counted");
            let end = self.parts.len();
            self.put_head(&head)?;
            self.parts[at] = self.parts[end];
            self.parts.truncate(end);
        }
        Ok(())
    }

    fn put_range(&mut self, leaf: &Leaf<'_>) {
        let (start, len) = leaf.file.range(leaf.range.clone());
        self.parts.push(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len });
    }

    /// Puts the parts into the pipe.
    fn fill(&self, len: usize) -> io::Result<()> {
        let to = self.pipe.writer().as_raw_fd();
        let put = uninterrupted(|| {
            // SAFETY: heads are ours, ranges are inside their mappings, and the number of parts is
            // right. The kernel holds the pages by itself.
            check_count(unsafe {
                let (parts, count) = (self.parts.as_ptr(), self.parts.len());
                libc::vmsplice(to, parts, count, libc::SPLICE_F_NONBLOCK)
            })
        })?;
        match put == len {
            true => Ok(()),
            // The next range ends at the new end of the file, or it has more pieces than expected.
            false => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing borrows from it.
        unsafe { libc::munmap(self.heads.as_ptr().cast(), HEADS) };
    }
}

/// Sends datagrams that lie one after the other in `range` of `file`, each of `segment` bytes
/// except for a shorter last one, as one message; returns the number of calls.
///
/// # Errors
/// As [`Pages::send`]. With `UnexpectedEof`, for a shorter file, the existing part has left; with
/// any other error nothing has.
pub fn send_records(
    socket: &Udp,
    to: SocketAddr,
    segment: u16,
    file: impl AsFd,
    range: Range<u64>,
) -> io::Result<usize> {
    let len = (range.end - range.start) as usize;
    let sent = begin(socket, &[], to, segment);
    let sent = sent.and_then(|()| sendfile(socket, file, range.start, len));
    sent.map(|()| 2).inspect_err(|_| discard(socket))
}

/// A pipe that holds a whole message.
fn pipe() -> io::Result<Pipe> {
    let pipe = Pipe::new()?;
    pipe.hold(2 * PIECES_MAX)?;
    Ok(pipe)
}

/// Begins a message to `to` with a head that is copied.
fn begin(socket: &Udp, front: &[u8], to: SocketAddr, segment: u16) -> io::Result<()> {
    let address = Address::new(to, socket.is_v6);
    let mut part = libc::iovec { iov_base: front.as_ptr().cast_mut().cast(), iov_len: front.len() };
    // A cmsghdr: length of header and value, level, type; then the value. In native order.
    let mut control = Control([0; 24]);
    control.0[..8].copy_from_slice(&18_usize.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control.0[16..18].copy_from_slice(&segment.to_ne_bytes());
    // SAFETY: a msghdr is made of integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = address.as_ptr().cast_mut().cast();
    message.msg_namelen = address.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    uninterrupted(|| {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_MORE;
        // SAFETY: the message names memory that lives through the call, with the sizes it has.
        check_count(unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, flags) })
    })
    .map(drop)
}

/// A control message with one number.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// Discards data that waits at a socket for more: a send from an invalid address fails, and takes
/// the waiting data with it.
fn discard(socket: &Udp) {
    // SAFETY: the address is that of no memory, which is what the kernel is to find out.
    unsafe {
        let (fd, flags) = (socket.as_fd().as_raw_fd(), libc::MSG_NOSIGNAL | libc::MSG_MORE);
        libc::send(fd, ptr::without_provenance(1), 1, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, pair, take};
    use super::*;

    fn bytes() -> Vec<u8> {
        (0..200_000_u32).map(|at| (at / 7) as u8).collect()
    }

    #[test]
    fn heads_and_pages_leave_as_one_message_and_come_as_many_datagrams() {
        let (sender, receiver, to) = pair();
        let bytes = bytes();
        let mapped = MappedFile::new(&file(&bytes)).expect("a map");
        let mut pages = Pages::new().expect("a pipe");
        // More headers than fit the memory for them; later ones do not change earlier ones.
        for turn in 0..900_u64 {
            let at = |number: u64| (turn * 7 + number) % 150 * 1316;
            let heads: Vec<[u8; 12]> =
                (0..7).map(|number| [(turn * 7 + number) as u8; 12]).collect();
            let leaves = (0..7).map(|number| Leaf {
                front: &heads[number as usize],
                file: &mapped,
                range: at(number)..at(number) + 1316,
            });
            let pieces: usize = leaves.clone().map(|it| 1 + pieces_of(&it.range)).sum();
            assert!(pieces <= PIECES_MAX, "{pieces}");
            assert_eq!(pages.send(&sender, to, 1328, leaves).expect("sent"), 3);
            for number in 0..7 {
                let at = at(number) as usize;
                let expected = [&heads[number as usize][..], &bytes[at..at + 1316]].concat();
                assert_eq!(take(&receiver), expected, "{turn} {number}");
            }
        }
    }

    #[test]
    fn records_of_a_file_leave_by_one_sendfile() {
        let (sender, receiver, to) = pair();
        let bytes = bytes();
        let file = file(&bytes);
        // Sixty-five thousand bytes over seventeen pages.
        let range = 4000..4000 + 48 * 1328 + 100;
        assert_eq!(send_records(&sender, to, 1328, &file, range).expect("sent"), 2);
        for number in 0..49 {
            let at = 4000 + number * 1328;
            assert_eq!(take(&receiver), bytes[at..(at + 1328).min(4000 + 48 * 1328 + 100)]);
        }
    }

    #[test]
    fn what_could_not_leave_whole_does_not_leave_and_the_next_does() {
        let (sender, receiver, to) = pair();
        let bytes = bytes();
        let file = file(&bytes);
        let mapped = MappedFile::new(&file).expect("a map");
        let mut pages = Pages::new().expect("a pipe");
        file.set_len(2000).expect("ours");
        let far = Leaf { front: b"far", file: &mapped, range: 8000..9000 };
        let near = Leaf { front: b"near", file: &mapped, range: 10..20 };
        let both = [near.clone(), far].into_iter();
        let error = pages.send(&sender, to, 14, both).expect_err("it is shorter");
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let error = send_records(&sender, to, 1500, &file, 0..9000).expect_err("shorter");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!([take(&receiver), take(&receiver)].concat(), bytes[..2000]);
        pages.send(&sender, to, 14, std::iter::once(near)).expect("sent");
        assert_eq!(take(&receiver), [b"near", &bytes[10..20]].concat());
    }
}
