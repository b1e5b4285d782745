//! HTTP/2 around a service of routes: replies under every cut, flow control, limits, and violations
//! of a peer. The client here writes frames by hand, so that it can be wrong.

use ::layers::http2::{Http2, STREAMS_MAX, WINDOW_PATIENCE};
use ::sim::{Faults, Talk};
use memory::Region;
use roundhouse::prelude::*;
use seam::{Conn, Event, Instant, Out, Peer, Service, Step};
use wire::http2::{
    Code, FRAME_MAX, Kind, PREFACE, Setting, flag, next, put_field, put_frame, put_head, put_reset,
    put_settings, put_window_update,
};

/// The service and its state.
type Routed = roundhouse::Http<()>;

fn length(call: &Call<'_>, _: &Cx<'_, ()>) -> String {
    let kind = call.field("x-kind").unwrap_or(b"none");
    format!("{} bytes, {}", call.body.len(), String::from_utf8_lossy(kind))
}

fn endless(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    Ok(Pieces::by(|_, piece| {
        piece.put([b'x'; 10_000]);
        Flow::More
    }))
}

fn three(_: &Call<'_>, _: &Cx<'_, ()>) -> Result<Pieces<()>, HttpError> {
    let mut count = 0;
    Ok(Pieces::by(move |cx, piece| {
        count += 1;
        piece.put(format!("{count};"));
        if count == 3 { Flow::End } else { Flow::At(cx.now + Duration::from_millis(5)) }
    }))
}

fn service() -> Http2<Routed> {
    let mut service = routes()
        .get("/todo/{id}", |call, _| call.param::<u64>("id").map(|id| format!("todo {id}")))
        .get("/long", |_, _| "y".repeat(100_000))
        .post("/length", length)
        .offload("GET", "/slow/{id}", |call, _| call.param::<String>("id"))
        .stream("/endless", "text/plain", endless)
        .stream("/three", "text/plain", three)
        .service();
    service.dated = false;
    service.body_max = 200_000;
    Http2::new(service)
}

// ---- a client

/// The head of a request.
fn block(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    for (name, value) in pseudo.iter().chain(more) {
        put_field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

fn made(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    made(|out| put_head(stream, true, &block("GET", path, &[]), out))
}

/// The head of a request whose body follows.
fn begun() -> Vec<u8> {
    made(|out| put_head(1, false, &block("POST", "/length", &[]), out))
}

fn post(stream: u32, more: &[(&str, &str)], pieces: &[&[u8]]) -> Vec<u8> {
    let head = &block("POST", "/length", more);
    let mut out = made(|out| put_head(stream, pieces.is_empty(), head, out));
    for (at, piece) in pieces.iter().enumerate() {
        let flags = if at + 1 == pieces.len() { flag::END_STREAM } else { 0 };
        put_frame(Kind::Data, flags, stream, piece, &mut out);
    }
    out
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    made(|out| put_frame(kind, flags, stream, payload, out))
}

/// The settings of a client whose streams have this window.
fn window(bytes: u32) -> Vec<u8> {
    made(|out| put_settings(&[(Setting::Window, bytes)], out))
}

fn widened(stream: u32, bytes: u32) -> Vec<u8> {
    made(|out| put_window_update(stream, bytes, out))
}

fn cancelled(stream: u32) -> Vec<u8> {
    made(|out| put_reset(stream, Code::Cancel, out))
}

/// The preface, SETTINGS, then these frames.
fn said(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    put_settings(&[], &mut out);
    out.extend(frames.concat());
    out
}

/// The frames of a server as text, a line for each.
fn heard(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some((frame, used)) = next(bytes).expect("frames") {
        bytes = &bytes[used..];
        let end = if frame.has(flag::END_STREAM) { "." } else { "" };
        let code = |at: usize| frame.payload.get(at + 3).copied().unwrap_or(255);
        lines.push(match frame.kind {
            Some(Kind::Headers) => {
                let fields = loona_hpack::Decoder::new().decode(frame.payload).expect("a block");
                let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect();
                format!("{} {}{end}", frame.stream, fields.join(" "))
            }
            Some(Kind::Data) if frame.payload.len() > 40 => {
                format!("{} {} bytes{end}", frame.stream, frame.payload.len())
            }
            Some(Kind::Data) => {
                format!("{} `{}`{end}", frame.stream, String::from_utf8_lossy(frame.payload))
            }
            Some(Kind::Reset) => format!("{} reset {}", frame.stream, code(0)),
            Some(Kind::GoAway) => format!("go away {} {}", code(0), code(4)),
            Some(Kind::WindowUpdate) => {
                format!("{} window {}", frame.stream, frame.number().unwrap_or(0))
            }
            Some(Kind::Settings | Kind::Ping) if frame.has(flag::ACK) => {
                format!("{:?} ack", frame.kind.unwrap())
            }
            kind => format!("{kind:?}"),
        });
    }
    assert!(bytes.is_empty(), "the output ends within a frame");
    lines
}

/// The lines without the greeting.
fn replies(bytes: &[u8]) -> Vec<String> {
    let greeting = ["Some(Settings)", "0 window 196609", "Settings ack"];
    heard(bytes).into_iter().filter(|line| !greeting.contains(&line.as_str())).collect()
}

/// A connection on which a client talks and listens in turn.
struct Line<'a, S: Service>(Talk<'a, S>);

impl<S: Service> Line<'_, S> {
    fn say(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.quietly(|conn, service, cx| conn.feed(service, cx, bytes));
        self.listen()
    }

    /// Takes all output, and lets the connection go on as a reading client does.
    fn listen(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let bytes = self.0.drink();
            if bytes.is_empty() {
                return replies(&all);
            }
            all.extend(bytes);
            self.0.quietly(|_, _, _| {});
        }
    }

    fn at(&mut self, now: Duration) -> Vec<String> {
        self.0.now = Instant::ZERO + now;
        self.0.quietly(Conn::deadline);
        self.listen()
    }

    fn is_closed(&self) -> bool {
        self.0.wants().close
    }
}

