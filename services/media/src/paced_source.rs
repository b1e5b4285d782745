//! The paced half of the service: it sends the datagrams that sessions have ordered.
//!
//! A streaming worker calls these methods; sessions never do. A session writes an order (file,
//! segment, destination) into a slot of shared memory and rings; the worker takes the slot, and
//! from then on sends each packet when it is due and stores its position in the slot, from which
//! the session answers `PAUSE` and `GET_PARAMETER`. An order that changes gets a new epoch. The
//! subtle case is a change that the worker sees late: packets that the session already counts as
//! sent leave first, or the receiver would miss sequence numbers. A stream ends with exactly one
//! BYE, after its last packet.

use core::net::SocketAddr;
use seam::{
    Body, Burst, Channel, Instant, Next, PacedCx, PacedLimits, PacedSource, PacketClass,
    StreamPolicy,
};
use std::sync::Arc;
use wire::containers::Kind;
use wire::rtcp::{self, Message};

use super::Media;
use super::cursor::{Cursor, Line};
use super::orders::{Destination, Order, Orders};
use super::rtp_stream::{GRACE, Piece, RtpStream};
use super::title::{Title, Window};
use web::Platform;

/// How often to try to read an order that changes during the read.
const LOOKS: usize = 64;

/// A running stream of datagrams.
#[derive(Debug)]
pub struct Stream<F> {
    slot: usize,
    destination: Destination,
    rtp: RtpStream<F>,
    /// The number of the order that plays.
    epoch: u32,
    /// The next order. It waits until the packets that the session counts as sent have left.
    then: Option<Order>,
    window: Window,
    /// The session has ended; only a BYE is left to send.
    leaves: bool,
    /// When the end of the session was seen. This is the moment of the BYE, even if the BYE is
    /// withdrawn.
    left_at: Option<Instant>,
    /// No packet can be made, because the file has changed or is unreadable.
    broken: bool,
    scratch: Vec<u8>,
}

impl<F> Stream<F> {
    /// Whether the stream continues without this server, because other hosts may listen to its
    /// group.
    fn goes_on(&self) -> bool {
        let is_over = self.rtp.is_over() || self.leaves || self.broken;
        self.is_to_group() && !is_over
    }

    /// Whether it sends to a group; then its first order is the last.
    fn is_to_group(&self) -> bool {
        self.destination.rtp.ip().is_multicast()
    }
}

type At<'a> = PacedCx<'a, Orders>;

impl<B: Platform> Media<B> {
    /// The title of an order, in the version for which the order was planned. It is read if it is
    /// not in memory, as happens where sessions live in other processes.
    fn ordered_title(&self, path: &str, stamp: u64) -> Option<Arc<Title<B::File>>> {
        if let Some(title) = self.library.find(path, stamp) {
            return Some(title);
        }
        let title = self.library.get(&self.platform, &self.options, path).ok()?;
        (title.stamp == stamp).then_some(title)
    }

    fn take_up(&self, cx: &At<'_>, slot: usize, order: &Order) -> Option<Stream<B::File>> {
        let (path, stamp) = cx.state.file(slot);
        let title = self.ordered_title(&path, stamp)?;
        let (destination, ssrc, track) = cx.state.route(slot);
        if track >= title.program.tracks.len() {
            return None;
        }
        let mut cursor = Cursor::new(Line { title, track }, order.segment);
        cursor.next = cx.state.resumed(slot, order);
        let mut rtp = RtpStream::new(cursor, ssrc, GRACE);
        (rtp.packets, rtp.octets) = cx.state.sent_before(slot);
        Some(Stream {
            slot,
            destination,
            rtp,
            epoch: order.epoch,
            then: None,
            window: Window::default(),
            leaves: order.leaves,
            left_at: None,
            broken: false,
            scratch: Vec::new(),
        })
    }

