//! Random replies, cut at random places, intact and corrupted: scripts accept the intact ones and
//! survive the others. Also replies at random moments: the timeline loses none of them.
//!
//! Intact means that each request is answered once, without a fault, and no byte is left over. For
//! corrupted bytes the promise is: no panic, no more replies than requests, no more bytes used than
//! there were.

use crate::Instant;
use crate::faults::Faults;
use crate::parse::Mix;
use crate::script::echo::{LOGIN, packet};
use crate::script::{
    Echo, FlowScript, Flows, Http, Http2, HttpOptions, Line, LineOptions, Notes, Replies, ReplyLog,
    Script, Stock, StockOptions,
};
use crate::timeline::{BUCKETS_MAX, SLICES_MAX, Slice, Timeline};
use stats::Rng;
use wire::http2::{Kind, flag, put_field, put_frame, put_head, put_settings, put_status};

const REQUESTS: u32 = 12;

/// Fuzzes about `events` requests in short conversations, from `seed`.
///
/// # Panics
/// When a promise is broken; the message contains the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    slices(&mut rng, &format!("load::fuzz seed {seed}, slices"));
    for conversation in 0..events.div_ceil(REQUESTS) {
        let at = format!("load::fuzz seed {seed}, conversation {conversation}");
        let kind = rng.below(6);
        // Until the settings of HTTP/2 come there is one stream, and a step waits for its reply.
        let asked = if kind >= 4 { 1 } else { 1 + rng.below(REQUESTS as usize) as u32 };
        let (mut script, wire) = match kind {
            0 => web(&mut rng, asked),
            1 => echo(asked),
            2 => line(&mut rng, asked),
            4 => streams(&mut rng),
            5 => flow(&mut rng),
            _ => market(&mut rng, asked),
        };
        let (done, faults, left) = feed(&mut rng, &mut *script, asked, &wire, &at);
        assert_eq!((done, left), (asked, 0), "{at}: {faults:?}");
        assert!(faults.is_empty(), "{at}: {faults:?}");
        script.close(0);
        let mut broken = wire;
        breaks(&mut rng, &mut broken);
        let (done, _, _) = feed(&mut rng, &mut *script, asked, &broken, &at);
        assert!(done <= asked, "{at}: {done} replies to {asked} requests");
        script.close(0);
    }
}

/// Replies at random moments on two threads: slices tile the window, are bounded, and lose nothing.
fn slices(rng: &mut Rng, at: &str) {
    let start = Instant::from_ns(1 + rng.below(1 << 40) as u64);
    let mut threads = [Timeline::new(start), Timeline::new(start)];
    let (mut requests, mut errors, mut last) = (0, 0, start.ns());
    for line in &mut threads {
        let mut now = start.ns();
        for _ in 0..rng.below(200) {
            let stride = 1 + rng.below(36);
            now += rng.below(1 << stride) as u64;
            let (good, bad) = (1 + rng.below(3) as u64, rng.below(2) as u64);
            line.replied(Instant::from_ns(now), good, Some(rng.below(1 << 37) as u64));
            line.failed(bad);
            (requests, errors, last) = (requests + good, errors + bad, last.max(now));
        }
    }
    let [mut all, other] = threads;
    all.merge(other);
    let window_ns = last - start.ns() + 1;
    let slices = all.slices(window_ns);
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum::<u64>();
    assert_eq!((sum(|it| it.requests), sum(|it| it.errors)), (requests, errors), "{at}");
    let times = slices.iter().flat_map(|it| &it.buckets).map(|it| it.1).sum::<u64>();
    assert_eq!(times, requests, "{at}");
    let most = slices.iter().map(|it| it.buckets.len()).max().unwrap_or(0);
    assert!(slices.len() <= SLICES_MAX && most <= BUCKETS_MAX, "{at}: {} {most}", slices.len());
    assert!(window_ns < 1_000_000_000 || slices.len() >= SLICES_MAX / 2, "{at}: {}", slices.len());
    let mut end = 0.0;
    for slice in &slices {
        assert!((slice.at_ms - end).abs() < 1e-3, "{at}: {} after {end}", slice.at_ms);
        end = slice.at_ms + slice.for_ms;
    }
    assert!((end - window_ns as f64 / 1e6).abs() < 1e-3, "{at}: {end} ms of {window_ns} ns");
}

