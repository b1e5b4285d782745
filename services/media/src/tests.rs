//! Conversations, packets and streams, in virtual time.
//!
//! A test is a client that speaks to the service directly. The oracle is the file: payloads put
//! together are its bytes, and numbers and times begin where the answer to PLAY said.

use std::sync::Arc;
use std::time::Duration;

use seam::{Burst, Channel, Effects, Instant, PacedCx, PacedSource, Service, WorkerId};
use sim::{Deed, Whims, paced_laws, play_paced};
use wire::rtp::Packet;
use wire::rtsp::{Item, digest_response, next};

use super::service::{Job, Outcome};
use super::test_server::{Guest, files, options, orders, session, wave};
use super::{Credentials, Media, Options};
use web::MemoryFiles;

const URL: &str = "rtsp://10.0.0.1/a.wav";
const HOUR: Duration = Duration::from_secs(3600);
const TCP: &str = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5\r\n";
const UDP: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";

fn media(options: Options) -> Media<MemoryFiles> {
    Media::new(options, files(false))
}

fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("expected {name} in {answer}"))
}

fn code(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}

/// Sets up a track and returns the header line that names the session.
fn set_up(guest: &mut Guest<'_>, url: &str, transport: &str) -> String {
    let answer = guest.ask("SETUP", url, transport);
    assert_eq!(code(&answer), "200", "{answer}");
    format!("Session: {}\r\n", session(&answer))
}

/// The packets of media on channel 4 and the number of reports on channel 5.
fn packets(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let (mut media, mut reports, mut at) = (Vec::new(), 0, 0);
    while let Ok(Some((item, len))) = next(&bytes[at..]) {
        match item {
            Item::Data { channel: 4, packet } => media.push(packet.to_vec()),
            Item::Data { channel: 5, .. } => reports += 1,
            Item::Data { channel, .. } => panic!("channel {channel}"),
            Item::Request(_) | Item::Response(_) => {}
        }
        at += len;
    }
    assert_eq!(at, bytes.len(), "something else came");
    (media, reports)
}

/// The sequence number and timestamp of the only track in `RTP-Info`.
fn info(answer: &str) -> (u16, u32) {
    let info = field(answer, "RTP-Info");
    let value = |name: &str| {
        let part = info.split(';').find_map(|part| part.strip_prefix(name));
        part.expect("a number").parse::<u32>().expect("a number")
    };
    (value("seq=") as u16, value("rtptime="))
}

fn first(packets: &[Vec<u8>]) -> (u16, u32) {
    let header = Packet::read(&packets[0]).expect("a packet").header;
    (header.sequence, header.timestamp)
}

fn payload(packets: &[Vec<u8>]) -> Vec<u8> {
    packets.iter().flat_map(|it| Packet::read(it).expect("a packet").payload.to_vec()).collect()
}

#[test]
fn a_film_is_described_played_paused_sought_and_torn_down_within_the_connection() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let answer = guest.ask("OPTIONS", "*", "");
    assert!(field(&answer, "Public").contains("GET_PARAMETER"), "{answer}");
    let answer = guest.ask("DESCRIBE", URL, "Accept: application/sdp\r\n");
    assert_eq!(field(&answer, "Content-Base"), "rtsp://10.0.0.1/a.wav/");
    assert!(answer.contains("a=range:npt=0-1.500000\r\n"), "{answer}");
    let session = set_up(&mut guest, &format!("{URL}/trackID=0"), TCP);
    let answer = guest.ask("PLAY", URL, &format!("{session}Range: npt=0.000-\r\n"));
    assert_eq!(field(&answer, "Range"), "npt=0.000000-1.500000");
    let told = info(&answer);
    // A packet holds 20 ms, and packets due within 4 ms leave together. Half a second is 25
    // packets.
    let bytes = answer.split_once("\r\n\r\n").map_or("", |(_, rest)| rest).len();
    assert!(bytes > 0, "the first packet leaves with the answer");
    let mut heard = guest.pass(Duration::from_millis(490));
    let answer = guest.ask("PAUSE", URL, &session);
    assert!(field(&answer, "Range").starts_with("npt=0.49"), "{answer}");
    assert!(guest.pass(Duration::from_secs(2)).is_empty(), "paused");
    let answer = guest.ask("PLAY", URL, &session);
    let (resumed, resumed_time) = info(&answer);
    assert_eq!(resumed, told.0.wrapping_add(25), "numbers go on");
    assert_eq!(resumed_time.wrapping_sub(told.1), (2_490 * 8), "and so does time");
    heard.extend(guest.pass(Duration::from_secs(3)));
    let (media_packets, reports) = packets(&heard);
    assert!(reports >= 1, "a bye at the end");
    // The packets that came with the two answers are missing here.
    assert!(payload(&media_packets).len() > 10_000);
    let answer = guest.ask("PLAY", URL, &format!("{session}Range: npt=1.0-\r\n"));
    assert_eq!(field(&answer, "Range"), "npt=1.000000-1.500000");
    let answer = guest.ask("GET_PARAMETER", URL, &format!("{session}Content-Length: 8\r\n"));
    assert_eq!(answer, "", "its body has not come");
    let answer = String::from_utf8_lossy(&guest.send(b"position")).into_owned();
    assert!(answer.ends_with("position: 1.000\r\n"), "{answer}");
    let answer = guest.ask("TEARDOWN", URL, &session);
    assert_eq!(code(&answer), "200");
    assert_eq!(code(&guest.ask("PLAY", URL, &session)), "454");
}

