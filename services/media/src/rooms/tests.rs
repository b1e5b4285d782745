use std::net::SocketAddr;
use std::time::Duration;

use memory::Region;
use seam::{
    Burst, Channel, Closed, Effects, Instant, Limits, Next, PacedCx, PacedSource, Peer, WorkerId,
};
use sim::Talk;
use stats::Rng;
use wire::rtcp::{self, ReceptionReport, SenderInfo};
use wire::rtp::Header;

use super::{Options, QUEUE, Relay, Rooms, SPEAKERS, Stream};

const HOST: [u8; 4] = [10, 0, 0, 9];
const SPOKEN: &str = "v=0\r\no=- 1 1 IN IP4 10.0.0.9\r\ns=a\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n\
    a=control:streamid=0\r\n";
const ME: WorkerId = WorkerId::new(9, 1);

fn relay(plain: Option<&str>) -> Relay {
    Relay::new(Options {
        limits: Limits::default(),
        ports: (6000, 6001),
        secret: [7; 16],
        plain: plain.map(str::to_owned),
        session_timeout: Duration::from_secs(60),
    })
}

/// A relay on a virtual clock. A packet is written as its receiver's port and its bytes.
struct World<'a> {
    relay: &'a Relay,
    rooms: &'a Rooms,
    stream: Stream,
    effects: Effects,
    now: Instant,
}

type Sent = Vec<(u16, Vec<u8>)>;

impl<'a> World<'a> {
    fn new(relay: &'a Relay, rooms: &'a Rooms) -> World<'a> {
        let (effects, now) = (Effects::new(true, true), Instant::from_ns(1_000_000_000_000));
        let cx = PacedCx::new(now, ME, rooms, &effects);
        let (stream, _) = relay.start(&cx).expect("one stream");
        assert!(relay.start(&cx).is_none(), "and no second one");
        World { relay, rooms, stream, effects, now }
    }

    /// A connection that asks for all of this, which must be granted.
    fn member(&mut self, requests: &[(&str, &str, &str, &str)]) -> Talk<'a, Relay> {
        self.now = self.now + Duration::from_micros(1);
        let peer = Peer::Net((HOST, 40_000).into());
        let mut talk = Talk::at(self.now, peer, self.relay, self.rooms);
        for (method, url, fields, body) in requests {
            let reply = ask(&mut talk, method, url, fields, body);
            assert!(reply.starts_with("RTSP/1.0 200"), "{method} {url}: {reply}");
        }
        talk
    }

    fn speaker(&mut self, url: &str, port: u16) -> Talk<'a, Relay> {
        let (track, way) = (format!("{url}/streamid=0"), way(port));
        let record = ("RECORD", url, "", "");
        self.member(&[("ANNOUNCE", url, "", SPOKEN), ("SETUP", &track, &way, ""), record])
    }

    fn listener(&mut self, url: &str, port: u16) -> Talk<'a, Relay> {
        let (track, way) = (format!("{url}/trackID=0"), way(port));
        self.member(&[("SETUP", &track, &way, ""), ("PLAY", url, "", "")])
    }

    fn receive(&self, port: u16, datagram: &[u8]) {
        let cx = PacedCx::new(self.now, ME, self.rooms, &self.effects);
        self.relay.receive(&cx, SocketAddr::from((HOST, port)), Channel::Rtp, datagram);
    }

    fn burst(&mut self) -> (Sent, bool) {
        let mut burst = Burst::new(64);
        let cx = PacedCx::new(self.now, ME, self.rooms, &self.effects);
        let next = self.relay.due(&cx, &mut self.stream, self.now, &mut burst);
        let sent = burst.packets().iter().map(|it| {
            let is_control = (200..=206).contains(&burst.front(it)[1]);
            assert_eq!(is_control, it.channel == Channel::Rtcp, "{it:?}");
            (it.to.port(), burst.front(it).to_vec())
        });
        (sent.collect(), matches!(next, Next::At(at) if at <= self.now))
    }

    /// Passes time, and returns what was sent.
    fn pass(&mut self, time: Duration) -> Sent {
        self.now = self.now + time;
        let mut all = Vec::new();
        loop {
            let (sent, has_more) = self.burst();
            all.extend(sent);
            if !has_more {
                return all;
            }
        }
    }

    /// The receivers' ports of a datagram, if it arrives unchanged.
    fn heard(&mut self, port: u16, datagram: &[u8]) -> Vec<u16> {
        self.receive(port, datagram);
        let sent = self.pass(Duration::from_millis(3));
        assert!(sent.iter().all(|(_, bytes)| *bytes == datagram), "{sent:?}");
        sent.into_iter().map(|(port, _)| port).collect()
    }
}

