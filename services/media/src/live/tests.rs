//! Sources are read and spread over time; clients join late and fall behind, in virtual time.

use std::time::Duration;

use seam::{Instant, WorkerId};
use stats::Rng;
use wire::containers::ts::{PACKET, PCR_HZ, PCR_WRAP};
use wire::rtsp::{Item, next};

use super::fuzz::{Pipe, content, packet, ring};
use super::*;
use crate::Media;
use crate::test_server::{BEGIN, Guest, files, options, orders, session};
use web::MemoryFiles;

/// The number of packets in a picture; the first is a table, the second contains the clock.
const PICTURE: usize = 14;
/// The time from one picture to the next.
const GAP: Duration = Duration::from_millis(40);
/// A player can begin at every picture whose number is a multiple of this.
const KEY: usize = 25;
const READER: WorkerId = WorkerId::new(3, 1);

/// A stream of this many pictures; its clock wraps on the way.
fn stream(pictures: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = PCR_WRAP - PCR_HZ;
    for picture in 0..pictures {
        let ticks = GAP.as_nanos() as u64 * PCR_HZ / 1_000_000_000 * picture as u64;
        let pcr = (start + ticks) % PCR_WRAP;
        bytes.extend_from_slice(&packet(0, picture, None, false));
        bytes.extend_from_slice(&packet(256, picture, Some(pcr), picture % KEY == 0));
        for _ in 2..PICTURE {
            bytes.extend_from_slice(&packet(256, picture, None, false));
        }
    }
    bytes
}

#[test]
fn what_goes_in_comes_out_spread_over_its_own_time_however_it_was_cut() {
    let bytes = stream(100);
    let mut rng = Rng::new(7);
    for _ in 0..20 {
        let (ring, mut feed) = (ring(), Feed::default());
        let mut rest = &bytes[..];
        // The source is read at full speed: only its clock determines the due times.
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rng.below(3000).clamp(1, rest.len()));
            feed.take(now, BEGIN, &ring);
            rest = later;
        }
        feed.end(BEGIN, &ring);
        let (out, looks) = content(&ring, "a stream");
        assert!(out == bytes, "{} of {} bytes", out.len(), bytes.len());
        let span = Duration::from_nanos(looks[looks.len() - 1].0 - looks[0].0);
        let want = GAP * 100;
        assert!(span > want - GAP * 2 && span < want + GAP, "{span:?}");
        let gaps = looks.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let widest = gaps.max().expect("a pair");
        assert!(widest <= GAP.as_nanos() as u64, "pictures are spread: {widest} ns");
        assert_eq!(ring.troubles(), (0, 0));
    }
}

#[test]
fn a_clock_that_is_silent_is_not_waited_for() {
    let (ring, mut feed) = (ring(), Feed::default());
    feed.take(&[packet(256, 1, None, false); 70].concat(), BEGIN, &ring);
    feed.hurry(BEGIN + Duration::from_millis(400), &ring);
    assert_eq!(ring.count(), 0);
    feed.hurry(BEGIN + Duration::from_millis(600), &ring);
    assert_eq!(ring.count(), 10);
}

/// The media payloads on channel 0, and whether a BYE came on channel 1.
fn taken(bytes: &[u8]) -> (Vec<u8>, bool) {
    let (mut payload, mut bye, mut at) = (Vec::new(), false, 0);
    while let Ok(Some((item, len))) = next(&bytes[at..]) {
        match item {
            Item::Data { channel: 0, packet } => payload.extend_from_slice(&packet[12..]),
            Item::Data { packet, .. } => bye |= packet.windows(2).any(|pair| pair == [0x81, 203]),
            Item::Request(_) | Item::Response(_) => {}
        }
        at += len;
    }
    (payload, bye)
}

/// A source that makes a picture every 40 ms.
struct Studio {
    pipe: Pipe,
    bytes: Vec<u8>,
    sent: usize,
    now: Instant,
}

