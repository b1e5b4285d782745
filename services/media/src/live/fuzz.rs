//! Live sources whose clocks jump, wrap, are missing or wrong, and with broken bytes, in any pieces
//! and at any pace. The same bytes at the same moments make the same datagrams, however they are
//! cut. Due times never decrease, and the feed invents no data. A client that receives interleaved
//! packets gets them with increasing numbers and times, and a BYE at the end.
//!
//! The oracle of a whole source is a second feed that gets the same bytes in other pieces. For a
//! broken one, bytes are counted: those that come out and those that were dropped add up to those
//! put in.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::Region;
use seam::{Instant, WorkerId};
use stats::Rng;
use wire::containers::ts::{GROUP, PACKET, PCR_WRAP};
use wire::rtcp;
use wire::rtp::Packet;
use wire::rtsp::{Item, next};

use super::super::playback::STALE_NS;
use super::super::test_server::{BEGIN, Guest, files, options, orders, session};
use super::super::title::locked;
use super::super::{Media, Options};
use super::{Feed, Input, Ring, Source};

/// The worker that reads the sources.
const READER: WorkerId = WorkerId::new(3, 1);
/// The maximum number of packets in a stream: the ring keeps them all.
const PACKETS_MAX: usize = 900;
/// Clock ticks between two readings.
const STEPS: &[u64] = &[0, 1, 270_000, 1_080_000, 1_080_000, 27_000_000, 27_000_000 * 60];

#[test]
fn sources_whole_and_broken() {
    for seed in sim::seeds(60) {
        let (mut rng, at) = (Rng::new(seed), format!("seed {seed}"));
        let whole = stream(&mut rng);
        cut(&mut rng, &whole, &at);
        let mut broken = whole;
        damage(&mut rng, &mut broken);
        broken_source(&mut rng, &broken, &at);
        listen(&mut rng, &broken, &at);
    }
}

/// A packet, with a reading of the clock where there is one.
pub(super) fn packet(pid: u16, number: usize, clock: Option<u64>, sync: bool) -> [u8; PACKET] {
    let mut packet = [number as u8; PACKET];
    packet[..4].copy_from_slice(&[0x47, (pid >> 8) as u8, pid as u8, 0x10]);
    if clock.is_some() || sync {
        let flags = if sync { 0x40 } else { 0 } | if clock.is_some() { 0x10 } else { 0 };
        packet[3..6].copy_from_slice(&[0x30, 7, flags]);
        let base = (clock.unwrap_or(0) / 300).min((1 << 33) - 1);
        let rest = (clock.unwrap_or(0) - base * 300).min(511);
        packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7 | (rest >> 8) as u8, rest as u8]);
    }
    packet
}

/// Packets of a stream with an arbitrary clock.
fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut clock = [0, PCR_WRAP - 1_000_000, rng.below(1 << 30) as u64][rng.below(3)];
    let clocked = 1 + rng.below(40);
    for number in 0..1 + rng.below(PACKETS_MAX) {
        let pid = [0, 256, 256, 256, 257, 8191][rng.below(6)];
        let has_clock = number % clocked == 0 || rng.once_in(200);
        if has_clock {
            clock = match rng.below(30) {
                // Values that no clock has: the lower part ends at 299.
                0 => [0, PCR_WRAP - 1, PCR_WRAP + 211, rng.below(1 << 40) as u64][rng.below(4)],
                _ => clock.wrapping_add(*rng.pick(STEPS)),
            };
        }
        let sync = has_clock && rng.once_in(3);
        bytes.extend(packet(pid, number, has_clock.then_some(clock), sync));
    }
    bytes
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(12) {
        let at = rng.below(bytes.len().max(1)).min(bytes.len());
        match rng.below(4) {
            0 => bytes[at..].iter_mut().take(1).for_each(|byte| *byte = rng.below(256) as u8),
            1 => drop(bytes.drain(at..(at + rng.below(400)).min(bytes.len()))),
            2 => drop(bytes.splice(at..at, (0..rng.below(400)).map(|it| it as u8))),
            // Bytes that look like the beginning of a packet.
            _ => drop(bytes.splice(at..at, vec![0x47; rng.below(3)])),
        }
    }
}

pub(super) fn ring() -> Arc<Region<Ring>> {
    let ring = Region::<Ring>::alone(&[]);
    Arc::new(ring)
}

/// The content of a ring: its bytes, the due times, and the places at which players can begin.
pub(super) fn content(ring: &Ring, at: &str) -> (Vec<u8>, Vec<(u64, bool)>) {
    let (mut bytes, mut looks) = (Vec::new(), Vec::new());
    for index in 0..ring.count() {
        let len = ring.len_of(index);
        assert!(len > 0 && len <= PACKET * GROUP && len.is_multiple_of(PACKET), "{at}: {len}");
        assert!(ring.read(index, &mut bytes), "{at}: datagram {index} is gone");
        looks.push(ring.look(index).expect("it is there"));
    }
    assert!(looks.is_sorted_by_key(|look| look.0), "{at}: moments go back");
    (bytes, looks)
}

