//! Datagrams that leave by the clock: the packets due until a moment, for any sender.
//!
//! A [`Service`](crate::Service) answers; a [`PacedSource`] speaks first. The two share one
//! state: a session orders a stream there (play, pause, seek, tear down) and rings
//! ([`crate::Cx::ring`]). The streaming worker picks the order up as a [`PacedSource::Stream`],
//! the memory of one running transmission.
//!
//! The surprising thing: the engine tells [`PacedSource::due`] *until* when it wants packets, and
//! that moment need not be now. A timer wheel asks for the packets due at this tick. An engine that
//! hands the kernel seconds of packets at once asks for the future, and reports afterwards how many
//! of them never left ([`PacedSource::withdrawn`]). A delayed worker asks for the past, a little at
//! a time, so that late packets never leave as one burst.
//!
//! `sim::PacedLaw` lists the guarantees of a source to its engine, and of an engine to its source:
//!
//! ```text
//!   start -> due, due, .. -> (rung | withdrawn | due)* -> close
//! ```

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use crate::{Effects, Instant, Share, Source, WorkerId};

/// Timer-driven datagrams of a protocol, written once for every timer and every sender.
///
/// Each method gets the outside world as values and may not block. One worker owns a stream from
/// [`PacedSource::start`] to [`PacedSource::close`].
pub trait PacedSource: Sync {
    /// The state that streaming workers share with the sessions that order streams.
    type State: Share;
    /// One running stream: plain data.
    type Stream: Send;

    /// The bounds of one worker; asked once.
    fn limits(&self) -> PacedLimits;

    /// Takes the next ordered stream from the state and returns when it wants to be called; `None`
    /// if no order waits. A worker calls it until it returns `None`, at the worker's start and
    /// whenever the bell rang. Two workers never get the same order.
    fn start(&self, cx: &PacedCx<'_, Self::State>) -> Option<(Self::Stream, Next)>;

    /// Appends every packet whose moment is at or before `until`, oldest first, and returns when it
    /// wants to be called next.
    ///
    /// `until` never decreases for a stream, except after [`PacedSource::withdrawn`]. In a delayed
    /// worker it lies before `cx.now` and moves at twice the speed of the clock until it has caught
    /// up. A source that is too far behind may skip to packets still worth sending.
    fn due(
        &self,
        cx: &PacedCx<'_, Self::State>,
        stream: &mut Self::Stream,
        until: Instant,
        burst: &mut Burst,
    ) -> Next;

    /// The last `unsent` packets of this stream never left and never will. The next
    /// [`PacedSource::due`] appends the same packets again, each with its moment at that time.
    /// Called before [`PacedSource::rung`], which moves those moments.
    fn withdrawn(&self, cx: &PacedCx<'_, Self::State>, stream: &mut Self::Stream, unsent: usize);

    /// The bell rang: the stream's order in the state may have changed (pause, play, seek,
    /// tear down). The engine calls it for every stream, so the case without news should
    /// cost one load. Returns the same as [`PacedSource::due`]; [`Next::Done`] ends the
    /// stream without another packet.
    fn rung(&self, cx: &PacedCx<'_, Self::State>, stream: &mut Self::Stream) -> Next;

    /// Whether [`PacedSource::rung`] would find news; true if unknown. The engine takes packets
    /// back from the kernel only for streams with news.
    fn has_news(&self, cx: &PacedCx<'_, Self::State>, stream: &Self::Stream) -> bool {
        let _ = (cx, stream);
        true
    }

    /// The engine's treatment of this stream next to sending it.
    fn policy(&self, stream: &Self::Stream) -> StreamPolicy {
        let _ = stream;
        StreamPolicy::default()
    }

    /// A datagram arrived for `channel`: a receiver's report, or one that opened a gateway. The
    /// sender's address can be forged.
    fn receive(
        &self,
        cx: &PacedCx<'_, Self::State>,
        from: SocketAddr,
        channel: Channel,
        datagram: &[u8],
    ) {
        let _ = (cx, from, channel, datagram);
    }

    /// The stream has ended; called exactly once for each started stream.
    fn close(&self, cx: &PacedCx<'_, Self::State>, stream: Self::Stream);
}

/// The bounds of a streaming worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedLimits {
    /// Streams that one worker may hold at a time; further orders wait in the state.
    pub streams_max: usize,
    /// How far ahead of the clock the engine may hand packets to a kernel that sends by itself. A
    /// longer time saves calls; a shorter one saves memory, and packets that a pause takes back.
    pub ahead: Duration,
}

impl PacedLimits {
    /// Room for `streams_max` streams, and two seconds ahead.
    pub const fn streams(streams_max: usize) -> PacedLimits {
        PacedLimits { streams_max, ahead: Duration::from_secs(2) }
    }
}

/// The class of a packet: which packets leave first when not all can leave in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketClass {
    /// Sound: a gap of a few hundredths of a second is heard.
    #[default]
    Audio,
    /// Pictures, or both. Engines may send it some milliseconds later, in larger bursts.
    Video,
    /// Data that can wait.
    Bulk,
}

impl PacketClass {
    /// Every class, the most urgent first.
    pub const ALL: [PacketClass; 3] = [PacketClass::Audio, PacketClass::Video, PacketClass::Bulk];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            PacketClass::Audio => "audio",
            PacketClass::Video => "video",
            PacketClass::Bulk => "bulk",
        }
    }
}

