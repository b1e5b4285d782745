//! A sound server has no fault, and each planted fault is found by its trial and named.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use checkup::{CheckupOptions, Subject, checkup};
use document::{Checkup, CheckupRow, Judgement};
use lab::plan::Arm;
use testkit::{has, program};

/// The check-up of the server with these faults, by these trials.
fn examined(faults: &str, only: &[&str]) -> Checkup {
    let room = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server.py");
    let python = program("python3").expect("it is there");
    let words = [&python.display().to_string(), &source.display().to_string(), "{port}"];
    let words = words.into_iter().chain(faults.split_whitespace());
    let arm = Arm { command: words.map(str::to_owned).collect(), ..Arm::default() };
    let text = format!("server.py {{port}} {faults}");
    let subject = Subject { text, arm: Some(arm), ..Subject::default() };
    let options = CheckupOptions {
        is_quick: true,
        only: only.iter().map(ToString::to_string).collect(),
        limit: Duration::from_secs(100),
        boot: Duration::from_secs(20),
        slo: "p99 < 50ms".parse().expect("an objective"),
        room: room.path().to_owned(),
        repeat: Vec::new(),
    };
    checkup(&subject, &options, &Arc::default(), &mut |_| {}).expect("a server that starts")
}

/// A fault, the trial that finds it, and its words.
const FAULTS: [(&str, &str, &str); 9] = [
    ("two-writes", "nodelay", "Nagle"),
    ("late backlog", "backlog", "accept queue is full"),
    ("spins", "descriptors", "the loop spins"),
    ("leaks", "leaks", "a leak of descriptors"),
    ("slow dies", "sigterm", "lost answers"),
    ("both", "chunked-and-length", "smuggling"),
    ("no-head-limit", "endless-head", "takes all memory"),
    ("sleeps", "pauses", "wait for no reason"),
    ("pool big", "slow-readers", "starved"),
];

#[test]
fn each_planted_fault_is_found_and_named() {
    if !has("python3") {
        return;
    }
    let missed = FAULTS.into_iter().filter_map(|(fault, trial, words)| {
        let rows = examined(fault, &[trial]).rows;
        let is_named = |row: &CheckupRow| {
            row.judgement == Judgement::Fault && row.reason.contains(words) && row.name == trial
        };
        (rows.len() != 1 || !rows.iter().all(is_named)).then_some((fault, rows))
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_sound_server_has_none_of_them() {
    if !has("python3") {
        return;
    }
    let twins = [("late", "backlog"), ("slow", "sigterm"), ("big", "slow-readers")];
    let is_plain = |trial: &&str| twins.iter().all(|twin| twin.1 != *trial);
    let plain: Vec<&str> = FAULTS.iter().map(|row| row.1).filter(is_plain).collect();
    for (words, trials) in
        twins.map(|(words, trial)| (words, vec![trial])).into_iter().chain([("", plain)])
    {
        let found = examined(words, &trials);
        assert_eq!(found.rows.len(), trials.len(), "{words}");
        for row in &found.rows {
            assert!(row.judgement < Judgement::Fault, "{words}: {row:?}");
            assert_ne!(row.judgement, Judgement::NotTried, "{words}: {row:?}");
        }
    }
}

#[test]
fn the_guide_names_every_trial_and_the_schema_has_a_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checkup.md");
    let guide = std::fs::read_to_string(path).expect("the guide of this command");
    for name in checkup::names() {
        assert!(guide.contains(&format!("`{name}`")), "docs/checkup.md lacks {name}");
    }
    let schema = Checkup::json_schema().expect("a schema");
    assert!(schema.contains("urn:roundhouse:checkup:1"), "{schema}");
}