#[test]
fn what_is_played_is_what_is_in_the_file_and_begins_as_was_told() {
    for (name, url) in [("a.wav", URL), ("l.wav", "rtsp://10.0.0.1/l.wav")] {
        // The long file is read in windows.
        let media = media(Options { file_max: 100_000, ..options() });
        let orders = orders();
        let mut guest = Guest::new(&media, &orders);
        let session = set_up(&mut guest, url, TCP);
        let request = format!("PLAY {url} RTSP/1.0\r\nCSeq: 2\r\n{session}\r\n");
        let answer = guest.send(request.as_bytes());
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("an end") + 4;
        let told = info(&String::from_utf8_lossy(&answer[..end]));
        let mut heard = answer[end..].to_vec();
        heard.extend(guest.pass(Duration::from_secs(45)));
        let (packets, _) = packets(&heard);
        assert_eq!(first(&packets), told, "{name}");
        let (mut sent, file) = (payload(&packets), wave(7, 8, 12_000));
        let file = if name == "a.wav" { file } else { wave(1, 16, 600_000) };
        if name == "l.wav" {
            sent.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        assert!(sent == file[44..], "{name}: {} bytes of {}", sent.len(), file.len() - 44);
    }
}

#[test]
fn each_mistake_has_its_code() {
    let (media, orders) = (media(options()), orders());
    let check = |method: &str, url: &str, fields: &str, want: &str| {
        let mut guest = Guest::new(&media, &orders);
        let answer = guest.ask(method, url, fields);
        assert_eq!(code(&answer), want, "{method} {url} {fields}: {answer}");
        guest.leave();
    };
    check("DESCRIBE", "rtsp://h/none", "", "404");
    check("DESCRIBE", "rtsp://h/../../etc/passwd", "", "404");
    check("DESCRIBE", "rtsp://h/%2e%2e/%2e%2e/etc/passwd", "", "404");
    check("DESCRIBE", "rtsp://h/d", "", "404");
    check("DESCRIBE", "rtsp://h/bad.txt", "", "415");
    let why = Guest::new(&media, &orders).ask("DESCRIBE", "rtsp://h/bad.txt", "");
    assert!(why.contains("\r\n\r\nexpected a file of MPEG-TS, "), "{why}");
    check("DESCRIBE", URL, "Accept: text/html\r\n", "406");
    check("DESCRIBE", URL, "Require: implicit-play\r\n", "551");
    check("SETUP", URL, "", "461");
    check("SETUP", URL, "Transport: RTP/SAVP;unicast;client_port=5000-5001\r\n", "461");
    check("SETUP", URL, "Transport: RTP/AVP;unicast\r\n", "461");
    check("SETUP", &format!("{URL}/trackID=3"), TCP, "404");
    check("SETUP", URL, &format!("Session: 1\r\n{TCP}"), "454");
    check("PLAY", URL, "", "455");
    check("PLAY", URL, "Session: 1\r\n", "454");
    check("RECORD", URL, "", "405");
    check("FLY", URL, "", "501");
    check("SET_PARAMETER", URL, "Content-Length: 0\r\n", "200");
    let mut guest = Guest::new(&media, &orders);
    let answer = guest.send(b"PLAY rtsp://h/a RTSP/2.0\r\nCSeq: 1\r\n\r\n");
    assert!(answer.starts_with(b"RTSP/1.0 505 "));
    assert!(guest.send(b"OPTIONS * RTSP/1.0\r\n\r\n").starts_with(b"RTSP/1.0 400 "), "no CSeq");
    assert!(guest.is_open());
    assert!(guest.send(b"GET / HTTP/1.1\r\n\r\n").starts_with(b"RTSP/1.0 400 "));
    assert!(!guest.is_open(), "what comes behind cannot be understood");
}

#[test]
fn within_a_session_too() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, TCP);
    let mut check = |method: &str, url: &str, fields: &str, want: &str| {
        let answer = guest.ask(method, url, &format!("{session}{fields}"));
        assert_eq!(code(&answer), want, "{method} {url} {fields}: {answer}");
    };
    // The same track over another transport: a client may change it until playback begins.
    check("SETUP", URL, TCP, "200");
    check("SETUP", "rtsp://10.0.0.1/l.wav", TCP, "459");
    check("PLAY", URL, "Range: npt=1.5-\r\n", "457");
    check("PLAY", URL, "Range: clock=19961108T143720.25Z-\r\n", "457");
    check("PLAY", "rtsp://10.0.0.1/l.wav", "", "404");
    check("SET_PARAMETER", URL, "Content-Length: 4\r\n\r\nabc\n", "451");
    check("PLAY", &format!("{URL}/trackID=0"), "", "200");
    check("SETUP", URL, TCP, "455");
}

