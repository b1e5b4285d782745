//! A sound server has no fault, and each planted fault is found by its trial and named.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use checkup::{CheckupOptions, Subject, checkup};
use document::{Checkup, CheckupRow, Judgement};
use lab::plan::Arm;
use testkit::{has, program};

/// The check-up of the server in this file with these faults, by these trials.
fn examined(server: &str, faults: &str, only: &[&str]) -> Checkup {
    let room = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(server);
    let python = program("python3").expect("it is there");
    let words = [&python.display().to_string(), &source.display().to_string(), "{port}"];
    let words = words.into_iter().chain(faults.split_whitespace());
    let arm = Arm { command: words.map(str::to_owned).collect(), ..Arm::default() };
    let text = format!("{server} {{port}} {faults}");
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

const HTTP1: &str = "server.py";
const HTTP2: &str = "http2.py";

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

/// The same of HTTP/2.
const FAULTS_2: [(&str, &str, &str); 12] = [
    ("keeps", "endless-head", "takes all memory"),
    ("long-frame", "h2-long-frame", "FRAME_SIZE_ERROR"),
    ("interrupted", "h2-head-interrupted", "PROTOCOL_ERROR"),
    ("interrupted", "h2-continuation-alone", "PROTOCOL_ERROR"),
    ("settings-length", "h2-settings-length", "FRAME_SIZE_ERROR"),
    ("settings-on-stream", "h2-settings-on-stream", "PROTOCOL_ERROR"),
    ("wide", "h2-settings-window", "FLOW_CONTROL_ERROR"),
    ("nothing", "h2-window-of-zero", "PROTOCOL_ERROR"),
    ("overflow", "h2-window-overflow", "FLOW_CONTROL_ERROR"),
    ("back", "h2-older-stream", "PROTOCOL_ERROR"),
    ("idle", "h2-reset-of-idle", "PROTOCOL_ERROR"),
    ("closed", "h2-data-after-end", "STREAM_CLOSED"),
];

/// Work without an end for one client, which is for attention.
const ENDLESS_2: [(&str, &str, &str); 2] =
    [("drops", "endless-head", "for ever"), ("resets", "rapid-reset", "CVE-2023-44487")];

/// Each fault is found by its trial alone, and named.
fn check(server: &str, faults: &[(&str, &str, &str)], wanted: Judgement) {
    let missed = faults.iter().filter_map(|(fault, trial, words)| {
        let rows = examined(server, fault, &[trial]).rows;
        let is_named = |row: &CheckupRow| {
            row.judgement == wanted && row.reason.contains(words) && row.name == *trial
        };
        (rows.len() != 1 || !rows.iter().all(is_named)).then_some((fault, rows))
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn each_planted_fault_is_found_and_named() {
    if has("python3") {
        check(HTTP1, &FAULTS, Judgement::Fault);
    }
}

#[test]
fn each_planted_fault_of_http_2_is_found_and_named() {
    if has("python3") {
        check(HTTP2, &FAULTS_2, Judgement::Fault);
        check(HTTP2, &ENDLESS_2, Judgement::Attention);
    }
}

#[test]
fn a_sound_server_has_none_of_them() {
    if !has("python3") {
        return;
    }
    let twins = [("late", "backlog"), ("slow", "sigterm"), ("big", "slow-readers")];
    let is_plain = |trial: &&str| twins.iter().all(|twin| twin.1 != *trial);
    let plain: Vec<&str> =
        FAULTS.iter().map(|row| row.1).filter(is_plain).chain(["flood"]).collect();
    let twins = twins.map(|(words, trial)| (HTTP1, words, vec![trial]));
    let newer = FAULTS_2.iter().chain(&ENDLESS_2[1..]).map(|row| row.1).collect();
    for (server, words, trials) in twins.into_iter().chain([(HTTP1, "", plain), (HTTP2, "", newer)])
    {
        let found = examined(server, words, &trials);
        assert_eq!(found.rows.len(), trials.len(), "{server} {words}");
        for row in &found.rows {
            assert!(row.judgement < Judgement::Fault, "{server} {words}: {row:?}");
            assert_ne!(row.judgement, Judgement::NotTried, "{server} {words}: {row:?}");
            let is_good = row.judgement == Judgement::Good;
            assert!(is_good || server == HTTP1, "{row:?}");
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
