//! Chains of packets that the kernel sends by itself: after one submission it waits, reads and
//! sends (io_uring(7)).
//!
//! The sender `uring_chain` of the pacing crate builds a chain from packets in the order of their
//! due times. A packet becomes up to three linked entries: an absolute timeout if it is due later
//! than the packet before it, a read if its payload is in a file, and a send. A hard link follows
//! the send, so that an unreachable receiver does not stop the others; a timeout that is cancelled
//! or a read that fails ends the chain. All entries but the last skip their completion on success,
//! so that one chain causes one report. The subtle part is memory: the kernel keeps pointers into a
//! `Chain` until it has ended, so a ring cancels its chains when it is dropped, and leaks those
//! that do not end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use super::Udp;
use super::address::Address;
use crate::eventfd::EventFd;

/// A packet of a `Chain`, with its due time.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Its due time on `crate::clock`'s clock.
    pub at_ns: u64,
    /// The socket that it leaves from.
    pub socket: &'a Udp,
    /// The receiver.
    pub to: SocketAddr,
    /// Its bytes, except those of the file.
    pub front: &'a [u8],
    /// Bytes that follow the front.
    pub body: LinkBody<'a>,
}

/// The rest of a packet, after its front.
#[derive(Clone, Copy, Debug)]
pub enum LinkBody<'a> {
    /// Nothing more.
    None,
    /// These bytes, copied now.
    Bytes(&'a [u8]),
    /// This many bytes of a file from an offset on, read by the kernel when the packet is due.
    File(BorrowedFd<'a>, u64, u32),
}

/// One submission after which the kernel waits, reads and sends by itself. Each packet has a
/// timeout until its due time, a read of the file and a send, each begun when the one before is
/// done (`IOSQE_IO_LINK`).
///
/// Only the end of a chain is reported. A chain that is cancelled, or whose file is too short,
/// reports how many of its packets have left; a packet that its receiver or a filter refuses counts
/// as sent.
///
/// A wait for the ring itself (`io_uring_enter`) returns at every timeout, even a silent one, so
/// callers wait by another call: [`ChainRing::watched`] becomes readable when a chain has ended.
/// The timers fire in the kernel, but the sends are made in the context of the thread that
/// submitted them.
pub struct ChainRing {
    ring: IoUring,
    ended: EventFd,
    chains: Vec<Option<Chain>>,
    /// Submissions so far.
    pub calls: usize,
}

/// The memory that the kernel reads and writes while a chain lasts.
struct Chain {
    headers: Vec<libc::msghdr>,
    pieces: Vec<libc::iovec>,
    /// The headers point here.
    _addresses: Vec<Address>,
    times: Vec<types::Timespec>,
    bytes: Vec<u8>,
    /// The socket and the files; open until the chain ends, because the kernel looks them up one by
    /// one.
    open: Vec<OwnedFd>,
    sent: Option<usize>,
    /// The packets that have a separate timeout, and when they are due.
    waits: Vec<(usize, u64)>,
}

// SAFETY: the pointers inside point into the chain's own vectors, which do not change.
unsafe impl Send for Chain {}

/// The maximum number of entries that one packet of a chain needs: timeout, read, send.
const STEPS: usize = 3;
/// The number of entries of a chain ring, which is the kernel's maximum.
const CHAIN_ENTRIES: u32 = 32_768;
/// The maximum number of packets of one chain.
pub const CHAIN_MAX: usize = CHAIN_ENTRIES as usize / STEPS - 1;

/// The kinds of operation, in the lowest bits of a token.
const WAIT: u64 = 0;
const READ: u64 = 1;
const SEND: u64 = 2;
/// The token of a cancellation, which belongs to no chain.
const CANCEL: u64 = u64::MAX;

fn token(chain: usize, packet: usize, kind: u64) -> u64 {
    (chain as u64) << 32 | (packet as u64) << 2 | kind
}

impl ChainRing {
    /// A ring for chains.
    ///
    /// # Errors
    /// io_uring is absent or forbidden.
    pub fn new() -> io::Result<ChainRing> {
        let ring: IoUring = IoUring::builder().setup_clamp().build(CHAIN_ENTRIES)?;
        let ended = EventFd::new()?;
        ring.submitter().register_eventfd(ended.as_fd().as_raw_fd())?;
        Ok(ChainRing { ring, ended, chains: Vec::new(), calls: 0 })
    }

    /// Readable when a chain has ended, until [`ChainRing::reap`] was called.
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Hands a chain to the kernel and returns its number. It has at most [`CHAIN_MAX`] packets, at
    /// least one.
    ///
    /// # Errors
    /// A file cannot be opened a second time; the kernel has no memory.
    ///
    /// # Panics
    /// If there is no packet, or there are too many.
    pub fn submit<'a>(&mut self, links: impl Iterator<Item = Link<'a>>) -> io::Result<usize> {
        let (chain, entries) = Chain::build(links, self.vacant())?;
        let index = self.vacant();
        if index == self.chains.len() {
            self.chains.push(None);
        }
        self.chains[index] = Some(chain);
        // SAFETY: the entries point into the chain's vectors, which stay as they are until the
        // chain has ended and the kernel has let go of it.
        while unsafe { self.ring.submission().push_multiple(&entries) }.is_err() {
            // The ring's own thread makes room by taking the queued entries.
            self.enter()?;
            self.ring.submitter().squeue_wait()?;
        }
        self.enter()?;
        Ok(index)
    }

    fn vacant(&self) -> usize {
        self.chains.iter().position(Option::is_none).unwrap_or(self.chains.len())
    }

    fn enter(&mut self) -> io::Result<()> {
        self.calls += 1;
        loop {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }

    /// Cancels chain `index`: packets that have not left never will. Its end is reported as usual.
    ///
    /// The kernel does not tell which timeout is waiting, and none waits while a packet is being
    /// sent. So timeouts around the present are tried until one is found.
    ///
    /// # Errors
    /// The kernel has no memory; `TimedOut` if the chain does not end and continues.
    pub fn cancel(&mut self, index: usize) -> io::Result<()> {
        let until = crate::clock::now_ns() + SETTLE_NS;
        while !self.is_over(index) {
            let now = crate::clock::now_ns();
            if now > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let Some(Some(chain)) = self.chains.get(index) else { break };
            let from = chain.waits.partition_point(|&(_, at)| at < now.saturating_sub(LATE_NS));
            let to = chain.waits.partition_point(|&(_, at)| at <= now) + 1;
            let near: Vec<usize> = chain.waits[from..to.min(chain.waits.len())]
                .iter()
                .rev()
                .map(|&(packet, _)| packet)
                .collect();
            for packet in near {
                let entry = opcode::TimeoutRemove::new(token(index, packet, WAIT)).build();
                let entry = entry.user_data(CANCEL);
                // SAFETY: the entry points to nothing.
                while unsafe { self.ring.submission().push(&entry) }.is_err() {
                    self.enter()?;
                }
                self.enter()?;
                if self.settle(index, until) {
                    break;
                }
            }
            std::thread::sleep(NAP);
            self.look();
        }
        Ok(())
    }

    fn is_over(&self, index: usize) -> bool {
        let chain = self.chains.get(index).and_then(Option::as_ref);
        chain.is_none_or(|chain| chain.sent.is_some())
    }

    /// Waits for the answer to a cancellation; true if it found its timeout, or the chain is over.
    fn settle(&mut self, index: usize, until: u64) -> bool {
        while crate::clock::now_ns() < until {
            let answered = self.look();
            if self.is_over(index) {
                return true;
            }
            match answered {
                Some(result) => return result == 0,
                None => std::thread::sleep(NAP),
            }
        }
        false
    }

    /// The chains that have ended, and the number of packets of each that have left.
    pub fn reap(&mut self) -> Vec<(usize, usize)> {
        self.ended.clear();
        self.look();
        let mut ended = Vec::new();
        for (index, place) in self.chains.iter_mut().enumerate() {
            if let Some(sent) = place.as_ref().and_then(|chain| chain.sent) {
                ended.push((index, sent));
                *place = None;
            }
        }
        ended
    }

    /// Reads the kernel's reports; returns the answer to a cancellation, if there is one.
    fn look(&mut self) -> Option<i32> {
        let mut answered = None;
        for entry in self.ring.completion() {
            let (token, result) = (entry.user_data(), entry.result());
            if token == CANCEL {
                answered = Some(result);
                continue;
            }
            let (index, packet) = ((token >> 32) as usize, (token & 0xffff_ffff) as usize >> 2);
            let Some(Some(chain)) = self.chains.get_mut(index) else { continue };
            let is_last = packet + 1 == chain.headers.len();
            if token & 3 == SEND && result != -libc::ECANCELED && !is_last {
                // The packet could not be sent, and the chain continues.
                continue;
            }
            // A failed wait or read silently ends the rest of the chain.
            let is_sent = token & 3 == SEND && is_last && result != -libc::ECANCELED;
            let sent = if is_sent { packet + 1 } else { packet };
            chain.sent.get_or_insert(sent);
        }
        answered
    }
}

/// How long ago an unexpired timeout may have been due: a stall of the whole machine.
const LATE_NS: u64 = 2_000_000_000;
/// How long a cancellation may take.
const SETTLE_NS: u64 = 10_000_000_000;
/// The pause between two attempts. A yield would not help under real-time priority (SCHED_FIFO):
/// the threads it waits for may have a lower one.
const NAP: Duration = Duration::from_micros(20);

impl Drop for ChainRing {
    fn drop(&mut self) {
        // The memory of a chain must outlive it: cancel the chain, and keep the memory of a chain
        // that does not end.
        for index in 0..self.chains.len() {
            let _ = self.cancel(index);
        }
        self.reap();
        std::mem::forget(std::mem::take(&mut self.chains));
    }
}

impl Chain {
    /// The chain and its operations.
    fn build<'a>(
        links: impl Iterator<Item = Link<'a>>,
        index: usize,
    ) -> io::Result<(Chain, Vec<squeue::Entry>)> {
        let links: Vec<Link<'a>> = links.collect();
        assert!((1..=CHAIN_MAX).contains(&links.len()), "a chain of {} packets", links.len());
        let mut chain = Chain::with_room(&links);
        let mut files: Vec<(RawFd, types::Fd)> = Vec::new();
        let mut sockets: Vec<(*const Udp, types::Fd)> = Vec::new();
        let mut entries = Vec::with_capacity(links.len() * STEPS);
        let (mut at, mut waited) = (0, 0);
        let linked = squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
        for (packet, link) in links.iter().enumerate() {
            if link.at_ns > waited {
                waited = link.at_ns;
                let time = &raw const chain.times[packet];
                let flags = types::TimeoutFlags::ABS | types::TimeoutFlags::ETIME_SUCCESS;
                let wait = opcode::Timeout::new(time).flags(flags).build();
                entries.push(wait.flags(linked).user_data(token(index, packet, WAIT)));
                chain.waits.push((packet, link.at_ns));
            }
            let fd = match sockets.iter().find(|(known, _)| std::ptr::eq(*known, link.socket)) {
                Some((_, fd)) => *fd,
                None => {
                    let fd = chain.hold(link.socket)?;
                    sockets.push((std::ptr::from_ref(link.socket), fd));
                    fd
                }
            };
            let len = chain.pieces[packet].iov_len;
            if let LinkBody::File(file, offset, length) = link.body {
                let file = match files.iter().find(|(known, _)| *known == file.as_raw_fd()) {
                    Some((_, fd)) => *fd,
                    None => {
                        let fd = chain.hold(file)?;
                        files.push((file.as_raw_fd(), fd));
                        fd
                    }
                };
                let into = chain.bytes[at + link.front.len()..].as_mut_ptr();
                let read = opcode::Read::new(file, into, length).offset(offset).build();
                entries.push(read.flags(linked).user_data(token(index, packet, READ)));
            }
            // Without the first flag a send in a chain could be short and not break it.
            let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL).cast_unsigned();
            let send = opcode::SendMsg::new(fd, &raw const chain.headers[packet]).flags(flags);
            let is_last = packet + 1 == links.len();
            // An unreachable receiver must not end the packets of all others.
            let hard = squeue::Flags::IO_HARDLINK | squeue::Flags::SKIP_SUCCESS;
            let how = if is_last { squeue::Flags::empty() } else { hard };
            entries.push(send.build().flags(how).user_data(token(index, packet, SEND)));
            at += len;
        }
        Ok((chain, entries))
    }

    /// Keeps a descriptor open until the chain has ended.
    fn hold(&mut self, fd: impl AsFd) -> io::Result<types::Fd> {
        let own = fd.as_fd().try_clone_to_owned()?;
        let fd = types::Fd(own.as_raw_fd());
        self.open.push(own);
        Ok(fd)
    }

    /// The vectors, complete except for the bytes that the kernel reads from files.
    fn with_room(links: &[Link<'_>]) -> Chain {
        let mut bytes = Vec::new();
        let mut lengths = Vec::with_capacity(links.len());
        for link in links {
            let start = bytes.len();
            bytes.extend_from_slice(link.front);
            match link.body {
                LinkBody::None => {}
                LinkBody::Bytes(body) => bytes.extend_from_slice(body),
                LinkBody::File(_, _, len) => bytes.resize(bytes.len() + len as usize, 0),
            }
            lengths.push(bytes.len() - start);
        }
        let mut at = bytes.as_mut_ptr();
        let mut pieces: Vec<libc::iovec> = Vec::with_capacity(links.len());
        for len in lengths {
            pieces.push(libc::iovec { iov_base: at.cast(), iov_len: len });
            // SAFETY: the lengths add up to that of `bytes`.
            at = unsafe { at.add(len) };
        }
        let addresses: Vec<_> =
            links.iter().map(|link| Address::new(link.to, link.socket.is_v6)).collect();
        let times = links
            .iter()
            .map(|link| {
                let (sec, ns) = (link.at_ns / 1_000_000_000, link.at_ns % 1_000_000_000);
                types::Timespec::new().sec(sec).nsec(ns as u32)
            })
            .collect();
        let headers = (0..links.len())
            .map(|packet| {
                // SAFETY: a msghdr is made of integers and pointers, for which zero is a value.
                let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
                header.msg_name = addresses[packet].as_ptr().cast_mut().cast();
                header.msg_namelen = addresses[packet].len();
                header.msg_iov = &raw mut pieces[packet];
                header.msg_iovlen = 1;
                header
            })
            .collect();
        let (open, sent, waits) = (Vec::new(), None, Vec::new());
        Chain { headers, pieces, _addresses: addresses, times, bytes, open, sent, waits }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, pair, take};
    use super::*;
    use crate::clock::now_ns;
    use crate::poll::{PollFd, poll};
    use std::time::Duration;

    fn ring() -> Option<ChainRing> {
        ChainRing::new().inspect_err(|_| eprintln!("skipped: io_uring is missing")).ok()
    }

    fn ended(ring: &mut ChainRing) -> Vec<(usize, usize)> {
        let mut list = [PollFd::new(ring.watched(), true, false)];
        poll(&mut list, Some(Duration::from_secs(20))).unwrap();
        ring.reap()
    }

    #[test]
    fn the_kernel_waits_reads_and_sends_by_itself() {
        let Some(mut ring) = ring() else { return };
        let (sender, receiver, to) = pair();
        let file = file(b"0123456789");
        let start = now_ns();
        let link = |packet: u64| Link {
            at_ns: start + packet / 2 * 3_000_000,
            socket: &sender,
            to,
            front: b"head",
            body: match packet % 3 {
                0 => LinkBody::None,
                1 => LinkBody::Bytes(b"body"),
                _ => LinkBody::File(file.as_fd(), packet, 2),
            },
        };
        let index = ring.submit((0..8).map(link)).unwrap();
        assert_eq!(ended(&mut ring), [(index, 8)]);
        assert!(now_ns() >= start + 9_000_000, "it took its time");
        let texts = ["head", "headbody", "head23", "head", "headbody", "head56", "head"];
        for text in texts {
            assert_eq!(take(&receiver), text.as_bytes());
        }
        assert_eq!(ring.calls, 1, "one call for all of it");
    }

    #[test]
    fn a_chain_that_is_cancelled_says_how_much_of_it_left() {
        let Some(mut ring) = ring() else { return };
        let (sender, receiver, to) = pair();
        let start = now_ns();
        let far = |packet: u64| if packet < 3 { start } else { start + 60_000_000_000 + packet };
        let link = |packet| Link {
            at_ns: far(packet),
            socket: &sender,
            to,
            front: b"x",
            body: LinkBody::None,
        };
        let index = ring.submit((0..9).map(link)).unwrap();
        let other = ring.submit((3..5).map(link)).unwrap();
        for _ in 0..3 {
            assert_eq!(take(&receiver), b"x");
        }
        ring.cancel(index).unwrap();
        assert_eq!(ended(&mut ring), [(index, 3)]);
        ring.cancel(other).unwrap();
        assert_eq!(ended(&mut ring), [(other, 0)]);
    }

    #[test]
    fn a_receiver_that_cannot_be_reached_does_not_end_the_chain() {
        let Some(mut ring) = ring() else { return };
        let (sender, receiver, to) = pair();
        // A socket may not broadcast unless that was enabled (EACCES).
        let all = SocketAddr::from(([255, 255, 255, 255], 9));
        let link = |packet: u64| Link {
            at_ns: now_ns(),
            socket: &sender,
            to: if packet.is_multiple_of(2) { all } else { to },
            front: b"x",
            body: LinkBody::None,
        };
        let index = ring.submit((0..6).map(link)).unwrap();
        assert_eq!(ended(&mut ring), [(index, 6)]);
        for _ in 0..3 {
            assert_eq!(take(&receiver), b"x");
        }
    }

    #[test]
    fn a_file_that_is_too_short_breaks_the_chain_where_it_is() {
        let Some(mut ring) = ring() else { return };
        let (sender, receiver, to) = pair();
        let file = file(b"0123456789");
        let link = |packet: u64| Link {
            at_ns: now_ns(),
            socket: &sender,
            to,
            front: b"",
            body: LinkBody::File(file.as_fd(), packet * 4, 4),
        };
        let index = ring.submit((0..5).map(link)).unwrap();
        assert_eq!(ended(&mut ring), [(index, 2)]);
        assert_eq!([take(&receiver), take(&receiver)], [b"0123".to_vec(), b"4567".to_vec()]);
    }
}
