//! The cases of HTTP/2: frames that RFC 9113 forbids, and what it says must follow; and floods that
//! its section 10.5 warns of.
//!
//! A case is bytes after the greetings of both sides, behind which a PING follows: its answer shows
//! that the server has read the bytes. An error of the connection ends it, with GOAWAY or without
//! (section 5.4.1), whatever its code; one of a stream may end the connection too (section 5.4.2).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wire::http2::{
    Code, FRAME_HEAD, FRAME_MAX, HeadReader, Kind, Setting, code_name, flag, next, put_field,
    put_frame, put_reset,
};

use super::{Act, Finding, Need, Trial, crowd};
use crate::acts::alongside;
use crate::http2::{Call, greeting};
use crate::stand::{STARVED, Stand, resets};

/// The time for a reply to a case, and for an error that comes after the answer to PING.
const PATIENCE: Duration = Duration::from_millis(1500);
const LATER: Duration = Duration::from_millis(300);
/// Streams of a rapid reset on one connection, and in one write.
const RAPID: u32 = 2000;
const BATCH: u32 = 50;

/// The conduct that a case demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// The end of the connection, with the code that the section names.
    Ends(&'static str),
    /// The end of the stream, or a status of 400 to 499 (section 8.1.1) or an error of gRPC.
    Resets(&'static str),
    /// A reply with the status of a usual request.
    Serves,
}

/// The surroundings of a case: a usual request, and the longest frame that the server takes.
pub(super) struct Place<'a> {
    call: &'a Call,
    frame_max: usize,
}

