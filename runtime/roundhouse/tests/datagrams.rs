//! Services of datagrams as programs, as one worker, threads and processes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use sys::process;
use sys::signal::Signal;
use sys::udp::{Batch, Udp, UdpOptions};
use testkit::procfs::{Family, children, is_alive};
use testkit::{PATIENCE, Server, eventually, example, run};

const PROCESSES: &str = "--container processes --accept reuseport --workers 2 --wait epoll";

/// The flags of each container, and whether workers are processes.
fn engines() -> Vec<(&'static str, bool)> {
    let threads = ["--engine epoll", "--engine reactor --workers 2"];
    threads.map(|flags| (flags, false)).into_iter().chain([(PROCESSES, true)]).collect()
}

/// Serves an example by each engine while `visit` has the server.
fn on_each(name: &str, visit: impl Fn(&Server, &str, bool)) {
    let Some(path) = example(name) else { return };
    for (flags, has_processes) in engines() {
        let mut command = Command::new(&path);
        let words = flags.split(' ').filter(|word| !word.is_empty());
        let server = Server::start(command.args(["--port", "0"]).args(words));
        visit(&server, flags, has_processes);
        server.stop();
    }
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

#[track_caller]
fn hear(client: &UdpSocket, server: &Server) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let (len, from) = client.recv_from(&mut buffer).expect("a reply");
    assert_eq!(from, server.address, "replies come from where requests went");
    buffer.truncate(len);
    buffer
}

#[track_caller]
fn ask(client: &UdpSocket, server: &Server, datagram: &[u8]) -> Vec<u8> {
    client.send_to(datagram, server.address).expect("a server");
    hear(client, server)
}

/// The value of the metric that begins so.
fn metric(server: &Server, name: &str) -> u64 {
    let path = server.ready["admin"].as_str().expect("an administration");
    let mut stream = UnixStream::connect(path.trim_start_matches("unix:")).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("metrics");
    let value = text
        .lines()
        .find(|line| line.starts_with(name))
        .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("expected {name} in {text}")) as u64
}

#[test]
fn datagrams_of_every_length_come_back_and_are_counted() {
    on_each("udp-echo", |server, flags, _| {
        let clients: Vec<_> = (0..8).map(|_| client()).collect();
        for (at, client) in clients.iter().enumerate() {
            for len in [0, 1, 64, 1400, 1453, 9000, 65_507] {
                let datagram = vec![at as u8; len];
                assert!(ask(client, server, &datagram) == datagram, "{len} bytes, {flags}");
            }
        }
        // A peer that is gone when its reply comes (ICMP) costs nothing.
        client().send_to(b"gone", server.address).expect("a server");
        // A train is told apart, and its replies keep their order and lengths.
        let socket = Udp::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let bytes: Vec<u8> = (0..100_u8).collect();
        Batch::default().send(&socket, |filling| {
            filling.datagram(server.address);
            filling.piece(&bytes);
            filling.segment(7);
        });
        for expected in bytes.chunks(7) {
            assert!(socket.wait_readable(PATIENCE).unwrap(), "{flags}");
            let mut buffer = [0; 200];
            let (len, _) = socket.receive(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], expected, "{flags}");
        }
        let expected = 8 * 7 + 1 + 15;
        eventually("all are counted", PATIENCE, || {
            metric(server, "roundhouse_requests_total") == expected
        });
        let bytes = 8 * (1 + 64 + 1400 + 1453 + 9000 + 65_507) + 4 + 100;
        assert_eq!(metric(server, "roundhouse_received_bytes_total"), bytes, "{flags}");
        eventually("all are sent", PATIENCE, || {
            metric(server, "roundhouse_sent_bytes_total") == bytes
        });
        for why in ["receive_buffer", "too_long", "send_queue", "send_error"] {
            let name = format!("roundhouse_datagrams_lost_total{{reason=\"{why}\"");
            assert_eq!(metric(server, &name), 0, "{why}, {flags}");
        }
    });
}

#[test]
fn a_killed_worker_is_replaced_and_its_peers_are_served() {
    on_each("udp-echo", |server, flags, has_processes| {
        if !has_processes {
            return;
        }
        let clients: Vec<_> = (0..16).map(|_| client()).collect();
        clients.iter().for_each(|client| assert_eq!(ask(client, server, b"before"), b"before"));
        let before = children(server.pid);
        assert_eq!(before.len(), 2, "{flags}");
        before.iter().for_each(|pid| process::kill(*pid, Signal::KILL).expect("a worker"));
        let is_gone = || !before.iter().any(|pid| is_alive(*pid));
        eventually("the workers have ended", PATIENCE, is_gone);
        // A datagram that is sent meanwhile waits in the socket, which the supervisor holds.
        clients.iter().for_each(|client| assert_eq!(ask(client, server, b"after"), b"after"));
        assert!(children(server.pid).iter().all(|pid| !before.contains(pid)), "{flags}");
    });
}

