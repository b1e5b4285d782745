//! HTTP/2 from the client's side (RFC 9113): a request is a stream, and replies come in any order.
//!
//! Requests are drawn and replies judged as in HTTP/1.1; here are the frames between the two. The
//! head of each request is encoded once, without the table of HPACK, and a stream costs one copy.
//! A reply ends with END_STREAM, and its body must have the length that its head announces.
//!
//! Streams stand in the order of their requests, and behind them wait the requests that have no
//! stream: beyond the server's limit of streams, or because it says GOAWAY. So the place of an
//! answered stream is that of its request, which is what the driver has to know
//! ([`Script::order`]). Until the settings of the server come there is one stream.
//!
//! Bodies of requests respect the windows of the server. Our own windows are wide and are refilled
//! when half of them is used, so a server never waits for this client's permission.
//!
//! After GOAWAY the connection ends with the last reply that the server still owes. The requests
//! that it has not begun are sent again on the next one, whatever their method. A frame that
//! HTTP/2 forbids is a fault with its reason, and ends the connection.
//!
//! A call of gRPC is a POST whose reply has a second status, in its trailers or, without a body, in
//! its head. That one counts.

use std::collections::{BTreeMap, VecDeque};

use wire::http2::{
    Code, FRAME_MAX, Frame, HeadReader, Kind, PREFACE, ReplyHead, Setting, WINDOW, WINDOW_MAX,
    code_name, flag, next, put_field, put_frame, put_head, put_reset, put_settings,
    put_window_update,
};

use super::{HEAD_MAX, Http, HttpOptions, Reply};
use crate::faults::FaultKind;
use crate::parse::Usage;
use crate::report::Check;
use crate::script::{Replies, ReplyLog, Script, shown};

/// Our window for a stream and for the connection (bytes).
const ROOM: i64 = 1 << 30;
/// The last stream of a connection (section 5.1.1).
const STREAM_MAX: u32 = (1 << 31) - 1;
/// Fields that concern a connection of HTTP/1.1 (section 8.2.2).
const OF_CONNECTION: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];

/// The script.
pub struct Http2 {
    http: Http,
    requests: Vec<Request>,
    links: Vec<Talk>,
}

struct Request {
    block: Vec<u8>,
    body: Vec<u8>,
    is_head: bool,
}

#[derive(Default)]
struct Talk {
    /// Requests with a stream, oldest first.
    streams: VecDeque<Stream>,
    /// Requests that wait for a stream, by number.
    queued: VecDeque<u16>,
    next: u32,
    limit: usize,
    /// Bytes of bodies that the server takes: on the connection, and on a new stream.
    window: i64,
    first_window: i64,
    /// A body waits for a window.
    is_blocked: bool,
    /// Bytes that the server may send.
    room: i64,
    heads: HeadReader,
    /// A head that is not whole: its stream, whether nothing follows it, its bytes so far.
    block: Option<(u32, bool, Vec<u8>)>,
    /// Frames that answer the server's.
    answers: Vec<u8>,
    has_begun: bool,
    /// The server has sent its settings.
    is_set: bool,
    /// The last stream that the server answers, if it leaves.
    leaves: Option<u32>,
    answered: u64,
    /// Places of the requests of the last replies.
    places: Vec<u32>,
}

/// The log and the outcome of some bytes.
struct Sink<'a, 'b> {
    log: &'a mut ReplyLog<'b>,
    replies: Replies,
}

/// A request without its whole reply.
struct Stream {
    id: u32,
    path: u16,
    /// Bytes of the body that were sent, and that the server takes.
    sent: usize,
    window: i64,
    head: Option<ReplyHead>,
    /// Bytes of the head, and of the body, that came; and how many more may come.
    size: usize,
    seen: u64,
    room: i64,
}

impl Http2 {
    /// The requests of `http` with this scheme, in HTTP/2.
    pub fn new(http: Http, scheme: &str) -> Self {
        let requests = http.requests.iter().map(|it| Request::of(it, scheme)).collect();
        let links = http.sessions.iter().map(|_| Talk::new()).collect();
        Self { http, requests, links }
    }

