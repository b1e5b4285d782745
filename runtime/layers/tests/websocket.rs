//! WebSocket around a service does not change its replies, however messages and bytes are cut; a
//! client that violates the protocol gets the close code.

use std::time::Duration;

use ::echo::packet::{LOGIN, packet};
use ::echo::{Echo, Register};
use ::layers::websocket::WebSocket;
use memory::Region;
use seam::{Service, SessionId};
use sim::laws::probe::{Menu, Probe, World, asset, expected, plain, requests};
use sim::{Act, Case, Client, Faults, Script, Transcript};
use stats::Rng;
use wire::websocket::{EXAMPLE_REQUEST, MessageKind, Opcode, WebSocketOptions, frames, put_masked};

fn founded<T: seam::Share>() -> Region<T> {
    Region::<T>::alone(&[])
}

/// Plays a script against a fresh state.
fn play<S: Service>(service: &S, script: &Script, faults: &Faults, seed: u64) -> Transcript {
    sim::run(service, &founded(), script, faults, seed)
}

/// A frame of a client: its first byte, and the payload.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_masked(true, Opcode::Text, payload, [0xa, 0, 0xff, 1], &mut frame);
    frame[0] = first;
    frame
}

/// A handshake, then these frames.
fn asked(frames: &[Vec<u8>]) -> Vec<u8> {
    [EXAMPLE_REQUEST.as_bytes(), &frames.concat()].concat()
}

/// The stream in binary messages, some of them in fragments.
fn cut(rng: &mut Rng, mut stream: &[u8]) -> Vec<u8> {
    let mut sent = Vec::new();
    while !stream.is_empty() {
        let (one, rest) = stream.split_at(1 + rng.below(stream.len().min(200)));
        let (first, second) = one.split_at(rng.below(one.len() + 1));
        sent.push(raw(0x02, first));
        if rng.once_in(5) {
            sent.push(raw(0x89, b"ping"));
        }
        sent.push(raw(0x80, second));
        stream = rest;
    }
    asked(&sent)
}

/// The bytes after the handshake.
fn after(heard: &[u8]) -> &[u8] {
    let head = heard.windows(4).position(|it| it == b"\r\n\r\n").expect("a whole answer") + 4;
    assert!(heard.starts_with(b"HTTP/1.1 101 "), "{}", heard[..head].escape_ascii());
    &heard[head..]
}

fn payload(heard: &[u8]) -> Vec<u8> {
    let is_data = |kind: &Opcode| matches!(kind, Opcode::Text | Opcode::Binary);
    frames(after(heard)).filter(|(kind, _)| is_data(kind)).flat_map(|it| it.1.to_vec()).collect()
}

#[test]
fn the_service_within_says_the_same_however_the_bytes_are_cut() {
    let calm = Faults::calm().with_assets(vec![asset()]);
    for seed in 0..40 {
        let probe = if seed % 2 == 0 { Probe::default() } else { Probe::narrow() };
        let menu = Menu { endings: seed % 3 == 0, files: true, ..Menu::default() };
        let input = requests(seed, 30, menu);
        let sent = cut(&mut Rng::new(seed), &input);
        let service = WebSocket::new(probe, MessageKind::Binary);
        let heard = play(&service, &Script::saying(&sent), &calm, seed);
        let heard = plain(&payload(&heard.only().bytes));
        let wanted = expected(&input);
        let (heard, wanted) = (String::from_utf8_lossy(&heard), String::from_utf8_lossy(&wanted));
        assert!(heard == wanted, "seed {seed}: expected {wanted:.300}, found {heard:.300}");
        let fresh = founded::<World>;
        sim::chunking(&service, fresh, &sent, &calm, 4, |heard| plain(&payload(heard)));
        let client = || Client::saying(&sent);
        sim::determinism(&service, fresh, 4, |seed| Case {
            script: Script { clients: vec![client(), client()] },
            faults: Faults::wild(seed).with_assets(vec![asset()]),
            seed,
        });
    }
}

#[test]
fn messages_of_replies_are_the_same_however_the_bytes_are_cut() {
    // The network delays each piece of a handshake by up to three seconds.
    let patient = |kind: MessageKind| WebSocketOptions {
        patience: Duration::from_secs(3600),
        ..WebSocketOptions::from(kind)
    };
    let echo = WebSocket::new(Echo::default(), patient(MessageKind::Binary));
    let packets: Vec<u8> = (0..9).flat_map(packet).collect();
    let sent = [raw(0x82, &packets[..25]), raw(0x02, &packets[25..50]), raw(0x80, &packets[50..])];
    sim::chunking(&echo, founded::<Register>, &asked(&sent), &Faults::calm(), 40, <[u8]>::to_vec);
    let lines = WebSocket::new(Probe::default(), patient(MessageKind::Text));
    let sent = [raw(0x81, b"echo a\necho b"), raw(0x81, "much 3\njob \u{e9}\necho c".as_bytes())];
    sim::chunking(&lines, founded::<World>, &asked(&sent), &Faults::calm(), 40, <[u8]>::to_vec);
}

