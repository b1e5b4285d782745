//! `xdp-run`: frames made in the kernel. All due packets are written into a table, and one bpf(2)
//! runs a program for each row, which makes the frame and sends it. No packet passes the network
//! stack on its way out.
//!
//! Some packets leave by the socket instead: packets to groups and broadcast addresses, by IPv6,
//! longer than an ordinary frame, through devices that take no frames, and to neighbours whose
//! address is not known yet.
//!
//! The receiver's kernel charges a frame as the page that it lies in. So a receive buffer of the
//! usual 212,992 bytes holds fifty packets on this machine, however short they are.

mod jobs;
mod program;
mod routes;
mod veth;

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use seam::{Burst, Channel, Instant, Packet, Payload};
use sys::bpf::{Program, Table};
use sys::mapped::MappedFile;
use sys::xdp::{Attached, FRAMES_MAX};

use super::outlet::{Count, Outlet};
use super::sendmmsg::Sendmmsg;
use super::{Row, Sender, Start, Transmit};
use crate::sockets::StreamSockets;
use jobs::{Fate, HEADS, Job, PACKET_MAX, PACKETS};
use routes::Routes;
use veth::{OWN, VethPair, explained, is_near};

pub(super) const ROW: Row = Row {
    sender: Sender::XdpRun,
    name: "xdp-run",
    how: "timer wheel; a program in the kernel makes every frame, by one call",
    needs: "root, Linux 6.3, veth",
    sends_files: false,
    sets_up_queues: true,
    start: |sockets| Ok(Start::wheel(XdpRun::open(sockets)?)),
};

/// Sends packets by frames where possible, the rest by the sockets.
pub struct XdpRun {
    ways: Routes,
    table: Table,
    program: Program,
    /// Dropped before the device that it is attached to, because fields are dropped in this order.
    _attached: Attached,
    device: VethPair,
    /// Addresses and ports of the sockets; type of service and TTL.
    from: [(Ipv4Addr, u16, u8, u8); 2],
    /// The `Identification` of the next IPv4 header.
    number: u16,
    frame: Vec<u8>,
    read: Vec<u8>,
    others: Sendmmsg,
}

impl XdpRun {
    /// # Errors
    /// The missing feature of the machine, and the remedy.
    pub fn open(sockets: &StreamSockets) -> io::Result<XdpRun> {
        let from = [source(sockets, Channel::Rtp)?, source(sockets, Channel::Rtcp)?];
        let device = VethPair::make()?;
        let table = jobs::table().map_err(|error| explained(error, "a table of the kernel's"))?;
        let code = program::assemble(&table, device.index(), OWN);
        let program = Program::frames(code);
        let program = program.map_err(|error| explained(error, "a program that makes frames"))?;
        let attached = program.attach(device.index());
        let attached = attached.map_err(|error| explained(error, "a place for it at a `veth`"))?;
        let mut frames = XdpRun {
            ways: Routes::new(is_near())?,
            table,
            program,
            _attached: attached,
            device,
            from,
            number: 0,
            frame: Vec::new(),
            read: Vec::new(),
            others: Sendmmsg::default(),
        };
        frames.try_once()?;
        Ok(frames)
    }

    /// Makes a frame without a receiver; only that shows whether the kernel knows the call.
    fn try_once(&mut self) -> io::Result<()> {
        let nobody = (Ipv4Addr::UNSPECIFIED, 9);
        let (service, hops, number) = (0, 1, 0);
        let (way, from, to) = (u32::MAX, nobody, nobody);
        let job = Job { way, from, to, service, hops, number };
        jobs::write(&mut self.table, 0, &job, [b"", b""], 0);
        let ran = self.run(1, 0);
        ran.map_err(|error| explained(error, "frames that leave (BPF_F_TEST_XDP_LIVE_FRAMES)"))?;
        match jobs::fate(&self.table, 0) {
            Fate::Rerouted | Fate::NoNeighbour => Ok(()),
            other => Err(io::Error::other(format!(
                "expected a frame without a receiver to be returned, found {other:?}; use \
                 `sendmmsg+gso` instead"
            ))),
        }
    }

