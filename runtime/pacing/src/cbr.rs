//! A source of constant bit rate: equal packets at equal gaps, for tests, probes and benches.
//!
//! Each packet is 12 bytes of RTP header (RFC 3550, section 5.1) and a payload, which is the same
//! in every form: copied bytes, shared bytes or a range of a file. So the packets that arrive can
//! be compared byte for byte between senders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use seam::{Body, Burst, Channel, Instant, Next, PacedCx, PacedLimits, PacedSource, Share, Source};

/// The length of the header, in bytes.
pub const HEAD: usize = 12;

/// The source of the payloads.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Each packet has separate bytes.
    Bytes(Arc<[u8]>),
    /// All packets share these bytes.
    Shared(Arc<[u8]>),
    /// A file of at least this many bytes.
    File(Source, u64),
}

impl Contents {
    fn len(&self) -> u64 {
        match self {
            Contents::Bytes(bytes) | Contents::Shared(bytes) => bytes.len() as u64,
            Contents::File(_, len) => *len,
        }
    }
}

/// Streams of equal packets at equal gaps.
#[derive(Clone, Debug)]
pub struct CbrSource {
    /// Number of streams.
    pub streams: u32,
    /// Packets of each stream.
    pub packets: u32,
    /// Time from one burst of a stream to the next.
    pub gap: Duration,
    /// Packets of a burst.
    pub burst: u32,
    /// The number of payload bytes in each packet. Payloads follow one another in the contents and
    /// start over at the end.
    pub payload: u32,
    /// The longest time before its moment at which a packet may be handed to the kernel.
    pub ahead: Duration,
    /// Whether the bursts of the streams are spread over the gap.
    pub spread: bool,
    /// The receivers; the stream's number selects one of them.
    pub to: Vec<SocketAddr>,
    /// The source of the payloads.
    pub contents: Contents,
}

/// The orders of a [`CbrSource`]: every stream is ordered from the beginning.
#[derive(Debug)]
#[repr(C)]
pub struct CbrOrders {
    taken: AtomicU32,
    /// Not zero while all streams pause.
    pub paused: AtomicU32,
    /// Not zero once all streams must end.
    pub ended: AtomicU32,
    /// The number of datagrams received.
    pub heard: AtomicU32,
    /// The moments of the first bursts of the first [`STARTS`] streams.
    starts: [AtomicU64; STARTS],
}

/// The number of streams whose first moment is stored, for receivers that measure lateness.
const STARTS: usize = 1024;

// SAFETY: atomics only, for which zero is a value.
unsafe impl Share for CbrOrders {}

impl Default for CbrOrders {
    fn default() -> CbrOrders {
        CbrOrders {
            taken: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            heard: AtomicU32::new(0),
            starts: [const { AtomicU64::new(0) }; STARTS],
        }
    }
}

/// One stream of a [`CbrSource`].
#[derive(Debug)]
pub struct CbrStream {
    number: u32,
    sent: u32,
    /// The moment of its first packet; pauses move it.
    start: Instant,
    paused_at: Option<Instant>,
}

impl CbrSource {
    /// Two streams of single packets with 64 bytes of payload, which run until told to end.
    #[must_use]
    pub fn new(to: Vec<SocketAddr>, gap: Duration, contents: Contents) -> CbrSource {
        CbrSource {
            streams: 2,
            packets: 1_000_000,
            gap,
            burst: 1,
            payload: 64,
            ahead: gap * 50,
            spread: true,
            to,
            contents,
        }
    }

    /// The timestamp's step from one packet to the next: 30 ms of 8 kHz.
    pub const TICKS: u32 = 240;

    /// The time from the first burst of a stream to that of packet `sent`.
    fn since(&self, sent: u32) -> Duration {
        self.gap * (sent / self.burst.max(1))
    }

    /// The due time of packet `sent` of stream `number`, if the stream did not pause; `None` if it
    /// has not started or its start is not stored.
    #[must_use]
    pub fn due_at(&self, state: &CbrOrders, number: u32, sent: u32) -> Option<Instant> {
        let start = state.starts.get(number as usize)?.load(Ordering::Acquire);
        (start > 0).then(|| Instant::from_ns(start) + self.since(sent))
    }

