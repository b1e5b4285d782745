//! A caster that beats time: constant packets at a constant gap, for tests, probes and benches.
//!
//! Each packet is 12 bytes of an RTP header (RFC 3550, section 5.1) and a payload that is the same
//! whichever way it is given: copied bytes, shared bytes or a range of a file. So what arrives can
//! be compared between senders byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use seam::{BadSeed, Body, Burst, CastCx, Caster, Channel, Instant, Next, Share, Source};

/// The length of the header, in bytes.
pub const HEAD: usize = 12;

/// Where a drum takes its payloads from.
#[derive(Clone, Debug)]
pub enum Skin {
    /// Each packet has bytes of its own.
    Bytes(Arc<[u8]>),
    /// All packets share these bytes.
    Shared(Arc<[u8]>),
    /// A file of at least so many bytes.
    File(Source, u64),
    /// A file of so many bytes that holds whole packets, heads and all, those of a transmission one
    /// after the other and those of the next behind them ([`Drum::records`]).
    Records(Source, u64),
}

impl Skin {
    fn len(&self) -> u64 {
        match self {
            Skin::Bytes(bytes) | Skin::Shared(bytes) => bytes.len() as u64,
            Skin::File(_, len) | Skin::Records(_, len) => *len,
        }
    }
}

/// What is cast.
#[derive(Clone, Debug)]
pub struct Drum {
    /// How many transmissions there are.
    pub casts: u32,
    /// Packets of each.
    pub packets: u32,
    /// The time from one beat to the next.
    pub gap: Duration,
    /// Packets at each beat.
    pub burst: u32,
    /// Bytes of payload in each packet; the pieces of the skin follow one another and begin anew
    /// where it ends.
    pub payload: u32,
    /// How far ahead of the clock packets may be handed to the kernel.
    pub ahead: Duration,
    /// Whether the beats of the transmissions are spread over the gap.
    pub spread: bool,
    /// Who gets them: the cast's number picks one.
    pub to: Vec<SocketAddr>,
    /// Where the payloads come from.
    pub skin: Skin,
}

/// The orders of a drum: every transmission is ordered from the beginning.
#[derive(Debug)]
#[repr(C)]
pub struct Beats {
    taken: AtomicU32,
    /// Not zero: all of them pause.
    pub paused: AtomicU32,
    /// Not zero: all of them end.
    pub ended: AtomicU32,
    /// Datagrams that came back.
    pub heard: AtomicU32,
    /// The moments of the first beats, of as many transmissions as there is room for.
    starts: [AtomicU64; STARTS],
}

/// Transmissions whose first moment is noted for those who time what arrives.
const STARTS: usize = 1024;

// SAFETY: atomics only, for which zero is a value.
unsafe impl Share for Beats {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        Ok(())
    }
}

impl Default for Beats {
    fn default() -> Beats {
        Beats {
            taken: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            heard: AtomicU32::new(0),
            starts: [const { AtomicU64::new(0) }; STARTS],
        }
    }
}

/// One transmission of a drum.
#[derive(Debug)]
pub struct Beat {
    number: u32,
    sent: u32,
    /// The moment of its first packet; moved on by pauses.
    start: Instant,
    paused_at: Option<Instant>,
}

impl Drum {
    /// By how much the timestamp of a packet exceeds that of the one before: 30 ms of 8 kHz.
    pub const TICKS: u32 = 240;

    /// When packet `sent` of transmission `number` was due, as long as nothing paused; `None` for
    /// one that has not started or is beyond those whose start is noted.
    #[must_use]
    pub fn due_at(&self, state: &Beats, number: u32, sent: u32) -> Option<Instant> {
        let start = state.starts.get(number as usize)?.load(Ordering::Acquire);
        let since = self.gap * (sent / self.burst.max(1));
        (start > 0).then(|| Instant::from_ns(start) + since)
    }

