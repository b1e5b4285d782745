//! The paced half of the relay: a datagram goes into a ring when it arrives, and one stream sends
//! it on to each member that wants it.
//!
//! A datagram is due when it arrives, so nothing is delayed on purpose; the stream looks into the
//! ring every few milliseconds. It alone knows who is who by address and SSRC: sessions tell it
//! through [`Rooms`].

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use seam::{
    AtShutdown, Body, Burst, Channel, Instant, Next, PacedCx, PacedLimits, PacedSource,
    PacketClass, StreamPolicy,
};
use wire::{rtcp, rtp};

use super::members::{DEAF_MAX, MEMBERS, Member, Rooms, key};
use super::{Relay, TRACKS};
use crate::live::ENTRY_MAX;

/// The datagrams that may wait to be sent on; if there are more, the oldest are dropped, because a
/// conversation cannot use what is late. 2,048 are two seconds of 20 speakers at 50 packets/s.
pub const QUEUE: u64 = 2048;
/// The interval at which the stream looks for datagrams, which delays one by half of it on average.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a member without RTSP may be silent.
const PLAIN_SILENCE: Duration = Duration::from_secs(10);
/// The maximum number of packets that can be withdrawn.
const TAKEN_BACK_MAX: usize = 4096;
/// The bytes before a datagram in the ring.
const TAG: usize = 19;
/// The types of RTCP packets, in the second byte of a datagram (RFC 5761 section 4).
const CONTROL: core::ops::RangeInclusive<u8> = 200..=206;
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const BYE: u8 = 203;
/// Requests of receivers for packets or pictures (RFC 4585 section 6.1).
const REQUESTS: [u8; 2] = [205, 206];

/// The stream to all members.
#[derive(Debug, Default)]
pub struct Stream {
    voices: Vec<Voice>,
    /// [`Rooms::changes`] at the last look.
    seen: u64,
    /// The next datagram of the ring.
    next: u64,
    /// The next member that may want it.
    listener: usize,
    /// The packets sent last, oldest first, and those that must be sent again.
    sent: VecDeque<Sent>,
    owed: VecDeque<Sent>,
    scratch: Vec<u8>,
}

/// A packet: a datagram of the ring, and where it went.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: u64,
    to: SocketAddr,
    channel: Channel,
    class: PacketClass,
}

/// A member as the stream knows it.
#[derive(Clone, Debug)]
struct Voice {
    id: u64,
    /// Its place in [`Rooms`]; none without RTSP.
    seat: Option<usize>,
    /// The [`key`]s of its room, its name, and the only speaker that it wants.
    room: u64,
    name: u64,
    only: u64,
    deaf: [u64; DEAF_MAX],
    speaks: bool,
    listens: bool,
    is_muted: bool,
    ip: IpAddr,
    ports: [[u16; 2]; TRACKS],
    classes: [PacketClass; TRACKS],
    /// The SSRC of each track, once a packet has come.
    ssrc: [Option<u32>; TRACKS],
    heard: Instant,
}

/// A datagram's way on.
#[derive(Clone, Debug)]
struct Way {
    room: u64,
    /// The speaker's name, as a key.
    name: u64,
    track: usize,
    channel: Channel,
    class: PacketClass,
    /// The SSRCs of its only receivers; none: all listeners.
    to: Option<Vec<u32>>,
}

/// The first bytes of an entry of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// It came from this address.
    From(SocketAddr),
    /// The relay says bye for a track of a speaker.
    Bye { room: u64, name: u64, track: usize },
}

impl Tag {
    fn bytes(self) -> [u8; TAG] {
        let mut bytes = [0; TAG];
        match self {
            Tag::From(from) => {
                let ip = match from.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                bytes[..16].copy_from_slice(&ip.octets());
                bytes[16..18].copy_from_slice(&from.port().to_le_bytes());
            }
            Tag::Bye { room, name, track } => {
                bytes[..8].copy_from_slice(&room.to_le_bytes());
                bytes[8..16].copy_from_slice(&name.to_le_bytes());
                bytes[16..].copy_from_slice(&[track as u8, 0, 1]);
            }
        }
        bytes
    }