    /// Runs the program for `count` rows, with packets of at most `longest` bytes.
    fn run(&mut self, count: usize, longest: usize) -> io::Result<()> {
        self.frame.resize(HEADS + longest, 0);
        jobs::open(&self.table, count);
        let batch = (count as u32).min(FRAMES_MAX);
        let ran = self.program.run(&self.frame, self.device.index(), count as u32, batch);
        // From now on frames that arrive by the device are not ours.
        jobs::open(&self.table, 0);
        ran
    }

    /// Sends the packets that can go by frames, and appends the rest to `others`.
    fn send(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        packets: &[Packet],
        others: &mut Vec<Packet>,
        count: &mut Count,
    ) {
        let now = Instant::from_ns(sys::clock::now_ns());
        let mut taken: Vec<(&Packet, Job)> = Vec::with_capacity(packets.len());
        for packet in packets {
            match self.job(packet, now).filter(|_| outlet.has(packet)) {
                Some(job) => taken.push((packet, job)),
                None => others.push(packet.clone()),
            }
        }
        let longest = taken.iter().map(|(packet, _)| packet.len()).max().unwrap_or(0);
        if !self.fill(outlet, burst, &taken, longest, count) {
            others.clear();
            return others.extend_from_slice(packets);
        }
        if taken.is_empty() {
            return;
        }
        count.calls += 1;
        // After an error, rows that were not taken say so themselves.
        let _ = self.run(taken.len(), longest);
        for (index, (packet, _)) in taken.into_iter().enumerate() {
            match jobs::fate(&self.table, index) {
                Fate::Left => count.left(std::slice::from_ref(packet)),
                fate => {
                    if fate == Fate::Rerouted {
                        self.ways.forget(packet.to);
                    }
                    others.push(packet.clone());
                }
            }
        }
    }

    /// The row of a packet; `None` if only a socket can send it.
    fn job(&mut self, packet: &Packet, now: Instant) -> Option<Job> {
        let (ip, port, service, hops) = self.from[usize::from(packet.channel == Channel::Rtcp)];
        if packet.len() > PACKET_MAX {
            return None;
        }
        let (way, to) = self.ways.to(packet.to, ip, now)?;
        self.number = self.number.wrapping_add(1);
        let (from, to) = ((way.source, port), (to, packet.to.port()));
        let number = self.number;
        Some(Job { way: way.device, from, to, service, hops, number })
    }

    /// Writes packets into the table; false if a file has become shorter.
    fn fill(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        taken: &[(&Packet, Job)],
        longest: usize,
        count: &mut Count,
    ) -> bool {
        let parts = taken.iter().filter_map(|(packet, _)| match &packet.payload {
            Payload::File(source, range) => Some((outlet.files.mapped(source)?, range.clone())),
            _ => None,
        });
        self.read.clear();
        match MappedFile::read(parts, &mut self.read) {
            Ok(calls) => count.calls += calls,
            Err(_) => return false,
        }
        let mut at = 0;
        for (index, (packet, job)) in taken.iter().enumerate() {
            let payload = match &packet.payload {
                Payload::None => &[],
                Payload::Shared(bytes, range) => &bytes[range.clone()],
                Payload::File(_, range) => {
                    let end = at + (range.end - range.start) as usize;
                    &self.read[std::mem::replace(&mut at, end)..end]
                }
            };
            jobs::write(&mut self.table, index, job, [burst.front(packet), payload], longest);
        }
        true
    }
}

impl Transmit for XdpRun {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        let mut others = Vec::new();
        for packets in burst.packets().chunks(PACKETS) {
            self.send(outlet, burst, packets, &mut others, count);
        }
        self.others.send(outlet, burst, &others, count);
    }
}

/// The header fields of packets from a socket.
fn source(sockets: &StreamSockets, channel: Channel) -> io::Result<(Ipv4Addr, u16, u8, u8)> {
    let socket = sockets.of(channel);
    let local = socket.local_addr()?;
    let ip = match local.ip().to_canonical() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(ip) => {
            let text = format!(
                "expected a socket that can send over IPv4, found one of {ip}; frames are made \
                 for IPv4 alone: use `sendmmsg+gso`"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
    };
    let (service, hops) = socket.service()?;
    Ok((ip, local.port(), service, hops))
}
