//! The sockets and files that senders send from, and the counts of sent packets.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::Duration;

use seam::{Burst, Packet, Payload, Source};
use sys::beneath::{Wait, read_at};
use sys::mapped::MappedFile;
use sys::udp::{Filling, Sent, Udp};

use crate::sockets::StreamSockets;
use engines::Assets;

/// How long a worker waits for room in a full send buffer before it drops the packet: one slot,
/// because a later packet is better not sent.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// The files of a server, mapped at first use.
pub struct Files<'a> {
    assets: &'a Assets,
    maps: Vec<OnceLock<Option<MappedFile>>>,
}

impl<'a> Files<'a> {
    pub fn new(assets: &'a Assets) -> Files<'a> {
        let maps = (0..assets.len()).map(|_| OnceLock::new()).collect();
        Files { assets, maps }
    }

    pub fn file<'s>(&'s self, source: &'s Source) -> Option<BorrowedFd<'s>> {
        self.assets.file(source).ok()
    }

    /// Appends a range of a file to `into`; returns how many calls that took.
    ///
    /// # Errors
    /// The file is unknown or shorter, or cannot be read.
    pub fn read(
        &self,
        source: &Source,
        range: Range<u64>,
        into: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let file = self.file(source).ok_or(io::ErrorKind::NotFound)?;
        let (mut at, mut calls) = (range.start, 0);
        while at < range.end {
            let read = read_at(file, at, (range.end - at) as usize, Wait::May, into)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += read as u64;
            calls += 1;
        }
        Ok(calls)
    }

    /// The mapping of a file; `None` if it is unknown, cannot be mapped, or was opened at run time.
    pub fn mapped(&self, source: &Source) -> Option<&MappedFile> {
        let Source::Asset(asset) = source else { return None };
        let asset = *asset;
        let cell = self.maps.get(asset.0 as usize)?;
        let map = || MappedFile::new(self.assets.asset(asset)?).ok();
        cell.get_or_init(map).as_ref()
    }
}

pub struct Outlet<'a> {
    pub sockets: &'a StreamSockets,
    pub files: Files<'a>,
}

impl Outlet<'_> {
    /// Whether the bytes of `packet` exist, judging by the file's length.
    pub fn has(&self, packet: &Packet) -> bool {
        match &packet.payload {
            Payload::File(source @ Source::Asset(_), range) => {
                self.files.mapped(source).is_some_and(|file| range.end <= file.len())
            }
            _ => true,
        }
    }

    /// Appends a packet's bytes to the datagram.
    #[inline]
    pub fn write<'d>(
        &'d self,
        filling: &mut Filling<'_, 'd>,
        burst: &'d Burst,
        packet: &'d Packet,
    ) {
        filling.piece(burst.front(packet));
        self.write_payload(filling, packet);
    }

    /// Appends the bytes after the header.
    #[inline]
    pub fn write_payload<'d>(&'d self, filling: &mut Filling<'_, 'd>, packet: &'d Packet) {
        match &packet.payload {
            Payload::None => {}
            Payload::Shared(bytes, range) => filling.piece(&bytes[range.clone()]),
            Payload::File(source, range) => {
                // Files opened at run time are in memory by now.
                if let Some(file) = self.files.mapped(source) {
                    filling.mapped(file, range.clone());
                }
            }
        }
    }

    /// The number of packets at the front that leave from one socket and have all their bytes; 0 if
    /// the first packet's are missing.
    pub fn run(&self, packets: &[Packet]) -> usize {
        let Some(first) = packets.first() else { return 0 };
        let fits = |packet: &&Packet| packet.channel == first.channel && self.has(packet);
        packets.iter().take_while(fits).count()
    }

    /// Passes the packets to `send` one by one; it returns how many calls it took.
    pub fn each(
        &self,
        burst: &Burst,
        count: &mut Count,
        mut send: impl FnMut(&Udp, &Packet) -> io::Result<usize>,
    ) {
        self.each_run(burst, count, |socket, run| {
            let mut sent = Sent::default();
            for packet in run {
                match send(socket, packet) {
                    Ok(calls) => {
                        sent.calls += calls;
                        sent.count += 1;
                    }
                    Err(error) => {
                        sent.calls += 1;
                        sent.error = Some(error);
                        break;
                    }
                }
            }
            sent
        });
    }

    /// Passes the packets to `send` in runs of one socket, until each has left or failed. `send`
    /// returns how many of a run left, from its front, and why the next did not.
    pub fn each_run(
        &self,
        burst: &Burst,
        count: &mut Count,
        mut send: impl FnMut(&Udp, &[Packet]) -> Sent,
    ) {
        let mut rest = burst.packets();
        let mut has_waited = false;
        while let Some(first) = rest.first() {
            let run = self.run(rest);
            if run == 0 {
                count.failed += 1;
                rest = &rest[1..];
                continue;
            }
            let socket = self.sockets.of(first.channel);
            let sent = send(socket, &rest[..run]);
            count.calls += sent.calls;
            count.left(&rest[..sent.count]);
            rest = &rest[sent.count..];
            has_waited &= sent.count == 0;
            match sent.error {
                Some(error) if error.kind() == io::ErrorKind::WouldBlock && !has_waited => {
                    // An error of the wait shows in the next send.
                    let _ = socket.wait_writable(ROOM_WAIT);
                    has_waited = true;
                }
                Some(_) => {
                    count.failed += 1;
                    rest = &rest[1..];
                    has_waited = false;
                }
                None => {}
            }
        }
    }
}

/// The outcome of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets that the kernel accepted.
    pub packets: usize,
    pub bytes: usize,
    /// Packets that could not leave.
    pub failed: usize,
    /// System calls that sent them.
    pub calls: usize,
}

impl Count {
    pub fn left(&mut self, packets: &[Packet]) {
        self.packets += packets.len();
        self.bytes += packets.iter().map(Packet::len).sum::<usize>();
    }
}