/// Sends requests, then feeds `wire` in random pieces; returns replies, faults and leftover bytes.
fn feed(
    rng: &mut Rng,
    script: &mut dyn Script,
    asked: u32,
    wire: &[u8],
    at: &str,
) -> (u32, Faults, usize) {
    let (mut faults, mut notes) = (Faults::default(), Notes::default());
    let detailed = rng.below(2) == 0;
    script.open(0);
    script.ask(0, asked, &mut Vec::new());
    let (mut held, mut sent, mut done) = (Vec::new(), 0, 0);
    while sent < wire.len() {
        let piece = 1 + rng.below(40);
        let end = (sent + piece).min(wire.len());
        held.extend_from_slice(&wire[sent..end]);
        sent = end;
        let mut log = ReplyLog::new(&mut faults, detailed.then_some(&mut notes));
        let replies: Replies = script.receive(0, &held, &mut log);
        assert!(replies.used <= held.len() && replies.wrong <= replies.done, "{at}: {replies:?}");
        script.answer(0, &mut Vec::new());
        held.drain(..replies.used);
        done += replies.done;
        if replies.over {
            // The driver would close the connection here and drop the rest.
            held.clear();
            break;
        }
    }
    if detailed {
        assert_eq!(notes.list.len(), done as usize, "{at}: a note for each reply");
    }
    (done, faults, held.len())
}

/// Changes, drops or duplicates some bytes.
fn breaks(rng: &mut Rng, wire: &mut Vec<u8>) {
    for _ in 0..=rng.below(3) {
        let place = rng.below(wire.len());
        match rng.below(3) {
            0 => wire[place] = rng.roll() as u8,
            1 => drop(wire.remove(place)),
            _ => wire.insert(place, wire[place]),
        }
        if wire.is_empty() {
            wire.push(0);
        }
    }
}

fn web(rng: &mut Rng, asked: u32) -> (Box<dyn Script>, Vec<u8>) {
    let options = HttpOptions::get("a", vec![("/".to_owned(), 1)], 1);
    let mut wire = Vec::new();
    for _ in 0..asked {
        let body = vec![b'x'; rng.below(60)];
        match rng.below(4) {
            0 => {
                wire.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                if !body.is_empty() {
                    wire.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
                    wire.extend_from_slice(&body);
                    wire.extend_from_slice(b"\r\n");
                }
                wire.extend_from_slice(b"0\r\n\r\n");
            }
            1 => wire.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n"),
            _ => {
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                wire.extend_from_slice(head.as_bytes());
                wire.extend_from_slice(&body);
            }
        }
    }
    let http = Http::new(options, 1).expect("constant options");
    (Box::new(http), wire)
}

/// A reply of HTTP/2 in some pieces, with an interim head, frames between them, and trailers.
fn streams(rng: &mut Rng) -> (Box<dyn Script>, Vec<u8>) {
    let options = HttpOptions::get("a", vec![("/".to_owned(), 1)], 1);
    let http = Http::new(options, 1).expect("constant options");
    let (mut wire, mut block) = (Vec::new(), Vec::new());
    put_settings(&[], &mut wire);
    put_status(103, &mut block);
    put_head(1, false, &block, &mut wire);
    block.clear();
    put_status(200, &mut block);
    put_field(b"server", &vec![b's'; rng.below(200)], &mut block);
    put_head(1, false, &block, &mut wire);
    for _ in 0..rng.below(4) {
        put_frame(Kind::Ping, 0, 0, b"12345678", &mut wire);
        put_frame(Kind::Data, flag::PADDED, 1, &vec![0; 1 + rng.below(60)], &mut wire);
    }
    block.clear();
    put_field(b"sum", b"1", &mut block);
    put_head(1, true, &block, &mut wire);
    (Box::new(Http2::new(http, "http")), wire)
}

