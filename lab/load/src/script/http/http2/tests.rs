//! The client of HTTP/2 against handmade frames of a server.

use super::*;
use crate::faults::Faults;
use crate::script::HttpOptions;
use wire::http2::{put_go_away, put_status};

/// A client with `asked` requests outstanding, the faults so far, and what it has sent.
struct Client {
    script: Http2,
    faults: Faults,
    sent: Vec<u8>,
}

impl Client {
    fn new(method: &str, body: &[u8], asked: u32) -> Self {
        let options = HttpOptions {
            method: method.to_owned(),
            body: body.to_vec(),
            ..HttpOptions::get("a:1", vec![("/b".to_owned(), 1)], 1)
        };
        let http = Http::new(options, 1).expect("a sound request");
        let mut client =
            Self { script: Http2::new(http, "http"), faults: Faults::default(), sent: Vec::new() };
        client.script.open(0);
        client.script.ask(0, asked, &mut client.sent);
        assert!(client.sent.starts_with(PREFACE));
        client.sent.drain(..PREFACE.len());
        client
    }

    /// Takes frames; the outcome and the places of the replies.
    fn take(&mut self, bytes: &[u8]) -> (Replies, Vec<u32>) {
        let replies = self.script.receive(0, bytes, &mut ReplyLog::new(&mut self.faults, None));
        let places = self.script.order(0).expect("an order").to_vec();
        assert_eq!(places.len(), replies.done as usize);
        self.script.answer(0, &mut self.sent);
        (replies, places)
    }

    /// The frames that were sent since the last call: kind, flags, stream and length of each frame.
    fn frames(&mut self) -> Vec<(Kind, u8, u32, usize)> {
        let (sent, mut from, mut frames) = (std::mem::take(&mut self.sent), 0, Vec::new());
        while let Some((frame, used)) = next(&sent[from..]).expect("a frame") {
            let kind = frame.kind.expect("a kind");
            frames.push((kind, frame.flags, frame.stream, frame.payload.len()));
            from += used;
        }
        assert_eq!(from, sent.len(), "whole frames");
        frames
    }

    fn fault(&self, kind: FaultKind) -> &str {
        let mut all = self.faults.list.iter();
        let fault = all.find(|it| it.kind == kind);
        fault.map_or_else(|| panic!("{kind}: {:?}", self.faults), |it| &it.example)
    }
}

fn made(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

fn settings(all: &[(Setting, u32)]) -> Vec<u8> {
    made(|out| put_settings(all, out))
}

/// A reply with `length` bytes that announces as many as `announced`.
fn reply(stream: u32, status: u16, announced: &str, length: usize) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(status, &mut block);
    put_field(b"content-length", announced.as_bytes(), &mut block);
    put_head(stream, length == 0, &block, &mut out);
    if length > 0 {
        put_frame(Kind::Data, flag::END_STREAM, stream, &vec![b'x'; length], &mut out);
    }
    out
}

#[test]
fn replies_in_any_order_belong_to_their_requests() {
    let mut client = Client::new("GET", b"", 4);
    let head = |stream| (Kind::Headers, flag::END_STREAM | flag::END_HEADERS, stream);
    let heads = |client: &mut Client| -> Vec<_> {
        let frames = client.frames().into_iter().filter(|it| it.0 == Kind::Headers);
        frames.map(|it| (it.0, it.1, it.2)).collect()
    };
    // One stream before the settings, and no more than they allow behind them.
    assert_eq!(heads(&mut client), [head(1)]);
    client.take(&settings(&[(Setting::Streams, 3)]));
    assert_eq!(heads(&mut client), [head(3), head(5)]);
    let bytes = [reply(5, 200, "2", 2), reply(1, 204, "0", 0)].concat();
    let (replies, places) = client.take(&bytes);
    assert_eq!((replies.done, replies.wrong, places), (2, 0, vec![2, 0]));
    assert_eq!(heads(&mut client), [head(7)]);
    let bytes = [reply(7, 200, "3", 2), reply(3, 404, "0", 0)].concat();
    let (replies, places) = client.take(&bytes);
    assert_eq!((replies.done, replies.wrong, places), (2, 2, vec![1, 0]));
    let words = client.fault(FaultKind::WrongReply);
    assert_eq!(words, "GET /b: expected a body of 3 bytes, as announced, found 2");
    assert_eq!(client.faults.total(), 2);
}