    /// Handles one frame; the error says what was expected.
    fn take(&mut self, at: usize, frame: &Frame<'_>, to: &mut Sink<'_, '_>) -> Result<(), String> {
        let talk = &mut self.links[at];
        if !talk.is_set && (frame.kind != Some(Kind::Settings) || frame.has(flag::ACK)) {
            return Err(format!("expected SETTINGS first, found {}", named(frame)));
        }
        if talk.block.is_some() && frame.kind != Some(Kind::Continuation) {
            return Err(format!("expected the rest of a head, found {}", named(frame)));
        }
        let length = frame.payload.len();
        let ended = match frame.kind {
            Some(Kind::Data) => talk.data(frame)?,
            Some(Kind::Headers | Kind::Continuation) => talk.head(frame)?,
            Some(Kind::Reset) if length == 4 => {
                return self.reset(at, frame, to);
            }
            Some(Kind::Settings) if frame.stream == 0 => return talk.set(frame),
            Some(Kind::WindowUpdate) if length == 4 => return talk.widen(frame),
            Some(Kind::Ping) if length == 8 => {
                if !frame.has(flag::ACK) {
                    put_frame(Kind::Ping, flag::ACK, 0, frame.payload, &mut talk.answers);
                }
                return Ok(());
            }
            Some(Kind::GoAway) if length >= 8 => {
                let (last, code) = (frame.number().unwrap_or(0), code_name(&frame.payload[4..]));
                if code != "NO_ERROR" {
                    let why = shown(&frame.payload[8..]);
                    to.log.fault(FaultKind::GoAway, || {
                        format!("found GOAWAY {code} after stream {last}: {why}")
                    });
                }
                talk.leaves = Some(talk.leaves.map_or(last, |it| it.min(last)));
                return Ok(());
            }
            Some(Kind::Priority) | None => return Ok(()),
            _ => return Err(format!("expected a frame of HTTP/2, found {}", named(frame))),
        };
        if let Some(place) = ended {
            self.finish(at, place, to);
        }
        Ok(())
    }

    /// The reply at `place` is whole.
    fn finish(&mut self, at: usize, place: usize, to: &mut Sink<'_, '_>) {
        let talk = &mut self.links[at];
        let Some(stream) = talk.remove(place) else { return };
        let request = &self.requests[usize::from(stream.path)];
        if stream.sent < request.body.len() {
            // The server has answered before it had the whole request.
            put_reset(stream.id, Code::Cancel, &mut talk.answers);
        }
        let head = stream.head.unwrap_or_default();
        let has_body = !request.is_head && head.status != 304;
        let reply = Reply {
            status: head.grpc.filter(|_| head.status == 200).unwrap_or(head.status),
            head: stream.size,
            retries: head.retries,
            announced: head.length.filter(|_| has_body),
            ..Reply::default()
        };
        self.http.judge(stream.path, &reply, stream.seen, to.log, &mut to.replies);
    }

    /// The server gives up a stream. One that it refuses was not begun, so it is overloaded.
    fn reset(&mut self, at: usize, frame: &Frame<'_>, to: &mut Sink<'_, '_>) -> Result<(), String> {
        let talk = &mut self.links[at];
        let Some(place) = talk.place(frame.stream) else { return talk.is_known(frame) };
        let Some(stream) = talk.remove(place) else { return Ok(()) };
        let code = code_name(frame.payload);
        let is_refused = code == "REFUSED_STREAM";
        to.replies.done += 1;
        to.replies.refused += u32::from(is_refused);
        to.replies.wrong += u32::from(!is_refused);
        if !is_refused {
            let (method, path) = &self.http.names[usize::from(stream.path)];
            to.log.fault(FaultKind::StreamReset, || {
                format!("{method} {path}: expected a reply, found RST_STREAM {code}")
            });
        }
        to.log.note(stream.path, stream.size, true);
        Ok(())
    }

    /// The connection is of no more use: the oldest request has no answer because of it.
    fn spoil(&mut self, at: usize, kind: FaultKind, why: &str, to: &mut Sink<'_, '_>) {
        let talk = &mut self.links[at];
        to.log.fault(kind, || why.to_owned());
        to.replies.over = true;
        let path = match talk.streams.pop_front() {
            Some(stream) => stream.path,
            None => match talk.queued.pop_front() {
                Some(path) => path,
                None => return,
            },
        };
        talk.places.push(0);
        to.replies.done += 1;
        to.replies.wrong += 1;
        to.log.note(path, 0, true);
    }
}