fn way(port: u16) -> String {
    format!("Transport: RTP/AVP;unicast;client_port={port}-{}\r\n", port + 1)
}

fn ask(talk: &mut Talk<'_, Relay>, method: &str, url: &str, fields: &str, body: &str) -> String {
    let len = body.len();
    talk.say(format!(
        "{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{fields}Content-Length: {len}\r\n\r\n{body}"
    ))
}

fn packet(ssrc: u32, sequence: u16) -> Vec<u8> {
    let header = Header { marker: false, payload_type: 0, sequence, timestamp: 160, ssrc };
    [&header.bytes()[..], &[0x55; 20]].concat()
}

fn report(of: u32) -> Vec<u8> {
    let (lost_share, lost, sequence, jitter) = (9, 3, 70, 11);
    let heard = ReceptionReport {
        from: 99,
        of,
        lost_share,
        lost,
        sequence,
        jitter,
        last_report: 0,
        since_report: 0,
    };
    let mut bytes = Vec::new();
    rtcp::write_receiver_report(99, &[heard], "listener", &mut bytes);
    bytes
}

const R: &str = "rtsp://h/r";

#[test]
fn listeners_get_the_speakers_that_they_want() {
    let (relay, rooms) = (relay(None), Region::<Rooms>::alone(&[]));
    let mut world = World::new(&relay, &rooms);
    let mut ann = world.speaker("rtsp://h/r/ann", 5000);
    let ben = world.speaker("rtsp://h/r/ben", 5010);
    let mut all = world.listener(R, 7000);
    let _but_ann = world.listener("rtsp://h/r?as=ann", 7010);
    let _only_ben = world.listener("rtsp://h/r/ben", 7020);
    let _elsewhere = world.listener("rtsp://h/other", 7030);
    assert_eq!(world.heard(5000, &packet(1, 1)), [7000]);
    assert_eq!(world.heard(5010, &packet(2, 1)), [7000, 7010, 7020]);
    assert_eq!(world.heard(5010, &packet(1, 1)), [], "this SSRC is another speaker's");
    assert_eq!(world.heard(5999, &packet(3, 1)), [], "a stranger");
    assert_eq!(world.heard(7000, &packet(3, 1)), [], "a listener does not speak");

    assert!(ask(&mut all, "SET_PARAMETER", R, "", "mute: ben\r\n").contains("200 OK"));
    assert_eq!(world.heard(5010, &packet(2, 2)), [7010, 7020]);
    assert!(ask(&mut all, "SET_PARAMETER", R, "", "unmute: ben\r\n").contains("200 OK"));
    assert!(ask(&mut all, "PAUSE", R, "", "").contains("200 OK"));
    assert_eq!(world.heard(5010, &packet(2, 3)), [7010, 7020]);
    assert!(ask(&mut all, "PLAY", R, "", "").contains("200 OK"));
    assert!(ask(&mut ann, "PAUSE", R, "", "").contains("200 OK"));
    assert_eq!(world.heard(5000, &packet(1, 2)), []);
    assert!(ask(&mut ann, "RECORD", R, "", "").contains("200 OK"));
    assert_eq!(world.heard(5000, &packet(1, 3)), [7000]);
    let told = ask(&mut all, "GET_PARAMETER", R, "", "speakers\r\n");
    assert!(told.ends_with("speakers: ann ben\r\n"), "{told}");

    // Reports are turned round.
    assert_eq!(world.heard(7001, &report(1)), [5001]);
    assert_eq!(world.heard(7021, &report(2)), [5011]);
    let picture_loss = [&[0x81, 206, 0, 2, 0, 0, 0, 99][..], &2u32.to_be_bytes()].concat();
    assert_eq!(world.heard(7011, &picture_loss), [5011]);
    let info = SenderInfo { ssrc: 2, ntp: 5, timestamp: 6, packets: 3, octets: 60 };
    let mut sender_report = Vec::new();
    rtcp::write_sender_report(&info, "ben", false, &mut sender_report);
    assert_eq!(world.heard(5011, &sender_report), [7001, 7011, 7021]);

    // A speaker whose connection ends leaves with a BYE.
    ben.leaves(Closed::Reset);
    let byes = world.pass(Duration::from_millis(3));
    assert_eq!(byes.iter().map(|it| it.0).collect::<Vec<_>>(), [7001, 7011, 7021]);
    assert!(byes.iter().all(|it| it.1.ends_with(&[0x81, 203, 0, 1, 0, 0, 0, 2])), "{byes:?}");
    assert_eq!(world.heard(5010, &packet(2, 4)), []);
    let described = ask(&mut all, "DESCRIBE", R, "", "");
    assert!(described.contains("m=audio 0 RTP/AVP 0") && described.contains("trackID=0"));
}