impl Studio {
    fn new(pictures: usize) -> (Studio, Media<MemoryFiles>) {
        let pipe = Pipe::default();
        let input = Input { reader: Box::new(pipe.clone()), ends: true };
        let source = Source::new("cam.ts", ring(), input);
        assert!(source.take(READER) && !source.take(READER), "it is taken up once");
        let media = Media::new(options(), files(false)).with_sources(vec![source]);
        (Studio { pipe, bytes: stream(pictures), sent: 0, now: BEGIN }, media)
    }

    /// Advances the time: pictures arrive, and clients receive the due packets.
    fn go_on(&mut self, media: &Media<MemoryFiles>, guests: &mut [(Guest<'_>, Vec<u8>)], ms: u64) {
        let end = BEGIN + Duration::from_millis(ms);
        while self.now < end {
            self.now = self.now + Duration::from_millis(5);
            let due = (self.now.since(BEGIN).as_nanos() / GAP.as_nanos()) as usize;
            let to = (due * PICTURE * PACKET).min(self.bytes.len());
            let mut pipe = locked(&self.pipe.0);
            pipe.0.extend_from_slice(&self.bytes[self.sent..to]);
            self.sent = to;
            pipe.1 = to == self.bytes.len();
            drop(pipe);
            media.sources[0].pump(READER, self.now);
            for (guest, heard) in &mut *guests {
                heard.extend(guest.pass(self.now.since(guest.now)));
            }
        }
    }
}

const URL: &str = "rtsp://10.0.0.1/cam.ts";

fn play(guest: &mut Guest<'_>) -> Vec<u8> {
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = guest.ask("SETUP", URL, transport);
    let session = session(&answer);
    let request = format!("PLAY {URL} RTSP/1.0\r\nCSeq: 9\r\nSession: {session}\r\n\r\n");
    guest.send(request.as_bytes())
}

#[test]
fn many_see_the_same_and_who_comes_late_begins_where_a_player_can() {
    let (mut studio, media) = Studio::new(200);
    let orders = orders();
    let mut guests: Vec<(Guest<'_>, Vec<u8>)> = Vec::new();
    for join_ms in [1500, 1700, 2900] {
        studio.go_on(&media, &mut guests, join_ms);
        let mut guest = Guest::new(&media, &orders);
        guest.now = studio.now;
        let described = guest.ask("DESCRIBE", URL, "");
        assert!(described.contains("a=range:npt=now-") && described.contains("MP2T/90000"));
        let answer = play(&mut guest);
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("an end") + 4;
        let text = String::from_utf8_lossy(&answer[..end]);
        assert!(text.contains("Range: npt=now-\r\n"), "{text}");
        guests.push((guest, answer[end..].to_vec()));
    }
    // From now on this client takes no bytes.
    guests[1].0.sip = 0;
    studio.go_on(&media, &mut guests, 12_000);
    let whole = stream(200);
    for (index, (guest, heard)) in guests.iter_mut().enumerate() {
        let (payload, bye) = taken(heard);
        if index == 1 {
            assert!(!bye && payload.len() < whole.len() / 2, "its debt is bounded");
            continue;
        }
        assert!(bye, "the end of the source is told");
        assert!(whole.ends_with(&payload), "{index}: {} bytes", payload.len());
        // The skip ended at a table before a key picture, so a whole number of groups of pictures
        // is left.
        assert_eq!(payload.len() % (KEY * PICTURE * PACKET), 0, "{index}");
        assert!(payload.len() > 4 * KEY * PICTURE * PACKET);
        assert!(guest.ask("DESCRIBE", URL, "").starts_with("RTSP/1.0 410"));
    }
}

#[test]
fn who_comes_before_the_first_packet_gets_it_when_it_comes() {
    for pictures in [50, 0] {
        let (mut studio, media) = Studio::new(pictures);
        let orders = orders();
        let mut guest = Guest::new(&media, &orders);
        guest.now = studio.now;
        let answer = play(&mut guest);
        assert!(answer.starts_with(b"RTSP/1.0 200"));
        let mut guests = vec![(guest, Vec::new())];
        studio.go_on(&media, &mut guests, 12_000);
        let (payload, bye) = taken(&guests[0].1);
        assert!(payload == stream(pictures), "{pictures}: {} bytes", payload.len());
        assert!(bye, "{pictures}: the end of the source is told");
    }
}