#[test]
fn a_stream_may_be_reset_or_refused() {
    let mut client = Client::new("GET", b"", 3);
    client.take(&settings(&[]));
    // The last is that of a stream that has ended, which means nothing.
    let resets = [(3, Code::Internal), (5, Code::Refused), (3, Code::Cancel)];
    let resets = resets.map(|(stream, code)| made(|out| put_reset(stream, code, out)));
    let (replies, places) = client.take(&resets.concat());
    assert_eq!((replies.done, replies.wrong, replies.refused, replies.over), (2, 1, 1, false));
    assert_eq!(places, [1, 1]);
    let words = client.fault(FaultKind::StreamReset);
    assert_eq!(words, "GET /b: expected a reply, found RST_STREAM INTERNAL_ERROR");
}

/// A reply to a call of gRPC with this status in its trailers, or without a body in its only head.
fn call(stream: u32, status: &str, has_body: bool) -> Vec<u8> {
    let (mut head, mut trailers, mut out) = (Vec::new(), Vec::new(), Vec::new());
    put_status(200, &mut head);
    put_field(b"grpc-status", status.as_bytes(), &mut trailers);
    if !has_body {
        put_head(stream, true, &[head, trailers].concat(), &mut out);
        return out;
    }
    put_head(stream, false, &head, &mut out);
    put_frame(Kind::Data, 0, stream, b"\0\0\0\0\x02ab", &mut out);
    put_head(stream, true, &trailers, &mut out);
    out
}

#[test]
fn the_status_of_a_call_is_in_its_trailers_or_in_its_only_head() {
    let mut client = Client::new("POST", b"\0\0\0\0\0", 4);
    client.script.http.options.wanted.status = Some(0);
    client.take(&settings(&[]));
    let calls = [call(1, "0", true), call(3, "5", false), call(5, "13", true)];
    let (replies, _) = client.take(&calls.concat());
    assert_eq!((replies.done, replies.wrong), (3, 2));
    let words = client.fault(FaultKind::WrongReply);
    assert_eq!(words, "POST /b: expected status 0 OK, found 5 NOT_FOUND");
    // A reply without a status of gRPC is no reply to a call.
    assert_eq!(client.take(&reply(7, 200, "0", 0)).0.wrong, 1);
    let statuses = client.script.statuses();
    assert_eq!(statuses, [(0, 1), (5, 1), (13, 1), (200, 1)].into());
}

#[test]
fn requests_that_a_leaving_server_has_not_begun_are_sent_again() {
    let mut client = Client::new("POST", b"", 3);
    client.take(&settings(&[]));
    assert!(!client.take(&made(|out| put_go_away(3, Code::None, "", out))).0.over);
    assert!(!client.script.may_repeat(0), "two are begun");
    assert!(!client.take(&reply(3, 200, "0", 0)).0.over);
    client.frames();
    client.script.ask(0, 1, &mut client.sent);
    assert_eq!(client.frames(), [], "no new stream");
    let (replies, places) = client.take(&reply(1, 200, "0", 0));
    assert_eq!((replies.done, replies.over, places), (1, true, vec![0]));
    assert!(client.script.may_repeat(0) && client.faults.is_empty());
    // Without any reply one of them has failed, so there is an end.
    let mut client = Client::new("GET", b"", 2);
    let mut bytes = settings(&[]);
    put_go_away(0, Code::Calm, "slow down", &mut bytes);
    let (replies, _) = client.take(&bytes);
    assert_eq!((replies.done, replies.wrong, replies.over), (1, 1, true));
    let words = client.fault(FaultKind::GoAway);
    assert_eq!(words, "found GOAWAY ENHANCE_YOUR_CALM after stream 0: `slow down`");
}

