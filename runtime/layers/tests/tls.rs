//! TLS around a service does not change its replies, however the bytes are cut; a client that does
//! not speak TLS gets an alert.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use ::layers::tls::{KeyPair, Keys, Tls};
use ::layers::websocket::WebSocket;
use memory::Region;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use seam::{Closed, Service};
use sim::Talk;
use sim::laws::probe::{Menu, Probe, World, expected, plain, requests};
use stats::Rng;
use wire::websocket::{EXAMPLE_REQUEST, MessageKind, Opcode, frames, put_masked};

/// A certificate for these names with its key, as PEM.
fn certificate(names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("good names");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn pair(pem: &str, key: &str) -> KeyPair {
    KeyPair::read(pem.as_bytes(), key.as_bytes()).expect("our own")
}

fn keys(pem: &str, key: &str) -> Keys {
    Keys::new(vec![(Vec::new(), pair(pem, key))], &["http/1.1"]).expect("one pair")
}

/// A client that trusts the certificate and asks for `name`.
fn client(pem: &str, name: &'static str) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let der = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    roots.add(der).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("usual versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name).expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

/// The length of a piece of at most `len` bytes; short ones are as likely as long ones.
fn piece(rng: &mut Rng, len: usize) -> usize {
    let most = 1 << rng.below(15);
    (1 + rng.below(most)).min(len)
}

/// Sends a piece of the waiting output.
fn send<S: Service<State = World> + 'static>(
    slot: &mut Talk<'_, Tls<S>>,
    rng: &mut Rng,
) -> Vec<u8> {
    let len = slot.waiting();
    slot.sip(piece(rng, len))
}

/// The bytes that a client receives after it sent `input`, cut into pieces by `seed`.
fn converse<S: Service<State = World> + 'static>(inner: S, input: &[u8], seed: u64) -> Vec<u8> {
    let (pem, key) = certificate(&["localhost"]);
    let keys = keys(&pem, &key);
    let service = Tls::new(inner, keys);
    let world = Region::<World>::alone(&[]);
    let mut client = client(&pem, "localhost");
    let (mut rng, mut slot) = (Rng::new(seed), Talk::new(&service, &world));
    let (mut rest, mut wire, mut heard) = (input, Vec::new(), Vec::new());
    let (mut goodbye, mut told) = (false, false);
    for _ in 0..1_000_000 {
        if !rest.is_empty() && !client.is_handshaking() && rng.below(3) == 0 {
            let len = piece(&mut rng, rest.len());
            let taken = client.writer().write(&rest[..len]).expect("a client takes input");
            rest = &rest[taken..];
        }
        if rest.is_empty() && !goodbye && !client.is_handshaking() {
            client.send_close_notify();
            goodbye = true;
        }
        while client.wants_write() {
            client.write_tls(&mut wire).expect("a vector takes everything");
        }
        let wants = slot.wants();
        if wants.close {
            slot.leaves(Closed::Reset);
            assert_eq!(world.opened.load(std::sync::atomic::Ordering::Relaxed), 1);
            assert_eq!(world.closed.load(std::sync::atomic::Ordering::Relaxed), 1);
            return heard;
        }
        if wants.write && (rng.below(2) == 0 || wire.is_empty()) {
            let sent = send(&mut slot, &mut rng);
            let mut sent = sent.as_slice();
            while !sent.is_empty() {
                client.read_tls(&mut sent).expect("a client takes output");
                client.process_new_packets().expect("a server that speaks well");
                let _ = client.reader().read_to_end(&mut heard);
            }
        } else if wants.read && !wire.is_empty() {
            let len = piece(&mut rng, wire.len());
            let piece: Vec<u8> = wire.drain(..len).collect();
            slot.quietly(|conn, service, cx| conn.feed(service, cx, &piece));
        } else if wants.read && goodbye && !told && wire.is_empty() && rng.below(4) == 0 {
            told = true;
            slot.quietly(|conn, service, cx| conn.eof(service, cx));
        } else if let Some(wake) = wants.wake
            && !client.is_handshaking()
            && (rest.is_empty() || !wants.read)
        {
            slot.now = slot.now.max(wake);
            slot.quietly(|conn, service, cx| conn.deadline(service, cx));
        }
    }
    panic!("no end: seed {seed}, heard {} bytes", heard.len());
}

#[test]
fn the_service_within_says_the_same_however_the_bytes_are_cut() {
    for seed in 0..60 {
        let probe = if seed % 2 == 0 { Probe::default() } else { Probe::narrow() };
        let menu = Menu { endings: seed % 3 == 0, ..Menu::default() };
        let input = requests(seed, 40, menu);
        let heard = converse(probe, &input, seed);
        let (heard, wanted) = (plain(&heard), expected(&input));
        let (heard, wanted) = (String::from_utf8_lossy(&heard), String::from_utf8_lossy(&wanted));
        assert!(heard == wanted, "seed {seed}: expected {wanted:.300}, found {heard:.300}");
    }
}

