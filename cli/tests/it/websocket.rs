//! WebSocket around services on every engine: files and jobs of the probe, and lines of the market.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use ::game::packet::{Ask, Role};
use load::Target;
use load::tls::{Stream, TlsOptions};
use sim::laws::probe::{Menu, expected, plain, requests};
use sys::signal::Signal;
use testkit::{eventually, run};
use wire::websocket::{EXAMPLE_REQUEST, FrameHead, Opcode, put_masked};

use crate::arms::{Arm, EPOLL, URING};
use crate::harness::{BINARY, Client, Folder, PATIENCE, Plan, Server};
use crate::market::book;

/// A client that has shaken hands.
#[track_caller]
pub fn enter(server: &Server) -> Client {
    let mut client = server.client();
    client.send(EXAMPLE_REQUEST);
    assert_eq!(client.line(), "HTTP/1.1 101 Switching Protocols\r");
    while client.line() != "\r" {}
    client
}

/// A whole frame of a client.
pub fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_masked(true, opcode, payload, [0x5a, 0, 0xff, 1], &mut frame);
    frame
}

/// The next frame of the server: its type and its payload.
#[track_caller]
pub fn next(client: &mut Client) -> (Opcode, Vec<u8>) {
    let mut head = client.exact(2);
    let more = match head[1] {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    head.extend(client.exact(more));
    let head = FrameHead::parse(&head).expect("a good head").expect("a whole one");
    (head.opcode, client.exact(head.len as usize))
}

/// Random requests in messages that are cut anywhere: the payload of the replies is that of the
/// service alone, sent from memory and from files.
pub fn requests_in_messages(arm: &Arm) {
    let server = arm.probe().with(&["--websocket"]).start();
    let menu = Menu { lines_max: 2000, wait_ms_max: 4, files: true, endings: false };
    for seed in 0..4 {
        let input = requests(seed, 40, menu);
        let mut client = enter(&server);
        for piece in input.chunks(1 + 70 * seed as usize) {
            client.send(frame(Opcode::Binary, piece));
        }
        client.send(frame(Opcode::Close, b"\x03\xe8"));
        let mut heard = Vec::new();
        let code = loop {
            match next(&mut client) {
                (Opcode::Binary, payload) => heard.extend(payload),
                (opcode, payload) => break (opcode, payload),
            }
        };
        assert!(plain(&heard) == expected(&input), "seed {seed}: {} bytes", heard.len());
        assert_eq!(code, (Opcode::Close, b"\x03\xe8".to_vec()), "seed {seed}");
        assert_eq!(client.rest(), b"");
    }
    server.stop();
}

/// Lines as a page sends them, whole and byte by byte; a ping, a violation, a stop.
pub fn lines_of_pages(arm: &Arm) {
    let server = arm.book(book(3, 10)).with(&["--websocket"]).start();
    let mut client = enter(&server);
    let text = |text: &str| (Opcode::Text, text.as_bytes().to_vec());
    client.send(frame(Opcode::Text, b"buy 1 4"));
    assert_eq!(next(&mut client), text("[buy] success\n"));
    for byte in [frame(Opcode::Ping, b"?"), frame(Opcode::Text, b"show")].concat() {
        client.send([byte]);
    }
    assert_eq!(next(&mut client), (Opcode::Pong, b"?".to_vec()));
    assert_eq!(next(&mut client), text("1 6 10\n2 10 20\n3 10 30\n\n"));
    client.send(frame(Opcode::Binary, b"show"));
    let closed = (Opcode::Close, b"\x03\xebexpected text, found binary".to_vec());
    assert_eq!(next(&mut client), closed);
    drop(client);
    let mut client = enter(&server);
    client.send(frame(Opcode::Text, b"sell 2 1\n"));
    assert_eq!(next(&mut client), text("[sell] success\n"));
    server.signal(Signal::TERM);
    assert_eq!(next(&mut client), (Opcode::Close, b"\x03\xe9the server stops".to_vec()));
    drop(client);
    assert_eq!(server.ended(PATIENCE).code, Some(0));
}

/// A WebSocket over TLS to a server that is believed to have this certificate.
fn secure(scheme: &str, server: &Server, cert: &str) -> Stream {
    let target = format!("{scheme}://localhost:{}", server.address.port()).parse();
    let mut target: Target = target.expect("an address");
    let roots = Some(cert.into());
    target.trust(TlsOptions { roots, ..TlsOptions::default() }).expect("a target over TLS");
    let stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    Stream::new(stream, &target).expect("a client")
}

/// The bytes of the next message that is received.
fn hear(client: &mut Stream) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 10];
    let count = client.read(&mut bytes).expect("a server that answers");
    bytes.truncate(count);
    bytes
}

