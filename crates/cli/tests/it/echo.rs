//! The echo of a game server's library on every engine: real batches, cut at every byte.

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

/// Batches of 1, 10, 100 and 200 packets, each cut in two at every byte of its last packets, and
/// once byte by byte.
pub fn batches_cut_at_every_byte(arm: &Arm) {
    let server = serve(arm, &[]);
    let mut client = logged_in(&server);
    for count in [1, 10, 100, 200] {
        let batch = &batch(7)[..count * 10];
        for cut in batch.len().saturating_sub(21)..batch.len() {
            client.send(&batch[..cut]);
            if cut % 4 == 0 {
                // The first part has come back, so the rest is certainly another segment.
                let whole = cut / 10 * 10;
                assert_eq!(client.exact(whole), batch[..whole], "{count} packets, cut at {cut}");
                client.send(&batch[cut..]);
                assert_eq!(client.exact(batch.len() - whole), batch[whole..], "cut at {cut}");
            } else {
                client.send(&batch[cut..]);
                assert_eq!(client.exact(batch.len()), batch, "{count} packets, cut at {cut}");
            }
        }
    }
    let last = packet(0x1000);
    last.iter().for_each(|byte| client.send([*byte]));
    assert_eq!(client.exact(10), last);
    client.finish();
    assert_eq!(client.rest(), b"", "nothing comes that was not sent");
    server.stop();
}

/// A wrong length ends the connection after the echo of earlier packets, and is counted.
pub fn a_wrong_length_is_counted(arm: &Arm) {
    let server = serve(arm, &[]);
    for wrong in [&b"\x09\0"[..], b"\0\0\0\0\0\0\0\0\0\0", b"\x08\x01rest that is not read"] {
        let mut client = logged_in(&server);
        client.send([&batch(3)[..], wrong].concat());
        assert_eq!(client.rest(), batch(3), "{wrong:?}");
    }
    let ended = server.stop();
    // The server prints it after each last client, so the last line has the sum.
    let words = "connections closed for a length that was not 8";
    assert!(ended.err.contains(&format!("3 {words}")), "{}", ended.err);
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
    let more = ["--no-delay", "off", "--max-clients", "1", "--prepared", "100"];
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
    drop(second);
    server.stop();
    Plan::new(&crate::arms::PREFORK, "echo")
        .with(&["--console", "on"])
        .fail()
        .exits(2)
        .says("must have one thread");
}