    /// The duration of a stream.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.gap * self.packets.div_ceil(self.burst.max(1))
    }

    /// The header of packet `sent` of stream `number`.
    #[must_use]
    pub fn head(number: u32, sent: u32) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        // Version 2, payload type 96; then sequence number, timestamp and source.
        head[..2].copy_from_slice(&[0x80, 96]);
        head[2..4].copy_from_slice(&(sent as u16).to_be_bytes());
        head[4..8].copy_from_slice(&sent.wrapping_mul(CbrSource::TICKS).to_be_bytes());
        head[8..].copy_from_slice(&number.to_be_bytes());
        head
    }

    /// The place of packet `sent`'s payload in the contents.
    #[must_use]
    pub fn range(&self, sent: u32) -> std::ops::Range<u64> {
        let len = u64::from(self.payload);
        let pieces = (self.contents.len() / len.max(1)).max(1);
        let start = u64::from(sent) % pieces * len;
        start..start + len
    }

    fn moment(&self, beat: &CbrStream, sent: u32) -> Instant {
        beat.start + self.since(sent)
    }

    fn next(&self, beat: &CbrStream) -> Next {
        let is_left = beat.sent < self.packets;
        if is_left { Next::At(self.moment(beat, beat.sent)) } else { Next::Done }
    }

    fn push(&self, beat: &CbrStream, burst: &mut Burst) {
        let (head, range) = (CbrSource::head(beat.number, beat.sent), self.range(beat.sent));
        let bytes = range.start as usize..range.end as usize;
        let body = match &self.contents {
            Contents::Bytes(contents) => Body::Bytes(&contents[bytes]),
            Contents::Shared(contents) => Body::Shared(contents, bytes),
            Contents::File(source, _) => Body::File(source.clone(), range),
        };
        let to = self.to[beat.number as usize % self.to.len()];
        burst.push(self.moment(beat, beat.sent), to, Channel::Rtp, &head, body);
    }
}

impl PacedSource for CbrSource {
    type State = CbrOrders;
    type Stream = CbrStream;

    fn limits(&self) -> PacedLimits {
        PacedLimits { streams_max: self.streams as usize, ahead: self.ahead }
    }

    fn start(&self, cx: &PacedCx<'_, CbrOrders>) -> Option<(CbrStream, Next)> {
        let take = |taken| (taken < self.streams).then_some(taken + 1);
        let order = Ordering::AcqRel;
        let number = cx.state.taken.fetch_update(order, Ordering::Acquire, take).ok()?;
        let phase = if self.spread { self.gap * number / self.streams } else { Duration::ZERO };
        // One gap of grace, because with many streams the first burst would be late otherwise.
        let start = cx.now + self.gap + phase;
        if let Some(noted) = cx.state.starts.get(number as usize) {
            noted.store(start.ns(), Ordering::Release);
        }
        let beat = CbrStream { number, sent: 0, start, paused_at: None };
        let next = self.next(&beat);
        Some((beat, next))
    }

    fn due(
        &self,
        _cx: &PacedCx<'_, CbrOrders>,
        beat: &mut CbrStream,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        while beat.sent < self.packets && self.moment(beat, beat.sent) <= until && !burst.is_full()
        {
            self.push(beat, burst);
            beat.sent += 1;
        }
        self.next(beat)
    }

    fn withdrawn(&self, _cx: &PacedCx<'_, CbrOrders>, beat: &mut CbrStream, unsent: usize) {
        beat.sent -= unsent as u32;
    }

    fn rung(&self, cx: &PacedCx<'_, CbrOrders>, beat: &mut CbrStream) -> Next {
        if cx.state.ended.load(Ordering::Acquire) != 0 {
            return Next::Done;
        }
        let is_paused = cx.state.paused.load(Ordering::Acquire) != 0;
        match (is_paused, beat.paused_at) {
            (true, None) => beat.paused_at = Some(cx.now),
            (false, Some(since)) => {
                beat.start = beat.start + cx.now.since(since);
                beat.paused_at = None;
            }
            _ => {}
        }
        if is_paused { Next::Parked } else { self.next(beat) }
    }

    fn has_news(&self, cx: &PacedCx<'_, CbrOrders>, beat: &CbrStream) -> bool {
        let is_paused = cx.state.paused.load(Ordering::Acquire) != 0;
        cx.state.ended.load(Ordering::Acquire) != 0 || is_paused != beat.paused_at.is_some()
    }

    fn receive(
        &self,
        cx: &PacedCx<'_, CbrOrders>,
        _from: SocketAddr,
        _channel: Channel,
        _bytes: &[u8],
    ) {
        cx.state.heard.fetch_add(1, Ordering::AcqRel);
    }

    fn close(&self, _cx: &PacedCx<'_, CbrOrders>, _beat: CbrStream) {}
}