/// The block of the head and the body of the first request of `options` in HTTP/2.
///
/// # Errors
/// As [`Http::new`].
pub fn http2_request(options: &HttpOptions, scheme: &str) -> Result<(Vec<u8>, Vec<u8>), Usage> {
    let rendered = options.render()?;
    let Request { block, body, .. } = Request::of(&rendered[0], scheme);
    Ok((block, body))
}

impl Request {
    /// A rendered request of HTTP/1.1.
    fn of(rendered: &[u8], scheme: &str) -> Self {
        let end = memchr::memmem::find(rendered, b"\r\n\r\n").unwrap_or(rendered.len());
        let body = rendered.get(end + 4..).unwrap_or_default().to_vec();
        let head = String::from_utf8_lossy(&rendered[..end]);
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut block, mut fields) = (Vec::new(), Vec::new());
        let mut authority = "";
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            match &name[..] {
                "host" => authority = value,
                "te" if value == "trailers" => put_field(b"te", b"trailers", &mut fields),
                name if OF_CONNECTION.contains(&name) => {}
                name => put_field(name.as_bytes(), value.as_bytes(), &mut fields),
            }
        }
        let pseudo =
            [(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)];
        for (name, value) in pseudo.into_iter().filter(|it| !it.1.is_empty()) {
            put_field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block.append(&mut fields);
        Self { block, body, is_head: method == "HEAD" }
    }
}

impl Talk {
    fn new() -> Self {
        let window = i64::from(WINDOW);
        Self { next: 1, limit: 1, window, first_window: window, room: ROOM, ..Self::default() }
    }

    /// Appends all that can be sent: answers, pieces of bodies, new streams.
    fn send(&mut self, requests: &[Request], out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(PREFACE);
            put_settings(&[(Setting::Push, 0), (Setting::Window, ROOM as u32)], out);
            put_window_update(0, ROOM as u32 - WINDOW, out);
        }
        out.append(&mut self.answers);
        if std::mem::take(&mut self.is_blocked) {
            for stream in &mut self.streams {
                let body = &requests[usize::from(stream.path)].body;
                self.is_blocked |= !stream.send(body, &mut self.window, out);
            }
        }
        while self.streams.len() < self.limit
            && self.leaves.is_none()
            && let Some(path) = self.queued.pop_front()
        {
            let request = &requests[usize::from(path)];
            let (id, window) = (self.next, self.first_window);
            let (head, sent, size, seen, room) = (None, 0, 0, 0, ROOM);
            let mut stream = Stream { id, path, sent, window, head, size, seen, room };
            put_head(id, request.body.is_empty(), &request.block, out);
            self.is_blocked |= !stream.send(&request.body, &mut self.window, out);
            self.streams.push_back(stream);
            if id == STREAM_MAX {
                self.leaves = Some(id);
            } else {
                self.next += 2;
            }
        }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    fn remove(&mut self, place: usize) -> Option<Stream> {
        self.places.push(place as u32);
        self.streams.remove(place)
    }

    /// A frame that may come after the end of its stream (section 5.1).
    fn is_known(&self, frame: &Frame<'_>) -> Result<(), String> {
        match frame.stream % 2 == 1 && frame.stream < self.next {
            true => Ok(()),
            false => Err(format!("expected a stream that was begun, found {}", named(frame))),
        }
    }

    /// Takes a piece of a body; the place of the stream if it is the last.
    fn data(&mut self, frame: &Frame<'_>) -> Result<Option<usize>, String> {
        let (bytes, _) = frame.content().map_err(|_| unpadded(frame))?;
        let length = frame.payload.len() as i64;
        let refill = |room: &mut i64, stream: u32, answers: &mut Vec<u8>| {
            *room -= length;
            if *room < 0 {
                return Err(format!("expected no more than the window, found {}", named(frame)));
            }
            if *room < ROOM / 2 {
                put_window_update(stream, (ROOM - *room) as u32, answers);
                *room = ROOM;
            }
            Ok(())
        };
        refill(&mut self.room, 0, &mut self.answers)?;
        let stream = self.place(frame.stream).map(|place| (place, &mut self.streams[place]));
        let Some((place, stream)) = stream.filter(|it| it.1.head.is_some()) else {
            return Err(format!("expected a body of an open reply, found {}", named(frame)));
        };
        stream.seen += bytes.len() as u64;
        refill(&mut stream.room, frame.stream, &mut self.answers)?;
        Ok(frame.has(flag::END_STREAM).then_some(place))
    }