/// Checks that the same bytes at the same moments give the same ring, in one piece and in many.
fn cut(rng: &mut Rng, bytes: &[u8], at: &str) {
    let (one, many) = (ring(), ring());
    let (mut whole, mut pieces) = (Feed::default(), Feed::default());
    let (mut now, mut rest) = (BEGIN, bytes);
    while !rest.is_empty() {
        let (here, later) = rest.split_at(rng.below(20_000).clamp(1, rest.len()));
        rest = later;
        whole.take(here, now, &one);
        let size = 1 + rng.below(700);
        here.chunks(size).for_each(|piece| pieces.take(piece, now, &many));
        whole.hurry(now, &one);
        pieces.hurry(now, &many);
        now = now + Duration::from_millis(rng.below(800) as u64);
    }
    whole.end(now, &one);
    pieces.end(now, &many);
    let found = content(&one, at);
    assert!(found.0 == bytes, "{at}: {} of {} bytes", found.0.len(), bytes.len());
    assert!(found == content(&many, at), "{at}: it matters how bytes are cut");
    assert_eq!(one.troubles(), many.troubles(), "{at}");
}

/// Broken bytes: whole packets come out with due times that never decrease, and no more bytes than
/// came in.
fn broken_source(rng: &mut Rng, bytes: &[u8], at: &str) {
    let (ring, mut feed) = (ring(), Feed::default());
    let mut now = BEGIN;
    for piece in bytes.chunks(1 + rng.below(5000)) {
        feed.take(piece, now, &ring);
        feed.hurry(now, &ring);
        now = now + Duration::from_millis(rng.below(900) as u64);
    }
    feed.end(now, &ring);
    let (out, _) = content(&ring, at);
    assert!(out.chunks(PACKET).all(|packet| packet[0] == 0x47), "{at}: no packets");
    let (astray, _) = ring.troubles();
    let rest = bytes.len().checked_sub(out.len() + astray as usize);
    assert!(rest.is_some_and(|rest| rest < PACKET), "{at}: {rest:?} bytes are neither");
}

/// A pipe that is filled by hand.
#[derive(Clone, Default)]
pub(super) struct Pipe(pub(super) Arc<Mutex<(Vec<u8>, bool)>>);

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (bytes, ended) = &mut *locked(&self.0);
        if bytes.is_empty() {
            return if *ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        bytes.drain(..len);
        Ok(len)
    }
}

const SETUP: &str = "SETUP rtsp://h/cam.ts RTSP/1.0\r\nCSeq: 1\r\n\
    Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n";

/// A client plays, pauses and resumes while the source delivers irregularly.
fn listen(rng: &mut Rng, bytes: &[u8], at: &str) {
    let pipe = Pipe::default();
    let input = Input { reader: Box::new(pipe.clone()), ends: true };
    let source = Source::new("cam.ts", ring(), input);
    assert!(source.take(READER), "{at}: nobody reads it yet");
    let server = Options { session_timeout: Duration::from_secs(3600), ..options() };
    let media = Media::new(server, files(false)).with_sources(vec![source]);
    let orders = orders();
    let mut guest = Guest::new(&media, &orders);
    let said = String::from_utf8_lossy(&guest.send(SETUP.as_bytes())).into_owned();
    let session = session(&said);
    let word = |method: &str| {
        format!("{method} rtsp://h/cam.ts RTSP/1.0\r\nCSeq: 2\r\nSession: {session}\r\n\r\n")
    };
    let mut heard = guest.send(word("PLAY").as_bytes());
    let mut is_playing = true;
    for piece in bytes.chunks(1 + rng.below(9000)) {
        locked(&pipe.0).0.extend_from_slice(piece);
        for _ in 0..rng.below(4) {
            media.sources[0].pump(READER, guest.now);
            heard.extend(guest.pass(Duration::from_millis(1 + rng.below(90) as u64)));
        }
        if rng.once_in(20) {
            is_playing = !is_playing;
            let method = if is_playing { "PLAY" } else { "PAUSE" };
            heard.extend(guest.send(word(method).as_bytes()));
        }
    }
    locked(&pipe.0).1 = true;
    // Up to a second is buffered, and a jump of the clock adds at most ten.
    let mut left = 2000;
    while left > 0 && media.sources[0].pump(READER, guest.now).is_some() {
        heard.extend(guest.pass(Duration::from_millis(500)));
        left -= 1;
    }
    assert!(left > 0, "{at}: the source does not end");
    let last = media.sources[0].ring().last_ns().map_or(guest.now, Instant::from_ns);
    // A client that joins begins at the last key picture and stays behind by its age.
    let behind = Duration::from_nanos(STALE_NS) + Duration::from_secs(1);
    heard.extend(guest.pass(last.since(guest.now) + behind));
    let bye = ordered(&heard, at);
    assert!(bye || !is_playing, "{at}: no bye");
    guest.leave();
    assert_eq!(orders.count(), 0, "{at}: a transmission was left behind");
}

/// Checks that sequence numbers are consecutive, except where a slow client skips, and that times
/// never decrease; returns whether a BYE arrived.
fn ordered(heard: &[u8], at: &str) -> bool {
    let (mut from, mut last, mut bye) = (0, None, false);
    while let Ok(Some((item, len))) = next(&heard[from..]) {
        from += len;
        let Item::Data { channel, packet } = item else { continue };
        if channel == 1 {
            let is_whole = rtcp::read(packet, |word| bye |= matches!(word, rtcp::Message::Bye(_)));
            assert!(is_whole, "{at}: a broken report");
            continue;
        }
        let header = Packet::read(packet).expect(at).header;
        if let Some((number, time)) = last {
            let (steps, ticks) =
                (header.sequence.wrapping_sub(number), header.timestamp.wrapping_sub(time));
            assert!((1..1 << 15).contains(&steps), "{at}: {steps} numbers behind {number}");
            assert!(ticks < 1 << 31, "{at}: time goes back by {}", ticks.wrapping_neg());
        }
        last = Some((header.sequence, header.timestamp));
    }
    assert_eq!(from, heard.len(), "{at}: something else came");
    bye
}
