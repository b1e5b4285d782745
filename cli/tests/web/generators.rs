//! Common generators (wrk, ab, h2load, Locust) find no error. One engine stands for all, because
//! the suite `it` sends the same bytes, pipelined too, to each.

use std::process::Command;

use crate::server::Server;
use crate::site::site;
use testkit::{has, locust, run};

/// The output of a generator, if it is installed.
fn said(program: &str, args: &[&str], path: &str) -> Option<String> {
    has(program).then(|| {
        let site = site();
        let server = Server::open("epoll", &site, &[]);
        let said = run(Command::new(program).args(args).arg(server.url(path))).success().out;
        server.close();
        said
    })
}

#[test]
fn wrk_finds_no_error() {
    let Some(said) = said("wrk", &["-t", "1", "-d", "1s", "-c", "4"], "/json") else { return };
    let bad = ["Socket errors", "Non-2xx"].iter().any(|word| said.contains(word));
    let count = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let count: u32 = count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0);
    assert!(!bad && count > 0, "{said}");
}

#[test]
fn ab_finds_no_error() {
    // With a connection for each request, and with few for all; both use HTTP/1.0.
    for (keep, wanted) in [(&[][..], 0), (&["-k"], 200)] {
        let args = [&["-q", "-s", "30", "-n", "200", "-c", "4"], keep].concat();
        let Some(said) = said("ab", &args, "/a.txt") else { return };
        let number = |name: &str| -> Option<u32> {
            let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let counts = ["Complete requests:", "Failed requests:"].map(number);
        assert_eq!(counts, [Some(200), Some(0)], "{keep:?}: {said}");
        assert_eq!(number("Keep-Alive requests:").unwrap_or(0), wanted, "{said}");
        assert!(!said.contains("Non-2xx"), "{said}");
    }
}

#[test]
fn h2load_finds_no_error() {
    // Each connection has eight requests in flight.
    let args = ["--h1", "-t", "1", "-n", "400", "-m", "8", "-c", "4"];
    let Some(said) = said("h2load", &args, "/plaintext") else { return };
    let wanted = "400 total, 400 started, 400 done, 400 succeeded, 0 failed, 0 errored";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn locust_finds_no_error() {
    let Some(locust) = locust() else { return };
    let server = Server::open("epoll", &site(), &[]);
    let users = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/programs/locustfile.py");
    let mut command = Command::new(locust);
    command.args(["-f", users, "--headless", "--json", "--users", "8", "--spawn-rate", "8"]);
    let stats = run(command.args(["--run-time", "3s", "--host", &server.url("")])).success().out;
    server.close();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&stats).expect("Locust's statistics");
    let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    assert!(sum("num_requests") > 0 && sum("num_failures") == 0, "{stats}");
}
