//! The simulator against minimal servers.

use super::*;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};

/// Answers every connection with `reply` and closes it, until the test ends.
fn serve(reply: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(reply);
        }
    });
    address
}

fn plan(address: SocketAddr, clients: u32) -> Plan {
    let target = format!("http://{address}/file").parse().expect("a target");
    Plan::new(target, clients, Duration::from_millis(300))
}

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

#[test]
fn every_answer_is_a_row_and_the_sums_are_those_of_the_rows() {
    let (summary, rows) = run(&plan(serve(GOOD), 4), None).expect("a plan");
    assert!(summary.is_right() && summary.malformed == 0, "{summary}");
    assert!(summary.requests <= rows.len() as u64 && summary.requests > 0);
    assert_eq!(summary.response.count, summary.requests);
    assert!(summary.whole.mean_ns >= summary.response.mean_ns);
    assert!(rows.iter().all(|row| row.status == 200 && row.bytes == GOOD.len() as u64));
    assert!((0..4).all(|client| rows.iter().any(|row| row.client == client)), "all have asked");
    let mut log = Vec::new();
    write_log(&mut log, &rows).expect("memory");
    assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), rows.len() + 1);
}

#[test]
fn a_reply_without_an_end_of_its_head_counts_and_is_told() {
    let (summary, _) = run(&plan(serve(b"HTTP/1.1 200 OK\r\n"), 1), None).expect("a plan");
    assert!(summary.requests > 0 && summary.malformed == summary.requests, "{summary}");
}

#[test]
fn the_first_failure_ends_a_run_that_waits_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let span = Duration::from_secs(60);
    let plan = Plan { until_failure: true, span, ramp: Some(50.0), ..plan(address, 8) };
    let begun = Instant::now();
    let (summary, rows) = run(&plan, None).expect("a plan");
    assert!(begun.elapsed() < span && rows.is_empty());
    let first = summary.first_failure.expect("nobody listens");
    assert_eq!((first.kind, first.after_requests), (FaultKind::Refused, 0));
    assert!(!summary.errors.is_empty());
}

#[test]
fn guests_come_and_go() {
    let stay = Duration::from_millis(100);
    let plan = Plan { guests: 2, stay, span: stay * 6, ..plan(serve(GOOD), 1) };
    let (summary, rows) = run(&plan, None).expect("a plan");
    let guests: Vec<u64> =
        rows.iter().filter(|row| row.client > 0).map(|row| row.at_us / 100_000 % 2).collect();
    assert!(!guests.is_empty() && guests.iter().all(|round| *round == 1), "{summary}");
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let good = plan(SocketAddr::from(([127, 0, 0, 1], 1)), 1);
    assert!(good.check().is_ok());
    for bad in [
        Plan { clients: 0, ..good.clone() },
        Plan { clients: CLIENTS_MAX, guests: 1, ..good.clone() },
        Plan { warmup: good.span, ..good.clone() },
        Plan { guests: 1, stay: Duration::ZERO, ..good.clone() },
        Plan { target: "echo://127.0.0.1:1".parse().expect("a target"), ..good.clone() },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}