    /// How long it beats.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.gap * self.packets.div_ceil(self.burst.max(1))
    }

    /// The head of packet `sent` of transmission `number`.
    #[must_use]
    pub fn head(number: u32, sent: u32) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        // Version 2, payload type 96; then sequence number, timestamp and source.
        head[..2].copy_from_slice(&[0x80, 96]);
        head[2..4].copy_from_slice(&(sent as u16).to_be_bytes());
        head[4..8].copy_from_slice(&sent.wrapping_mul(Drum::TICKS).to_be_bytes());
        head[8..].copy_from_slice(&number.to_be_bytes());
        head
    }

    /// Where the payload of packet `sent` lies in the skin.
    #[must_use]
    pub fn range(&self, sent: u32) -> std::ops::Range<u64> {
        let len = u64::from(self.payload);
        let pieces = (self.skin.len() / len.max(1)).max(1);
        let start = u64::from(sent) % pieces * len;
        start..start + len
    }

    /// What a file of records holds: the payloads of `skin` behind their heads.
    #[must_use]
    pub fn records(&self, skin: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        for (number, sent) in
            (0..self.casts).flat_map(|it| (0..self.packets).map(move |at| (it, at)))
        {
            let len = self.payload as usize;
            let start = sent as usize % (skin.len() / len.max(1)).max(1) * len;
            records.extend_from_slice(&Drum::head(number, sent));
            records.extend_from_slice(&skin[start..start + len]);
        }
        records
    }

    fn moment(&self, beat: &Beat, sent: u32) -> Instant {
        beat.start + self.gap * (sent / self.burst.max(1))
    }

    fn next(&self, beat: &Beat) -> Next {
        match beat.sent < self.packets {
            true => Next::At(self.moment(beat, beat.sent)),
            false => Next::Done,
        }
    }

    fn push(&self, beat: &Beat, burst: &mut Burst) {
        let (head, range) = (Drum::head(beat.number, beat.sent), self.range(beat.sent));
        let bytes = range.start as usize..range.end as usize;
        let body = match &self.skin {
            Skin::Bytes(skin) => Body::Bytes(&skin[bytes]),
            Skin::Shared(skin) => Body::Shared(skin, bytes),
            Skin::File(source, _) => Body::File(source.clone(), range),
            Skin::Records(source, len) => {
                let record = HEAD as u64 + u64::from(self.payload);
                let number = u64::from(beat.number) * u64::from(self.packets);
                let place = (number + u64::from(beat.sent)) % (len / record).max(1);
                Body::File(source.clone(), place * record..(place + 1) * record)
            }
        };
        let head = if matches!(self.skin, Skin::Records(..)) { &[][..] } else { &head };
        let to = self.to[beat.number as usize % self.to.len()];
        burst.push(self.moment(beat, beat.sent), to, Channel::Rtp, head, body);
    }
}

impl Caster for Drum {
    type State = Beats;
    type Cast = Beat;

    fn casts_max(&self) -> usize {
        self.casts as usize
    }

    fn start(&self, cx: &CastCx<'_, Beats>) -> Option<(Beat, Next)> {
        let take = |taken| (taken < self.casts).then_some(taken + 1);
        let order = Ordering::AcqRel;
        let number = cx.state.taken.fetch_update(order, Ordering::Acquire, take).ok()?;
        let phase = match self.spread {
            true => self.gap * number / self.casts,
            false => Duration::ZERO,
        };
        // A gap of grace: the first beat of all is not late because they are many.
        let start = cx.now + self.gap + phase;
        if let Some(noted) = cx.state.starts.get(number as usize) {
            noted.store(start.ns(), Ordering::Release);
        }
        let beat = Beat { number, sent: 0, start, paused_at: None };
        let next = self.next(&beat);
        Some((beat, next))
    }

    fn due(
        &self,
        _cx: &CastCx<'_, Beats>,
        beat: &mut Beat,
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

    fn withdrawn(&self, _cx: &CastCx<'_, Beats>, beat: &mut Beat, unsent: usize) {
        beat.sent -= unsent as u32;
    }

    fn rung(&self, cx: &CastCx<'_, Beats>, beat: &mut Beat) -> Next {
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

    fn has_news(&self, cx: &CastCx<'_, Beats>, beat: &Beat) -> bool {
        let is_paused = cx.state.paused.load(Ordering::Acquire) != 0;
        cx.state.ended.load(Ordering::Acquire) != 0 || is_paused != beat.paused_at.is_some()
    }

    fn ahead(&self) -> Duration {
        self.ahead
    }

    fn hear(&self, cx: &CastCx<'_, Beats>, _from: SocketAddr, _channel: Channel, _bytes: &[u8]) {
        cx.state.heard.fetch_add(1, Ordering::AcqRel);
    }

    fn close(&self, _cx: &CastCx<'_, Beats>, _beat: Beat) {}
}