    fn read(entry: &[u8]) -> Option<(Tag, &[u8])> {
        let (tag, datagram) = entry.split_first_chunk::<TAG>()?;
        let (front, back) = (tag.first_chunk::<8>()?, tag[8..].first_chunk::<8>()?);
        if tag[18] == 1 {
            let (room, name) = (u64::from_le_bytes(*front), u64::from_le_bytes(*back));
            return Some((Tag::Bye { room, name, track: usize::from(tag[16]) % TRACKS }, datagram));
        }
        let ip = Ipv6Addr::from(*tag.first_chunk::<16>()?).to_canonical();
        let port = u16::from_le_bytes([tag[16], tag[17]]);
        Some((Tag::From(SocketAddr::new(ip, port)), datagram))
    }
}

impl Voice {
    fn of(seat: usize, member: &Member) -> Option<Voice> {
        Some(Voice {
            id: member.id,
            seat: Some(seat),
            room: key(&member.room),
            name: key(&member.name),
            only: key(&member.only),
            deaf: member.deaf,
            speaks: member.speaks,
            listens: !member.speaks,
            is_muted: member.is_muted,
            ip: member.ip()?,
            ports: member.ports,
            classes: core::array::from_fn(|track| member.class(track)),
            ssrc: [None; TRACKS],
            heard: Instant::ZERO,
        })
    }

    /// A member without RTSP.
    fn plain(room: &str, from: SocketAddr) -> Voice {
        let name = key(from.to_string().as_bytes());
        Voice {
            id: name,
            seat: None,
            room: key(room.as_bytes()),
            name,
            only: 0,
            deaf: [0; DEAF_MAX],
            speaks: true,
            listens: true,
            is_muted: false,
            ip: from.ip(),
            ports: [[from.port(), from.port().wrapping_add(1)], [0; 2]],
            classes: [PacketClass::Audio; TRACKS],
            ssrc: [None; TRACKS],
            heard: Instant::ZERO,
        }
    }

    /// The track that sends from an address.
    fn track(&self, from: SocketAddr) -> Option<usize> {
        let is_it = |ports: &[u16; 2]| ports[0] != 0 && ports.contains(&from.port());
        self.ports.iter().position(is_it).filter(|_| self.ip.to_canonical() == from.ip())
    }

    /// Where this member wants a datagram, if it does.
    fn place(&self, way: &Way) -> Option<SocketAddr> {
        let (wants, track) = match &way.to {
            Some(of) => {
                let is_named = |ssrc: &Option<u32>| ssrc.is_some_and(|it| of.contains(&it));
                let track = self.ssrc.iter().position(is_named);
                (track.is_some(), track.unwrap_or(0))
            }
            None => {
                let is_deaf = self.name == way.name || self.deaf.contains(&way.name);
                let is_wanted = [0, way.name].contains(&self.only) && !is_deaf;
                // A muted member without RTSP still hears; RTSP has one role for each session.
                (self.listens && is_wanted && !self.is_muted, way.track)
            }
        };
        let port = self.ports[track][usize::from(way.channel == Channel::Rtcp)];
        (wants && self.room == way.room && port != 0).then(|| SocketAddr::new(self.ip, port))
    }
}

impl Stream {
    /// Copies the members if one has changed, and says bye for those that have left.
    fn refresh(&mut self, cx: &PacedCx<'_, Rooms>) {
        let changes = cx.state.changes.get();
        let is_silent = |it: &Voice| it.seat.is_none() && cx.now.since(it.heard) > PLAIN_SILENCE;
        if changes == self.seen && !self.voices.iter().any(is_silent) {
            return;
        }
        self.seen = changes;
        let old = std::mem::take(&mut self.voices);
        self.voices =
            old.iter().filter(|it| it.seat.is_none() && !is_silent(it)).cloned().collect();
        for seat in 0..MEMBERS {
            let member = cx.state.get(cx.worker, seat);
            let open = Some(&member).filter(|it| it.id != 0 && it.is_open);
            let Some(mut voice) = open.and_then(|it| Voice::of(seat, it)) else { continue };
            if let Some(before) = old.iter().find(|it| it.id == voice.id) {
                (voice.ssrc, voice.heard) = (before.ssrc, before.heard);
            }
            self.voices.push(voice);
        }
        for left in old {
            if self.voices.iter().all(|it| it.id != left.id) {
                left.say_bye(cx);
            }
        }
    }