#[test]
fn datagrams_go_to_who_asks_and_to_nobody_else() {
    let (media, orders) = (media(Options { per_address: 2, ..options() }), orders());
    let check = |transport: &str, want: &str| {
        let mut guest = Guest::new(&media, &orders);
        let answer = guest.ask("SETUP", URL, &format!("Transport: {transport}\r\n"));
        assert_eq!(code(&answer), want, "{transport}: {answer}");
        answer
    };
    check("RTP/AVP;unicast;destination=10.0.0.8;client_port=5000-5001", "461");
    check("RTP/AVP;unicast;destination=name;client_port=5000-5001", "461");
    check("RTP/AVP;unicast;client_port=53-54", "461");
    check("RTP/AVP;unicast;client_port=5000-5000", "461");
    let fallback = "RTP/AVP;unicast;client_port=53-54,RTP/AVP/TCP;unicast";
    assert!(field(&check(fallback, "200"), "Transport").contains("interleaved=0-1"));
    let answer = check("RTP/AVP;unicast;destination=10.0.0.9;client_port=5000-5001", "200");
    assert!(field(&answer, "Transport").contains("server_port=6000-6001"), "{answer}");
    check("RTP/AVP;unicast;client_port=5002-5003", "200");
    check("RTP/AVP;unicast;client_port=5004-5005", "453");
}

#[test]
fn who_does_not_know_the_password_sees_nothing() {
    let credentials = Credentials { user: "ann".to_owned(), password: "secret".to_owned() };
    let (media, orders) =
        (media(Options { credentials: Some(credentials), ..options() }), orders());
    let mut guest = Guest::new(&media, &orders);
    assert_eq!(code(&guest.ask("OPTIONS", "*", "")), "200");
    let answer = guest.ask("DESCRIBE", URL, "");
    assert_eq!(code(&answer), "401");
    let nonce = field(&answer, "WWW-Authenticate").split('"').nth(3).expect("a nonce").to_owned();
    let proof = |password, method| {
        let proof = digest_response(("ann", "roundhouse", password), &nonce, (method, URL), None);
        format!(
            "Authorization: Digest username=\"ann\", realm=\"roundhouse\", nonce=\"{nonce}\", \
             uri=\"{URL}\", response=\"{proof}\"\r\n"
        )
    };
    assert_eq!(code(&guest.ask("DESCRIBE", URL, &proof("guess", "DESCRIBE"))), "401");
    assert_eq!(code(&guest.ask("DESCRIBE", URL, &proof("secret", "DESCRIBE"))), "200");
    assert_eq!(code(&guest.ask("DESCRIBE", "rtsp://h/l.wav", &proof("secret", "DESCRIBE"))), "401");
    // Another address cannot use an answer that it has seen.
    let mut thief = Guest::from(seam::Peer::Net(([10, 0, 0, 8], 40_000).into()), &media, &orders);
    assert_eq!(code(&thief.ask("DESCRIBE", URL, &proof("secret", "DESCRIBE"))), "401");
    // Guessing costs connections.
    let mut guesser = Guest::new(&media, &orders);
    for is_last in [false, false, true] {
        assert_eq!(code(&guesser.ask("DESCRIBE", URL, &proof("guess", "DESCRIBE"))), "401");
        assert_eq!(guesser.is_open(), !is_last);
    }
    // Keep-alives, so that the connection outlives the nonce.
    for _ in 0..6 {
        guest.pass(Duration::from_secs(55));
        guest.ask("OPTIONS", "*", "");
    }
    let answer = guest.ask("DESCRIBE", URL, &proof("secret", "DESCRIBE"));
    assert!(field(&answer, "WWW-Authenticate").contains("stale=\"true\""), "{answer}");
}