fn line<'a, S: Service>(service: &'a S, state: &'a S::State) -> Line<'a, S> {
    let mut line = Line(Talk::new(service, state));
    assert!(line.say(&said(&[])).is_empty());
    line
}

// ---- replies

const TEXT: &str = "content-type=text/plain; charset=utf-8";

#[test]
fn requests_are_answered_however_the_bytes_are_cut() {
    let sent = said(&[
        get(1, "/todo/7"),
        get(3, "/slow/5"),
        post(5, &[("x-kind", "a")], &[b"abc", b"de"]),
        post(7, &[("content-length", "3")], &[b"abc"]),
        get(9, "/lost"),
        frame(Kind::Ping, 0, 0, b"12345678"),
    ]);
    let service = service();
    let plain = |bytes: &[u8]| {
        let mut lines = replies(bytes);
        lines.sort();
        lines.join("\n").into_bytes()
    };
    let fresh = || Region::<()>::alone(&[]);
    let state = fresh();
    let played = ::sim::run(&service, &state, &::sim::Script::saying(&sent), &Faults::calm(), 1);
    let lost = "expected a known path, found /lost\n";
    let mut wanted = [
        "1 `todo 7`.".to_owned(),
        format!("1 :status=200 {TEXT} content-length=6"),
        "3 `5`.".to_owned(),
        format!("3 :status=200 {TEXT} content-length=1"),
        "5 `5 bytes, a`.".to_owned(),
        format!("5 :status=200 {TEXT} content-length=10"),
        "7 `3 bytes, none`.".to_owned(),
        format!("7 :status=200 {TEXT} content-length=13"),
        format!("9 :status=404 {TEXT} content-length={}", lost.len()),
        format!("9 `{lost}`."),
        "Ping ack".to_owned(),
    ];
    wanted.sort();
    // Windows of bodies depend on the cuts.
    let settled = |bytes: &[u8]| {
        let text = String::from_utf8(plain(bytes)).unwrap();
        let lines = text.lines().filter(|line| !line.contains(" window "));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    };
    let found = String::from_utf8(settled(&played.only().bytes)).unwrap();
    assert_eq!(found, wanted.join("\n"));
    ::sim::chunking(&service, fresh, &sent, &Faults::calm(), 30, settled);
}

#[test]
fn other_first_bytes_are_http_1() {
    let (service, state) = (service(), Region::<()>::alone(&[]));
    for cut in [1, 3, 40] {
        let mut talk = Talk::new(&service, &state);
        let request = b"PRINT / HTTP/1.1\r\nHost: a\r\n\r\nGET /todo/1 HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut text = String::new();
        for piece in request.chunks(cut) {
            text += &talk.hear(|conn, service, cx| conn.feed(service, cx, piece));
        }
        assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("todo 1"), "{cut}: {text}");
    }
}

