//! Clients that a trusted proxy names before their first request.

use super::talk::{journal, options};
use ::layers::proxy::Proxied;
use ::web::{Format, Journal, MemoryFiles, Options, Web};
use seam::{Closed, Conn, Instant, Peer};
use sim::Talk;
use std::time::Duration;

/// A connection of `peer` to a server whose trusted proxies are 10.0.0.0/8.
struct Visit {
    heard: String,
    log: String,
    closes: bool,
    refused: u64,
}

fn visit(peer: &str, pieces: &[&[u8]], end: fn(&mut Instant) -> Option<Closed>) -> Visit {
    let web = Web::new(
        Options { record: Some(Format::default()), ..options() },
        MemoryFiles::new::<&str>(&[], false),
    );
    let trusted = vec!["10.0.0.0/8".parse().expect("a network")];
    let service = Proxied::new(web, trusted, Journal::count_unproxied);
    let journal = journal();
    let peer = Peer::Net(peer.parse().expect("an address"));
    let mut talk = Talk::from(peer, &service, &*journal);
    let heard: String = pieces.iter().map(|piece| talk.say(piece)).collect();
    let closes = talk.closes();
    match end(&mut talk.now) {
        Some(why) => drop(talk.leaves(why)),
        None => {
            talk.quietly(if talk.now == Instant::ZERO { Conn::eof } else { Conn::deadline });
            assert!(talk.closes());
            talk.leaves(Closed::Service);
        }
    }
    let mut log = Vec::new();
    journal.take(&mut log);
    let log = String::from_utf8_lossy(&log).into_owned();
    Visit { heard, log, closes, refused: journal.unproxied() }
}

const GET: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";
const FOUR: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n";
const SIX: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x50";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

#[test]
fn trusted_proxies_name_their_client_first() {
    for (header, client) in [
        (FOUR, "192.0.2.7"),
        (SIX, "2001:db8::7"),
        (LOCAL, "10.9.9.9"),
        (b"PROXY UNKNOWN\r\n", "10.9.9.9"),
    ] {
        let whole = [header, GET].concat();
        for cut in 0..=whole.len() {
            let pieces = [&whole[..cut], &whole[cut..]];
            let Visit { heard, log, refused, .. } = visit("10.9.9.9:1", &pieces, |_| None);
            assert!(heard.ends_with("\r\n\r\nHello, World!"), "cut at {cut}: {heard}");
            assert!(log.starts_with(&format!("{client} - - [")), "cut at {cut}: {log}");
            assert_eq!(refused, 0);
        }
    }
}

#[test]
fn a_header_that_is_none_ends_the_connection_and_is_counted() {
    let check = |sent: &[u8], end: fn(&mut Instant) -> Option<Closed>, closes: bool, count: u64| {
        let found = visit("10.9.9.9:1", &[sent], end);
        let text = sent.escape_ascii().to_string();
        assert_eq!((found.closes, found.refused), (closes, count), "{text}");
        assert_eq!((found.heard.as_str(), found.log.as_str()), ("", ""), "{text}");
    };
    for header in [FOUR, SIX, LOCAL] {
        for cut in 1..header.len() {
            check(&header[..cut], |_| None, false, 1);
            check(&header[..cut], |_| Some(Closed::Reset), false, 1);
        }
    }
    check(b"", |_| None, false, 0);
    let late: fn(&mut Instant) -> Option<Closed> = |now| {
        *now = *now + Duration::from_secs(10);
        None
    };
    check(b"", late, false, 0);
    check(b"PROXY ", late, false, 1);
    for bad in [GET, b"\x16\x03\x01", b"PROXY TCP4 x\r\n", &[&FOUR[..20], &[b'1'; 200]].concat()] {
        check(bad, |_| Some(Closed::Reset), true, 1);
    }
}

#[test]
fn others_speak_for_themselves() {
    let whole = [FOUR, GET].concat();
    let found = visit("192.0.2.1:1", &[&whole], |_| None);
    assert!(found.heard.starts_with("HTTP/1.1 400 "), "{}", found.heard);
    let found = visit("192.0.2.1:1", &[GET], |_| None);
    assert!(found.heard.starts_with("HTTP/1.1 200 "), "{}", found.heard);
    assert!(found.log.starts_with("192.0.2.1 - - ["), "{}", found.log);
}
