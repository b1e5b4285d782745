//! `duet --idle` from the real binary, at the smallest size. Silent connections open, get an
//! answer, have their memory measured, and stay open beside busy ones.

use testkit::{Ended, run};

use crate::{BINARY, Room};

fn duet(words: &[&str]) -> Ended {
    let room = Room::shared();
    let serve = |engine: &str| format!("{BINARY} serve stock --port 0 --engine {engine}");
    let mut command = room.command(&["duet", "--fresh-pairs", "1", "--windows", "2"]);
    command.args(["--window", "10ms"]);
    command.args(["--warmup", "10ms", "--connections", "4", "--mix", "buy=1", "--json"]);
    for engine in ["epoll", "poll"] {
        command.arg("--arm").arg(format!("{engine}={} --data {{dir}}/stock.txt", serve(engine)));
    }
    run(command.args(words))
}

#[test]
fn silent_connections_are_weighed_beside_busy_ones() {
    let output = duet(&["--idle", "poll=200"]).success();
    let outcome: lab::duet::Outcome = serde_json::from_str(&output.out).expect("one JSON document");
    let pairing = &outcome.pairings[0];
    assert_eq!((&pairing.failures, &pairing.broken), (&Vec::new(), &Vec::new()));
    let silence = pairing.fresh[0].b_idle.as_ref().expect("poll had silent connections");
    assert_eq!(silence.connections, 200);
    // A page for each connection would mean a buffer for each.
    assert!(pairing.b_idle_bytes.expect("they were weighed").middle < 4096.0, "{silence:?}");
    assert_eq!(pairing.a_idle_bytes, None);
}

#[test]
fn silent_connections_to_nobody_are_refused() {
    let output = duet(&["--idle", "kqueue=1"]);
    assert!(output.code != Some(0) && output.err.contains("epoll, poll"), "{}", output.err);
}