/// The frames that a service sends after a handshake and these frames, as text: kind and payload.
fn heard<S: Service>(service: &S, sent: &[u8], drain: bool) -> String {
    let mut faults = Faults::calm();
    let mut client = Client::saying(sent);
    if drain {
        faults.drain = Some(Duration::from_millis(5));
        client.acts.push(Act::Stay);
    }
    let heard = play(service, &Script { clients: vec![client] }, &faults, 1);
    heard.lawful().expect("the laws hold");
    let heard = &heard.only().bytes;
    let one = |(kind, payload): (Opcode, &[u8])| format!("{kind:?} {}", payload.escape_ascii());
    frames(after(heard)).map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_message_is_a_line_and_a_reply_is_a_message() {
    let service = WebSocket::new(Probe::default(), MessageKind::Text);
    let check = |sent: &[Vec<u8>], wanted: &str| {
        let found = heard(&service, &asked(sent), false);
        assert_eq!(found, wanted, "{sent:?}");
    };
    let end = r"Text end 0\n, Close \x03\xe8";
    check(&[raw(0x81, b"echo hi")], &format!(r"Text = hi\n, {end}"));
    check(&[raw(0x81, b"echo a\necho b\n")], &format!(r"Text = a\n= b\n, {end}"));
    check(&[raw(0x81, b""), raw(0x89, b"p")], &format!(r"Text ? 0\n, Pong p, {end}"));
    let job = "job \u{e9}";
    check(&[raw(0x81, job.as_bytes())], &format!(r"Binary \xa9\xc3\n, {end}"));
    check(&[raw(0x81, b"bye"), raw(0x81, b"echo a")], r"Text bye\n, Close \x03\xe8");
    check(&[raw(0x88, b"\x0b\xb8"), raw(0x81, b"a")], r"Text end 0\n, Close \x0b\xb8");
    check(&[raw(0x88, b"")], r"Text end 0\n, Close ");
    let code = |code: u16, why: &str| {
        let [high, low] = code.to_be_bytes();
        format!(r"Close \x{high:02x}\x{low:02x}{why}")
    };
    check(&[raw(0x82, b"a")], &code(1003, "expected text, found binary"));
    check(&[raw(0x81, b"\xff")], &code(1007, "expected a text of UTF-8"));
    check(&[raw(0x81, &[b'a'; 20_000])], &code(1009, "expected a shorter message"));
    let early = [raw(0x81, b"echo a"), raw(0x83, b"")];
    let why = "expected a known opcode, found a reserved one";
    check(&early, &format!(r"Text = a\n, {}", code(1002, why)));
    let drained = heard(&service, &asked(&[raw(0x81, b"echo a")]), true);
    let away = code(1001, "the server stops");
    assert_eq!(drained, format!(r"Text = a\n, Text #drain\n, {away}"));
    let echo = WebSocket::new(Echo::default(), MessageKind::Binary);
    let login = format!(r"Binary {}, {}", packet(LOGIN).escape_ascii(), code(1000, ""));
    assert_eq!(heard(&echo, &asked(&[]), false), login);
}

#[test]
fn pushed_bytes_are_messages() {
    let service = WebSocket::new(Probe::default(), MessageKind::Text);
    let first = SessionId::new(0, 0, 1);
    let told = raw(0x81, format!("tell {} \u{e9}", first.bits()).as_bytes());
    let stays = Client {
        start: Duration::ZERO,
        acts: vec![Act::Send(asked(&[])), Act::Wait(Duration::from_secs(1))],
    };
    let tells = Client { start: Duration::from_millis(10), ..Client::saying(&asked(&[told])) };
    let heard = play(&service, &Script { clients: vec![stays, tells] }, &Faults::calm(), 1);
    let [one, two] = &heard.clients[..] else { panic!("two clients") };
    let found: Vec<_> = frames(after(&one.bytes)).take(1).collect();
    assert_eq!(found, [(Opcode::Text, "~\u{e9}\n".as_bytes())], "{one:?}, {two:?}");
}

#[test]
fn what_is_no_handshake_is_answered_and_closed() {
    let service = WebSocket::new(Probe::default(), MessageKind::Text);
    let check = |sent: &str, wanted: &str| {
        let heard = play(&service, &Script::saying(sent.as_bytes()), &Faults::calm(), 1);
        let heard = String::from_utf8_lossy(&heard.only().bytes).into_owned();
        assert!(heard.starts_with(wanted) && heard.contains("\r\n\r\nexpected "), "{heard}");
    };
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 426 Upgrade Required\r\n");
    check("echo a\n", "HTTP/1.1 400 Bad Request\r\n");
    let old = EXAMPLE_REQUEST.replace("Version: 13", "Version: 8");
    check(&old, "HTTP/1.1 426 Upgrade Required\r\n");
}
