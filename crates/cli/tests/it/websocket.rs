//! WebSocket around services on every engine: files and jobs of the probe, and lines of the market.

use sim::laws::probe::{Menu, expected, plain, requests};
use sys::signal::Signal;
use wire::websocket::{EXAMPLE_REQUEST, FrameHead, Opcode, put_masked};

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Server};
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
    let folder = Folder::new();
    let data = folder.file("stock.txt", book(3, 10));
    let server = arm.stock(&data).with(&["--websocket"]).start();
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