#[test]
fn a_body_waits_for_the_windows_of_the_server() {
    let mut client = Client::new("POST", &[b'x'; 100], 2);
    let sent: Vec<_> = client.frames().into_iter().skip(2).collect();
    let head = (Kind::Headers, flag::END_HEADERS, 1, sent[0].3);
    assert_eq!(sent, [head, (Kind::Data, flag::END_STREAM, 1, 100)]);
    client.take(&settings(&[(Setting::Window, 30)]));
    let ack = (Kind::Settings, flag::ACK, 0, 0);
    let head = (Kind::Headers, flag::END_HEADERS, 3, sent[0].3);
    assert_eq!(client.frames(), [ack, head, (Kind::Data, 0, 3, 30)]);
    let more = made(|out| put_window_update(3, 50, out));
    client.take(&more);
    assert_eq!(client.frames(), [(Kind::Data, 0, 3, 50)]);
    client.take(&settings(&[(Setting::Window, 10)]));
    client.take(&more);
    assert_eq!(client.frames(), [ack, (Kind::Data, flag::END_STREAM, 3, 20)]);
    let answers = [reply(3, 200, "0", 0), reply(1, 200, "0", 0)].concat();
    assert_eq!(client.take(&answers).1, [1, 0]);
    // An answer to a part of a request ends the rest of it.
    client.script.ask(0, 1, &mut client.sent);
    client.take(&reply(5, 200, "0", 0));
    assert_eq!(client.frames().pop(), Some((Kind::Reset, 0, 5, 4)));
    assert!(client.faults.is_empty(), "{:?}", client.faults);
}

#[test]
fn our_windows_are_refilled_and_a_ping_is_answered() {
    let mut client = Client::new("GET", b"", 1);
    client.take(&settings(&[]));
    client.frames();
    let mut bytes = reply(1, 200, "9", 0);
    bytes[4] = flag::END_HEADERS;
    put_frame(Kind::Ping, 0, 0, b"12345678", &mut bytes);
    client.take(&bytes);
    assert_eq!(client.frames(), [(Kind::Ping, flag::ACK, 0, 8)]);
    let mut piece = Vec::new();
    put_frame(Kind::Data, 0, 1, &[0; FRAME_MAX], &mut piece);
    let count = ROOM as usize / 2 / FRAME_MAX + 1;
    for _ in 0..count {
        assert_eq!(client.frames(), []);
        client.take(&piece);
    }
    assert_eq!(client.frames(), [0, 1].map(|stream| (Kind::WindowUpdate, 0, stream, 4)));
}

#[test]
fn a_violation_has_a_name_and_ends_the_connection() {
    let check = |bytes: &[u8], want: &str| {
        let mut client = Client::new("GET", b"", 2);
        let (replies, _) = client.take(bytes);
        assert_eq!((replies.done, replies.wrong, replies.over), (1, 1, true), "{want}");
        let words = client.fault(FaultKind::Protocol);
        assert!(words.contains(want), "{words}: {want}");
    };
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "found `HTTP/1.1 400 Bad Request");
    check(&reply(1, 200, "0", 0), "expected SETTINGS first, found Headers");
    let with = |kind, flags, stream, payload: &[u8]| {
        [settings(&[]), made(|out| put_frame(kind, flags, stream, payload, out))].concat()
    };
    check(&with(Kind::Data, 0, 1, b"x"), "a body of an open reply");
    check(&with(Kind::Data, flag::PADDED, 1, b"\x09"), "less padding");
    check(&with(Kind::Headers, flag::END_HEADERS, 1, b"\xff\xff\xff\xff"), "in HPACK");
    check(&with(Kind::Headers, flag::END_HEADERS, 9, b"\x88"), "a head of an open stream");
    check(&with(Kind::Headers, flag::END_HEADERS, 1, b""), "one status");
    check(&with(Kind::Continuation, 0, 1, b""), "a head from its begin");
    check(&with(Kind::PushPromise, 0, 1, b"1234"), "found PushPromise");
    check(&with(Kind::Settings, 0, 0, b"1234"), "settings of 6 bytes");
    check(&settings(&[(Setting::Window, 1 << 31)]), "windows below 2^31");
    check(&with(Kind::WindowUpdate, 0, 0, &[0; 4]), "a window that grows");
    check(&with(Kind::WindowUpdate, 0, 0, &[0x7f, 255, 255, 255]), "below 2^31");
    check(&with(Kind::Reset, 0, 8, &[0; 4]), "a stream that was begun");
    check(&with(Kind::Ping, 0, 0, b"1"), "found Ping");
    let cut = [with(Kind::Headers, 0, 1, b"\x88"), with(Kind::Data, 0, 1, b"")].concat();
    check(&cut, "the rest of a head");
}
