//! The echo of a game server's library: its settings, and its operator.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::arms::{Arm, EPOLL};
use crate::harness::{BINARY, Client, PATIENCE, Plan, Server, ms};

/// A packet, as the library's client makes it.
fn packet(number: u64) -> [u8; 10] {
    let mut bytes = [8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[2..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The packet that a server sends on accept.
fn login() -> [u8; 10] {
    packet(0x7fff_ffff_ffff_ffff)
}

fn serve(arm: &Arm, more: &[&str]) -> Server {
    Plan::new(arm, "echo").with(more).start()
}

/// The largest batch of the library's client: 200 packets in one write.
fn batch(from: u64) -> Vec<u8> {
    (from..from + 200).flat_map(packet).collect()
}

/// A client that has received the login packet.
#[track_caller]
fn logged_in(server: &Server) -> Client {
    let mut client = server.client();
    assert_eq!(client.exact(10), login());
    client
}

/// The key `d` disconnects the first session only.
#[test]
fn an_operator_disconnects_the_first() {
    let mut command = Command::new(BINARY);
    command.args(["serve", "echo", "--port", "0", "--engine", "epoll", "--console", "on"]);
    let mut server = testkit::Server::start_with(&mut command, Stdio::piped());
    let mut keys = server.stdin().expect("piped above");
    let address = server.address;
    let mut clients = [0, 1].map(|_| {
        let mut client = Client::new(address);
        assert_eq!(client.exact(10), login());
        client
    });
    keys.write_all(b"d\n").expect("the server reads keys");
    assert_eq!(clients[0].rest(), b"");
    clients[1].send(packet(5));
    assert_eq!(clients[1].exact(10), packet(5));
    keys.write_all(b"q").expect("the server reads keys");
    let ended = server.ended(PATIENCE).success();
    let said = ended.err;
    assert!(said.contains("1 connection disconnected by the operator"), "{said}");
}

/// The library's settings by their own names; impossible values are refused.
#[test]
fn the_options_of_the_library() {
    let more = ["--no-delay", "off", "--max-clients", "1"];
    let server = serve(&EPOLL, &more);
    let mut first = logged_in(&server);
    let mut second = TcpStream::connect(server.address).expect("the kernel answers");
    second.write_all(&packet(1)).expect("the kernel takes it");
    first.send(batch(0));
    assert_eq!(first.exact(2000), batch(0));
    second.set_read_timeout(Some(ms(50))).expect("a socket");
    let waits = std::io::Read::read(&mut second, &mut [0; 10]);
    assert!(waits.is_err(), "the second waits to be accepted, found {waits:?}");
    first.finish();
    assert_eq!(first.rest(), b"");
    second.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut heard = [0; 20];
    std::io::Read::read_exact(&mut second, &mut heard).expect("its turn has come");
    assert_eq!(heard[..10], login());
    assert_eq!(heard[10..], packet(1));
    second.write_all(&[9, 0]).expect("the server reads a wrong length");
    assert_eq!(std::io::Read::read(&mut second, &mut [0; 1]).expect("the end"), 0);
    server.stop().says("1 connection closed for a length that was not 8");
    Plan::new(&crate::arms::PREFORK, "echo")
        .with(&["--console", "on"])
        .fail()
        .exits(2)
        .says("must have one thread");
}