#[test]
fn members_without_rtsp_hear_each_other() {
    let (relay, rooms) = (relay(Some("hall")), Region::<Rooms>::alone(&[]));
    let mut world = World::new(&relay, &rooms);
    let _listener = world.listener("rtsp://h/hall", 7000);
    assert_eq!(world.heard(5000, &packet(1, 1)), [7000]);
    assert_eq!(world.heard(5010, &packet(2, 1)), [7000, 5000]);
    assert_eq!(world.heard(5001, &report(2)), [5011]);
    let mut bye = report(2);
    bye.extend([0x81, 203, 0, 1, 0, 0, 0, 1]);
    assert_eq!(world.heard(5001, &bye), [7001, 5011]);
    assert_eq!(world.heard(5010, &packet(2, 2)), [7000]);
    let bye = world.pass(Duration::from_secs(11));
    assert_eq!(bye.iter().map(|it| it.0).collect::<Vec<_>>(), [7001], "silent for too long");
}

#[test]
fn the_oldest_packets_are_dropped_when_too_many_wait() {
    let (relay, rooms) = (relay(None), Region::<Rooms>::alone(&[]));
    let mut world = World::new(&relay, &rooms);
    let (_ann, _ben) = (world.speaker("rtsp://h/r/ann", 5000), world.listener(R, 7000));
    (0..5000).for_each(|at| world.receive(5000, &packet(1, at)));
    let sent = world.pass(Duration::from_millis(3));
    assert_eq!(sent.len() as u64, QUEUE);
    assert_eq!(sent[0].1, packet(1, 5000 - QUEUE as u16));
    assert_eq!(rooms.datagrams(), (5000, 5000 - QUEUE));
}

#[test]
fn what_cannot_be_relayed_is_refused() {
    let (relay, rooms) = (relay(None), Region::<Rooms>::alone(&[]));
    let mut world = World::new(&relay, &rooms);
    let _ann = world.speaker("rtsp://h/r/ann", 5000);
    let mut check = |method: &str, url: &str, fields: &str, body: &str, status: &str| {
        let reply = ask(&mut world.member(&[]), method, url, fields, body);
        assert!(reply.starts_with(&format!("RTSP/1.0 {status} ")), "{method} {url}: {reply}");
    };
    check("ANNOUNCE", "rtsp://h/r/ann", "", SPOKEN, "403");
    check("ANNOUNCE", "rtsp://h/r", "", SPOKEN, "404");
    check("ANNOUNCE", "rtsp://h/r/a/b", "", SPOKEN, "404");
    check("ANNOUNCE", &format!("rtsp://h/r/{}", "x".repeat(65)), "", SPOKEN, "404");
    check("ANNOUNCE", "rtsp://h/r/ben", "", &SPOKEN.replace("AVP 0", "AVP 8"), "415");
    check("ANNOUNCE", "rtsp://h/r/ben", "", &format!("{SPOKEN}{}", "x".repeat(3000)), "413");
    check("DESCRIBE", "rtsp://h/empty", "", "", "404");
    check("DESCRIBE", "rtsp://h/r/ben", "", "", "404");
    let tcp = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    check("SETUP", "rtsp://h/r/trackID=0", tcp, "", "461");
    check("SETUP", "rtsp://h/r/trackID=2", &way(7000), "", "404");
    check("PLAY", R, "", "", "455");
    check("RECORD", R, "", "", "455");
    check("TEARDOWN", R, "", "", "455");
    check("PLAY", R, "Session: 12\r\n", "", "454");
    check("SET_PARAMETER", R, "", "louder: ann\r\n", "451");
    check("OPTIONS", R, "Require: x\r\n", "", "551");
    let all: Vec<_> = (1..SPEAKERS)
        .map(|at| world.speaker(&format!("rtsp://h/r/n{at}"), 8000 + 2 * at as u16))
        .collect();
    let reply = ask(&mut world.member(&[]), "ANNOUNCE", "rtsp://h/r/one-more", "", SPOKEN);
    assert!(reply.starts_with("RTSP/1.0 453 "), "{reply}");
    drop(all);
}