#[test]
fn a_head_request_has_no_body_and_a_stream_comes_in_pieces() {
    let service = service();
    let mut line = line(&service, &());
    let head = made(|out| put_head(1, true, &block("HEAD", "/todo/7", &[]), out));
    assert_eq!(line.say(&head), [format!("1 :status=200 {TEXT} content-length=6.")]);
    let first = line.say(&get(3, "/three"));
    assert_eq!(first, ["3 :status=200 content-type=text/plain", "3 `1;`"]);
    assert_eq!(line.at(Duration::from_millis(5)), ["3 `2;`"]);
    let last = line.at(Duration::from_millis(10)).concat();
    assert!(last.starts_with("3 `3;`") && last.ends_with('.'), "{last}");
}

// ---- flow control

#[test]
fn a_reply_waits_for_both_windows() {
    let service = service();
    let mut line = line(&service, &());
    line.say(&window(10));
    let first = line.say(&get(1, "/long"));
    assert_eq!(first[1..], ["1 `yyyyyyyyyy`"]);
    assert_eq!(line.say(&widened(1, 5)), ["1 `yyyyy`"]);
    let sent = line.say(&window(1 << 30));
    let count = |lines: &[String]| -> usize {
        let data = lines.iter().filter_map(|it| it.split(' ').nth(1)?.parse::<usize>().ok());
        data.sum()
    };
    assert_eq!(count(&sent), 65_535 - 15, "the window of the connection");
    let sent = line.say(&widened(0, 1 << 20));
    assert_eq!(count(&sent), 100_000 - 65_535);
    assert!(sent.last().unwrap().ends_with('.'), "{sent:?}");
}

#[test]
fn streams_that_wait_for_a_window_cost_little_and_end() {
    let service = service();
    let mut line = line(&service, &());
    line.say(&window(0));
    let ask = (0..STREAMS_MAX as u32).flat_map(|at| get(2 * at + 1, "/endless"));
    let heads = line.say(&ask.collect::<Vec<_>>());
    assert_eq!(heads.len(), STREAMS_MAX, "heads need no window");
    let mut held = 0;
    line.0.quietly(|conn, _, _| held = conn.held());
    assert!(held < STREAMS_MAX * 50_000, "{held} bytes");
    assert_eq!(line.say(&get(301, "/todo/1")), ["301 reset 7"], "refused");
    assert!(line.at(WINDOW_PATIENCE - Duration::from_millis(1)).is_empty());
    let ended = line.at(WINDOW_PATIENCE);
    assert_eq!(ended.len(), STREAMS_MAX);
    assert!(ended.iter().all(|it| it.ends_with("reset 8")), "{ended:?}");
    assert_eq!(line.say(&get(303, "/todo/1")).len(), 1, "a head, and no room for its body");
}

#[test]
fn a_body_is_taken_as_fast_as_the_service_takes_it() {
    let service = service();
    let mut line = line(&service, &());
    line.say(&begun());
    let (mut window, mut all, mut sent) = (65_535, 65_535 + 196_609, 0);
    while sent < 150_000 {
        let len = FRAME_MAX.min(150_000 - sent).min(window).min(all);
        assert!(len > 0, "the window grows");
        (sent, window, all) = (sent + len, window - len, all - len);
        for line in line.say(&frame(Kind::Data, 0, 1, &vec![b'a'; len])) {
            let [stream, _, more] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let more: usize = more.parse().unwrap();
            if stream == "0" { all += more } else { window += more }
        }
    }
    let end = line.say(&frame(Kind::Data, flag::END_STREAM, 1, b""));
    assert_eq!(end.last().unwrap(), "1 `150000 bytes, none`.");
}

// ---- what a peer must not do