    /// The way of the next datagram on; `None` if nobody wants it.
    fn route(&mut self, relay: &Relay, cx: &PacedCx<'_, Rooms>) -> Option<Way> {
        let (tag, datagram) = Tag::read(&self.scratch)?;
        let from = match tag {
            Tag::Bye { room, name, track } => {
                let (channel, class, to) = (Channel::Rtcp, PacketClass::Audio, None);
                return Some(Way { room, name, track, channel, class, to });
            }
            Tag::From(from) => from,
        };
        let is_control = datagram.get(1).is_some_and(|kind| CONTROL.contains(kind));
        let known = |voices: &[Voice]| {
            voices.iter().enumerate().find_map(|(at, it)| Some((at, it.track(from)?)))
        };
        let (at, track) = match known(&self.voices) {
            Some(found) => found,
            None => {
                let room = relay.options.plain.as_deref().filter(|_| !is_control)?;
                if self.voices.len() >= MEMBERS || rtp::Packet::read(datagram).is_none() {
                    return None;
                }
                self.voices.push(Voice::plain(room, from));
                cx.note(|line| line.push_str(&format!("{from} joins")));
                (self.voices.len() - 1, 0)
            }
        };
        self.voices[at].heard = cx.now;
        if let Some(seat) = self.voices[at].seat {
            cx.state.hear(seat, cx.now.ns());
        }
        let Voice { room, name, speaks, is_muted, classes, .. } = self.voices[at];
        let is_heard = speaks && !is_muted;
        if !is_control {
            let ssrc = rtp::Packet::read(datagram)?.header.ssrc;
            // Listeners tell speakers apart by their SSRCs, so the first has it (RFC 3550 8.2).
            let has_it = |it: &Voice| it.room == room && it.ssrc.contains(&Some(ssrc));
            if !speaks || self.voices.iter().enumerate().any(|(i, it)| i != at && has_it(it)) {
                return None;
            }
            self.voices[at].ssrc[track] = Some(ssrc);
            let (channel, class, to) = (Channel::Rtp, classes[track], None);
            return is_heard.then_some(Way { room, name, track, channel, class, to });
        }
        let (mut is_sender, mut leaves, mut named) = (false, false, Vec::new());
        walk(datagram, |kind, of| {
            is_sender |= [SENDER_REPORT, BYE].contains(&kind);
            leaves |= kind == BYE;
            named.extend(of);
        });
        if leaves && self.voices[at].seat.is_none() {
            // It has said bye itself, and is removed at the next look.
            (self.voices[at].ssrc, self.voices[at].heard) = ([None; TRACKS], Instant::ZERO);
        }
        let to = if is_sender { None } else { Some(named) };
        let (channel, class) = (Channel::Rtcp, PacketClass::Audio);
        let is_wanted = to.is_some() || is_heard;
        is_wanted.then_some(Way { room, name, track, channel, class, to })
    }

    /// Appends the due datagrams.
    fn send(&mut self, relay: &Relay, cx: &PacedCx<'_, Rooms>, until: Instant, burst: &mut Burst) {
        let ring = &cx.state.ring;
        while !burst.is_full()
            && let Some(sent) = self.owed.pop_front()
        {
            self.scratch.clear();
            if ring.read(sent.index, &mut self.scratch) {
                self.push(ring.at_ns(sent.index), sent, burst);
            }
        }
        loop {
            let oldest = ring.count().saturating_sub(QUEUE);
            if self.next < oldest {
                cx.state.dropped.add(oldest - self.next);
                (self.next, self.listener) = (oldest, 0);
            }
            if self.listener == 0 {
                self.refresh(cx);
            }
            let due = ring.at_ns(self.next).filter(|at| *at <= until.ns());
            if due.is_none() || burst.is_full() {
                return;
            }
            self.scratch.clear();
            let is_whole = ring.read(self.next, &mut self.scratch);
            if let Some(way) = self.route(relay, cx).filter(|_| is_whole) {
                while let Some(listener) = self.voices.get(self.listener) {
                    let to = listener.place(&way);
                    if to.is_some() && burst.is_full() {
                        return;
                    }
                    self.listener += 1;
                    if let Some(to) = to {
                        let Way { channel, class, .. } = way;
                        self.push(due, Sent { index: self.next, to, channel, class }, burst);
                    }
                }
            }
            (self.next, self.listener) = (self.next + 1, 0);
        }
    }

    /// Appends a packet whose datagram is in `scratch`.
    fn push(&mut self, at_ns: Option<u64>, sent: Sent, burst: &mut Burst) {
        let at = Instant::from_ns(at_ns.unwrap_or(0));
        burst.set_class(sent.class);
        burst.push(at, sent.to, sent.channel, &self.scratch[TAG..], Body::Bytes(&[]));
        if self.sent.len() == TAKEN_BACK_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(sent);
    }
}

