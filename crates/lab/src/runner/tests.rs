//! Facts about trials, with shell scripts as servers and as the generator.

use super::*;
use crate::plan::Gates;
use crate::server::tests::Room;
use std::os::unix::fs::PermissionsExt;

/// Writes a shell script that stands in for the program with `load`.
fn stand_in(room: &Room, body: &str) -> PathBuf {
    let path = room.0.join("exe");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("the room is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

fn plan(script: &str) -> Plan {
    let mut plan = crate::plan::tests::plan();
    plan.arms.truncate(1);
    plan.arms[0].command = ["sh", "-c", script].map(String::from).to_vec();
    // The machine of a test may be as busy as it likes.
    plan.gates = Gates {
        steal_max: 1.0,
        foreign_max: 1.0,
        clock_step_ms_max: 1e9,
        hiccup_ms_max: 1e9,
        memory_pressure_max: 1.0,
        io_pressure_max: 1.0,
        retransmits_max: u64::MAX,
        ..Gates::default()
    };
    plan.files.push(crate::plan::Provision { name: "stock.txt".into(), text: "1 2 3".into() });
    plan
}

fn run(plan: &Plan, exe: &Path, room: &Room) -> Option<Trial> {
    let stop = Arc::new(AtomicBool::new(false));
    let slot = &crate::block::schedule(plan)[0];
    Runner::new(plan, exe, &room.0, None, stop).run(slot, 1, Instant::now())
}

const READY: &str = "cat {dir}/stock.txt >&2; trap 'exit 0' TERM; \
    echo '{\"listening\":\"127.0.0.1:9\"}'; while :; do sleep 0.01; done";

#[test]
fn a_trial_brings_home_a_report_and_passes_its_arguments_on() {
    let room = Room::new("trial");
    let exe = stand_in(
        &room,
        "echo '{\"schema\":\"roundhouse.load/1\",\"requests\":3,\
         \"throughput_rps\":9.0,\"service\":{},\
         \"errors\":[{\"kind\":\"'\"$*\"'\",\"count\":0}]}'",
    );
    let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
    let Ending::Measured { load } = &trial.ending else { panic!("{trial:?}") };
    let words = &load.errors[0].kind;
    let want = "load stock://127.0.0.1:9 --closed 8 --depth ";
    assert!(words.starts_with(want) && words.ends_with("--json"), "{words}");
    assert!(words.contains("--requests-per-connection 64 --warmup 1ms --for 1ms --seed "));
    assert_eq!(trial.objections, Vec::<String>::new());
    assert!(trial.exit_clean && trial.boot_ms.is_some(), "{trial:?}");
    assert!(!room.0.join("trial-0-1").exists(), "the trial's directory is removed");
}

#[test]
fn a_failed_generator_is_a_gate_and_an_absent_server_is_not() {
    let room = Room::new("failed");
    let exe = stand_in(&room, "echo cannot connect >&2; exit 1");
    let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
    assert_eq!(trial.ending, Ending::Failed { reason: "cannot connect".to_string() });
    assert_eq!(trial.objections, ["the generator failed: cannot connect"]);
    let trial = run(&plan("echo no ring >&2; exit 1"), &exe, &room).expect("not interrupted");
    assert!(matches!(&trial.ending, Ending::Unavailable { reason } if reason.contains("no ring")));
    assert_eq!(trial.objections, Vec::<String>::new());
}
