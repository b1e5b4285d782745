//! One connection of HTTP/2: its frames, its streams, and what it allows.

use std::collections::VecDeque;

use seam::{Closed, Conn, Cx, Event, Instant, Out, Peer, Service, Step};
use wire::http::Status;
use wire::http2::{
    self, Code, Frame, HeadReader, Kind, RequestHead, WINDOW, flag, put_frame, put_go_away,
    put_head, put_reset, put_status, put_window_update,
};

use super::settings::{self, widen};
use super::stream::{H2Stream, Io};
use super::{CONNECTION_WINDOW, HEAD_MAX, IDLE, STREAMS_MAX, WINDOW_PATIENCE};
use crate::close;

/// Streams that were ended by us, on which frames may still come.
const ENDED_MAX: usize = 2 * STREAMS_MAX;
/// Frames that bring nothing, such as pings and empty DATA, after which a peer is no client.
const IDLE_FRAMES_MAX: u32 = 2_000;
/// Requests that a peer may spoil beyond those that were answered.
const RESETS_MAX: u32 = 2 * STREAMS_MAX as u32;
/// Bytes of one head in HPACK: a head of up to twice [`HEAD_MAX`] gets a reply that says so.
const BLOCK_MAX: usize = 2 * HEAD_MAX;
/// CONTINUATION frames of one head.
const CONTINUATIONS_MAX: u32 = 16;
/// Frames of a reply that are sent as soon as its request has come: its head, and a short body.
const AT_ONCE: usize = 2;
/// Bytes that the peer is owed before its window grows.
const OWED: usize = WINDOW as usize / 4;

/// A head whose frames come.
struct Block {
    stream: u32,
    is_last: bool,
    bytes: Vec<u8>,
    frames: u32,
}

/// Why no further frame is read.
enum End {
    /// The peer violated the protocol.
    Broken,
    /// The peer sends no more.
    Eof,
}

