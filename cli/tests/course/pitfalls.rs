//! Mistakes of typical servers of the course, tested on ours; and our clients with faulty servers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use testkit::{Folder, PATIENCE, eventually};

use engines::Preset;

use crate::replica::Replica;
use crate::server::{Server, called, each_engine, run, serves_many, start};

const BOOK: &str = "1 7 1000\n5 3 3700\n";

/// One client sends half a line, another reads none of its replies: the server serves the others.
fn nobody_waits_for_the_slow(preset: &Preset) {
    if !serves_many(preset) {
        return;
    }
    let server = Server::on(preset, BOOK);
    let mut half = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
    half.write_all(b"buy 1").expect("the server takes requests");
    let mut deaf = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
    deaf.set_write_timeout(Some(std::time::Duration::from_millis(100))).expect("a socket");
    // 1000 replies are 8 MB, more than any socket holds; the requests may not all fit either.
    let _ = deaf.write_all("show\n".repeat(1000).as_bytes());
    let mut next = Replica::connect(server.port());
    for _ in 0..20 {
        assert_eq!(next.ask("show\n"), BOOK);
    }
    half.write_all(b" 1\nsell 1 1\n").expect("the server takes requests");
    let mut replies = vec![0; 2 * 8192];
    half.set_read_timeout(Some(PATIENCE)).expect("a socket");
    half.read_exact(&mut replies).expect("two blocks");
    assert!(replies.starts_with(b"[buy] success\n\0"));
    drop((half, deaf, next));
    server.close();
}

#[test]
fn a_slow_client_holds_up_nobody() {
    each_engine(nobody_waits_for_the_slow);
}

#[test]
fn a_book_that_the_blocks_cannot_hold_is_refused() {
    let rows: String = (1..=700).map(|id| format!("{id} 100 1000\n")).collect();
    let (folder, _) = Folder::with("stock.txt", &rows);
    let ran = run(called("stockserver").arg("0").current_dir(folder.path()), "").exits(2);
    ran.says("fixed:8192").says("700 stocks");
    assert_eq!(folder.text("stock.txt"), rows);
    let empty = Folder::new();
    run(called("stockserver").arg("0").current_dir(empty.path()), "")
        .exits(1)
        .says("cannot read stock.txt");
}

/// A server that accepts one client and runs `act` with it.
fn wrong_server(act: impl FnOnce(TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("ours").port();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        act(stream);
    });
    (port, thread)
}

fn hear(stream: &mut TcpStream, line: &str) {
    let mut heard = vec![0; line.len()];
    stream.read_exact(&mut heard).expect("a request");
    assert_eq!(heard, line.as_bytes());
}

fn block(text: &str) -> Vec<u8> {
    let mut block = text.as_bytes().to_vec();
    block.resize(8192, 0);
    block
}

fn stockclient(port: u16) -> std::process::Command {
    let mut command = called("stockclient");
    command.args(["127.0.0.1", &port.to_string()]);
    command
}

/// The course's client prints its own request if a server closes early; ours reports the close.
#[test]
fn a_server_that_closes_early() {
    let close = |mut stream: TcpStream| {
        hear(&mut stream, "buy 1 1\n");
        stream.write_all(b"[b").expect("the client reads");
    };
    let (port, server) = wrong_server(close);
    let mut client = Replica::connect(port);
    client.send("buy 1 1\n").expect("a request");
    assert_eq!(client.readnb().expect("two bytes"), 2);
    assert_eq!(client.text(), "[by 1 1\n", "the old buffer shows through");
    server.join().expect("the server has closed");
    let (port, server) = wrong_server(close);
    let ran = run(&mut stockclient(port), "buy 1 1\nshow\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("after 2 bytes of a reply"), "{}", ran.err);
    server.join().expect("the server has closed");
    let (port, server) = wrong_server(drop);
    let ran = run(&mut stockclient(port), "buy 1 1\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    server.join().expect("the server has closed");
}

/// A server that sends only the text makes the course's clients wait for ever. Ours also wait,
/// because a reply is 8192 bytes, but they report the reason.
#[test]
fn a_server_that_does_not_pad() {
    let (told, heard) = std::sync::mpsc::channel();
    let (port, server) = wrong_server(move |mut stream| {
        hear(&mut stream, "buy 1 1\n");
        stream.write_all(b"[buy] success\n").expect("the client reads");
        heard.recv_timeout(PATIENCE).expect("the test goes on");
        stream.write_all(&block("")[14..]).expect("the client reads");
    });
    let mut client = start(&mut stockclient(port), "buy 1 1\n");
    eventually("the wait is explained", PATIENCE, || {
        client.err().contains("14 of a reply's 8192 bytes")
    });
    assert!(client.err().contains("--framing line"), "{}", client.err());
    assert_eq!(client.out(), "");
    told.send(()).expect("the server waits");
    let ran = client.end(PATIENCE);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "[buy] success\n"));
    server.join().expect("the server has answered");
}

#[test]
fn exit_that_is_answered_by_closing_is_an_end() {
    let (port, server) = wrong_server(|mut stream| {
        hear(&mut stream, "show\n");
        stream.write_all(&block(BOOK)).expect("the client reads");
        hear(&mut stream, "exit\n");
    });
    let ran = run(&mut stockclient(port), "show\nexit\nshow\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), BOOK, ""));
    server.join().expect("the server has closed");
}

#[test]
fn lines_of_any_kind() {
    let server = Server::open(BOOK, &[]);
    let check = |input: &str, out: &str| {
        let ran = server.stockclient(input);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), out), "{input:?}: {}", ran.err);
    };
    check("", "");
    check("show", BOOK);
    check("sell 1 1\nbuy 1 1", "[sell] success\n[buy] success\n");
    check("show\r\n", BOOK);
    check("exit", "exit\n");
    check(&format!("show{}\n", " ".repeat(8186)), BOOK);
    server.stockclient(&format!("show{}\n", " ".repeat(8187))).exits(1).says("at most 8191 bytes");
    server.close();
    run(called("stockclient").args(["127.0.0.1", "1"]), "show\n")
        .exits(1)
        .says("cannot connect to 127.0.0.1:1");
}
