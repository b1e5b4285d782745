//! Random conversations, once whole and once in random pieces, at the same moments. Both must get
//! the same bytes, packets of media included. Reports of receivers, valid or broken, never cause a
//! panic, and no conversation leaves a stream behind.

use std::net::SocketAddr;
use std::time::Duration;

use seam::{Channel, Effects, PacedCx, PacedSource, WorkerId};
use stats::Rng;
use wire::rtcp::{ReceptionReport, write_receiver_report};

use super::test_server::{BEGIN, Guest, files, options, orders, session};
use super::{Groups, Media, Options};

#[test]
fn conversations_and_reports() {
    for seed in sim::seeds(100) {
        let (mut rng, at) = (Rng::new(seed), format!("seed {seed}"));
        converse(&mut rng, &at);
        report(&mut rng, &at);
    }
}

const METHODS: &str = "\
    OPTIONS|DESCRIBE|SETUP|SETUP|PLAY|PLAY|PAUSE|TEARDOWN|GET_PARAMETER|SET_PARAMETER|RECORD|\
    NONSENSE";
const URLS: &str = "\
    rtsp://h/a.wav|rtsp://h/a.wav/trackID=0|rtsp://h/l.wav|rtsp://h/none|*|rtsp://h/../etc|\
    rtsp://h/bad.txt|rtsp://h/a.wav/trackID=7";
const FIELDS: &str = "\
    Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n|\
    Transport: RTP/AVP;unicast;client_port=5000-5001\r\n|Transport: RTP/AVP;multicast\r\n|\
    Session: SESSION\r\n|Session: SESSION\r\n|Session: other\r\n|Range: npt=0.5-\r\n|\
    Range: npt=0-0.7\r\n|Range: npt=99-\r\n|Range: rubbish\r\n|Require: funny\r\n|\
    Accept: text/html\r\n|Content-Length: 10\r\n";

/// Requests and the pauses between them. The session's name is filled in once it is known.
fn requests(rng: &mut Rng) -> Vec<(String, Duration)> {
    let [methods, urls, fields] =
        [METHODS, URLS, FIELDS].map(|list| list.split('|').collect::<Vec<_>>());
    let mut requests = Vec::new();
    if !rng.once_in(3) {
        let transport = fields[rng.below(2)];
        let wait = Duration::from_millis(100);
        let set_up = format!("SETUP rtsp://h/a.wav RTSP/1.0\r\nCSeq: 1\r\n{transport}\r\n");
        let play = "PLAY rtsp://h/a.wav RTSP/1.0\r\nCSeq: 2\r\nSession: SESSION\r\n\r\n";
        requests.extend([(set_up, wait), (play.to_owned(), wait)]);
    }
    for number in 0..1 + rng.below(8) {
        let mut text = format!("{} {} RTSP/1.0\r\n", rng.pick(&methods), rng.pick(&urls));
        if !rng.once_in(20) {
            text.push_str(&format!("CSeq: {number}\r\n"));
        }
        for _ in 0..rng.below(4) {
            text.push_str(rng.pick::<&str>(&fields));
        }
        text.push_str("\r\n");
        if text.contains("Content-Length") {
            text.push_str("position\r\n");
        }
        if rng.once_in(10) {
            text.push_str("$\u{1}\0\u{2}ab");
        }
        requests.push((text, Duration::from_millis(rng.below(400) as u64)));
    }
    requests
}

fn converse(rng: &mut Rng, at: &str) {
    let requests = requests(rng);
    let step = 1 + rng.below(30);
    let cold = rng.once_in(2);
    let whole = exchange(&requests, usize::MAX, false, at);
    let pieces = exchange(&requests, step, cold, at);
    assert_eq!(whole.len(), pieces.len(), "{at}: {requests:?}");
    let differs = whole.iter().zip(&pieces).position(|(one, other)| one != other);
    assert_eq!(differs, None, "{at}: {requests:?}");
}

