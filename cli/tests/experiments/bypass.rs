//! TCP in user space, on a cable of the kernel's between two networks: clients of others talk to
//! it, and everything else on the interface goes to the kernel.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use sys::signal::Signal;
use sys::socket::set_linger_reset;
use testkit::procfs::Family;
use testkit::{PATIENCE, Process, has, rounds, run, skip};

use crate::BINARY;
use crate::far::Cable;

/// An address that the kernel of the server's network has, and one that it does not have.
const KERNELS: &str = "10.99.8.1";
const OWN: &str = "10.99.8.3";

/// The networks of the server and of the clients.
struct Site(Cable);

impl Site {
    /// `None` where this machine cannot have one; the reason is shown.
    fn new() -> Option<Site> {
        if !has("ip") || !has("curl") || sys::xdp::lack().is_some() {
            skip("AF_XDP");
            return None;
        }
        Cable::new(["byps", "bypc"], [KERNELS, "10.99.8.2"]).map(Site)
    }

    /// A server with these flags, when it is ready.
    fn serve(&self, flags: &str) -> Process {
        let words = format!("{BINARY} serve http --demo {flags}");
        let words: Vec<&str> = words.split(' ').collect();
        let server = Process::start(&mut self.0.command(0, &words));
        assert!(server.next_line(PATIENCE).is_some(), "it is ready: {}", server.err());
        server
    }

    /// The length of a reply that a client gets.
    #[track_caller]
    fn fetch(&self, url: &str) -> String {
        let words = ["curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{size_download}", url];
        run(&mut self.0.command(1, &words)).success().out
    }
}

#[test]
fn clients_of_others_talk_to_it_and_other_ports_are_the_kernels() {
    let Some(site) = Site::new() else { return };
    let kernels = site.serve(&format!("--host {KERNELS} --port 8081"));
    for host in [OWN, KERNELS] {
        let flags = format!("--engine bypass --interface byps --host {host} --port 8080");
        let mut server = site.serve(&flags);
        for _ in 0..3 {
            assert_eq!(site.fetch(&format!("http://{host}:8080/")), "2", "{}", server.err());
        }
        // The reply of this page is larger than the buffers of a connection.
        let [ours, wanted] = [(host, 8080), (KERNELS, 8081)]
            .map(|(host, port)| site.fetch(&format!("http://{host}:{port}/dynamic?rows=2000")));
        assert!(ours == wanted && ours.len() > 4, "{ours} of {wanted} bytes");
        assert_eq!(site.fetch(&format!("http://{KERNELS}:8081/")), "2", "the kernel's");
        let other = ["curl", "-s", "-m", "5", &format!("http://{KERNELS}:8082/")];
        assert_eq!(run(&mut site.0.command(1, &other)).code, Some(7), "refused by the kernel");
        if host == OWN {
            server.signal(Signal::TERM);
            let ended = server.end(PATIENCE);
            assert!(ended.err.contains("stopped after 4 connections"), "{ended:?}");
        } else {
            server.kill();
        }
        let show = run(&mut site.0.command(0, &["ip", "link", "show", "byps"])).success().out;
        assert!(!show.contains("xdp"), "a program stays: {show}");
    }
    drop(kernels);
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let Some(site) = Site::new() else { return };
    let check = |flags: &str, wanted: &str| {
        let words = format!("{BINARY} serve http --demo --engine bypass --port 8080 {flags}");
        let words: Vec<&str> = words.split(' ').collect();
        let ended = run(&mut site.0.command(0, &words));
        assert!(ended.code != Some(0) && ended.err.contains(wanted), "{flags}: {ended:?}");
    };
    let host = format!("--host {OWN}");
    check(&host, "--interface eth0");
    check("--interface byps", "expected the IPv4 address");
    check(&format!("{host} --interface none"), "none of the name `none`");
    check(&format!("{host} --interface lo"), "Ethernet frames");
    check(&format!("{host} --interface byps --workers 2"), "--workers 1");
    check(&format!("{host} --interface byps --listen 10.99.8.4:80"), "leave --listen out");
    check(&format!("{host} --interface byps --upgradable"), "leave --upgradable out");
    check(&format!("{host} --interface byps --governor on"), "--wait bypass");
    check(&format!("{host} --interface byps --container processes"), "--container threads");
}

/// A reply that is larger than the buffers of a connection, after which the server closes.
const LARGE: &str = "GET /dynamic?rows=2000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// Clients at a time that leave such a reply unread.
const SLOW: usize = 8;

#[test]
fn a_storm_of_resets_and_slow_readers_leaves_nothing() {
    let Some(site) = Site::new() else { return };
    let flags = format!("--engine bypass --interface byps --host {OWN} --port 8080");
    let mut server = site.serve(&flags);
    let family = || Family::of(server.pid());
    let before = std::thread::scope(|threads| {
        let storm = || {
            site.0.enter(1);
            storm(0..100);
            let before = (family().descriptors(), family().memory());
            storm(rounds(100));
            before
        };
        threads.spawn(storm).join().expect("each client was served")
    });
    let after = (family().descriptors(), family().memory());
    println!("descriptors and bytes: {before:?}, after the storm {after:?}");
    assert_eq!(after.0, before.0, "{}", server.err());
    // 1024 closed connections wait for late segments with their buffers, of 8 KiB at most.
    let most = before.1 + 1024 * 8192 + (4 << 20);
    assert!(after.1 < most, "{before:?} bytes grew to {after:?}");
    assert_eq!(site.fetch(&format!("http://{OWN}:8080/")), "2", "{}", server.err());
    server.signal(Signal::TERM);
    assert_eq!(server.end(PATIENCE).code, Some(0));
}

/// Clients that reset in each part of a request, and clients that read long after they asked.
fn storm(rounds: impl Iterator<Item = usize>) {
    let address: SocketAddr = format!("{OWN}:8080").parse().expect("an address");
    let ask = |words: &str| {
        let mut client = TcpStream::connect_timeout(&address, PATIENCE).expect("it accepts");
        client.set_read_timeout(Some(PATIENCE)).expect("a time");
        client.write_all(words.as_bytes()).expect("it reads");
        client
    };
    let reset = |client: TcpStream| set_linger_reset(&client).expect("a socket");
    let mut slow = VecDeque::new();
    for round in rounds {
        for words in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
            reset(ask(words));
        }
        let mut reader = ask(LARGE);
        reader.read_exact(&mut vec![0; 1 + 997 * round % 9000]).expect("a part of the reply");
        reset(reader);
        slow.push_back(ask(LARGE));
        if slow.len() > SLOW {
            let (mut oldest, mut reply) = (slow.pop_front().expect("one"), String::new());
            oldest.read_to_string(&mut reply).expect("the whole reply");
            assert!(reply.len() > 9000, "{} bytes", reply.len());
        }
    }
}