/// Lines and packets over WebSocket over TLS, and the bytes that one session pushes to another: to
/// pages and to our own clients.
#[test]
fn flags_put_tls_around_websocket() {
    let folder = Folder::new();
    let [cert, key] = &folder.certify("localhost");
    let flags = ["--websocket", "--tls-cert", cert, "--tls-key", key];
    for arm in [&EPOLL, &URING] {
        arm.run(|arm| {
            let data = folder.file("stock.txt", book(3, 10));
            let server = arm.stock(&data).with(&flags).start();
            let mut client = secure("stock+wss", &server, cert);
            client.write_all(b"buy 1 4").expect("a server that reads");
            assert_eq!(hear(&mut client), b"[buy] success\n");
            drop(client);
            let target = format!("stock+wss://localhost:{}", server.address.port());
            let load = ["load", &target, "--cacert", cert, "-c", "4", "--depth", "3", "-n", "600"];
            run(Command::new(BINARY).args(load)).loaded();
            server.stop();
            let server = Plan::new(arm, "echo").with(&["--websocket"]).start();
            let target = format!("echo+ws://{}", server.address);
            run(Command::new(BINARY).args(["load", &target, "--depth", "8", "-n", "900"])).loaded();
            server.stop();
            let server = Plan::new(arm, "game").workers(1).with(&flags).start();
            let join = |name: &str| {
                let mut page = secure("echo+wss", &server, cert);
                let mut join = Vec::new();
                Ask::Join { version: 1, role: Role::Player, name: name.into() }.put(&mut join);
                page.write_all(&join).expect("a server that reads");
                page
            };
            let mut page = join("Ada");
            hear(&mut page);
            let other = join("Bob");
            let told = hear(&mut page);
            assert!(told.windows(3).any(|it| it == b"Bob"), "{told:?}");
            drop((page, other));
            server.stop();
        });
    }
    Plan::new(&EPOLL, "stock")
        .with(&["--tls-cert", key, "--tls-key", key])
        .fail()
        .exits(2)
        .says("expected a certificate as PEM, found none");
}

/// Bad files change nothing at a reload; after one of good files the next client is shown the new
/// certificate.
pub fn certificates_are_renewed(arm: &Arm) {
    let folder = Folder::new();
    let [cert, key] = folder.certify("localhost");
    let first = folder.path().join("first").display().to_string();
    std::fs::copy(&cert, &first).expect("a temporary directory");
    let data = folder.file("stock.txt", book(3, 90));
    let server = arm.stock(&data).with(&["--tls-cert", &cert, "--tls-key", &key]).start();
    let place = format!("line+tls://localhost:{}", server.address.port());
    let client = |cert: &str| {
        let words = ["load", &place, "--request", "buy 1 1", "-n", "1", "--cacert", cert];
        run(Command::new(BINARY).args(words))
    };
    // Its exit code also says whether a busy machine let it measure.
    let serves = |cert: &str| client(cert).out.contains("certificate checked");
    folder.file("localhost.pem", "none");
    server.signal(Signal::HUP);
    server.says("the certificates are unchanged");
    assert!(serves(&first), "{:?}", client(&first));
    folder.certify("localhost");
    server.signal(Signal::HUP);
    server.says("the certificates were reloaded");
    eventually("the new one is shown", PATIENCE, || serves(&cert) && !serves(&first));
    server.stop();
}
