//! Common generators (ab, Locust) find no error. One engine stands for all, because
//! the suite `it` sends the same bytes, pipelined too, to each.

use std::process::Command;

use crate::server::Server;
use crate::site::site;
use testkit::{has, locust, run};

#[test]
fn ab_finds_no_error() {
    if !has("ab") {
        return;
    }
    let site = site();
    let server = Server::open("epoll", &site, &[]);
    // With a connection for each request, and with few for all; both use HTTP/1.0.
    for (keep, wanted) in [(&[][..], 0), (&["-k"], 200)] {
        let args = [&["-q", "-s", "30", "-n", "200", "-c", "4"], keep].concat();
        let said = run(Command::new("ab").args(&args).arg(server.url("/a.txt"))).success().out;
        let number = |name: &str| -> Option<u32> {
            let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let counts = ["Complete requests:", "Failed requests:"].map(number);
        assert_eq!(counts, [Some(200), Some(0)], "{keep:?}: {said}");
        assert_eq!(number("Keep-Alive requests:").unwrap_or(0), wanted, "{said}");
        assert!(!said.contains("Non-2xx"), "{said}");
    }
    server.close();
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