    /// Acts on a changed order, if there is one.
    ///
    /// If a client pauses and plays again quickly, this worker may see the order only after packets
    /// are due that the session counts as sent. Those are sent first, or receivers would miss their
    /// sequence numbers.
    #[inline]
    fn heed(&self, cx: &At<'_>, stream: &mut Stream<B::File>) {
        if stream.then.is_some() || cx.state.epoch(stream.slot) == stream.epoch {
            return;
        }
        let Some(order) = cx.state.order(stream.slot) else { return };
        if !order.leaves {
            // Packets of a place that the client has left are of no use if they are late.
            let before = cx.now.ns().saturating_sub(self.options.pause_debt.as_nanos() as u64);
            cx.state.skip(stream.rtp.leave_out(Instant::from_ns(before), &order.segment));
        }
        let cursor = &mut stream.rtp.cursor;
        let owed = if order.leaves { 0 } else { cursor.owed(&order.segment) };
        if owed > 0 && !cursor.is_at(&order.segment) {
            cursor.segment.stop = cursor.next + owed;
            cursor.segment.ends = false;
            stream.then = Some(order);
        } else {
            self.turn(cx, stream, &order);
        }
    }

    /// Plays the new order from now on.
    fn turn(&self, cx: &At<'_>, stream: &mut Stream<B::File>, order: &Order) {
        let segment = order.segment;
        (stream.epoch, stream.leaves, stream.then) = (order.epoch, order.leaves, None);
        if stream.leaves {
            stream.left_at.get_or_insert(cx.now);
        }
        let cursor = &mut stream.rtp.cursor;
        if cursor.is_at(&segment) {
            // The same segment with an earlier end; sent packets stay sent.
            cursor.segment = segment;
            cursor.segment.stop = segment.stop.max(cursor.next);
        } else {
            stream.rtp.turn(segment);
        }
        self.tell(cx, stream);
    }

    /// The next piece and its due time; packets owed before the next order are due at once.
    #[inline]
    fn piece(&self, cx: &At<'_>, stream: &mut Stream<B::File>) -> Option<(Instant, Piece)> {
        loop {
            let next = stream.rtp.next();
            match (stream.then, next) {
                (Some(_), Some((at, piece))) => return Some((at.min(cx.now), piece)),
                (Some(order), None) => {
                    self.turn(cx, stream, &order);
                    self.heed(cx, stream);
                }
                (None, next) => return next,
            }
        }
    }

    /// When the stream wants to be called next.
    fn next(&self, cx: &At<'_>, stream: &mut Stream<B::File>) -> Next {
        let next = self.piece(cx, stream);
        if stream.leaves || stream.broken {
            return Next::At(cx.now);
        }
        match next {
            Some((at, _)) => Next::At(at),
            None if stream.is_to_group() => Next::Done,
            None => Next::Parked,
        }
    }

    /// Appends the next packet, which is due at `at`; false if its bytes are not available.
    fn packet(&self, stream: &mut Stream<B::File>, at: Instant, burst: &mut Burst) -> bool {
        let Stream { rtp, window, scratch, .. } = stream;
        let (packet, header) = rtp.cursor.packet(rtp.cursor.next, rtp.ssrc);
        let title = &rtp.cursor.line.title;
        scratch.clear();
        scratch.extend_from_slice(&header);
        scratch.extend_from_slice(packet.prefix.bytes());
        let len = packet.prefix.bytes().len() + packet.payload.len();
        if self.options.from_files
            && let Some((source, range)) = title.piece(&self.platform, &packet.payload)
        {
            let body = Body::File(source, range);
            burst.push(at, stream.destination.rtp, Channel::Rtp, scratch, body);
            stream.rtp.sent(len);
            return true;
        }
        let mut bytes = title.bytes(&packet.payload, window);
        if bytes.is_none() {
            let Ok(fresh) = title.window(&self.platform, &packet.payload) else { return false };
            *window = fresh;
            bytes = title.bytes(&packet.payload, window);
        }
        let Some((bytes, range)) = bytes else { return false };
        burst.push(at, stream.destination.rtp, Channel::Rtp, scratch, Body::Shared(&bytes, range));
        stream.rtp.sent(len);
        true
    }

    fn report(&self, stream: &mut Stream<B::File>, at: Instant, bye: bool, burst: &mut Burst) {
        stream.scratch.clear();
        stream.rtp.report(&self.options, at, bye, &mut stream.scratch);
        burst.push(at, stream.destination.rtcp, Channel::Rtcp, &stream.scratch, Body::Bytes(&[]));
    }