    /// Takes a head, or a piece of one; the place of the stream if that ends its reply.
    fn head(&mut self, frame: &Frame<'_>) -> Result<Option<usize>, String> {
        let is_first = frame.kind == Some(Kind::Headers);
        let (stream, is_last, mut bytes) = match self.block.take() {
            None if is_first => (frame.stream, frame.has(flag::END_STREAM), Vec::new()),
            Some(begun) if begun.0 == frame.stream => begun,
            _ => return Err(format!("expected a head from its begin, found {}", named(frame))),
        };
        bytes.extend_from_slice(match is_first {
            true => frame.content().map_err(|_| unpadded(frame))?.0,
            false => frame.payload,
        });
        if bytes.len() > HEAD_MAX {
            return Err(format!("expected a head of at most {HEAD_MAX} bytes"));
        }
        if !frame.has(flag::END_HEADERS) {
            self.block = Some((stream, is_last, bytes));
            return Ok(None);
        }
        let unread = |_| "expected a head in HPACK".to_owned();
        let place = self.place(stream);
        if let Some(place) = place
            && let Some(head) = &mut self.streams[place].head
        {
            head.grpc = head.grpc.or(self.heads.grpc_status(&bytes).map_err(unread)?);
            self.streams[place].size += bytes.len();
            return match is_last {
                true => Ok(Some(place)),
                false => Err("expected the end of a stream with its trailers".to_owned()),
            };
        }
        let head = self.heads.reply(&bytes).map_err(unread)?;
        let Some(place) = place else {
            return Err(format!("expected a head of an open stream, found {}", named(frame)));
        };
        let open = &mut self.streams[place];
        open.size += bytes.len();
        match head {
            Some(ReplyHead { status: 100..200, .. }) if !is_last => {}
            Some(head @ ReplyHead { status: 200.., .. }) => open.head = Some(head),
            _ => return Err("expected a head with one status and sound fields".to_owned()),
        }
        Ok(is_last.then_some(place))
    }

    /// Takes settings, and answers them.
    fn set(&mut self, frame: &Frame<'_>) -> Result<(), String> {
        if frame.has(flag::ACK) && frame.payload.is_empty() {
            return Ok(());
        }
        if frame.has(flag::ACK) || !frame.payload.len().is_multiple_of(6) {
            return Err(format!("expected settings of 6 bytes each, found {}", named(frame)));
        }
        if !std::mem::replace(&mut self.is_set, true) {
            self.limit = usize::MAX;
        }
        for (setting, value) in frame.settings() {
            if setting == Setting::Streams as u16 {
                self.limit = value as usize;
            } else if setting == Setting::Window as u16 {
                let change = i64::from(value) - self.first_window;
                self.first_window += change;
                self.streams.iter_mut().for_each(|stream| stream.window += change);
                let mut windows = self.streams.iter().map(|stream| stream.window);
                if self.first_window > WINDOW_MAX || windows.any(|it| it > WINDOW_MAX) {
                    return Err(format!("expected windows below 2^31, found {value}"));
                }
            }
        }
        put_frame(Kind::Settings, flag::ACK, 0, &[], &mut self.answers);
        Ok(())
    }

    /// Takes more room for bodies of requests.
    fn widen(&mut self, frame: &Frame<'_>) -> Result<(), String> {
        let more = i64::from(frame.number().unwrap_or(0));
        let window = match frame.stream {
            0 => &mut self.window,
            id => match self.place(id) {
                Some(place) => &mut self.streams[place].window,
                None => return self.is_known(frame),
            },
        };
        *window += more;
        match more > 0 && *window <= WINDOW_MAX {
            true => Ok(()),
            false => Err(format!("expected a window that grows below 2^31, found {more} more")),
        }
    }
}

