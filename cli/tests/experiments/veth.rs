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
    race.args(words).current_dir(room.path());
    let has_frames = sys::xdp::lack().is_none();
    if has_frames {
        race.args(["--arm", "bypass=@bypass --interface rhs"]);
    }
    let ended = run(&mut race).success();
    // Clients in the servers' network do not reach a TCP past the kernel's.
    let idle = room.text("report.jsonl").matches("\"opened\":100").count();
    assert_eq!(idle, if has_frames { 4 } else { 3 }, "all arms and the twin have idle memory");
    assert!(ended.err.contains("joined by a pair of veth devices"), "{}", ended.err);
    for arm in ["epoll, ", "thread, "] {
        let is_cost = |line: &&str| line.starts_with(arm) && line.contains("for both");
        assert!(ended.err.lines().any(|line| is_cost(&line)), "{arm}{}", ended.err);
    }
    assert!(room.text("report.jsonl").contains("\"interface\":\"rhs\""));
    let here = run(Command::new("ip").args(["link", "show", "rhs"]));
    assert_ne!(here.code, Some(0), "the machine's own network has no such device");
}

#[test]
fn an_engine_says_where_the_time_of_a_request_goes() {
    if !geteuid().is_root() || sys::xdp::lack().is_some() {
        return skip("AF_XDP");
    }
    // Soft interrupts are counted for each core: packets of other tests would be among them.
    let _room = Room::alone();
    let mut explain = Command::new(BINARY);
    let said = run(explain.args(["explain", "bypass", "epoll"])).success().out;
    let heads = said.lines().filter(|line| line.contains("for a request, without"));
    assert_eq!(heads.count(), 2, "{said}");
    let counts = ["smoltcp and the rings: ", "frames in and ", " poll and "];
    assert!(counts.iter().all(|part| said.matches(part).count() == 1), "{said}");
    assert_eq!(said.matches("the service and its loop").count(), 2, "{said}");
}