    fn tell(&self, cx: &At<'_>, stream: &Stream<B::File>) {
        let RtpStream { cursor, packets, octets, .. } = &stream.rtp;
        cx.state.tell(stream.slot, stream.epoch, cursor.next, (*packets, *octets));
    }
}

impl<B: Platform> PacedSource for Media<B> {
    type State = Orders;
    type Stream = Box<Stream<B::File>>;

    fn limits(&self) -> PacedLimits {
        PacedLimits::streams(super::orders::SLOTS)
    }

    fn start(&self, cx: &At<'_>) -> Option<(Self::Stream, Next)> {
        // An order that is still being written is handled when its writer rings, after the last
        // write. Waiting here could keep the writer off the processor.
        let mut unwritten = Vec::new();
        let started = loop {
            let Some(slot) = cx.state.take(cx.worker) else { break None };
            let mut looks = std::iter::repeat_with(|| cx.state.order(slot)).take(LOOKS);
            let Some(order) = looks.find_map(|order| order) else {
                unwritten.push(slot);
                continue;
            };
            if let Some(mut stream) = self.take_up(cx, slot, &order) {
                let next = self.next(cx, &mut stream);
                break Some((Box::new(stream), next));
            }
            cx.note(|line| line.push_str("an order cannot be played: the file has changed"));
            cx.state.put_back(slot, false);
        };
        unwritten.into_iter().for_each(|slot| cx.state.put_back(slot, true));
        started
    }

    fn due(
        &self,
        cx: &At<'_>,
        stream: &mut Self::Stream,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        self.heed(cx, stream);
        if stream.leaves || stream.broken {
            // A stream that reached its end has sent its BYE.
            if !stream.rtp.is_over() {
                let at = stream.left_at.unwrap_or(cx.now).min(until);
                // Packets that were handed to the kernel ahead of time leave before it.
                let last = stream.rtp.cursor.last_due();
                self.report(stream, last.map_or(at, |last| at.max(last)), true, burst);
            }
            return Next::Done;
        }
        if cx.now.since(until) > self.options.debt {
            cx.state.skip(stream.rtp.skip(cx.now));
        }
        while let Some((at, piece)) = self.piece(cx, stream)
            && at <= until
            && !burst.is_full()
            && !stream.leaves
        {
            match piece {
                Piece::Packet => {
                    if !self.packet(stream, at, burst) {
                        stream.broken = true;
                        return Next::At(until);
                    }
                }
                Piece::Report => self.report(stream, at, false, burst),
                Piece::Bye => self.report(stream, at, true, burst),
            }
        }
        self.tell(cx, stream);
        self.next(cx, stream)
    }

    fn withdrawn(&self, cx: &At<'_>, stream: &mut Self::Stream, unsent: usize) {
        stream.rtp.take_back(unsent);
        self.tell(cx, stream);
    }

    fn rung(&self, cx: &At<'_>, stream: &mut Self::Stream) -> Next {
        self.heed(cx, stream);
        self.next(cx, stream)
    }

    fn has_news(&self, cx: &At<'_>, stream: &Self::Stream) -> bool {
        // Packets that are owed before the next order must be asked for.
        stream.then.is_none() && cx.state.epoch(stream.slot) != stream.epoch
    }

    fn policy(&self, stream: &Self::Stream) -> StreamPolicy {
        StreamPolicy {
            class: match stream.rtp.cursor.line.track().kind {
                Kind::Audio => PacketClass::Audio,
                Kind::Video => PacketClass::Video,
            },
            report_group: stream.is_to_group().then_some(stream.destination.rtcp),
            is_transferable: stream.goes_on(),
        }
    }

    fn receive(&self, cx: &At<'_>, from: SocketAddr, channel: Channel, datagram: &[u8]) {
        // A datagram to the media port does nothing but open a path through a gateway.
        if channel == Channel::Rtp && datagram.get(1).is_none_or(|kind| !(200..=204).contains(kind))
        {
            return;
        }
        let now = rtcp::ntp(self.options.wall_ns(cx.now));
        rtcp::read(datagram, |word| {
            if let Message::Report(heard) = word {
                cx.state.hear(cx.now, from.ip(), &heard, now);
            }
        });
    }

    fn close(&self, cx: &At<'_>, stream: Self::Stream) {
        cx.state.put_back(stream.slot, stream.goes_on());
    }
}