#[test]
fn a_violation_ends_its_stream_or_the_connection() {
    let service = service();
    let check = |frames: &[Vec<u8>], wanted: &str| {
        let state = Region::<()>::alone(&[]);
        let mut line = line(&service, &state);
        let last = line.say(&frames.concat()).pop().unwrap_or_default();
        assert_eq!(last, wanted, "{frames:?}");
        assert_eq!(line.is_closed(), wanted.starts_with("go away"), "{frames:?}");
    };
    let away = |last: u32, code: Code| format!("go away {last} {}", code as u32);
    let reset = |stream: u32, code: Code| format!("{stream} reset {}", code as u32);
    let open = post(1, &[], &[]);
    let body = |len: usize| frame(Kind::Data, 0, 1, &vec![b'a'; len]);
    // The connection.
    check(&[frame(Kind::Data, 0, 1, b"a")], &away(0, Code::Protocol));
    check(&[frame(Kind::Data, 0, 0, b"a")], &away(0, Code::Protocol));
    check(&[get(2, "/")], &away(0, Code::Protocol));
    check(&[frame(Kind::Headers, flag::END_HEADERS, 1, b"\xff\xff")], &away(0, Code::Compression));
    check(&[frame(Kind::Headers, 0, 1, b""), get(3, "/")], &away(0, Code::Protocol));
    check(&[frame(Kind::Continuation, 0, 1, b"")], &away(0, Code::Protocol));
    check(&[frame(Kind::PushPromise, 0, 1, b"")], &away(0, Code::Protocol));
    check(&[frame(Kind::Ping, 0, 0, b"1")], &away(0, Code::FrameSize));
    check(&[frame(Kind::Ping, 0, 1, b"12345678")], &away(0, Code::Protocol));
    check(&[frame(Kind::Settings, 0, 0, b"1")], &away(0, Code::FrameSize));
    check(&[frame(Kind::Settings, 0, 0, &[0, 4, 255, 0, 0, 0])], &away(0, Code::FlowControl));
    check(&[frame(Kind::Settings, 0, 0, &[0, 5, 0, 0, 0, 1])], &away(0, Code::Protocol));
    check(&[widened(0, 0)], &away(0, Code::Protocol));
    check(&[widened(0, i32::MAX as u32)], &away(0, Code::FlowControl));
    check(&[vec![0, 64, 1, 0, 0, 0, 0, 0, 1]], &away(0, Code::FrameSize));
    check(&[open.clone(), body(1)], &away(1, Code::StreamClosed));
    check(&[get(3, "/"), get(1, "/")], &away(3, Code::StreamClosed));
    // A stream.
    check(&[get(1, "/slow/5"), body(1)], &reset(1, Code::StreamClosed));
    let wrong = |more: &[(&str, &str)]| post(1, more, &[]);
    check(&[wrong(&[("connection", "close")])], &reset(1, Code::Protocol));
    check(&[wrong(&[("Big", "a")])], &reset(1, Code::Protocol));
    check(&[wrong(&[("a", "b\r\nc: d")])], &reset(1, Code::Protocol));
    check(&[wrong(&[("content-length", "4")])], &reset(1, Code::Protocol));
    check(&[post(1, &[("content-length", "4")], &[b"abc"])], &reset(1, Code::Protocol));
    check(&[post(1, &[("content-length", "2")], &[b"abc", b""])], &reset(1, Code::Protocol));
    check(&[begun(), widened(1, 0)], &reset(1, Code::Protocol));
    check(&[begun(), widened(1, i32::MAX as u32)], &reset(1, Code::FlowControl));
    // A peer that has reset a stream sends nothing more on it.
    check(&[begun(), cancelled(1), body(1)], &away(1, Code::StreamClosed));
    // Frames that cross our reset are ignored.
    check(&[wrong(&[("Big", "a")]), body(9)], &reset(1, Code::Protocol));
    // A head that is too long has a reply.
    let long = "x".repeat(9_000);
    let more: Vec<(&str, &str)> = ["a", "b", "c", "d"].iter().map(|it| (*it, &*long)).collect();
    check(&[post(1, &more, &[])], "1 :status=431.");
    // Nothing at all.
    check(&[frame(Kind::Priority, 0, 1, &[0, 0, 0, 3, 1])], "");
}

#[test]
fn a_first_frame_is_settings() {
    let (service, state) = (service(), Region::<()>::alone(&[]));
    let mut line = Line(Talk::new(&service, &state));
    let heard = line.say(&[PREFACE, &get(1, "/todo/1")].concat());
    assert_eq!(heard, ["go away 0 1"]);
    assert!(line.is_closed());
}