/// The engine's treatment of a stream next to sending it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPolicy {
    /// The class of the stream, and of its packets unless [`Burst::set_class`] changes theirs.
    pub class: PacketClass,
    /// A multicast group whose members report to each other. The engine listens there while the
    /// stream runs, and delivers its datagrams as if they had come to the control socket.
    pub report_group: Option<SocketAddr>,
    /// Whether a successor can continue the stream. A server with a successor closes such a stream
    /// at once, so that the successor can start it again; it waits for the end of every other one.
    pub is_transferable: bool,
}

/// The outside world of one call, as values.
#[derive(Debug)]
pub struct PacedCx<'a, T> {
    /// The time of this turn; never decreases for a stream.
    pub now: Instant,
    /// The calling worker.
    pub worker: WorkerId,
    /// The state that all workers share.
    pub state: &'a T,
    effects: &'a Effects,
}

impl<'a, T> PacedCx<'a, T> {
    /// The context of one call.
    pub fn new(
        now: Instant,
        worker: WorkerId,
        state: &'a T,
        effects: &'a Effects,
    ) -> PacedCx<'a, T> {
        PacedCx { now, worker, state, effects }
    }

    /// Writes a line to the log (`--verbose`); `write` runs only if there is one.
    pub fn note(&self, write: impl FnOnce(&mut String)) {
        self.effects.note(write);
    }
}

/// The next call of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this moment: later than the `until` of the call that returns it, unless the burst is full
    /// and the rest is due already.
    At(Instant),
    /// Not before the bell rings: a paused stream has no packets due.
    Parked,
    /// Never: close it.
    Done,
}

/// One of the server's two sockets; with one port for both (RFC 5761) they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Media, even port (RFC 3550, section 11).
    Rtp,
    /// Control, the odd port after it.
    Rtcp,
}

/// The body after the head of a packet.
#[derive(Clone, Debug)]
pub enum Body<'b> {
    /// Bytes that are copied into the burst.
    Bytes(&'b [u8]),
    /// A range of bytes that several packets share.
    Shared(&'b Arc<[u8]>, Range<usize>),
    /// A range of a file, in bytes from its start; read, mapped or spliced by the sender.
    File(Source, Range<u64>),
}

/// The payload after the front of a packet in a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: the front is the datagram.
    None,
    /// A range of bytes that several packets share.
    Shared(Arc<[u8]>, Range<usize>),
    /// A range of a file, in bytes from its start.
    File(Source, Range<u64>),
}

impl Payload {
    /// The length of the payload in bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::None => 0,
            Payload::Shared(_, range) => range.len(),
            Payload::File(_, range) => (range.end - range.start) as usize,
        }
    }

    /// True if the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One datagram: its front, which lies in the burst, then its payload.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its scheduled moment; lateness counts from there.
    pub at: Instant,
    /// The receiver.
    pub to: SocketAddr,
    /// The sending socket.
    pub channel: Channel,
    /// Its class.
    pub class: PacketClass,
    /// The payload after the front.
    pub payload: Payload,
    front: Range<u32>,
}

impl Packet {
    /// The length of the datagram, in bytes.
    pub fn len(&self) -> usize {
        self.front.len() + self.payload.len()
    }

    /// True for a datagram without a byte, which is still a datagram.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Packets in sending order, with the bytes that belong to them alone.
#[derive(Debug)]
pub struct Burst {
    packets: Vec<Packet>,
    arena: Vec<u8>,
    packets_max: usize,
    class: PacketClass,
}

impl Burst {
    /// The maximum payload of a datagram over IPv4: 65,535 bytes less two headers.
    pub const DATAGRAM_MAX: usize = 65_507;

    /// An empty burst that is full at `packets_max` packets.
    ///
    /// # Panics
    /// If `packets_max` is 0: no packet would ever leave.
    pub fn new(packets_max: usize) -> Burst {
        assert!(packets_max > 0, "expected room for one packet at least");
        let class = PacketClass::default();
        Burst { packets: Vec::new(), arena: Vec::new(), packets_max, class }
    }

    // ---- the source's side

    /// Sets the class of the packets that follow. The engine calls it before each stream with the
    /// class of that stream.
    pub fn set_class(&mut self, class: PacketClass) {
        self.class = class;
    }

