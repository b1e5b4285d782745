//! Common generators (wrk, ab, h2load) find no error with any engine.

use std::process::Command;

use crate::server::{Server, each, servers};
use crate::site::site;
use testkit::{has, run};

/// The connections that these tests open at one time, within the limit of the engine.
fn crowd(server: &Server) -> &'static str {
    if server.name == "iterative" { "1" } else { "4" }
}

#[test]
fn wrk_with_every_engine() {
    if !has("wrk") {
        return;
    }
    let site = site();
    let servers = servers(&site);
    each(&servers, |server| {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t", "1", "-d", "1s", "-c", crowd(server), &server.url("/json")]);
        let said = run(&mut wrk).success().out;
        let bad = ["Socket errors", "Non-2xx"].iter().any(|word| said.contains(word));
        let count = said.lines().find_map(|line| line.trim().split_once(" requests in "));
        let count: u32 = count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0);
        assert!(!bad && count > 0, "{}: {said}", server.name);
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}

#[test]
fn ab_with_every_engine() {
    if !has("ab") {
        return;
    }
    let site = site();
    let servers = servers(&site);
    each(&servers, |server| {
        // With a connection for each request, and with few for all; both use HTTP/1.0.
        for keep in [&[][..], &["-k"]] {
            let mut ab = Command::new("ab");
            ab.args(["-q", "-s", "30", "-n", "200", "-c", crowd(server)]).args(keep);
            let said = run(ab.arg(server.url("/a.txt"))).success().out;
            let number = |name: &str| -> Option<u32> {
                let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
                rest.split_whitespace().next()?.parse().ok()
            };
            let counts = ["Complete requests:", "Failed requests:"].map(number);
            assert_eq!(counts, [Some(200), Some(0)], "{} {keep:?}: {said}", server.name);
            let kept = number("Keep-Alive requests:").unwrap_or(0);
            assert_eq!(kept, if keep.is_empty() { 0 } else { 200 }, "{}: {said}", server.name);
            assert!(!said.contains("Non-2xx"), "{}: {said}", server.name);
        }
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}

#[test]
fn h2load_with_every_engine() {
    if !has("h2load") {
        return;
    }
    let site = site();
    let servers = servers(&site);
    each(&servers, |server| {
        // Each connection has eight requests in flight.
        let mut h2load = Command::new("h2load");
        h2load.args(["--h1", "-t", "1", "-n", "400", "-m", "8", "-c", crowd(server)]);
        let said = run(h2load.arg(server.url("/plaintext"))).success().out;
        let wanted = "400 total, 400 started, 400 done, 400 succeeded, 0 failed, 0 errored";
        assert!(said.contains(wanted), "{}: {said}", server.name);
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}