#[test]
fn floods_end_the_connection() {
    let service = service();
    let check = |name: &str, piece: &dyn Fn(u32) -> Vec<u8>, most: u32| {
        let state = Region::<()>::alone(&[]);
        let mut line = line(&service, &state);
        for at in 0..most {
            let heard = line.say(&piece(at));
            if line.is_closed() {
                assert!(heard.last().unwrap().starts_with("go away "), "{name}: {heard:?}");
                assert!(heard.last().unwrap().ends_with(" 11"), "{name}: {heard:?}");
                return;
            }
        }
        panic!("{name}: {most} frames were taken");
    };
    check("ping", &|_| frame(Kind::Ping, 0, 0, b"12345678"), 3_000);
    check("settings", &|_| frame(Kind::Settings, 0, 0, b""), 3_000);
    check("windows", &|_| widened(0, 1), 3_000);
    let empty = |at| if at == 0 { begun() } else { frame(Kind::Data, 0, 1, b"") };
    check("empty pieces", &empty, 3_000);
    let padded = |at| if at == 0 { begun() } else { frame(Kind::Data, flag::PADDED, 1, &[0]) };
    check("padding alone", &padded, 3_000);
    let dropped = |at, path| [get(2 * at + 1, path), cancelled(2 * at + 1)].concat();
    check("rapid resets", &|at| dropped(at, "/endless"), 300);
    check("resets of what is answered at once", &|at| dropped(at, "/todo/1"), 300);
    let made = |at: u32| post(2 * at + 1, &[("Big", "a")], &[]);
    check("requests that the server resets", &made, 300);
    let continued = |at: u32| match at {
        0 => frame(Kind::Headers, 0, 1, b""),
        _ => frame(Kind::Continuation, 0, 1, &[0; 100]),
    };
    check("continuations", &continued, 100);
}

#[test]
fn answered_requests_pay_for_those_that_were_left() {
    let service = service();
    let mut line = line(&service, &());
    line.say(&widened(0, 1 << 30));
    for at in 0..1_000 {
        let dropped = [get(4 * at + 3, "/endless"), cancelled(4 * at + 3)];
        line.say(&[get(4 * at + 1, "/todo/1"), dropped.concat()].concat());
        assert!(!line.is_closed(), "after {at}");
    }
}

/// Replies with the number of the request on its session; the third is the last, and nothing may
/// come for [`QUIET`].
struct Numbers;

const QUIET: Duration = Duration::from_secs(1);

impl Service for Numbers {
    type State = ();
    type Session = u8;
    type Job = ();
    type Outcome = ();

    fn open(&self, _: &Cx<'_, ()>, _: Peer, _: &mut Out) -> u8 {
        0
    }

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        count: &mut u8,
        event: Event<'_, ()>,
        out: &mut Out,
    ) -> Step<()> {
        let Event::Bytes(input) = event else { return Step::close(0) };
        *count += 1;
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{count}");
        out.bytes().extend_from_slice(reply.as_bytes());
        match *count {
            3 => Step::close(input.len()),
            _ => Step::read(input.len()).wake_at(cx.now + QUIET),
        }
    }

    fn work(&self, (): &(), (): ()) {}
}

#[test]
fn a_session_has_one_stream_after_another_as_on_a_connection_that_stays() {
    let service = Http2::new(Numbers);
    let mut line = line(&service, &());
    let asked: Vec<u8> = (0..5).flat_map(|at| get(2 * at + 1, "/")).collect();
    let mut said = line.say(&asked);
    line.0.now = Instant::ZERO + QUIET;
    said.extend(line.say(&get(11, "/")));
    said.retain(|line| line.ends_with("`."));
    let wanted = ["1 `1`.", "3 `2`.", "5 `3`.", "7 `1`.", "9 `2`.", "11 `1`."];
    assert_eq!(said, wanted, "closed by the service after three, and late at last");
}

#[test]
fn a_drain_ends_the_connection_after_the_last_reply() {
    let service = service();
    let mut line = line(&service, &());
    line.say(&get(1, "/three"));
    line.0.quietly(Conn::drain);
    let heard = line.listen();
    assert!(heard.contains(&"go away 1 0".to_owned()), "{heard:?}");
    line.at(Duration::from_millis(5));
    line.at(Duration::from_millis(10));
    assert!(line.is_closed());
}
