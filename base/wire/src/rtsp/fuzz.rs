//! Random RTSP conversations, RTCP and RTP packets: nothing panics, no item depends on where the
//! stream was cut, and a range or transport that parses is written so that it parses the same.

use crate::containers::join_avc;
use crate::{rtcp, rtp, rtsp};
use stats::Rng;

/// One round; `at` names it in messages.
///
/// # Panics
/// When a promise is broken.
pub(crate) fn fuzz(rng: &mut Rng, at: &str) {
    match rng.below(4) {
        0 | 1 => stream(rng, at),
        2 => fields(rng, at),
        _ => packets(rng, at),
    }
}

/// The pieces of valid and broken streams.
const PIECES: &[u8] = b"\
    OPTIONS * RTSP/1.0\r\n|PLAY rtsp://h/a RTSP/1.0\r\n|PLAY rtsp://h/a RTSP/2.0\n|\
    RTSP/1.0 200 OK\r\n|CSeq: 1\r\n|Content-Length: 3\r\n|content-length: 03\r\n|\
    Range: npt=0-\r\n| folded\r\n|Session\r\n|$\x00\x00\x02ab|$\x01\xff\xff|\r\n|\r\n\r\n|\n|abc|\
    \0|\xff";

fn stream(rng: &mut Rng, at: &str) {
    let pieces: Vec<&[u8]> = PIECES.split(|byte| *byte == b'|').collect();
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(12) {
        bytes.extend_from_slice(rng.pick::<&[u8]>(&pieces));
    }
    let whole = items(&bytes, bytes.len());
    let step = 1 + rng.below(9);
    let cut = items(&bytes, step);
    assert_eq!(whole, cut, "{at}: {:?}", bytes.escape_ascii().to_string());
}

/// The items found when `step` bytes arrive at a time, and how the stream ended.
fn items(bytes: &[u8], step: usize) -> (Vec<String>, Option<rtsp::Bad>) {
    let (mut told, mut from, mut seen) = (Vec::new(), 0, 0);
    loop {
        match rtsp::next(&bytes[from..seen]) {
            Ok(Some((item, used))) => {
                told.push(format!("{item:?}"));
                from += used;
            }
            Ok(None) if seen == bytes.len() => return (told, None),
            Ok(None) => seen = (seen + step).min(bytes.len()),
            Err(bad) => return (told, Some(bad)),
        }
    }
}

/// Values of header fields.
fn fields(rng: &mut Rng, at: &str) {
    const WORDS: &str = "\
        npt=|now|-|0|12.5|:|59|RTP/AVP|/TCP|;|,|unicast|multicast|client_port=|interleaved=|ttl=|\
        9|ssrc=|ffff|=|\"|Digest |username=\"u\"|destination=|port=|mode=record| |é";
    let words: Vec<&str> = WORDS.split('|').collect();
    let value: String = (0..rng.below(12)).map(|_| *rng.pick(&words)).collect();
    if let Some(range) = rtsp::parse_range(&value) {
        let told = format!(
            "npt={}-{}",
            range.from_ns.map_or("now".to_owned(), rtsp::seconds),
            range.to_ns.map_or(String::new(), rtsp::seconds)
        );
        assert_eq!(rtsp::parse_range(&told), Some(range), "{at}: {value}");
    }
    for transport in rtsp::transports(&value) {
        // A quoted destination may contain a separator; the server never writes one.
        if transport.destination.is_none() {
            assert_eq!(rtsp::transports(&transport.to_string()), [transport], "{at}: {value}");
        }
    }
    if let Some(answer) = rtsp::Authorization::read(&value) {
        assert!(!answer.proves("a", "PLAY"), "{at}: {value} proves what nobody can know");
    }
}

/// Noise, and valid packets with flipped bits or truncated.
fn packets(rng: &mut Rng, at: &str) {
    let sent = rtcp::SenderInfo {
        ssrc: rng.roll() as u32,
        ntp: rng.roll(),
        timestamp: 1,
        packets: 2,
        octets: 3,
    };
    let mut bytes = Vec::new();
    rtcp::write_sender_report(&sent, "name", rng.once_in(2), &mut bytes);
    let header = rtp::Header {
        marker: rng.once_in(2),
        payload_type: rng.below(128) as u8,
        sequence: rng.roll() as u16,
        timestamp: rng.roll() as u32,
        ssrc: sent.ssrc,
    };
    let read = rtp::Packet::read(&header.bytes()).map(|packet| packet.header);
    assert_eq!(read, Some(header), "{at}");
    if rng.once_in(2) {
        bytes = header.bytes().to_vec();
        bytes.extend((0..rng.below(20)).map(|_| rng.roll() as u8));
    }
    for _ in 0..rng.below(4) {
        let place = rng.below(bytes.len());
        bytes[place] ^= 1 << rng.below(8);
    }
    bytes.truncate(rng.below(bytes.len() + 1));
    rtcp::read(&bytes, |_| {});
    if let Some(packet) = rtp::Packet::read(&bytes) {
        assert!(packet.payload.len() + rtp::HEADER <= bytes.len(), "{at}");
    }
    let noise: Vec<u8> = (0..24)
        .map(|at| if at % 3 == 0 { *rng.pick(&[5, 24, 28, 31]) } else { rng.roll() as u8 })
        .collect();
    let payloads = noise.chunks(3).map(|it| (u16::from(it[1] & 3), &it[..rng.below(4)]));
    join_avc(payloads, &mut Vec::new());
}