#[test]
fn who_is_silent_is_forgotten_and_who_leaves_leaves_nothing() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, UDP);
    assert_eq!(code(&guest.ask("PLAY", URL, &session)), "200");
    guest.pass(Duration::from_secs(59));
    assert!(guest.is_open());
    guest.pass(Duration::from_secs(2));
    assert!(!guest.is_open());
    assert_eq!(orders.count(), 0);
    let mut guest = Guest::new(&media, &orders);
    set_up(&mut guest, URL, UDP);
    assert_eq!(orders.count(), 1);
    guest.leave();
    assert_eq!(orders.count(), 0);
}

#[test]
fn a_slow_client_owes_no_more_than_was_agreed() {
    let media = media(Options { repeat: true, debt: Duration::from_secs(1), ..options() });
    let orders = orders();
    let mut guest = Guest::new(&media, &orders);
    let url = "rtsp://10.0.0.1/l.wav";
    let session = set_up(&mut guest, url, TCP);
    guest.sip = 0;
    guest.ask("PLAY", url, &session);
    guest.pass(Duration::from_secs(120));
    guest.sip = usize::MAX;
    let heard = guest.send(b"");
    let heard = [heard, guest.pass(Duration::from_millis(500))].concat();
    let end = heard.windows(4).position(|it| it == b"\r\n\r\n").expect("an answer") + 4;
    let (packets, _) = packets(&heard[end..]);
    let sequence = |at: usize| Packet::read(&packets[at]).expect("a packet").header.sequence;
    let gap = (1..packets.len()).map(|at| sequence(at).wrapping_sub(sequence(at - 1))).max();
    // 16 KB a second fill 256 KiB in 16 s; the rest of the two minutes is skipped.
    assert!(gap > Some(4_500), "{gap:?}");
}

#[test]
fn a_broadcast_is_joined_where_it_is() {
    let (media, orders) = (media(Options { live: true, ..options() }), orders());
    let mut guest = Guest::new(&media, &orders);
    let answer = guest.ask("DESCRIBE", URL, "");
    assert!(answer.contains("a=range:npt=now-\r\n"), "{answer}");
    guest.now = guest.now + Duration::from_millis(700);
    let session = set_up(&mut guest, URL, TCP);
    let request = format!("PLAY {URL} RTSP/1.0\r\nCSeq: 2\r\n{session}Range: npt=0-\r\n\r\n");
    let answer = guest.send(request.as_bytes());
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("an end") + 4;
    let (packets, _) = packets(&answer[end..]);
    // The clock stands at 1000.7 s, and a lap takes 1.5 s.
    let at = (1_000_700 % 1_500) / 20 * 160;
    assert_eq!(payload(&packets)[..160], wave(7, 8, 12_000)[44 + at..44 + at + 160]);
}

