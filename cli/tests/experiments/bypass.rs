//! TCP in user space, on a cable of the kernel's between two networks: clients of others talk to
//! it, and everything else on the interface goes to the kernel.

use sys::signal::Signal;
use testkit::{PATIENCE, Process, has, run, skip};

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