pub(super) type Case = super::Case<Want, fn(&Place<'_>) -> Vec<u8>>;

use Want::{Ends, Resets, Serves};

cases! { Http2
    "h2-data-after-end" "RFC 9113 section 6.1" true Resets("STREAM_CLOSED"),
        |it| [asked(it, 1), frame(Kind::Data, flag::END_STREAM, 1, b"a")].concat(),
        "DATA after the end of a request";
    "h2-data-on-connection" "RFC 9113 section 6.1" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Data, 0, 0, b"a"), "DATA on stream 0";
    "h2-padding" "RFC 9113 section 6.1" true Ends("PROTOCOL_ERROR"),
        |it| [begun(it), frame(Kind::Data, flag::PADDED, 1, b"\x09a")].concat(),
        "DATA with more padding than payload";
    "h2-even-stream" "RFC 9113 section 5.1.1" true Ends("PROTOCOL_ERROR"),
        |it| asked(it, 2), "HEADERS on an even stream";
    "h2-older-stream" "RFC 9113 section 5.1.1" true Ends("PROTOCOL_ERROR"),
        |it| [asked(it, 5), asked(it, 3)].concat(), "a stream older than the last one";
    "h2-long-frame" "RFC 9113 section 4.2" true Ends("FRAME_SIZE_ERROR"),
        |it| long(it.frame_max + 1), "HEADERS longer than the server takes";
    "h2-window-overflow" "RFC 9113 section 6.9.1" true Ends("FLOW_CONTROL_ERROR"),
        |_| frame(Kind::WindowUpdate, 0, 0, &[127, 255, 255, 255]), "a window beyond 2^31-1";
    "h2-window-of-zero" "RFC 9113 section 6.9" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::WindowUpdate, 0, 0, &[0; 4]), "WINDOW_UPDATE by nothing";
    "h2-window-length" "RFC 9113 section 6.9" true Ends("FRAME_SIZE_ERROR"),
        |_| frame(Kind::WindowUpdate, 0, 0, &[0, 0, 1]), "WINDOW_UPDATE of 3 bytes";
    "h2-reset-of-idle" "RFC 9113 section 6.4" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Reset, 0, 1, &[0, 0, 0, 8]), "RST_STREAM of a stream that was not begun";
    "h2-reset-length" "RFC 9113 section 6.4" true Ends("FRAME_SIZE_ERROR"),
        |it| [begun(it), frame(Kind::Reset, 0, 1, &[0, 0, 8])].concat(), "RST_STREAM of 3 bytes";
    "h2-ping-length" "RFC 9113 section 6.7" true Ends("FRAME_SIZE_ERROR"),
        |_| frame(Kind::Ping, 0, 0, b"1234567"), "PING of 7 bytes";
    "h2-ping-on-stream" "RFC 9113 section 6.7" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Ping, 0, 1, b"12345678"), "PING on a stream";
    "h2-settings-ack" "RFC 9113 section 6.5" true Ends("FRAME_SIZE_ERROR"),
        |_| frame(Kind::Settings, flag::ACK, 0, &setting(Setting::Push as u16, 0)),
        "an answer to SETTINGS with a payload";
    "h2-settings-length" "RFC 9113 section 6.5" true Ends("FRAME_SIZE_ERROR"),
        |_| frame(Kind::Settings, 0, 0, b"123"), "SETTINGS of 3 bytes";
    "h2-settings-on-stream" "RFC 9113 section 6.5" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Settings, 0, 1, b""), "SETTINGS on a stream";
    "h2-settings-push" "RFC 9113 section 6.5.2" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Settings, 0, 0, &setting(Setting::Push as u16, 2)), "ENABLE_PUSH of 2";
    "h2-settings-window" "RFC 9113 section 6.5.2" true Ends("FLOW_CONTROL_ERROR"),
        |_| frame(Kind::Settings, 0, 0, &setting(Setting::Window as u16, 1 << 31)),
        "INITIAL_WINDOW_SIZE of 2^31";
    "h2-settings-frame" "RFC 9113 section 6.5.2" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Settings, 0, 0, &setting(Setting::FrameMax as u16, 1)),
        "MAX_FRAME_SIZE of 1";
    "h2-continuation-alone" "RFC 9113 section 6.10" true Ends("PROTOCOL_ERROR"),
        |_| frame(Kind::Continuation, flag::END_HEADERS, 1, b""), "CONTINUATION without HEADERS";
    "h2-head-interrupted" "RFC 9113 section 6.10" true Ends("PROTOCOL_ERROR"),
        |it| frame(Kind::Headers, flag::END_STREAM, 1, &it.call.block), "PING within a head";
    "h2-push-promise" "RFC 9113 section 8.4" true Ends("PROTOCOL_ERROR"),
        |it| [begun(it), frame(Kind::PushPromise, flag::END_HEADERS, 1, &[0, 0, 0, 2])].concat(),
        "PUSH_PROMISE of a client";
    "h2-unknown-index" "RFC 7541 section 2.3.3" true Ends("COMPRESSION_ERROR"),
        |it| head(&[&it.call.block, &[0xff, 0x40][..]].concat(), true), "a field that HPACK lacks";
    "h2-capital-letter" "RFC 9113 section 8.2.1" true Resets("PROTOCOL_ERROR"),
        |it| with(it, b"X-A", b"1"), "the name of a field in capital letters";
    "h2-connection-field" "RFC 9113 section 8.2.2" true Resets("PROTOCOL_ERROR"),
        |it| with(it, b"connection", b"close"), "a field of a connection";
    "h2-late-pseudo" "RFC 9113 section 8.3" true Resets("PROTOCOL_ERROR"),
        |it| with(it, b":path", b"/"), "a second :path after the fields";
    "h2-unknown-pseudo" "RFC 9113 section 8.3" true Resets("PROTOCOL_ERROR"),
        |it| with(it, b":a", b"1"), "an unknown pseudo field";
    "h2-no-method" "RFC 9113 section 8.3.1" true Resets("PROTOCOL_ERROR"),
        |_| head(&[0x86, 0x84], true), "a request without :method";
    "h2-no-path" "RFC 9113 section 8.3.1" true Resets("PROTOCOL_ERROR"),
        |_| head(&[0x82, 0x86], true), "a request without :path";
    "h2-other-length" "RFC 9113 section 8.1.1" false Resets("PROTOCOL_ERROR"),
        |it| {
            let mut block = it.call.block.clone();
            put_field(b"content-length", b"5", &mut block);
            [head(&block, false), frame(Kind::Data, flag::END_STREAM, 1, b"abc")].concat()
        }, "a body of another length than its head says";
    "h2-unknown-frame" "RFC 9113 section 5.5" true Serves,
        |it| [vec![0, 0, 1, 0xfa, 0, 0, 0, 0, 0, b'a'], asked(it, 1)].concat(),
        "a frame of an unknown kind is ignored";
    "h2-unknown-setting" "RFC 9113 section 6.5.2" true Serves,
        |it| [frame(Kind::Settings, 0, 0, &setting(0xfafa, 1)), asked(it, 1)].concat(),
        "an unknown setting is ignored";
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(kind, flags, stream, payload, &mut out);
    out
}

fn setting(setting: u16, value: u32) -> [u8; 6] {
    let ([a, b], [c, d, e, f]) = (setting.to_be_bytes(), value.to_be_bytes());
    [a, b, c, d, e, f]
}

