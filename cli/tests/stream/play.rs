//! `roundhouse play` receives every packet that `roundhouse serve media` sends, with one session
//! and with several, as datagrams and in the connection, to the end and from the middle.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use serde_json::Value;
use sys::signal::Signal;
use testkit::{Ended, Folder, Law, PATIENCE, Process, WAVE_RATE, run, wave};

use crate::{BINARY, serve};

/// Seconds of sound in the file.
const SECONDS: u32 = 2;

/// A server of a folder with one file.
struct Server {
    server: testkit::Server,
    _folder: Folder,
}

impl Server {
    fn start(flags: &[&str]) -> Server {
        let folder = Folder::new();
        let samples: Vec<u8> = (0..SECONDS * WAVE_RATE).map(|at| (at % 251) as u8).collect();
        folder.file("a.wav", wave(Law::Mu, &samples));
        let mut command = serve(&["--engine", "epoll"]);
        let server = testkit::Server::start(command.args(flags).arg(folder.path()));
        Server { server, _folder: folder }
    }

    fn play(&self, words: &str) -> (Option<i32>, Value) {
        play(&format!("rtsp://{}/a.wav", self.server.address), words)
    }
}

fn play(url: &str, words: &str) -> (Option<i32>, Value) {
    let words = words.split_whitespace();
    let Ended { code, out, err, .. } =
        run(Command::new(BINARY).args(["play", url, "--json"]).args(words));
    let report = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{url}: {out}{err}"));
    (code, report)
}

#[test]
fn everything_that_is_sent_is_heard_to_the_end() {
    let server = Server::start(&[]);
    for words in ["-d 60s", "-d 60s --tcp"] {
        let (code, found) = server.play(words);
        assert_eq!(code, Some(0), "{words}: {found}");
        assert_eq!(found["bytes"], SECONDS * WAVE_RATE, "{words}: {found}");
        for nothing in ["lost", "duplicates", "reordered", "strangers", "misannounced"] {
            assert_eq!(found[nothing], 0, "{words}: {found}");
        }
        assert!(found["ended"] == 1 && found["reports"].as_u64() > Some(0), "{words}: {found}");
        assert_eq!(found["tracks"][0]["payload"], "0 PCMU");
    }
    let (_, half) = server.play("-d 60s --start 1s");
    assert_eq!(half["bytes"], (SECONDS - 1) * WAVE_RATE, "{half}");
}

#[test]
fn many_sessions_share_sockets() {
    let server = Server::start(&[]);
    let (code, found) = server.play("-d 60s -c 70 --stagger 500ms");
    assert_eq!(code, Some(0), "{found}");
    assert_eq!((&found["played"], &found["ended"]), (&70.into(), &70.into()), "{found}");
    assert_eq!(found["bytes"], 70 * SECONDS * WAVE_RATE, "{found}");
}

/// A relay to a server that names no SSRC (RFC 2326 section 12.39 leaves it to the server).
fn nameless(to: SocketAddr) -> SocketAddr {
    testkit::listen(move |client| {
        let server = TcpStream::connect(to).expect("our own server");
        let ends = [&client, &server].map(|end| end.try_clone().expect("a descriptor"));
        std::thread::spawn(move || relay(client, server, |_| {}));
        let [client, server] = ends;
        relay(server, client, |bytes| {
            while let Some(at) = bytes.windows(6).position(|it| it == b";ssrc=") {
                bytes.drain(at..at + 14);
            }
        });
    })
}

fn relay(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut Vec<u8>)) {
    let mut room = [0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut room) {
        let mut bytes = room[..len].to_vec();
        change(&mut bytes);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_server_that_names_no_sender_is_heard_as_well() {
    let server = Server::start(&[]);
    let url = format!("rtsp://{}/a.wav", nameless(server.server.address));
    for words in ["-d 60s", "-d 60s --tcp", "-d 60s -c 5 --stagger 200ms"] {
        let (code, found) = play(&url, words);
        assert_eq!(code, Some(0), "{words}: {found}");
        assert_eq!(
            found["bytes"].as_u64(),
            found["played"].as_u64().map(|it| it * 16_000),
            "{found}"
        );
        assert_eq!((&found["lost"], &found["strangers"]), (&0.into(), &0.into()), "{found}");
        assert_eq!(found["ended"], found["sessions"], "{words}: {found}");
    }
}

#[test]
fn what_a_server_refuses_is_told() {
    let server = Server::start(&["--user", "a:b"]);
    let (code, found) = server.play("-d 1s");
    assert_eq!(code, Some(1));
    assert_eq!(found["failed"][0][0], "DESCRIBE: 401 Unauthorized");
    let (code, found) = server.play("-d 60s --user a:b --tcp --from 1.5");
    assert!(code == Some(0) && found["played"] == 1, "{found}");
    let found = silent();
    assert_eq!(found["failed"][0], serde_json::json!(["DESCRIBE: no answer", 3]), "{found}");
    let url = format!("rtsp://{}/none", server.server.address);
    let (code, found) = play(&url, "--user a:b");
    assert_eq!(code, Some(1));
    assert_eq!(found["failed"][0][0], "DESCRIBE: 404 Not Found");
}

/// The report about a server that accepts connections and never answers.
fn silent() -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("rtsp://{}/a", listener.local_addr().expect("bound"));
    let (code, found) = play(&url, "-d 2s --sessions 3 --ramp 100ms");
    assert_eq!(code, Some(1));
    found
}

#[test]
fn what_comes_by_itself_is_overheard() {
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = free.local_addr().expect("an address");
    drop(free);
    let url = format!("rtp://{to}");
    let mut player =
        Process::start(Command::new(BINARY).args(["play", &url, "--json", "-d", "60s"]));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sender.connect(to).expect("an address");
    // Sequence numbers 1, 2, 4 and 3 of one sender, repeated until the player listens.
    let packet =
        |number: u8| [&[0x80, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 9][..], b"sound"].concat();
    for _ in 0..200 {
        for number in [1, 2, 4, 3] {
            // The kernel reports an error while the player does not listen yet.
            let _ = sender.send(&packet(number));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    player.signal(Signal::INT);
    let found: Value = serde_json::from_str(&player.end(PATIENCE).out).expect("one JSON document");
    assert_eq!((&found["lost"], &found["tracks"][0]["ssrc"]), (&0.into(), &9.into()), "{found}");
    assert!(found["packets"].as_u64() >= Some(3), "{found}");
    assert!(found["duplicates"].as_u64() > Some(100), "{found}");
}
