//! `tune` from the real binary: a workload that one engine cannot carry.

use testkit::run;

use crate::Room;

/// Requests of 20 ms at a rate for which the four helpers of the default are not enough.
const WORKLOAD: &str = r#"
question = "Requests that wait"
service = "web"
args = ["--demo"]
slo = "p90 < 60ms"

[[point]]
path = "/sleep?ms=20"
connections = 16
rate = 300
"#;

#[test]
fn a_server_with_room_for_the_requests_in_flight_is_found_and_starts_with_the_file() {
    // It gives no answer where other programs disturb the heats.
    let room = Room::alone();
    std::fs::write(room.path().join("wait.toml"), WORKLOAD).expect("the folder is writable");
    let words = ["tune", "wait.toml", "--servers", "epoll,thread", "--quick", "--window", "100ms"];
    let ended = run(&mut room.command(&words)).success();
    assert!(ended.out.contains("Use ") && ended.out.contains("epoll works on 4"), "{}", ended.out);
    let tuned = room.text("tuned.toml");
    assert!(tuned.contains("# Objective: p90 < 60ms at 300 requests a second"), "{tuned}");
    assert!(room.text("tune.html").contains("The path of the search"));
    // The record has all heats, so the same command answers from it.
    let again = run(&mut room.command(&words)).success().says("going on: ");
    let sentence = |out: &str| out.lines().find(|it| it.starts_with("Use ")).map(String::from);
    assert_eq!(sentence(&again.out), sentence(&ended.out));
    let serve = ["serve", "http", "--demo", "--port", "0", "--config", "tuned.toml"];
    drop(testkit::Server::start(&mut room.command(&serve)));
}