#[test]
fn a_cast_is_what_was_told_and_ends_with_a_bye() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, UDP);
    let told = info(&guest.ask("PLAY", URL, &session));
    let slot = (0..super::SLOTS).find(|slot| orders.epoch(*slot) > 0).expect("an order");
    let end = |orders: &super::Orders| orders.release(slot);
    let deeds = [Deed { at: Duration::from_secs(4), act: &end }];
    let heard = play_paced(&media, &*orders, &deeds, Duration::from_secs(5), Whims::CALM, 1);
    assert_eq!(heard.breaches, [], "laws");
    let made = &heard.streams[0];
    let of = |channel| made.iter().filter(move |it| it.channel == channel);
    let packets: Vec<Vec<u8>> = of(Channel::Rtp).map(|it| it.bytes.clone()).collect();
    assert_eq!(first(&packets), told);
    assert_eq!(payload(&packets), wave(7, 8, 12_000)[44..]);
    let goals: Vec<u16> = [Channel::Rtp, Channel::Rtcp]
        .map(|channel| of(channel).next().expect("a packet").to.port())
        .to_vec();
    assert_eq!(goals, [5000, 5001]);
    let byes: Vec<Duration> = of(Channel::Rtcp)
        .filter(|it| it.bytes.windows(2).any(|it| it == [0x81, 203]))
        .map(|it| it.at)
        .collect();
    // A little after the end, so that the BYE overtakes no packet.
    assert_eq!(byes, [Duration::from_millis(1_700)], "one bye, also when it is torn down");
    guest.leave();
    assert_eq!(orders.count(), 0);
}

#[test]
fn casts_keep_the_laws_and_are_paused_and_torn_down() {
    let media = media(Options { debt: HOUR, pause_debt: HOUR, repeat: true, ..options() });
    let fresh = || {
        let orders = orders();
        for _ in 0..2 {
            let mut guest = Guest::new(&media, &orders);
            let session = set_up(&mut guest, URL, UDP);
            guest.ask("PLAY", URL, &session);
            // The session's stream must survive it.
            std::mem::forget(guest);
        }
        orders
    };
    paced_laws(&media, fresh, (2, &[]), Duration::from_secs(12), 20);
    let slots = {
        let orders = fresh();
        (0..super::SLOTS).filter(|slot| orders.epoch(*slot) > 0).collect::<Vec<_>>()
    };
    let pause = |orders: &super::Orders| {
        // A packet that no engine has reached by then.
        orders.pause(slots[0], 150);
    };
    let deeds = [Deed { at: Duration::from_millis(1_990), act: &pause }];
    paced_laws(&media, fresh, (2, &deeds), Duration::from_secs(6), 20);
    // A stream that is torn down sends a BYE at once.
    let orders = fresh();
    let end = |orders: &super::Orders| orders.release(slots[1]);
    let deeds = [Deed { at: Duration::from_millis(3_333), act: &end }];
    let heard = play_paced(&media, &*orders, &deeds, Duration::from_secs(6), Whims::CALM, 1);
    assert_eq!(heard.breaches, [], "laws");
    let last = heard.streams[1].last().expect("a bye");
    assert_eq!((last.channel, last.at), (Channel::Rtcp, Duration::from_millis(3_333)));
    assert_eq!(orders.count(), 1);
    for seed in 0..40 {
        // Each state draws its own numbers, so the slots are those of this one.
        let orders = fresh();
        let slot = (0..super::SLOTS).rfind(|slot| orders.epoch(*slot) > 0).expect("a slot");
        let end = |orders: &super::Orders| orders.release(slot);
        let deeds = [Deed { at: Duration::from_millis(3_333), act: &end }];
        let length = Duration::from_secs(6);
        let heard = play_paced(&media, &*orders, &deeds, length, Whims::of(seed), seed);
        assert_eq!(heard.breaches, [], "seed {seed}");
        if Whims::of(seed).stalls > 0 {
            // A stalled clock jumps past the end of the run before the order comes.
            continue;
        }
        let last = heard.streams.iter().filter_map(|made| made.last());
        let is_bye = |it: &&sim::Made| it.bytes.windows(2).any(|two| two == [0x81, 203]);
        assert_eq!(last.filter(is_bye).count(), 1, "seed {seed}");
    }
}