impl Voice {
    /// Puts a BYE for each track into the ring.
    fn say_bye(&self, cx: &PacedCx<'_, Rooms>) {
        for (track, ssrc) in self.ssrc.iter().enumerate() {
            let Some(ssrc) = ssrc else { continue };
            let mut bye = Vec::new();
            rtcp::write_receiver_report(*ssrc, &[], "roundhouse", &mut bye);
            bye.extend([0x81, BYE, 0, 1]);
            bye.extend(ssrc.to_be_bytes());
            put(cx, Tag::Bye { room: self.room, name: self.name, track }, &bye);
        }
    }
}

/// Adds a datagram to the ring. Only the streaming worker does, so there is one writer.
fn put(cx: &PacedCx<'_, Rooms>, tag: Tag, datagram: &[u8]) {
    let mut entry = [0; ENTRY_MAX];
    let Some(place) = entry.get_mut(..TAG + datagram.len()) else { return };
    place[..TAG].copy_from_slice(&tag.bytes());
    place[TAG..].copy_from_slice(datagram);
    // Moments in the ring never decrease.
    let at_ns = cx.state.ring.last_ns().unwrap_or(0).max(cx.now.ns());
    cx.state.ring.push(at_ns, false, place);
}

/// Passes the type of each packet of a compound to `tell`, with the SSRCs that it is about.
fn walk(mut datagram: &[u8], mut tell: impl FnMut(u8, Vec<u32>)) {
    while let Some((head, _)) = datagram.split_first_chunk::<4>() {
        let len = 4 + 4 * usize::from(u16::from_be_bytes([head[2], head[3]]));
        let Some((packet, rest)) = datagram.split_at_checked(len) else { return };
        let number = |at: usize| packet.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it));
        let of = match head[1] {
            RECEIVER_REPORT => {
                let blocks = 0..usize::from(head[0] & 0x1f);
                blocks.filter_map(|block| number(8 + 24 * block)).collect()
            }
            kind if REQUESTS.contains(&kind) => number(8).into_iter().collect(),
            _ => Vec::new(),
        };
        tell(head[1], of);
        datagram = rest;
    }
}

impl PacedSource for Relay {
    type State = Rooms;
    type Stream = Stream;

    fn limits(&self) -> PacedLimits {
        PacedLimits { streams_max: 1, ahead: Duration::ZERO }
    }

    fn start(&self, cx: &PacedCx<'_, Rooms>) -> Option<(Stream, Next)> {
        let me = cx.worker.bits();
        cx.state.sender.compare_exchange(0, me, SeqCst, SeqCst).ok()?;
        let (next, seen) = (cx.state.ring.count(), u64::MAX);
        Some((Stream { next, seen, ..Stream::default() }, Next::At(cx.now)))
    }

    fn due(
        &self,
        cx: &PacedCx<'_, Rooms>,
        stream: &mut Stream,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        stream.send(self, cx, until, burst);
        let is_idle = stream.voices.is_empty() && self.options.plain.is_none();
        match (burst.is_full(), is_idle) {
            (true, _) => Next::At(until),
            (false, true) => Next::Parked,
            (false, false) => Next::At(until.max(cx.now) + LOOK_EVERY),
        }
    }

    fn withdrawn(&self, _cx: &PacedCx<'_, Rooms>, stream: &mut Stream, unsent: usize) {
        for _ in 0..unsent {
            let Some(sent) = stream.sent.pop_back() else { return };
            stream.owed.push_front(sent);
        }
    }

    fn rung(&self, cx: &PacedCx<'_, Rooms>, _stream: &mut Stream) -> Next {
        Next::At(cx.now)
    }

    fn has_news(&self, cx: &PacedCx<'_, Rooms>, stream: &Stream) -> bool {
        cx.state.changes.get() != stream.seen
    }

    fn policy(&self, _stream: &Stream) -> StreamPolicy {
        let (class, at_shutdown) = (PacketClass::Audio, AtShutdown::Stop);
        StreamPolicy { class, at_shutdown, ..StreamPolicy::default() }
    }

    fn receive(
        &self,
        cx: &PacedCx<'_, Rooms>,
        from: SocketAddr,
        _channel: Channel,
        datagram: &[u8],
    ) {
        // Both have version 2 in the highest bits, and at least eight bytes.
        if datagram.len() >= 8 && datagram[0] >> 6 == 2 {
            put(cx, Tag::From(from), datagram);
        }
    }

    fn close(&self, cx: &PacedCx<'_, Rooms>, _stream: Stream) {
        let _ = cx.state.sender.compare_exchange(cx.worker.bits(), 0, SeqCst, SeqCst);
    }
}