#[test]
fn a_stopped_server_answers_what_the_kernel_has_received() {
    let Some(path) = example("udp-echo") else { return };
    for (flags, _) in engines() {
        let mut command = Command::new(&path);
        let server = Server::start(command.args(["--port", "0"]).args(flags.split(' ')));
        let clients: Vec<_> = (0..16).map(|_| client()).collect();
        let family = Family::of(server.pid);
        family.freeze();
        for client in &clients {
            for number in 0..20_u8 {
                client.send_to(&[number; 30], server.address).expect("room in its buffer");
            }
        }
        server.signal(Signal::TERM);
        family.thaw();
        for client in &clients {
            for number in 0..20_u8 {
                assert_eq!(hear(client, &server), [number; 30], "{flags}");
            }
        }
        let ended = server.ended(PATIENCE);
        assert_eq!(ended.code, Some(0), "{flags}: {}", ended.err);
    }
}

#[test]
fn engines_of_connections_refuse_with_the_reason() {
    let Some(path) = example("udp-echo") else { return };
    for (flags, reason) in [
        ("--engine fork", "no connections"),
        ("--engine prefork", "say --accept reuseport"),
        ("--engine event", "say --engine reactor"),
        ("--engine port", "say --engine reactor"),
        ("--engine amped", "say --engine epoll"),
        ("--engine poll", "say --wait epoll"),
        ("--engine epoll --max-connections 5", "found --max-connections"),
        ("--engine uring", "say --wait epoll"),
        ("--engine iterative", "say --wait epoll"),
    ] {
        let ended = run(Command::new(&path).args(["--port", "0"]).args(flags.split(' ')));
        assert_eq!(ended.code, Some(2), "{flags}: {}", ended.err);
        assert!(ended.err.contains(reason), "{flags}: {}", ended.err);
    }
}

/// A query for `name` of a type in a class, with this flags word.
fn query(flags: u16, name: &str, kind: u16, class: u16) -> Vec<u8> {
    let mut query = vec![0xab, 0xcd];
    for word in [flags, 1, 0, 0, 0] {
        query.extend(word.to_be_bytes());
    }
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.push(0);
    query.extend(kind.to_be_bytes());
    query.extend(class.to_be_bytes());
    query
}

#[test]
fn dns_answers_by_rfc_1035() {
    on_each("udp-dns", |server, flags, _| {
        let client = client();
        let check = |query: &[u8], words: u16, answers: u16, data: &[u8]| {
            let heard = ask(&client, server, query);
            assert_eq!(heard[..2], query[..2], "{flags}");
            let word = |at: usize| u16::from_be_bytes([heard[at], heard[at + 1]]);
            assert_eq!((word(2), word(6)), (words, answers), "{flags}: {query:x?}");
            assert!(heard.ends_with(data), "{flags}: {heard:x?}");
        };
        let v4 = Ipv4Addr::new(192, 0, 2, 80).octets();
        check(&query(0x0100, "www.example", 1, 1), 0x8500, 1, &v4);
        check(&query(0, "WWW.eXample", 1, 1), 0x8400, 1, &v4);
        check(&query(0, "www.example", 28, 1), 0x8400, 1, &[0, 80]);
        check(&query(0, "mail.example", 28, 1), 0x8400, 0, &[]);
        check(&query(0, "www.example", 15, 1), 0x8400, 0, &[]);
        check(&query(0, "no.example", 1, 1), 0x8403, 0, &[]);
        check(&query(0, "www.example", 1, 3), 0x8005, 0, &[]);
        check(&query(0x2000, "www.example", 1, 1), 0xa004, 0, &[]);
        let whole = query(0, "www.example", 1, 1);
        for end in 12..whole.len() {
            check(&whole[..end], 0x8001, 0, &[]);
        }
        check(&query(0, &"a.".repeat(128), 1, 1), 0x8001, 0, &[]);
        // Too short for a header, and a response: none is answered.
        client.send_to(&whole[..3], server.address).unwrap();
        client.send_to(&query(0x8000, "www.example", 1, 1), server.address).unwrap();
        check(&whole, 0x8400, 1, &v4);
        if testkit::has("dig") {
            let port = server.port().to_string();
            let words = ["@127.0.0.1", "-p", &port, "+short", "www.example", "AAAA"];
            assert_eq!(run(Command::new("dig").args(words)).success().out, "2001:db8::50\n");
        }
    });
}

#[test]
fn players_see_each_other_until_they_fall_silent() {
    on_each("udp-game", |server, flags, _| {
        let (one, two) = (client(), client());
        one.send_to(b"1 2", server.address).unwrap();
        one.send_to(b"one two", server.address).unwrap();
        one.send_to(&[b'1'; 9000], server.address).unwrap();
        two.send_to(b"-3 4", server.address).unwrap();
        let line = |client: &UdpSocket, place| {
            format!("{} {place}\n", client.local_addr().expect("an address"))
        };
        for client in [&one, &two] {
            eventually("both are in sight", PATIENCE, || {
                let seen = String::from_utf8(hear(client, server)).expect("text");
                seen.contains(&line(&one, "1 2")) && seen.contains(&line(&two, "-3 4"))
            });
        }
        let too_long = "roundhouse_datagrams_lost_total{reason=\"too_long\"";
        eventually("the long one is counted", PATIENCE, || metric(server, too_long) == 1);
        let silence = Some(Duration::from_millis(500));
        one.set_read_timeout(silence).unwrap();
        eventually("the server forgets them", PATIENCE, || one.recv(&mut [0; 99]).is_err());
        assert_eq!(metric(server, "roundhouse_requests_total"), 2, "{flags}");
    });
}
