//! The service's other half: what sends datagrams by the clock what sessions have ordered.

use core::net::SocketAddr;
use seam::{Body, Burst, Channel, Instant, Next, PacedCx, PacedSource};
use std::sync::Arc;
use wire::rtcp::{self, Message};

use super::orders::{Goal, Order, Orders};
use super::player::{Piece, Player};
use super::run::{Line, Run};
use super::title::{Title, Window};
use super::{Media, live};
use crate::web::Platform;

/// Streams of one worker; a slot each.
const STREAMS_MAX: usize = super::orders::SLOTS;
/// How often an order is read that changes meanwhile.
const LOOKS: usize = 64;

/// What a streaming worker has in hand.
#[derive(Debug)]
pub enum Stream<F> {
    /// A transmission.
    Sends(Box<Sending<F>>),
    /// A live source that is read, and when it is to be read again.
    Reads(usize, Instant),
}

/// One transmission on its way.
#[derive(Debug)]
pub struct Sending<F> {
    slot: usize,
    goal: Goal,
    player: Player<F>,
    /// The order that is being played.
    epoch: u32,
    /// The order behind it, which waits for what the session counts as sent.
    then: Option<Order>,
    window: Window,
    /// Nobody will order more of it.
    alone: bool,
    /// The session has gone; a bye, and that is all.
    leaves: bool,
    /// When that was heard of: the moment of the bye, however often it has to be said.
    left_at: Option<Instant>,
    /// No packet can be made: the file has changed, or cannot be read any more.
    broken: bool,
    scratch: Vec<u8>,
}

impl<F> Sending<F> {
    /// Whether it goes on without whoever sends it: others than those who leave with him may listen
    /// to a group.
    fn goes_on(&self) -> bool {
        let is_over = self.player.is_over() || self.leaves || self.broken;
        self.goal.rtp.ip().is_multicast() && !is_over
    }
}

/// The context of a call.
type At<'a> = PacedCx<'a, Orders>;

impl<B: Platform> Media<B> {
    /// The file of an order, in the state for which it was planned. Reads it if it is not in
    /// memory, which happens where sessions live in other processes.
    fn ordered_title(&self, path: &str, stamp: u64) -> Option<Arc<Title<B::File>>> {
        if let Some(title) = self.live_title(path) {
            return Some(title.clone());
        }
        if let Some(title) = self.library.find(path, stamp) {
            return Some(title);
        }
        let title = self.library.get(&self.platform, &self.options, path).ok()?;
        (title.stamp == stamp).then_some(title)
    }

    fn take_up(&self, cx: &At<'_>, slot: usize, order: &Order) -> Option<Sending<B::File>> {
        let (path, stamp) = cx.state.file(slot);
        let title = self.ordered_title(&path, stamp)?;
        let (goal, ssrc, track) = cx.state.route(slot);
        if track >= title.program.tracks.len() {
            return None;
        }
        let mut run = Run::new(Line { title, track }, order.segment);
        run.next = cx.state.resumed(slot, order);
        let mut player = Player::new(run, ssrc).apart();
        (player.packets, player.octets) = cx.state.sent_before(slot);
        Some(Sending {
            slot,
            goal,
            player,
            epoch: order.epoch,
            then: None,
            alone: cx.state.is_alone(slot),
            window: Window::default(),
            leaves: order.leaves,
            left_at: None,
            broken: false,
            scratch: Vec::new(),
        })
    }

    /// Acts on news of the order, if there are any.
    ///
    /// Who pauses and plays on at once may be heard of only then, while packets are due that the
    /// session counts as sent: they are sent first, or receivers would miss their numbers.
    #[inline]
    fn heed(&self, cx: &At<'_>, stream: &mut Sending<B::File>) {
        if stream.then.is_some() || cx.state.epoch(stream.slot) == stream.epoch {
            return;
        }
        let Some(order) = cx.state.order(stream.slot) else { return };
        let run = &mut stream.player.run;
        let owed = if order.leaves { 0 } else { run.owed(&order.segment) };
        if owed > 0 && !run.is_at(&order.segment) {
            run.segment.stop = run.next + owed;
            run.segment.ends = false;
            stream.then = Some(order);
        } else {
            self.turn(cx, stream, &order);
        }
    }

    /// Plays what is ordered from now on.
    fn turn(&self, cx: &At<'_>, stream: &mut Sending<B::File>, order: &Order) {
        let segment = order.segment;
        (stream.epoch, stream.leaves, stream.then) = (order.epoch, order.leaves, None);
        if stream.leaves {
            stream.left_at.get_or_insert(cx.now);
        }
        let run = &mut stream.player.run;
        if run.is_at(&segment) {
            // The same, to be ended earlier; what is sent is sent.
            run.segment = segment;
            run.segment.stop = segment.stop.max(run.next);
        } else {
            stream.player.turn(segment);
        }
        self.tell(cx, stream);
    }