/// A frame was taken, or it ends the connection: with which code, and why.
type Taken = Result<(), (Code, &'static str)>;

/// A connection.
pub struct Talk<S: Service> {
    peer: Peer,
    heads: HeadReader,
    /// The window of a stream at its start, in bytes.
    stream_window: i64,
    /// The open streams that were not answered at once, by number.
    streams: Vec<H2Stream<S>>,
    /// The session of a stream that was answered; it takes the next one.
    spare: Option<Conn<S::Session, S::Job>>,
    /// The stream that sends first in the next round.
    turn: usize,
    /// The last stream of the peer.
    last: u32,
    /// The last streams that we ended before the peer did.
    ended: VecDeque<u32>,
    block: Option<Block>,
    /// Bytes of DATA that the peer takes.
    window: i64,
    /// Bytes of DATA that the peer may send.
    input_window: i64,
    /// Bytes of DATA that were taken and by which its window has not grown.
    owed: usize,
    /// The stream whose job is at work.
    working: Option<u32>,
    has_settings: bool,
    idle_frames: u32,
    spoiled: u32,
    /// No new streams: GOAWAY was sent with this last one, or has come.
    leaves_at: Option<u32>,
    end: Option<End>,
    /// When a connection without a stream ends.
    idle_until: Instant,
}

impl<S: Service> Talk<S> {
    /// A connection after its preface.
    pub fn new(peer: Peer, now: Instant, out: &mut Out) -> Talk<S> {
        settings::put_ours(out.bytes());
        Talk {
            peer,
            heads: HeadReader::default(),
            stream_window: i64::from(WINDOW),
            streams: Vec::new(),
            spare: None,
            turn: 0,
            last: 0,
            ended: VecDeque::new(),
            block: None,
            window: i64::from(WINDOW),
            input_window: i64::from(CONNECTION_WINDOW),
            owed: 0,
            working: None,
            has_settings: false,
            idle_frames: 0,
            spoiled: 0,
            leaves_at: None,
            end: None,
            idle_until: now + IDLE,
        }
    }

    pub fn step(
        &mut self,
        inner: &S,
        cx: &Cx<'_, S::State>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let mut used = 0;
        let io = &mut Io { inner, cx, out, block: Vec::new() };
        match event {
            Event::Bytes(input) => used = self.read(input, io),
            Event::Eof => self.end = Some(End::Eof),
            Event::Drain => {
                self.leave(Code::None, "the server stops", io);
                let spare = self.spare.take();
                spare.into_iter().for_each(|conn| close(conn, inner, cx, Closed::Service));
                self.streams.iter_mut().for_each(|stream| stream.conn.drain(inner, cx));
            }
            Event::Deadline => self.deadline(io),
            Event::Outcome(outcome) => {
                // The stream may have been reset while its job was at work.
                let id = self.working.take();
                if let Some(stream) = self.streams.iter_mut().find(|it| Some(it.id) == id) {
                    stream.conn.outcome(inner, cx, outcome);
                }
            }
            Event::Room => {}
        }
        self.settle(io);
        self.answer(used, io)
    }

    pub fn close(self, inner: &S, cx: &Cx<'_, S::State>, why: Closed) {
        let open = self.streams.into_iter().map(|stream| stream.conn);
        open.for_each(|conn| close(conn, inner, cx, why));
        self.spare.into_iter().for_each(|conn| close(conn, inner, cx, Closed::Service));
    }

    /// Opens a stream and serves it as far as that goes at once: most replies are short.
    fn open(&mut self, id: u32, head: RequestHead, has_body: bool, io: &mut Io<'_, '_, S>) {
        let is_late = |conn: &Conn<_, _>| conn.wants().wake.is_some_and(|wake| wake <= io.cx.now);
        if let Some(conn) = self.spare.take_if(|conn| is_late(conn)) {
            close(conn, io.inner, io.cx, Closed::Idle);
        }
        let conn = self.spare.take().unwrap_or_else(|| io.open(self.peer));
        let mut stream = H2Stream::new(id, conn, self.stream_window, head, has_body);
        self.feed_one(&mut stream, io);
        for _ in 0..AT_ONCE {
            let did = !io.out.is_full() && !stream.is_over && self.send(&mut stream, io);
            if !did {
                break;
            }
        }
        match stream.is_over {
            true => self.part(stream, io),
            false => self.streams.push(stream),
        }
    }

    /// Appends one frame of a reply; whether anything moved.
    fn send(&mut self, stream: &mut H2Stream<S>, io: &mut Io<'_, '_, S>) -> bool {
        let (sent, did) = stream.send(self.window, io);
        self.window -= sent as i64;
        self.idle_frames = if did { 0 } else { self.idle_frames };
        did
    }

    /// Parts with a stream whose reply was sent.
    fn part(&mut self, stream: H2Stream<S>, io: &mut Io<'_, '_, S>) {
        if !stream.has_ended {
            // The reply does not need the rest of the request (section 8.1).
            put_reset(stream.id, Code::None, io.out.bytes());
            self.forget(stream.id);
        }
        self.owed += stream.owed;
        self.spoiled = self.spoiled.saturating_sub(u32::from(!stream.is_reset));
        self.idle_until = io.cx.now + IDLE;
        let is_kept = stream.is_reusable() && self.spare.is_none() && self.leaves_at.is_none();
        let H2Stream { mut conn, input, .. } = stream;
        self.heads.reuse(input);
        if !is_kept {
            return close(conn, io.inner, io.cx, Closed::Service);
        }
        conn.reclaim_spare();
        self.spare = Some(conn);
    }

    // ---- input

    fn read(&mut self, input: &[u8], io: &mut Io<'_, '_, S>) -> usize {
        let mut used = 0;
        while self.end.is_none() && !io.out.is_full() {
            let frame = match http2::next(&input[used..]) {
                Ok(None) => return used,
                Ok(Some((frame, len))) => {
                    used += len;
                    self.take(&frame, io)
                }
                Err(code) => Err((code, "expected a frame of at most 16,384 bytes")),
            };
            if let Err((code, why)) = frame {
                io.cx.note(|note| note.push_str(why));
                self.leave(code, why, io);
                self.end = Some(End::Broken);
            }
        }
        // Input after the end is ignored.
        if self.end.is_some() { input.len() } else { used }
    }

    fn take(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        if !self.has_settings && frame.kind != Some(Kind::Settings) {
            return Err((Code::Protocol, "expected SETTINGS first"));
        }
        if self.block.is_some() != (frame.kind == Some(Kind::Continuation)) {
            return Err((Code::Protocol, "expected the rest of a head, and nothing between"));
        }
        let is_connection = matches!(frame.kind, Some(Kind::Settings | Kind::Ping | Kind::GoAway));
        let is_either = matches!(frame.kind, None | Some(Kind::WindowUpdate));
        if !is_either && is_connection != (frame.stream == 0) {
            return Err((Code::Protocol, "expected a frame of a stream, or of the connection"));
        }
        let is_idle = frame.stream > self.last || frame.stream.is_multiple_of(2);
        if frame.stream > 0
            && is_idle
            && matches!(frame.kind, Some(Kind::Data | Kind::Reset | Kind::WindowUpdate))
        {
            return Err((Code::Protocol, "expected a frame of a stream that was begun"));
        }
        // Padding alone brings nothing.
        let progress = matches!(frame.kind, Some(Kind::Headers | Kind::Data | Kind::Continuation))
            && frame.content().is_ok_and(|(bytes, _)| !bytes.is_empty());
        self.idle_frames = if progress { 0 } else { self.idle_frames + 1 };
        if self.idle_frames > IDLE_FRAMES_MAX {
            return Err((Code::Calm, "expected fewer frames that bring nothing"));
        }
        match frame.kind {
            Some(Kind::Data) => self.data(frame, io),
            Some(Kind::Headers) => self.headers(frame, io),
            Some(Kind::Continuation) => self.continuation(frame, io),
            Some(Kind::Settings) => self.set(frame, io),
            Some(Kind::WindowUpdate) => self.widen(frame, io),
            Some(Kind::Reset) => self.reset(frame, io),
            Some(Kind::Priority) => match (frame.payload.len(), frame.number()) {
                (5, Some(parent)) if parent != frame.stream => Ok(()),
                (5, _) => self.refuse(frame.stream, Code::Protocol, io),
                _ => self.refuse(frame.stream, Code::FrameSize, io),
            },
            Some(Kind::Ping) if frame.payload.len() == 8 => {
                if !frame.has(flag::ACK) {
                    put_frame(Kind::Ping, flag::ACK, 0, frame.payload, io.out.bytes());
                }
                Ok(())
            }
            Some(Kind::Ping) => Err((Code::FrameSize, "expected a PING of 8 bytes")),
            Some(Kind::GoAway) => {
                self.leaves_at.get_or_insert(self.last);
                Ok(())
            }
            Some(Kind::PushPromise) => Err((Code::Protocol, "expected no promise of a client")),
            None => Ok(()),
        }
    }

    fn headers(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        let (bytes, parent) = frame.content().map_err(|code| (code, "expected less padding"))?;
        if frame.stream.is_multiple_of(2) {
            return Err((Code::Protocol, "expected an odd stream"));
        }
        if parent == Some(frame.stream) {
            return Err((Code::Protocol, "expected a stream that does not depend on itself"));
        }
        let is_last = frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            return self.head(frame.stream, is_last, bytes, io);
        }
        let block = Block { stream: frame.stream, is_last, bytes: bytes.to_vec(), frames: 0 };
        self.block = Some(block);
        Ok(())
    }

    fn continuation(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        let Some(block) = self.block.as_mut().filter(|it| it.stream == frame.stream) else {
            return Err((Code::Protocol, "expected the rest of the head that has begun"));
        };
        block.frames += 1;
        block.bytes.extend_from_slice(frame.payload);
        if block.bytes.len() > BLOCK_MAX || block.frames > CONTINUATIONS_MAX {
            return Err((Code::Calm, "expected a shorter head"));
        }
        if !frame.has(flag::END_HEADERS) {
            return Ok(());
        }
        let Some(block) = self.block.take() else { return Ok(()) };
        self.head(block.stream, block.is_last, &block.bytes, io)
    }

    /// Reads a whole head.
    fn head(&mut self, id: u32, is_last: bool, block: &[u8], io: &mut Io<'_, '_, S>) -> Taken {
        let broken = |code| (code, "expected a head in HPACK");
        if id <= self.last {
            let trailers = self.heads.trailers(block).map_err(broken)?;
            return self.trailers(id, is_last && trailers.is_ok(), io);
        }
        let head = self.heads.request(block, !is_last, HEAD_MAX).map_err(broken)?;
        self.last = id;
        if self.leaves_at.is_some() {
            return Ok(());
        }
        match head {
            Ok(_) if self.streams.len() >= STREAMS_MAX => self.refuse(id, Code::Refused, io),
            Ok(head) => {
                self.open(id, head, !is_last, io);
                Ok(())
            }
            Err(None) => {
                let mut reply = Vec::new();
                put_status(Status::HEAD_TOO_LONG.0, &mut reply);
                put_head(id, true, &reply, io.out.bytes());
                self.forget(id);
                self.spoil()
            }
            Err(Some(bad)) => {
                io.cx.note(|note| note.push_str(&bad.to_string()));
                self.refuse(id, Code::Protocol, io)
            }
        }
    }

    /// The end of a body by trailers, which are dropped. `is_right`: they may stand there.
    fn trailers(&mut self, id: u32, is_right: bool, io: &mut Io<'_, '_, S>) -> Taken {
        let Some(stream) = self.streams.iter_mut().find(|it| it.id == id) else {
            return self.late(id);
        };
        if stream.is_reset {
            return Ok(());
        }
        if stream.has_ended {
            return self.refuse(id, Code::StreamClosed, io);
        }
        if !is_right || stream.take(&[], true).is_err() {
            return self.refuse(id, Code::Protocol, io);
        }
        Ok(())
    }

    fn data(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        let (bytes, _) = frame.content().map_err(|code| (code, "expected less padding"))?;
        let len = frame.payload.len();
        self.input_window -= len as i64;
        if self.input_window < 0 {
            return Err((Code::FlowControl, "expected no more than the window of the connection"));
        }
        let is_last = frame.has(flag::END_STREAM);
        let Some(stream) = self.streams.iter_mut().find(|it| it.id == frame.stream) else {
            // Nobody takes these bytes, so the peer gets its room back.
            self.owed += len;
            return self.late(frame.stream);
        };
        if stream.has_ended {
            self.owed += len;
            return match stream.is_reset {
                true => Ok(()),
                false => self.refuse(frame.stream, Code::StreamClosed, io),
            };
        }
        stream.input_window -= len as i64;
        if stream.input_window < 0 {
            self.owed += len;
            return self.refuse(frame.stream, Code::FlowControl, io);
        }
        // Padding is taken at once.
        let padding = len - bytes.len();
        self.owed += padding;
        stream.input_window += padding as i64;
        if padding > 0 && !is_last {
            put_window_update(frame.stream, padding as u32, io.out.bytes());
        }
        if stream.take(bytes, is_last).is_err() {
            self.owed += bytes.len();
            return self.refuse(frame.stream, Code::Protocol, io);
        }
        self.feed(io);
        Ok(())
    }

    /// A frame for a stream that has ended: our reset may have crossed it.
    fn late(&self, stream: u32) -> Taken {
        match self.ended.contains(&stream) {
            true => Ok(()),
            false => Err((Code::StreamClosed, "expected no frame after the end of its stream")),
        }
    }

    fn set(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        self.has_settings = true;
        let is_ack = frame.has(flag::ACK);
        if !frame.payload.len().is_multiple_of(6) || (is_ack && !frame.payload.is_empty()) {
            return Err((Code::FrameSize, "expected SETTINGS of 6 bytes each"));
        }
        if is_ack {
            return Ok(());
        }
        let change = settings::take(&mut self.stream_window, frame);
        let change = change.map_err(|code| (code, "expected another value"))?;
        for stream in &mut self.streams {
            let why = "expected windows below 2^31";
            widen(&mut stream.window, change).map_err(|code| (code, why))?;
        }
        put_frame(Kind::Settings, flag::ACK, 0, &[], io.out.bytes());
        Ok(())
    }

    fn widen(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        let (4, Some(more)) = (frame.payload.len(), frame.number()) else {
            return Err((Code::FrameSize, "expected a WINDOW_UPDATE of 4 bytes"));
        };
        if frame.stream == 0 {
            if more == 0 {
                return Err((Code::Protocol, "expected a window that grows"));
            }
            let why = "expected a window below 2^31";
            return widen(&mut self.window, i64::from(more)).map_err(|code| (code, why));
        }
        let Some(stream) = self.streams.iter_mut().find(|it| it.id == frame.stream) else {
            return Ok(());
        };
        let widened = match more {
            0 => Err(Code::Protocol),
            _ => widen(&mut stream.window, i64::from(more)),
        };
        widened.or_else(|code| self.refuse(frame.stream, code, io))
    }

    fn reset(&mut self, frame: &Frame<'_>, io: &mut Io<'_, '_, S>) -> Taken {
        if frame.payload.len() != 4 {
            return Err((Code::FrameSize, "expected a RST_STREAM of 4 bytes"));
        }
        let place = self.streams.iter().position(|it| it.id == frame.stream);
        if let Some(place) = place {
            let stream = self.streams.remove(place);
            self.owed += stream.owed;
            close(stream.conn, io.inner, io.cx, Closed::Reset);
            self.spoil()?;
        } else if !self.ended.contains(&frame.stream) {
            // Its answer was already counted in favour of the peer.
            self.spoil()?;
            self.spoil()?;
        }
        // A peer that has reset a stream sends nothing more on it (section 5.1).
        self.ended.retain(|stream| *stream != frame.stream);
        Ok(())
    }

    /// Counts a request that the peer has spoiled.
    fn spoil(&mut self) -> Taken {
        self.spoiled += 1;
        match self.spoiled > RESETS_MAX {
            true => Err((Code::Calm, "expected fewer requests that are not waited for")),
            false => Ok(()),
        }
    }

    /// Ends a stream, if it is open, because of its peer.
    fn refuse(&mut self, stream: u32, code: Code, io: &mut Io<'_, '_, S>) -> Taken {
        match self.streams.iter_mut().find(|it| it.id == stream) {
            Some(stream) => stream.reset(code, io.out),
            None => put_reset(stream, code, io.out.bytes()),
        }
        self.forget(stream);
        self.spoil()
    }

    /// Remembers a stream on which frames may still come.
    fn forget(&mut self, stream: u32) {
        if !self.ended.contains(&stream) {
            if self.ended.len() == ENDED_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(stream);
        }
    }

    // ---- progress

    /// Announces the end of the connection: no new streams.
    fn leave(&mut self, code: Code, why: &str, io: &mut Io<'_, '_, S>) {
        if self.leaves_at.is_none() || code != Code::None {
            put_go_away(self.leaves_at.unwrap_or(self.last), code, why, io.out.bytes());
        }
        self.leaves_at.get_or_insert(self.last);
    }

    fn deadline(&mut self, io: &mut Io<'_, '_, S>) {
        for stream in &mut self.streams {
            stream.conn.deadline(io.inner, io.cx);
            if stream.blocked_since < io.cx.now
                && io.cx.now.since(stream.blocked_since) >= WINDOW_PATIENCE
            {
                stream.reset(Code::Cancel, io.out);
            }
        }
        if self.streams.is_empty() && self.idle_until <= io.cx.now {
            self.leave(Code::None, "no request came", io);
            self.end = Some(End::Eof);
        }
    }

    /// Feeds bodies, and grows the windows by what was taken.
    fn feed(&mut self, io: &mut Io<'_, '_, S>) {
        let mut streams = std::mem::take(&mut self.streams);
        streams.iter_mut().for_each(|stream| self.feed_one(stream, io));
        self.streams = streams;
        if self.owed >= OWED {
            self.input_window += self.owed as i64;
            put_window_update(0, std::mem::take(&mut self.owed) as u32, io.out.bytes());
        }
    }

    fn feed_one(&mut self, stream: &mut H2Stream<S>, io: &mut Io<'_, '_, S>) {
        let taken = stream.feed(io);
        self.owed += taken;
        // The peer's window of a stream that goes on.
        if taken > 0 && !stream.has_ended {
            stream.input_window += taken as i64;
            put_window_update(stream.id, taken as u32, io.out.bytes());
        }
    }

    /// Moves bodies in and replies out until nothing moves, each stream a frame at a time.
    fn settle(&mut self, io: &mut Io<'_, '_, S>) {
        if matches!(self.end, Some(End::Broken)) {
            return;
        }
        loop {
            self.feed(io);
            let mut moved = false;
            let mut streams = std::mem::take(&mut self.streams);
            let first = self.turn % streams.len().max(1);
            let (later, sooner) = streams.split_at_mut(first);
            for stream in sooner.iter_mut().chain(later).filter(|stream| !stream.is_over) {
                if io.out.is_full() {
                    break;
                }
                moved |= self.send(stream, io);
            }
            self.turn = self.turn.wrapping_add(1);
            for stream in streams.extract_if(.., |stream| stream.is_over) {
                self.part(stream, io);
            }
            self.streams = streams;
            if !moved || io.out.is_full() {
                return;
            }
        }
    }

    /// The next step, and its deadline.
    fn answer(&mut self, used: usize, io: &mut Io<'_, '_, S>) -> Step<S::Job> {
        io.out.note_kept(self.streams.iter().map(H2Stream::held).sum());
        let is_over = match self.end {
            Some(End::Broken) => true,
            Some(End::Eof) => self.streams.is_empty(),
            None => self.leaves_at.is_some() && self.streams.is_empty(),
        };
        if is_over {
            return Step::close(used);
        }
        let mut wake = if self.streams.is_empty() { self.idle_until } else { Instant::NEVER };
        for stream in &mut self.streams {
            let wants = stream.conn.wants();
            if wants.job
                && self.working.is_none()
                && let Some(job) = stream.conn.take_job()
            {
                self.working = Some(stream.id);
                return Step::offload(used, job);
            }
            wake = wake.min(wants.wake.unwrap_or(Instant::NEVER));
            if stream.blocked_since != Instant::NEVER {
                wake = wake.min(stream.blocked_since + WINDOW_PATIENCE);
            }
        }
        let wake = (wake != Instant::NEVER).then(|| wake.max(io.cx.now));
        Step { wake, ..Step::read(used) }
    }
}
