//! Exhibits about time at their smallest size, from the real binary: the artefact appears.
//!
//! The bounds are wide: a run of sleeping clients takes about as long as they sleep, and fifteen
//! clients need two rounds of ten workers. So two of these tests may run at once, but no other
//! suite. The page reports the exact difference on the machine.

use serde_json::Value;

use crate::Room;

#[test]
fn clients_that_sleep_hide_the_server() {
    let room = Room::shared();
    // Four clients, ten orders, 100 ms after each: 40 requests a second, and never more.
    let wanted = [("below-ceiling", 0.2, 1.0), ("equal-asleep", 0.0, 1.5), ("freed", 1.5, 1e6)];
    room.shows("think-time --scale 0.1 --clients 4 --blocks 1", &wanted);
    let page = room.text("museum-think-time.html");
    for want in ["Repeated as it was", "Without the flaw", "CSE4100", "scale 0.1", "0.999"] {
        assert!(page.contains(want), "expected `{want}` in the page");
    }
    assert!(page.len() < 4_000_000 && !page.contains("src=\"http"));
    let raw = room.text("museum-think-time.jsonl");
    let first: Value =
        raw.lines().next().and_then(|it| serde_json::from_str(it).ok()).expect("raw");
    assert_eq!((&first["row"], &first["scale"]), (&"museum".into(), &0.1.into()));
    let rows = |kind: &str| raw.matches(&format!("\"row\":\"{kind}\"")).count();
    assert!(rows("crowd") >= 2, "two servers");
    assert!(rows("trial") >= 4, "two servers, a third, and a twin");
}

#[test]
fn fifteen_clients_need_two_rounds_of_ten_workers() {
    let room = Room::shared();
    let words = "staircase --scale 0.1 --clients 15 --report stairs.html";
    room.shows(words, &[("rounds", 1.3, 3.0)]);
    assert!(room.text("stairs.html").contains("The staircase"));
    assert!(room.text("stairs.jsonl").contains("\"row\":\"crowd\""));
}

#[test]
fn kinds_of_request_look_alike_when_clients_sleep() {
    let room = Room::shared();
    let wanted = [("equal-asleep", 0.0, 1.5), ("differ-awake", 0.1, 10.0)];
    room.shows("workload --scale 0.05 --clients 5 --blocks 1", &wanted);
}

#[test]
fn locks_look_alike_when_clients_sleep() {
    let room = Room::shared();
    let wanted = [("equal-asleep", 0.0, 1.5), ("lock-costs", 0.2, 20.0)];
    room.shows("stock-lock --scale 0.05 --clients 5 --blocks 1", &wanted);
}

#[test]
fn a_sleep_is_rounded_to_ticks() {
    let room = Room::alone();
    let virtually = [("plain-is-rounding", 0.0, 0.01), ("kernel-is-rounding", 0.0, 0.01)];
    // Twenty gaps of 40 ms and of 30 ms; a busy machine makes both longer.
    let live = [("live-four-thirds", 1.15, 1.5), ("no-drift", 29.9, 33.0)];
    room.shows("rounded-sleep --quick", &[virtually, live].concat());
    let mut rows = room.rows("rounded-sleep", "waits").into_iter();
    let crowded = rows.find(|row| row["spinners"] == 50).expect("a row of waits");
    let waits = crowded["sessions"].as_array().expect("a list for each wait");
    let sessions = waits.iter().map(|wait| wait[1].as_array().map(Vec::len));
    assert!(sessions.eq([Some(10); 5]), "five waits, ten sessions: {crowded}");
}
