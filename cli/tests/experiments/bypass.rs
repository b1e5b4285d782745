//! TCP in user space, on a cable of the kernel's between two networks: clients of others talk to
//! it, and everything else on the interface goes to the kernel.

use std::process::Command;

use rustix::process::geteuid;
use sys::signal::Signal;
use testkit::{PATIENCE, Process, has, run, skip};

use crate::BINARY;
use crate::far::{HOLD, within};

/// An address that the kernel of the server's network has, and one that it does not have.
const KERNELS: &str = "10.99.8.1";
const OWN: &str = "10.99.8.3";

/// Two networks with a cable between them: of the server, and of the clients.
struct Cable([Process; 2]);

impl Cable {
    /// `None` where this machine cannot have one; the reason is shown.
    fn new() -> Option<Cable> {
        let is_able = geteuid().is_root() && has("ip") && has("curl");
        if !is_able || sys::xdp::lack().is_some() {
            skip("AF_XDP");
            return None;
        }
        let hold = || Process::start(Command::new("unshare").args(["--net", "sh", "-c", HOLD]));
        let holders = [hold(), hold()];
        if !holders.iter().all(|it| it.next_line(PATIENCE).as_deref() == Some("ready")) {
            skip("a separate network");
            return None;
        }
        let [a, b] = holders.each_ref().map(|it| it.pid().to_string());
        let cable = ["link", "add", "byps", "netns", &a, "type", "veth", "peer", "name", "bypc"];
        run(Command::new("ip").args(cable).args(["netns", &b])).success();
        for (pid, device, address) in [(&a, "byps", KERNELS), (&b, "bypc", "10.99.8.2")] {
            let script = format!(
                "ip addr add {address}/24 dev {device} && ip link set {device} up && \
                 ip link set lo up"
            );
            run(&mut within(pid, &["sh", "-c", &script])).success();
        }
        Some(Cable(holders))
    }

    fn command(&self, side: usize, words: &[&str]) -> Command {
        within(&self.0[side].pid().to_string(), words)
    }

    /// A server with these flags, when it is ready.
    fn serve(&self, flags: &str) -> Process {
        let words = format!("{BINARY} serve http --demo {flags}");
        let words: Vec<&str> = words.split(' ').collect();
        let server = Process::start(&mut self.command(0, &words));
        assert!(server.next_line(PATIENCE).is_some(), "it is ready: {}", server.err());
        server
    }

    /// The length of a reply that a client gets.
    #[track_caller]
    fn fetch(&self, url: &str) -> String {
        let words = ["curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{size_download}", url];
        run(&mut self.command(1, &words)).success().out
    }
}

#[test]
fn clients_of_others_talk_to_it_and_other_ports_are_the_kernels() {
    let Some(cable) = Cable::new() else { return };
    let kernels = cable.serve(&format!("--host {KERNELS} --port 8081"));
    for host in [OWN, KERNELS] {
        let flags = format!("--engine bypass --interface byps --host {host} --port 8080");
        let mut server = cable.serve(&flags);
        for _ in 0..3 {
            assert_eq!(cable.fetch(&format!("http://{host}:8080/")), "2", "{}", server.err());
        }
        // The reply of this page is larger than the buffers of a connection.
        let [ours, wanted] = [(host, 8080), (KERNELS, 8081)]
            .map(|(host, port)| cable.fetch(&format!("http://{host}:{port}/dynamic?rows=2000")));
        assert!(ours == wanted && ours.len() > 4, "{ours} of {wanted} bytes");
        assert_eq!(cable.fetch(&format!("http://{KERNELS}:8081/")), "2", "the kernel's");
        let other = ["curl", "-s", "-m", "5", &format!("http://{KERNELS}:8082/")];
        assert_eq!(run(&mut cable.command(1, &other)).code, Some(7), "refused by the kernel");
        if host == OWN {
            server.signal(Signal::TERM);
            let ended = server.end(PATIENCE);
            assert!(ended.err.contains("stopped after 4 connections"), "{ended:?}");
        } else {
            server.kill();
        }
        let show = run(&mut cable.command(0, &["ip", "link", "show", "byps"])).success().out;
        assert!(!show.contains("xdp"), "a program stays: {show}");
    }
    drop(kernels);
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let Some(cable) = Cable::new() else { return };
    let check = |flags: &str, wanted: &str| {
        let words = format!("{BINARY} serve http --demo --engine bypass --port 8080 {flags}");
        let words: Vec<&str> = words.split(' ').collect();
        let ended = run(&mut cable.command(0, &words));
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