/// A reply with cookies of all kinds from which a step takes values.
fn flow(rng: &mut Rng) -> (Box<dyn Script>, Vec<u8>) {
    const FLOW: &str = "[[flow]]\nname = 'f'\n[[flow.step]]\nname = 's'\npath = '/a/b'\n\
        take = { a = { json = '/a/1' }, b = { regex = '\"(.)\"' }, c = { header = 'C' } }\n\
        expect = { contains = 'x', json = { '/a/0' = 'x' }, header = { C = '7' } }";
    let target = "http://127.0.0.1:1".parse().expect("constant");
    let flows = Flows::parse(FLOW, std::path::Path::new(""), &target, &[]).expect("constant");
    let counters = flows.counters();
    let mut wire = b"HTTP/1.1 200 OK\r\nC: 7\r\n".to_vec();
    for _ in 0..rng.below(4) {
        let path = ["; Path=/a", "; Path=/c; Secure", ""][rng.below(3)];
        let end = ["; Max-Age=0", "; Max-Age=9", "; Expires=Thu, 01-Jan-1970 00:00:10 GMT", ""];
        let end = end[rng.below(4)];
        wire.extend_from_slice(format!("Set-Cookie: a=b{path}{end}\r\n").as_bytes());
    }
    wire.extend_from_slice(b"Content-Length: 15\r\n\r\n{\"a\":[\"x\", 12]}");
    (Box::new(FlowScript::new(flows.into(), counters, 1, false, rng.roll())), wire)
}

fn echo(asked: u32) -> (Box<dyn Script>, Vec<u8>) {
    let numbers = std::iter::once(LOGIN).chain(0..u64::from(asked));
    (Box::new(Echo::new(1)), numbers.flat_map(packet).collect())
}

fn line(rng: &mut Rng, asked: u32) -> (Box<dyn Script>, Vec<u8>) {
    let terminators = 1 + rng.below(2) as u32;
    let options = LineOptions {
        requests: vec![b"x\n".to_vec()],
        terminator: b"\r\n".to_vec(),
        terminators,
        prefix: b"$".to_vec(),
    };
    let mut wire = Vec::new();
    for _ in 0..asked {
        for _ in 0..terminators {
            wire.push(b'$');
            wire.extend(std::iter::repeat_n(b'y', rng.below(9)));
            wire.extend_from_slice(b"\r\n");
        }
    }
    (Box::new(Line::new(options, 1)), wire)
}

/// A market with one connection whose replies follow from the seed.
fn market(rng: &mut Rng, asked: u32) -> (Box<dyn Script>, Vec<u8>) {
    let left = rng.below(30) as u64;
    let options = StockOptions {
        mix: Mix { show: 1, buy: 2, sell: 1 },
        seed: rng.roll(),
        ..StockOptions::default()
    };
    let rows = format!("7 {left} 100\n");
    let make = || Stock::new(options.clone(), rows.as_bytes(), 1).expect("a row");
    let (mut requests, mut left) = (Vec::new(), left);
    // A second script with the same seed tells what the first will request.
    make().ask(0, asked, &mut requests);
    let mut wire = String::new();
    for request in String::from_utf8(requests).expect("ASCII").lines() {
        let words: Vec<&str> = request.split(' ').collect();
        let amount: u64 = words.get(2).map_or(0, |word| word.parse().expect("digits"));
        match words[0] {
            "buy" if amount > left => wire += "Not enough left stocks\n",
            "buy" => (left, wire) = (left - amount, wire + "[buy] success\n"),
            "sell" => (left, wire) = (left + amount, wire + "[sell] success\n"),
            _ => wire += &format!("7 {left} 100\n\n"),
        }
    }
    (Box::new(make()), wire.into_bytes())
}