    /// The next piece and its moment, in the order's time; what is owed before it is due at once.
    #[inline]
    fn piece(&self, cx: &At<'_>, stream: &mut Sending<B::File>) -> Option<(Instant, Piece)> {
        loop {
            let next = stream.player.next();
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

    /// When the stream has something to do.
    fn next(&self, cx: &At<'_>, stream: &mut Sending<B::File>) -> Next {
        let next = self.piece(cx, stream);
        if stream.leaves || stream.broken {
            return Next::At(cx.now);
        }
        match next {
            Some((at, _)) => Next::At(at),
            None if stream.alone => Next::Done,
            None => Next::Parked,
        }
    }

    /// Appends the next packet, which is due at `at`; false if its bytes cannot be had.
    fn packet(&self, stream: &mut Sending<B::File>, at: Instant, burst: &mut Burst) -> bool {
        let Sending { player, window, scratch, .. } = stream;
        let (packet, header) = player.run.packet(player.run.next, player.ssrc);
        let title = &player.run.line.title;
        scratch.clear();
        scratch.extend_from_slice(&header);
        scratch.extend_from_slice(packet.prefix.bytes());
        let len = packet.prefix.bytes().len() + packet.payload.len();
        if self.options.from_files
            && let Some((source, range)) = title.piece(&self.platform, &packet.payload)
        {
            let body = Body::File(source, range);
            burst.push(at, stream.goal.rtp, Channel::Rtp, scratch, body);
            stream.player.sent(len);
            return true;
        }
        let mut bytes = title.bytes(&packet.payload, window);
        if bytes.is_none() {
            let Ok(fresh) = title.window(&self.platform, &packet.payload) else { return false };
            *window = fresh;
            bytes = title.bytes(&packet.payload, window);
        }
        let Some((bytes, range)) = bytes else { return false };
        burst.push(at, stream.goal.rtp, Channel::Rtp, scratch, Body::Shared(&bytes, range));
        stream.player.sent(len);
        true
    }

    fn report(&self, stream: &mut Sending<B::File>, at: Instant, bye: bool, burst: &mut Burst) {
        stream.scratch.clear();
        stream.player.report(&self.options, at, bye, &mut stream.scratch);
        burst.push(at, stream.goal.rtcp, Channel::Rtcp, &stream.scratch, Body::Bytes(&[]));
    }

    /// Appends what is due of a transmission.
    fn send(
        &self,
        cx: &At<'_>,
        stream: &mut Sending<B::File>,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        self.heed(cx, stream);
        if stream.leaves || stream.broken {
            // One that has come to its end has said bye.
            if !stream.player.is_over() {
                let at = stream.left_at.unwrap_or(cx.now).min(until);
                self.report(stream, at, true, burst);
            }
            return Next::Done;
        }
        if cx.now.since(until) > self.options.debt {
            stream.player.skip(cx.now);
        }
        loop {
            let is_there = stream.player.is_there();
            let Some((at, piece)) = self.piece(cx, stream) else { break };
            if at > until || burst.is_full() || stream.leaves {
                break;
            }
            match piece {
                Piece::Packet if !is_there => {
                    self.tell(cx, stream);
                    return Next::At(until.max(cx.now) + live::LOOK_EVERY);
                }
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

    /// Tells how far a transmission has come.
    fn tell(&self, cx: &At<'_>, stream: &Sending<B::File>) {
        let Player { run, packets, octets, .. } = &stream.player;
        cx.state.tell(stream.slot, stream.epoch, run.next, (*packets, *octets));
    }
}

impl<B: Platform> PacedSource for Media<B> {
    type State = Orders;
    type Stream = Stream<B::File>;

    fn streams_max(&self) -> usize {
        STREAMS_MAX
    }

    fn start(&self, cx: &At<'_>) -> Option<(Stream<B::File>, Next)> {
        if let Some(source) = self.sources.iter().position(|source| source.take(cx.worker)) {
            return Some((Stream::Reads(source, cx.now), Next::At(cx.now)));
        }
        // One that is being written is taken up when its bell rings, behind which it is whole.
        // Whoever waited here might keep its writer from the processor.
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
                break Some((Stream::Sends(Box::new(stream)), next));
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
        stream: &mut Stream<B::File>,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        match stream {
            Stream::Sends(stream) => self.send(cx, stream, until, burst),
            Stream::Reads(source, again) => {
                *again = until.max(cx.now) + live::LOOK_EVERY;
                let more = self.sources[*source].pump(cx.worker, cx.now);
                more.map_or(Next::Done, |_| Next::At(*again))
            }
        }
    }

    fn withdrawn(&self, cx: &At<'_>, stream: &mut Stream<B::File>, unsent: usize) {
        let Stream::Sends(stream) = stream else { return };
        stream.player.take_back(unsent);
        self.tell(cx, stream);
    }

    fn rung(&self, cx: &At<'_>, stream: &mut Stream<B::File>) -> Next {
        match stream {
            Stream::Sends(stream) => {
                self.heed(cx, stream);
                self.next(cx, stream)
            }
            Stream::Reads(_, again) => Next::At(*again),
        }
    }

    fn has_news(&self, cx: &At<'_>, stream: &Stream<B::File>) -> bool {
        match stream {
            Stream::Sends(stream) => cx.state.epoch(stream.slot) != stream.epoch,
            Stream::Reads(..) => false,
        }
    }

    fn is_awaited(&self, stream: &Stream<B::File>) -> bool {
        matches!(stream, Stream::Sends(_))
    }

    fn is_heritable(&self, stream: &Stream<B::File>) -> bool {
        matches!(stream, Stream::Sends(stream) if stream.goes_on())
    }

    fn ear(&self, stream: &Stream<B::File>) -> Option<SocketAddr> {
        match stream {
            Stream::Sends(stream) if stream.goal.rtcp.ip().is_multicast() => Some(stream.goal.rtcp),
            _ => None,
        }
    }

    fn hear(&self, cx: &At<'_>, from: SocketAddr, channel: Channel, datagram: &[u8]) {
        // What comes to the port of media was sent to open a way through somebody's gateway.
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

    fn close(&self, cx: &At<'_>, stream: Stream<B::File>) {
        if let Stream::Sends(stream) = stream {
            cx.state.put_back(stream.slot, stream.goes_on());
        }
    }
}