/// A whole head on stream 1.
fn head(block: &[u8], is_last: bool) -> Vec<u8> {
    let flags = if is_last { flag::END_STREAM } else { 0 };
    frame(Kind::Headers, flag::END_HEADERS | flags, 1, block)
}

/// A request whose body does not end.
fn begun(place: &Place<'_>) -> Vec<u8> {
    head(&place.call.block, false)
}

/// A whole request.
fn asked(place: &Place<'_>, stream: u32) -> Vec<u8> {
    let mut out = Vec::new();
    place.call.put(stream, &mut out);
    out
}

/// A request with one more field.
fn with(place: &Place<'_>, name: &[u8], value: &[u8]) -> Vec<u8> {
    // A literal, because only those have any name (RFC 7541 section 6.2.2).
    let field = [&[0, name.len() as u8], name, &[value.len() as u8], value].concat();
    head(&[&place.call.block[..], &field].concat(), true)
}

/// HEADERS of this length, however long a frame may be.
fn long(len: usize) -> Vec<u8> {
    let mut out = frame(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, 1, b"");
    out[..3].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
    out.resize(FRAME_HEAD + len, 0);
    out
}

/// The begin of the head of a second request, and CONTINUATION that may follow for ever: fields of
/// one letter, in some frames a write.
pub(super) fn endless_head() -> (Vec<u8>, Vec<u8>) {
    let fields = b"\0\x01x\x01a".repeat(FRAME_MAX / 5);
    let begin = frame(Kind::Headers, flag::END_STREAM, 3, &[0x82, 0x86, 0x84]);
    (begin, frame(Kind::Continuation, 0, 3, &fields).repeat(4))
}

/// The conduct of a server after a case.
#[derive(Debug, Default)]
struct Conduct {
    heads: HeadReader,
    status: Option<u16>,
    reset: Option<&'static str>,
    away: Option<&'static str>,
    closed: bool,
    /// The PING behind the case was answered.
    answers: bool,
}

impl Conduct {
    /// Takes the frames that are whole; the settings of the server, if they are among them.
    fn take(&mut self, ahead: &mut Vec<u8>) -> Option<usize> {
        let (mut used, mut frame_max) = (0, None);
        while let Ok(Some((frame, len))) = next(&ahead[used..]) {
            used += len;
            match frame.kind {
                Some(Kind::Settings) if !frame.has(flag::ACK) => {
                    let own = frame.settings().find(|it| it.0 == Setting::FrameMax as u16);
                    frame_max = Some(own.map_or(FRAME_MAX, |it| it.1 as usize));
                }
                Some(Kind::Headers) => {
                    let block = frame.content().map(|it| it.0).unwrap_or_default();
                    let head = self.heads.reply(block).ok().flatten();
                    let status = head.map(|it| it.grpc.unwrap_or(it.status));
                    self.status = self.status.or(status.filter(|it| !(100..200).contains(it)));
                }
                Some(Kind::Reset) => self.reset = Some(code_name(frame.payload)),
                Some(Kind::GoAway) => {
                    self.away = Some(code_name(frame.payload.get(4..).unwrap_or_default()));
                }
                Some(Kind::Ping) => self.answers |= frame.has(flag::ACK),
                _ => {}
            }
        }
        ahead.drain(..used);
        frame_max
    }

    fn words(&self) -> String {
        let status = self.status.map(|it| format!("a reply with {it}"));
        let reset = self.reset.map(|it| format!("RST_STREAM {it}"));
        let away = self.away.map(|it| format!("GOAWAY {it}"));
        let said: Vec<String> = [status, reset, away].into_iter().flatten().collect();
        let said = if said.is_empty() { "nothing".to_owned() } else { said.join(", ") };
        format!("{said}, {}", if self.closed { "closed" } else { "stays open" })
    }

    /// Whether an error has ended the connection.
    fn has_ended(&self) -> bool {
        self.closed || self.away.is_some_and(|it| it != "NO_ERROR")
    }
}