    /// Appends a packet: `head` (usually 12 to 64 bytes), then the body.
    ///
    /// # Panics
    /// If it is longer than [`Burst::DATAGRAM_MAX`], or a range lies outside its bytes. Both are
    /// errors of the source's own arithmetic, never of a peer.
    pub fn push(
        &mut self,
        at: Instant,
        to: SocketAddr,
        channel: Channel,
        head: &[u8],
        body: Body<'_>,
    ) {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(head);
        let payload = match body {
            Body::Bytes(bytes) => {
                self.arena.extend_from_slice(bytes);
                Payload::None
            }
            Body::Shared(bytes, range) => {
                assert!(range.start <= range.end && range.end <= bytes.len());
                Payload::Shared(bytes.clone(), range)
            }
            Body::File(source, range) => {
                assert!(range.start <= range.end);
                Payload::File(source, range)
            }
        };
        let (class, front) = (self.class, start..self.arena.len() as u32);
        let packet = Packet { at, to, channel, class, payload, front };
        assert!(packet.len() <= Burst::DATAGRAM_MAX, "a datagram of {} bytes", packet.len());
        self.packets.push(packet);
    }

    /// True if a source must stop, and ask to be called again at once if more is due.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.packets.len() >= self.packets_max
    }

    // ---- the sender's side

    /// The packets, oldest first.
    #[inline]
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// The number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if the burst is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The bytes of `packet` that come before its payload.
    #[inline]
    pub fn front(&self, packet: &Packet) -> &[u8] {
        &self.arena[packet.front.start as usize..packet.front.end as usize]
    }

    /// Removes the packets from position `from` on that `is_dropped` names; returns how many.
    pub fn drop_from(&mut self, from: usize, is_dropped: impl Fn(&Packet) -> bool) -> usize {
        let before = self.packets.len();
        let dropped = self.packets.extract_if(from.., |packet| is_dropped(packet));
        dropped.for_each(drop);
        before - self.packets.len()
    }

    /// Reads the payloads in files opened at run time, for senders that send from memory.
    /// `read` appends the bytes of a range; if it returns false, the packet is dropped. Returns
    /// the number of dropped packets.
    ///
    /// All bytes read share one allocation, which lasts as long as the packets.
    pub fn load_open(
        &mut self,
        mut read: impl FnMut(&Source, Range<u64>, &mut Vec<u8>) -> bool,
    ) -> usize {
        let (mut bytes, mut loaded) = (Vec::new(), Vec::new());
        let (mut index, count) = (0, self.packets.len());
        self.packets.retain(|packet| {
            let Payload::File(source @ Source::Open(_), range) = &packet.payload else {
                index += 1;
                return true;
            };
            let from = bytes.len();
            let is_read = read(source, range.clone(), &mut bytes)
                && bytes.len() - from == packet.payload.len();
            if is_read {
                loaded.push((index, from..bytes.len()));
                index += 1;
            } else {
                bytes.truncate(from);
            }
            is_read
        });
        if !loaded.is_empty() {
            let bytes: Arc<[u8]> = bytes.into();
            for (index, piece) in loaded {
                self.packets[index].payload = Payload::Shared(bytes.clone(), piece);
            }
        }
        count - self.packets.len()
    }

    /// Removes all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.arena.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AssetId;
    use std::os::fd::OwnedFd;

    #[test]
    fn what_was_opened_at_run_time_can_be_read_into_memory() {
        let open: Arc<OwnedFd> = Arc::new(std::io::pipe().expect("a descriptor").0.into());
        let (to, at) = (SocketAddr::from(([127, 0, 0, 1], 9)), Instant::from_ns(7));
        let mut burst = Burst::new(9);
        let files: [(Source, Range<u64>); 4] = [
            (open.clone().into(), 3..6),
            (AssetId(1).into(), 0..5),
            (open.clone().into(), 90..99),
            (open.into(), 7..9),
        ];
        for (source, range) in files {
            burst.push(at, to, Channel::Rtp, b"head", Body::File(source, range));
        }
        let left_out = burst.load_open(|_, range, into| {
            into.extend(range.clone().map(|at| at as u8));
            range.end < 50
        });
        let told: Vec<Option<Vec<u8>>> = burst
            .packets()
            .iter()
            .map(|packet| match &packet.payload {
                Payload::Shared(bytes, range) => Some(bytes[range.clone()].to_vec()),
                _ => None,
            })
            .collect();
        assert_eq!((left_out, told), (1, vec![Some(vec![3, 4, 5]), None, Some(vec![7, 8])]));
        assert!(matches!(burst.packets()[1].payload, Payload::File(Source::Asset(_), _)));
    }

    #[test]
    fn a_packet_is_its_front_and_then_its_payload() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let at = Instant::from_ns(7);
        let shared: Arc<[u8]> = Arc::from(&b"0123456789"[..]);
        let mut burst = Burst::new(3);
        burst.push(at, to, Channel::Rtp, b"head", Body::Bytes(b"body"));
        burst.push(at, to, Channel::Rtp, b"more", Body::Shared(&shared, 2..5));
        assert!(!burst.is_full());
        burst.push(at, to, Channel::Rtcp, b"", Body::File(AssetId(1).into(), 10..30));
        assert!(burst.is_full());
        let fronts: Vec<&[u8]> = burst.packets().iter().map(|it| burst.front(it)).collect();
        assert_eq!(fronts, [&b"headbody"[..], b"more", b""]);
        let lengths: Vec<usize> = burst.packets().iter().map(Packet::len).collect();
        assert_eq!(lengths, [8, 7, 20]);
        burst.clear();
        assert!(burst.is_empty());
    }
}