const SETUPS: [&str; 3] = [
    "RTP/AVP;unicast;client_port=5000-5001",
    "RTP/AVP;multicast",
    "RTP/AVP/TCP;unicast;interleaved=0-1",
];

/// A client plays while reports arrive from several addresses: about its stream, about other
/// streams, and malformed ones. The service records only reports from permitted senders.
fn report(rng: &mut Rng, at: &str) {
    let groups = Some(Groups { first: [239, 1, 2, 3].into(), port: 5004, ttl: 1, only: false });
    let orders = orders();
    let media = Media::new(Options { groups, ..options() }, files(false));
    let mut guest = Guest::new(&media, &orders);
    let transport = *rng.pick::<&str>(&SETUPS);
    let said = guest.send(
        format!("SETUP rtsp://h/a.wav RTSP/1.0\r\nCSeq: 1\r\nTransport: {transport}\r\n\r\n")
            .as_bytes(),
    );
    let said = String::from_utf8_lossy(&said).into_owned();
    let ssrc = said.split("ssrc=").nth(1).and_then(|it| it.get(..8)).unwrap_or("0");
    let ssrc = u32::from_str_radix(ssrc, 16).unwrap_or(0);
    let effects = Effects::new(false, true);
    let mut told = Vec::new();
    for step in 0..1 + rng.below(40) {
        let now = BEGIN + Duration::from_millis(step as u64 * 20);
        let cx = PacedCx::new(now, WorkerId::new(1, 1), &*orders, &effects);
        let of = if rng.once_in(2) { ssrc } else { rng.below(1 << 32) as u32 };
        let from = if rng.once_in(2) { [10, 0, 0, 9] } else { [10, 0, 0, rng.below(20) as u8] };
        let heard = ReceptionReport {
            from: rng.below(4) as u32,
            of,
            lost_share: rng.below(256) as u8,
            lost: rng.below(1 << 23) as i32 - (1 << 22),
            sequence: rng.below(1 << 32) as u32,
            jitter: rng.below(1 << 32) as u32,
            last_report: rng.below(1 << 32) as u32,
            since_report: rng.below(1 << 32) as u32,
        };
        let mut bytes = Vec::new();
        write_receiver_report(heard.from, &[heard], "listener", &mut bytes);
        match rng.below(4) {
            0 => bytes.truncate(rng.below(bytes.len())),
            1 => bytes.iter_mut().filter(|_| rng.once_in(9)).for_each(|it| *it ^= 1),
            _ if of == ssrc && from == [10, 0, 0, 9] => told.push(heard.lost),
            _ => {}
        }
        let channel = if rng.once_in(8) { Channel::Rtp } else { Channel::Rtcp };
        media.receive(&cx, SocketAddr::from((from, 5001)), channel, &bytes);
    }
    let totals = orders.heard();
    let is_within = transport.contains("TCP");
    assert!(totals.reporting <= u64::from(!is_within), "{at}: {totals:?}");
    assert!(told.is_empty() || is_within || totals.reporting == 1, "{at}: {told:?} were not heard");
    guest.leave();
    assert_eq!(orders.count(), 0, "{at}: a transmission was left behind");
}

/// Everything that the server sends.
fn exchange(requests: &[(String, Duration)], step: usize, cold: bool, at: &str) -> Vec<u8> {
    // The same secret in each run, so that the numbers are the same.
    let orders = orders();
    let media = Media::new(options(), files(cold));
    let mut guest = Guest::new(&media, &orders);
    let mut heard = Vec::new();
    let mut name = String::from("none");
    for (request, wait) in requests {
        let request = request.replace("SESSION", &name);
        for piece in request.as_bytes().chunks(step) {
            heard.extend(guest.send(piece));
        }
        let text = String::from_utf8_lossy(&heard);
        if name == "none" && text.contains("Session: ") {
            name = session(&text);
        }
        heard.extend(guest.pass(*wait));
    }
    guest.leave();
    assert_eq!(orders.count(), 0, "{at}: a transmission was left behind");
    heard
}