/// Sends the bytes of a case and watches what comes. `None` as bytes: a wrong preface.
fn watched(stand: &Stand, bytes: Option<fn(&Place<'_>) -> Vec<u8>>) -> std::io::Result<Conduct> {
    let call = stand.speech.call.clone().unwrap_or_default();
    let (mut client, mut conduct) = (stand.dial()?, Conduct::default());
    let mut end = Instant::now() + PATIENCE;
    let case = match bytes {
        None => b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(),
        Some(bytes) => {
            client.send(&greeting())?;
            let frame_max = loop {
                match conduct.take(&mut client.ahead) {
                    Some(frame_max) => break frame_max,
                    None if client.receive(end)? => {}
                    None => return Err(std::io::Error::other("no SETTINGS came")),
                }
            };
            client.send(&frame(Kind::Settings, flag::ACK, 0, b""))?;
            bytes(&Place { call: &call, frame_max })
        }
    };
    // A server may refuse and close before it has read everything.
    let _ = client.send(&case);
    let _ = client.send(&frame(Kind::Ping, 0, 0, b"checkup."));
    end = Instant::now() + PATIENCE;
    let mut is_late = false;
    while !conduct.closed && Instant::now() < end {
        conduct.closed = client.receive(end).is_err() || client.is_closed;
        conduct.take(&mut client.ahead);
        if (conduct.answers || conduct.away.is_some()) && !is_late {
            (is_late, end) = (true, Instant::now() + LATER);
        }
    }
    resets(&client);
    Ok(conduct)
}

pub(super) fn run(case: &Case, stand: &mut Stand) -> Result<Finding, String> {
    let conduct = watched(stand, Some(case.sent));
    let conduct = conduct.map_err(|why| format!("the case cannot be tried: {why}"))?;
    let usual = stand.speech.first.split(' ').nth(1).and_then(|it| it.parse().ok());
    let (holds, rule) = match case.want {
        Ends(code) => {
            (conduct.has_ended(), format!("the server must end the connection with {code}"))
        }
        Resets(code) => (
            conduct.has_ended()
                || conduct.reset.is_some_and(|it| it != "NO_ERROR")
                || matches!(conduct.status, Some(1..=16 | 400..=499)) && usual != conduct.status,
            format!("the server must end the stream with {code}"),
        ),
        Serves => (conduct.status == usual, "the server must serve the request".to_owned()),
    };
    Ok(case.judged(holds, conduct.words(), &rule))
}

/// A wrong preface. A server that speaks HTTP/1.1 too may refuse it in that.
pub(super) fn preface(stand: &mut Stand) -> Result<Finding, String> {
    let conduct = watched(stand, None);
    let conduct = conduct.map_err(|why| format!("the case cannot be tried: {why}"))?;
    let seen = format!("{} (RFC 9113 section 3.4)", conduct.words());
    Ok(match conduct.has_ended() {
        true => Finding::good(seen),
        false => Finding::fault(seen, "RFC 9113 section 3.4: the server must end the connection"),
    })
}

/// Requests that are dropped as soon as they are made, in batches on each connection.
pub(super) fn rapid_reset(stand: &mut Stand) -> Result<Finding, String> {
    let calm = stand.calm()?;
    let place = &*stand;
    let call = place.speech.call.clone().unwrap_or_default();
    let flood = |_, is_over: &AtomicBool| {
        let (mut dropped, mut ends, mut whole) = (0_u32, 0_u32, 0_u32);
        while !is_over.load(Ordering::Relaxed) {
            let Ok(mut client) = place.connect() else { continue };
            let mut asked = 0;
            let has_ended = loop {
                let mut bytes = Vec::new();
                for _ in 0..BATCH {
                    call.put(2 * asked + 1, &mut bytes);
                    put_reset(2 * asked + 1, Code::Cancel, &mut bytes);
                    asked += 1;
                }
                let moment = Instant::now() + Duration::from_millis(2);
                let is_gone = client.send(&bytes).is_err() || client.receive(moment).is_err();
                // The end of some streams is no end of the connection.
                let mut conduct = Conduct::default();
                conduct.take(&mut client.ahead);
                if is_gone || client.is_closed || conduct.has_ended() {
                    break true;
                }
                if asked >= RAPID || is_over.load(Ordering::Relaxed) {
                    break false;
                }
            };
            dropped += asked;
            ends += u32::from(has_ended);
            whole += u32::from(asked >= RAPID && !has_ended);
            resets(&client);
        }
        (dropped, ends, whole)
    };
    let (health, told) = alongside(1, flood, || {
        thread::sleep(STARVED / 10);
        place.health()
    });
    let (dropped, ends, whole) = told[0];
    let what = format!("{dropped} requests dropped at once, {ends} connections ended for it");
    let finding = crowd::judged(&what, &calm, &health?);
    Ok(match whole > 0 && ends == 0 && finding.is_good() {
        true => Finding::attention(
            what,
            "RFC 9113 section 10.5: a peer that only makes work should be refused (CVE-2023-44487)",
        ),
        false => finding,
    })
}
