//! `duet --idle` from the real binary, at the smallest size: silent connections are made, answered,
//! weighed and kept, beside busy ones.

use std::process::{Command, Output};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

fn duet(words: &[&str]) -> Output {
    let serve = |engine: &str| format!("{EXE} serve stock --port 0 --engine {engine}");
    let mut command = Command::new(EXE);
    command.args(["duet", "--fresh-pairs", "1", "--windows", "2", "--window", "10ms"]);
    command.args(["--warmup", "10ms", "--connections", "4", "--mix", "buy=1", "--json"]);
    for engine in ["epoll", "poll"] {
        command.arg("--arm").arg(format!("{engine}={} --data {{dir}}/stock.txt", serve(engine)));
    }
    command.args(words).output().expect("the binary was built for this test")
}

#[test]
fn silent_connections_are_weighed_beside_busy_ones() {
    let output = duet(&["--idle", "poll=200"]);
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{told}");
    let outcome: lab::duet::Outcome = serde_json::from_str(&said).expect("one JSON document");
    let pairing = &outcome.pairings[0];
    assert_eq!((&pairing.failures, &pairing.broken), (&Vec::new(), &Vec::new()));
    let silence = pairing.fresh[0].b_idle.as_ref().expect("poll had silent connections");
    assert_eq!(silence.connections, 200);
    // A page each would be a buffer each.
    assert!(pairing.b_idle_bytes.expect("they were weighed").middle < 4096.0, "{silence:?}");
    assert_eq!(pairing.a_idle_bytes, None);
}

#[test]
fn silent_connections_to_nobody_are_refused() {
    let output = duet(&["--idle", "kqueue=1"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("epoll, poll"), "{told}");
}
