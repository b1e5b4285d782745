//! Facts about trials, with shell scripts as servers and as the generator.

use super::*;
use crate::plan::Gates;
use std::os::unix::fs::PermissionsExt;
use tempfile::{TempDir, tempdir};

/// Writes a shell script that stands in for the program with `load`.
fn stand_in(room: &TempDir, body: &str) -> PathBuf {
    let path = room.path().join("exe");
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
    };
    plan.files.push(crate::plan::Provision { name: "stock.txt".into(), text: "1 2 3".into() });
    plan
}

fn run(plan: &Plan, exe: &Path, room: &TempDir) -> Option<Trial> {
    let stop = Arc::new(AtomicBool::new(false));
    let slot = &crate::block::schedule(plan)[0];
    Runner::new(plan, exe, room.path(), None, stop).run(slot, Instant::now())
}

const READY: &str = "cat {dir}/stock.txt >&2; trap 'exit 0' TERM; \
    echo '{\"listening\":\"127.0.0.1:9\"}'; while :; do sleep 0.01; done";

#[test]
fn a_trial_brings_home_a_report_and_passes_its_arguments_on() {
    let room = tempdir().expect("a temporary directory");
    let exe = stand_in(
        &room,
        "echo '{\"schema\":\"roundhouse.load/1\",\"requests\":3,\
         \"throughput_rps\":9.0,\"service\":{},\
         \"errors\":[{\"kind\":\"'\"$*\"'\",\"count\":0}]}'",
    );
    let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
    let Ending::Measured { load } = &trial.ending else { panic!("{trial:?}") };
    let words = &load.errors[0].kind;
    let want = "load --json --for 1ms stock://127.0.0.1:9 --closed 8 --depth ";
    assert!(words.starts_with(want), "{words}");
    assert!(words.contains("--requests-per-connection 64 --warmup 1ms --seed "), "{words}");
    assert_eq!(trial.objections, Vec::<String>::new());
    assert!(trial.exit_clean && trial.boot_ms.is_some(), "{trial:?}");
    assert!(!room.path().join("trial-0-1").exists(), "the trial's directory is removed");
}

#[test]
fn all_servers_of_a_block_take_turns() {
    let room = tempdir().expect("a temporary directory");
    // Two of the three servers start; the generator reports on the first and not on the second.
    let reply = r#"{"schema":"roundhouse.turns/1","turns":[{"report":{"schema":
        "roundhouse.load/1","requests":3,"throughput_rps":9.0,"service":{}}},
        {"failure":"it stalls"}]}"#;
    fs::write(room.path().join("reply"), reply.replace('\n', " ")).expect("the room is writable");
    let exe = stand_in(&room, &format!("cp $3 {0}/asked; cat {0}/reply", room.path().display()));
    let mut plan = plan(READY);
    let arm = plan.arms[0].clone();
    let named = |name: &str, script: &str| crate::plan::Arm {
        name: name.to_string(),
        command: ["sh", "-c", script].map(String::from).to_vec(),
        ..arm.clone()
    };
    plan.arms = vec![named("epoll", READY), named("b", READY), named("c", "echo no >&2; exit 1")];
    plan.twin = false;
    plan.turns.windows = 3;
    let each = plan.arms.len() * plan.points.len();
    let slots = &crate::block::schedule(&plan)[..each];
    let stop = Arc::new(AtomicBool::new(false));
    let mut runner = Runner::new(&plan, &exe, room.path(), None, stop);
    let trials = runner.block(slots, Instant::now()).expect("not interrupted");
    assert_eq!(trials.len(), each);
    for (trial, slot) in trials.iter().zip(slots) {
        assert_eq!((trial.order, &trial.arm), (slot.order, &plan.arms[slot.entrant].name));
        let is_up = trial.arm != "c";
        assert_eq!(matches!(trial.ending, Ending::Unavailable { .. }), !is_up, "{trial:?}");
        assert_eq!(trial.exit_clean, is_up, "{trial:?}");
    }
    let count = |kind: fn(&Ending) -> bool| trials.iter().filter(|it| kind(&it.ending)).count();
    assert_eq!(count(|it| matches!(it, Ending::Measured { .. })), 2, "one at each load point");
    assert_eq!(count(|it| matches!(it, Ending::Failed { .. })), 2);
    let asked = fs::read_to_string(room.path().join("asked")).expect("the generator ran");
    let asked: Vec<Vec<String>> = serde_json::from_str(&asked).expect("a list of arguments");
    assert_eq!(asked.len(), 2);
    for words in asked {
        let words = words.join(" ");
        assert!(words.starts_with("stock://127.0.0.1:9 --closed 8 --depth 16 "), "{words}");
        assert!(words.contains(" --watch ") && words.contains("--drain 2s"), "{words}");
    }
}

#[test]
fn a_failed_generator_is_a_gate_and_an_absent_server_is_not() {
    let room = tempdir().expect("a temporary directory");
    let exe = stand_in(&room, "echo cannot connect >&2; exit 1");
    let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
    assert_eq!(trial.ending, Ending::Failed { reason: "cannot connect".to_string() });
    assert_eq!(trial.objections, ["the generator failed: cannot connect"]);
    let trial = run(&plan("echo no ring >&2; exit 1"), &exe, &room).expect("not interrupted");
    assert!(matches!(&trial.ending, Ending::Unavailable { reason } if reason.contains("no ring")));
    assert_eq!(trial.objections, Vec::<String>::new());
}