#[test]
fn a_bye_follows_packets_that_were_requested_ahead() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, UDP);
    guest.ask("PLAY", URL, &session);
    let slot = (0..super::SLOTS).find(|slot| orders.epoch(*slot) > 0).expect("an order");
    let begin = orders.order(slot).expect("an order").segment.begin;
    let effects = Effects::new(false, false);
    let cx = PacedCx::new(begin, WorkerId::new(1, 1), &*orders, &effects);
    let (mut stream, _) = media.start(&cx).expect("a stream");
    let mut burst = Burst::new(64);
    media.due(&cx, &mut stream, begin + Duration::from_millis(500), &mut burst);
    let ahead = burst.len();
    // The stream sees the end at its next turn, while the packets wait in the kernel.
    orders.release(slot);
    media.due(&cx, &mut stream, begin + Duration::from_millis(520), &mut burst);
    let (bye, before) = burst.packets().split_last().expect("packets");
    assert_eq!((bye.channel, before.len()), (Channel::Rtcp, ahead));
    assert!(ahead > 20 && before.iter().all(|it| it.at <= bye.at), "{:?}", bye.at);
}

#[test]
fn a_pause_of_a_late_stream_is_quiet_at_once() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, UDP);
    guest.ask("PLAY", URL, &session);
    let slot = (0..super::SLOTS).find(|slot| orders.epoch(*slot) > 0).expect("an order");
    let begin = orders.order(slot).expect("an order").segment.begin;
    let effects = Effects::new(false, false);
    let at = |ms| begin + Duration::from_millis(ms);
    let cx = |ms| PacedCx::new(at(ms), WorkerId::new(1, 1), &*orders, &effects);
    let (mut stream, _) = media.start(&cx(0)).expect("a stream");
    let mut burst = Burst::new(64);
    media.due(&cx(20), &mut stream, at(20), &mut burst);
    burst.clear();
    // The worker is held up for more than a second, then the client pauses: of the packets of
    // 20 ms the five of the last tenth of a second are still sent.
    orders.pause(slot, 60);
    media.rung(&cx(1_200), &mut stream);
    let next = media.due(&cx(1_200), &mut stream, at(1_200), &mut burst);
    let media_packets = burst.packets().iter().filter(|it| it.channel == Channel::Rtp).count();
    assert_eq!((media_packets, orders.skipped()), (5, 53));
    assert_eq!((next, orders.reached(slot)), (seam::Next::Parked, 60), "the numbers go on");
    guest.leave();
}

#[test]
fn numbers_go_on_however_late_a_source_hears_of_a_pause() {
    let media = media(options());
    // A seek in the middle of the second packet's time, received late, in time, and early.
    for (heard_at, stop) in [(50, 4), (45, 3), (41, 5), (45, 20)] {
        let orders = orders();
        let mut guest = Guest::new(&media, &orders);
        let session = set_up(&mut guest, URL, UDP);
        let told = info(&guest.ask("PLAY", URL, &session));
        let slot = (0..super::SLOTS).find(|slot| orders.epoch(*slot) > 0).expect("an order");
        let seek = |orders: &super::Orders| {
            orders.pause(slot, stop);
            let old = orders.order(slot).expect("an order").segment;
            let sequence = old.sequence.wrapping_add(orders.reached(slot) as u16);
            let (first, from_ns) = (50, 1_000_000_000);
            let begin = old.begin + Duration::from_millis(heard_at);
            let new = super::cursor::Segment { first, from_ns, begin, sequence, stop: 75, ..old };
            orders.play(slot, &super::cursor::Segment { ends: true, ..new });
        };
        let deeds = [Deed { at: Duration::from_millis(heard_at), act: &seek }];
        let heard = play_paced(&media, &*orders, &deeds, Duration::from_secs(3), Whims::CALM, 1);
        assert_eq!(heard.breaches, [], "laws");
        let made = heard.streams[0].iter().filter(|it| it.channel == Channel::Rtp);
        let numbers: Vec<u16> =
            made.map(|it| Packet::read(&it.bytes).expect("a packet").header.sequence).collect();
        let want: Vec<u16> = (0..stop as u16 + 25).map(|at| told.0.wrapping_add(at)).collect();
        assert_eq!(numbers, want, "heard at {heard_at} ms, stops at {stop}");
        guest.leave();
    }
}

#[test]
fn who_hears_nothing_forgets_the_session_and_tries_another_way() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, URL, UDP);
    guest.ask("PLAY", URL, &session);
    assert_eq!(code(&guest.ask("SETUP", URL, TCP)), "455", "it plays");
    guest.ask("PAUSE", URL, &session);
    guest.pass(Duration::from_millis(5));
    let again = set_up(&mut guest, URL, TCP);
    assert_ne!(session, again);
    assert_eq!(orders.count(), 0, "nothing is sent by datagrams any more");
    // The same track over another transport, in the same session.
    let answer = guest.ask("SETUP", URL, &format!("{again}{UDP}"));
    assert!(field(&answer, "Transport").contains("client_port=5000-5001"), "{answer}");
    assert_eq!(orders.count(), 1);
    guest.leave();
}