/// Random members, requests and datagrams: nothing panics, packets go to ports that were set up,
/// and packets that never left come again.
#[test]
fn nothing_that_a_peer_sends_disturbs_the_relay() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let relay = relay(Some("r").filter(|_| seed % 2 == 0));
        let rooms = Region::<Rooms>::alone(&[]);
        let mut world = World::new(&relay, &rooms);
        let mut talks: Vec<Talk<'_, Relay>> = Vec::new();
        for _ in 0..300 {
            let port = 5000 + 10 * rng.below(8) as u16;
            match rng.below(8) {
                0 if talks.len() < 20 => talks.push(world.member(&[])),
                1 if !talks.is_empty() => {
                    let talk = talks.swap_remove(rng.below(talks.len()));
                    talk.leaves(Closed::Reset);
                }
                2 | 3 if !talks.is_empty() => {
                    let at = rng.below(talks.len());
                    let methods =
                        "ANNOUNCE SETUP RECORD PLAY PAUSE TEARDOWN DESCRIBE SET_PARAMETER";
                    let methods: Vec<&str> = methods.split(' ').collect();
                    let urls =
                        [R, "rtsp://h/r/a", "rtsp://h/r/b/streamid=0", "rtsp://h/r/trackID=0"];
                    let bodies = ["", SPOKEN, "mute: a\r\n", "unmute: a"];
                    let (method, url) = (*rng.pick(&methods), *rng.pick(&urls));
                    let body = *rng.pick(&bodies);
                    talks[at].now = world.now;
                    if !talks[at].closes() {
                        ask(&mut talks[at], method, url, &way(port), body);
                    }
                }
                _ => {
                    let ssrc = rng.below(5) as u32;
                    let mut bytes = match rng.below(3) {
                        0 => report(ssrc),
                        1 => [report(ssrc), vec![0x81, 203, 0, 1, 0, 0, 0, ssrc as u8]].concat(),
                        _ => packet(ssrc, rng.below(1 << 16) as u16),
                    };
                    if rng.once_in(3) {
                        bytes.truncate(rng.below(bytes.len() + 1));
                        bytes.iter_mut().for_each(|it| *it ^= rng.below(9) as u8 & 1);
                    }
                    world.receive(port + rng.below(2) as u16, &bytes);
                }
            }
            if rng.once_in(3) {
                world.now = world.now + Duration::from_millis(rng.below(900) as u64);
                let (sent, _) = world.burst();
                assert!(sent.iter().all(|it| it.0 >= 5000 && it.0 < 5080), "seed {seed}: {sent:?}");
                let unsent = rng.below(sent.len() + 1);
                let cx = PacedCx::new(world.now, ME, world.rooms, &world.effects);
                relay.withdrawn(&cx, &mut world.stream, unsent);
                let (again, _) = world.burst();
                let owed = &sent[sent.len() - unsent..];
                assert_eq!(again[..unsent.min(again.len())], owed[..], "seed {seed}");
            }
        }
        talks.into_iter().for_each(|talk| drop(talk.leaves(Closed::Reset)));
        assert_eq!(rooms.count(), 0, "seed {seed}: all seats are empty");
    }
}
