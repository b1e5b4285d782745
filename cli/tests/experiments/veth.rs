//! A race over a pair of veth devices.

use crate::{BINARY, Room};
use rustix::process::geteuid;
use std::process::Command;
use testkit::{has, run, skip};

#[test]
fn servers_and_generator_are_joined_by_a_cable_that_vanishes() {
    if !geteuid().is_root() || !["ip", "nsenter", "unshare"].iter().all(|tool| has(tool)) {
        return skip("a separate network");
    }
    let room = Room::shared();
    let words = ["race", "echo", "--arms", "epoll,thread", "--blocks", "1", "--veth"];
    let mut race = Command::new(BINARY);
    let ended = run(race.args(words).current_dir(room.path())).success();
    assert!(ended.err.contains("joined by a pair of veth devices"), "{}", ended.err);
    for arm in ["epoll, ", "thread, "] {
        let is_cost = |line: &&str| line.starts_with(arm) && line.contains("for both");
        assert!(ended.err.lines().any(|line| is_cost(&line)), "{arm}{}", ended.err);
    }
    assert!(room.text("report.jsonl").contains("\"interface\":\"rhs\""));
    let here = run(Command::new("ip").args(["link", "show", "rhs"]));
    assert_ne!(here.code, Some(0), "the machine's own network has no such device");
}
