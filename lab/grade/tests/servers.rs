//! Grades a sound server, in two architectures, and servers with one fault each: every fault is
//! named, and none is found in the sound ones.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use grade::{GradeOptions, Weights, grade};
use testkit::{Folder, has};

/// Compiles a server with these definitions; returns the trials that it failed, with the reasons.
fn lost(folder: &Folder, source: &str, defines: &[&str], only: &[&str]) -> Vec<(String, String)> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let program = folder.path().join(defines.join("-") + source);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(sources.join(source));
    let made = cc.args(defines.iter().map(|name| format!("-D{name}"))).status();
    assert!(made.expect("cc can be started").success(), "{defines:?}");
    let only: Vec<String> = only.iter().map(ToString::to_string).collect();
    let options = GradeOptions {
        port: "{port}".to_owned(),
        framing: None,
        weights: Weights::read("", &only).expect("trials"),
        make: None,
        make_limit: Duration::ZERO,
        limit: Duration::from_secs(600),
        not_isolated: "a test has threads".to_owned(),
    };
    let found = grade(&program, &options, &mut |_| {});
    assert_eq!(found.obstacle, "", "{defines:?}");
    let rows = found.trials.into_iter().filter(|row| row.verdict != "passed");
    rows.map(|row| (row.name.to_owned(), row.reason)).collect()
}

#[test]
fn a_sound_server_loses_nothing() {
    if !has("cc") {
        return;
    }
    let folder = Folder::new();
    for defines in [&[][..], &["FORKS"]] {
        assert_eq!(lost(&folder, "server.c", defines, &[]), [], "{defines:?}");
    }
}

#[test]
fn each_fault_is_named() {
    if !has("cc") {
        return;
    }
    let folder = Folder::new();
    for (source, defines, trial, words) in [
        ("server.c", &["FAULT_SHARED_BUFFER"][..], "torn-show", "share a buffer"),
        ("server.c", &["FAULT_NO_LOCK"], "conservation", "need a lock"),
        ("server.c", &["FAULT_NO_LOCK"], "linearisability", "an update was lost"),
        ("server.c", &["FAULT_STARVE"], "starvation", "a writer starves"),
        ("server.c", &["FORKS", "FAULT_NO_REAP"], "zombies", "left a zombie"),
        ("server.c", &["FORKS", "FAULT_NO_EINTR"], "signals", "EINTR"),
        ("server.c", &["FAULT_LEAK"], "leaks", "KiB: free buffers"),
        ("server.c", &["FAULT_LEFT_OPEN"], "leaks", "open descriptors"),
        ("server.c", &["FAULT_ONE_READ"], "half-lines", "sent in pieces"),
        ("server.c", &["FAULT_ONE_READ"], "pipelining", "requests sent together"),
        ("server.c", &["FAULT_SAVE_NEVER"], "file", "stock.txt: expected"),
        ("server.c", &["FAULT_SAVE_TORN"], "whole-file", "rewritten in place"),
        ("server.c", &["FAULT_SIGPIPE"], "killed-clients", "ignore SIGPIPE"),
        ("select.c", &[], "slow-clients", "does not read its replies stops"),
    ] {
        let lost = lost(&folder, source, defines, &[trial]);
        let [(name, reason)] = &lost[..] else { panic!("{defines:?}: {lost:?}") };
        assert!(name == trial && reason.contains(words), "{defines:?}: {name}: {reason}");
    }
}