#[test]
fn a_group_is_offered_where_there_is_one() {
    let groups =
        |only| Some(super::Groups { first: [239, 1, 2, 3].into(), port: 5004, ttl: 3, only });
    let together = "Transport: RTP/AVP;multicast\r\n";
    for only in [false, true] {
        let (media, orders) = (media(Options { groups: groups(only), ..options() }), orders());
        let mut guest = Guest::new(&media, &orders);
        let answer = guest.ask("DESCRIBE", URL, "");
        assert_eq!(answer.contains("c=IN IP4 239.1.2.3/3\r\n"), only, "{answer}");
        assert_eq!(answer.contains("m=audio 5004 "), only, "{answer}");
        let answer = guest.ask("SETUP", URL, UDP);
        assert_eq!(code(&answer), if only { "461" } else { "200" }, "{answer}");
        let mut others: Vec<Guest<'_>> = Vec::new();
        for _ in 0..2 {
            let mut guest = Guest::new(&media, &orders);
            let wrong =
                guest.ask("SETUP", URL, "Transport: RTP/AVP;multicast;destination=1.1.1.1\r\n");
            assert_eq!(code(&wrong), "461", "no destination but ours");
            let answer = guest.ask("SETUP", URL, together);
            let told = field(&answer, "Transport");
            let want = "RTP/AVP;multicast;destination=239.1.2.3;port=5004-5005;ttl=3;ssrc=";
            assert!(told.starts_with(want), "{told}");
            let session = format!("Session: {}\r\n", session(&answer));
            let answer = guest.ask("PLAY", URL, &format!("{session}Range: npt=1.0-\r\n"));
            assert!(field(&answer, "Range").starts_with("npt=0.000000-"), "{answer}");
            let info = field(&answer, "RTP-Info");
            assert!(info.starts_with(&format!("url={URL}/trackID=0;rtptime=")), "{info}");
            assert_eq!(code(&guest.ask("PAUSE", URL, &session)), "200");
            others.push(guest);
        }
        let heard = play_paced(&media, &*orders, &[], Duration::from_secs(3), Whims::CALM, 1);
        assert_eq!((heard.breaches.len(), heard.streams.len()), (0, 1), "one sender");
        let to = heard.streams[0][1].to;
        assert_eq!(to.to_string(), "239.1.2.3:5004");
        others.into_iter().for_each(Guest::leave);
        guest.leave();
        assert_eq!(orders.count(), 0);
    }
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    assert_eq!(code(&guest.ask("SETUP", URL, together)), "461", "there are no groups");
}

#[test]
fn an_order_that_is_being_written_is_taken_up_when_it_is_whole() {
    let (media, orders) = (media(options()), orders());
    let mut guest = Guest::new(&media, &orders);
    let session = set_up(&mut guest, &format!("{URL}/trackID=0"), UDP);
    assert_eq!(code(&guest.ask("PLAY", URL, &session)), "200");
    let (worker, effects) = (WorkerId::new(7, 1), Effects::new(false, false));
    let cx = PacedCx::new(Instant::from_ns(1), worker, &*orders, &effects);
    let slot = orders.take(worker).expect("it is ordered");
    orders.put_back(slot, true);
    orders.write_half(slot);
    assert!(media.start(&cx).is_none() && media.start(&cx).is_none(), "not yet");
    orders.pause(slot, u64::MAX);
    assert!(media.start(&cx).is_some(), "it is not lost");
    assert!(media.start(&cx).is_none(), "and there was one");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "jobs are done by threads of the engines")]
fn a_film_that_many_want_at_once_is_read_once() {
    let media = Media::new(options(), files(true));
    let orders = orders();
    let ask = || match media.work(&orders, Job::Load("l.wav".to_owned())) {
        Outcome::Title(_, title) => title.expect("a plan"),
        Outcome::Window(..) => panic!("expected a file, found a window of one"),
    };
    let titles: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    assert!(titles.iter().all(|title| Arc::ptr_eq(title, &titles[0])));
}