#[test]
fn a_websocket_within_works() {
    for seed in 0..20 {
        let input = requests(seed, 40, Menu::default());
        let mut sent = EXAMPLE_REQUEST.as_bytes().to_vec();
        for message in input.chunks(100) {
            put_masked(true, Opcode::Binary, message, [1, 2, 3, 4], &mut sent);
        }
        let service = WebSocket::new(Probe::default(), MessageKind::Binary);
        let heard = converse(service, &sent, seed);
        let head = heard.windows(4).position(|it| it == b"\r\n\r\n").expect("an answer") + 4;
        let of = |kind| frames(&heard[head..]).filter(move |(found, _)| *found == kind);
        let payload: Vec<u8> = of(Opcode::Binary).flat_map(|it| it.1.to_vec()).collect();
        assert!(plain(&payload) == expected(&input), "seed {seed}: {}", payload.escape_ascii());
        assert_eq!(of(Opcode::Close).count(), 1, "seed {seed}");
    }
}

#[test]
fn who_does_not_speak_it_is_sent_away() {
    let (pem, key) = certificate(&["localhost"]);
    let keys = keys(&pem, &key);
    let service = Tls::new(Probe::default(), keys);
    let world = Region::<World>::alone(&[]);
    let mut slot = Talk::new(&service, &world);
    slot.quietly(|conn, service, cx| conn.feed(service, cx, b"GET / HTTP/1.1\r\n\r\n"));
    // A fatal alert is a record of type 21 (RFC 8446 section 5.1).
    assert_eq!(send(&mut slot, &mut Rng::new(1)).first(), Some(&21));
    while slot.wants().write {
        send(&mut slot, &mut Rng::new(1));
    }
    assert!(slot.wants().close);
    slot.leaves(Closed::Reset);

    let mut slot = Talk::new(&service, &world);
    slot.now = slot.now + Duration::from_secs(10);
    slot.quietly(|conn, service, cx| conn.deadline(service, cx));
    assert!(slot.wants().close, "ten seconds are enough to agree on keys");
    slot.leaves(Closed::Reset);
    assert_eq!(world.opened.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn keys_that_do_not_fit_are_refused_and_the_former_stay() {
    let [(pem, key), (other, stranger)] = [(); 2].map(|()| certificate(&["localhost"]));
    let keys = keys(&pem, &key);
    for (chain, key, wanted) in [
        ("", key.as_str(), "expected a certificate"),
        (pem.as_str(), "", "expected a private key"),
        (pem.as_str(), stranger.as_str(), "belongs to the first certificate"),
    ] {
        let bad = KeyPair::read(chain.as_bytes(), key.as_bytes()).expect_err(wanted);
        assert!(bad.to_string().contains(wanted), "{bad}");
    }
    let named = || (vec!["a.org".to_owned()], pair(&pem, &key));
    let bad = keys.replace(vec![named(), named()]).expect_err("one name of two sites");
    assert!(bad.to_string().contains("expected each name once"), "{bad}");
    keys.replace(vec![(Vec::new(), pair(&other, &stranger))]).expect("another pair");
}

/// Whether a client that asks for `name` and trusts `pem` alone agrees on keys.
fn agrees(service: &Tls<Probe>, world: &World, name: &'static str, pem: &str) -> bool {
    let (mut client, mut slot) = (client(pem, name), Talk::new(service, world));
    while client.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).expect("a vector takes everything");
        slot.quietly(|conn, service, cx| conn.feed(service, cx, &wire));
        let sent = send(&mut slot, &mut Rng::new(1));
        client.read_tls(&mut sent.as_slice()).expect("a client takes output");
        if client.process_new_packets().is_err() {
            break;
        }
    }
    slot.leaves(Closed::Reset);
    !client.is_handshaking()
}

#[test]
fn the_name_that_a_client_asks_for_chooses_the_certificate() {
    let known = [["a.org", "z.org"], ["b.org", "*.b.org"]].map(|names| certificate(&names));
    let all = || {
        let [first, second] = &known;
        let names = vec!["b.org".to_owned(), "*.b.org".to_owned()];
        vec![(Vec::new(), pair(&first.0, &first.1)), (names, pair(&second.0, &second.1))]
    };
    let keys = Keys::new(all(), &[]).expect("two pairs");
    keys.replace(all()).expect("two pairs");
    let service = Tls::new(Probe::default(), keys);
    let world = Region::<World>::alone(&[]);
    for (name, first) in [("a.org", true), ("z.org", true), ("b.org", false), ("x.b.org", false)] {
        let agreed = known.each_ref().map(|(pem, _)| agrees(&service, &world, name, pem));
        assert_eq!(agreed, [first, !first], "{name}");
    }
}