impl Stream {
    /// Appends as much of the body as the windows allow; whether that is all.
    fn send(&mut self, body: &[u8], window: &mut i64, out: &mut Vec<u8>) -> bool {
        while self.sent < body.len() {
            let room = self.window.min(*window).clamp(0, FRAME_MAX as i64) as usize;
            if room == 0 {
                return false;
            }
            let piece = &body[self.sent..body.len().min(self.sent + room)];
            self.sent += piece.len();
            let flags = if self.sent == body.len() { flag::END_STREAM } else { 0 };
            put_frame(Kind::Data, flags, self.id, piece, out);
            self.window -= piece.len() as i64;
            *window -= piece.len() as i64;
        }
        true
    }
}

fn named(frame: &Frame<'_>) -> String {
    match frame.kind {
        Some(kind) => format!("{kind:?} with {} B on stream {}", frame.payload.len(), frame.stream),
        None => format!("bytes that begin with {}", shown(frame.payload)),
    }
}

fn unpadded(frame: &Frame<'_>) -> String {
    format!("expected less padding than payload, found {}", named(frame))
}

impl Script for Http2 {
    fn reserve(&mut self, connections: usize) {
        self.http.reserve(connections);
        self.links.resize_with(self.http.sessions.len(), Talk::new);
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        for _ in 0..count {
            let path = self.http.draw(at) as u16;
            self.links[at].queued.push_back(path);
        }
        self.links[at].send(&self.requests, out);
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut to = Sink { log, replies: Replies::default() };
        self.links[at].places.clear();
        while !to.replies.over {
            let rest = &bytes[to.replies.used..];
            let taken = match next(rest) {
                Ok(None) => break,
                Ok(Some((frame, length))) => {
                    to.replies.used += length;
                    self.take(at, &frame, &mut to)
                }
                Err(_) => Err(format!("expected a frame of HTTP/2, found {}", shown(rest))),
            };
            if let Err(why) = taken {
                self.spoil(at, FaultKind::Protocol, &why, &mut to);
            }
        }
        let talk = &self.links[at];
        if let Some(last) = talk.leaves
            && !to.replies.over
            && talk.streams.front().is_none_or(|stream| stream.id > last)
        {
            to.replies.over = true;
            let is_waiting = !talk.streams.is_empty() || !talk.queued.is_empty();
            if is_waiting && talk.answered == 0 && to.replies.done == 0 {
                // Sent again and again, such requests would never end.
                let why = "expected a reply, found GOAWAY before any";
                self.spoil(at, FaultKind::GoAway, why, &mut to);
            }
        }
        self.links[at].answered += u64::from(to.replies.done);
        self.http.done += u64::from(to.replies.done - to.replies.refused);
        self.http.wrong += u64::from(to.replies.wrong);
        to.replies
    }

    fn order(&self, at: usize) -> Option<&[u32]> {
        Some(&self.links[at].places)
    }

    fn answer(&mut self, at: usize, out: &mut Vec<u8>) {
        self.links[at].send(&self.requests, out);
    }

    fn close(&mut self, at: usize) {
        let is_repeated = self.may_repeat(at);
        let talk = std::mem::replace(&mut self.links[at], Talk::new());
        // Unanswered requests that may be repeated are the next ones again.
        let oldest = talk.streams.front().map(|it| it.path).or(talk.queued.front().copied());
        if let Some(path) = oldest.filter(|_| is_repeated) {
            self.http.sessions[at].next = usize::from(path);
        }
    }

    fn may_repeat(&self, at: usize) -> bool {
        let talk = &self.links[at];
        let is_left = |last| talk.streams.front().is_none_or(|stream| stream.id > last);
        self.http.repeatable || talk.leaves.is_some_and(is_left)
    }

    fn kinds(&self) -> Vec<String> {
        self.http.kinds()
    }

    fn statuses(&self) -> BTreeMap<u16, u64> {
        self.http.statuses()
    }

    fn totals(&self) -> Vec<u64> {
        self.http.totals()
    }

    fn verdict(&self, reply: &[u8], others: &[Vec<u64>]) -> Check {
        self.http.verdict(reply, others)
    }
}

#[cfg(test)]
mod tests;
