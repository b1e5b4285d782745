//! Grades a sound server, in two architectures, and servers with one fault each: every fault is
//! named, and none is found in the sound ones.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use grade::{GradeOptions, Weights, grade, read_trials};
use testkit::{Folder, has};

fn options() -> GradeOptions {
    GradeOptions {
        port: "{port}".to_owned(),
        framing: None,
        runs: 1,
        weights: Weights::default(),
        make: None,
        trials: None,
        given: Vec::new(),
        make_limit: Duration::ZERO,
        limit: Duration::from_secs(600),
        not_isolated: "a test has threads".to_owned(),
    }
}

/// Compiles a server with these definitions; returns the trials that it failed, with the reasons.
fn lost(folder: &Folder, source: &str, defines: &[&str], only: &[&str]) -> Vec<(String, String)> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let program = folder.path().join(defines.join("-") + source);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(sources.join(source));
    let made = cc.args(defines.iter().map(|name| format!("-D{name}"))).status();
    assert!(made.expect("cc can be started").success(), "{defines:?}");
    let only: Vec<String> = only.iter().map(ToString::to_string).collect();
    let weights = Weights::read("", &only).expect("trials");
    let found = grade(&program, &GradeOptions { weights, ..options() }, &mut |_| {});
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
        ("server.c", &["FAULT_SIGPIPE"], "reset", "ignore SIGPIPE"),
        ("server.c", &["FAULT_TEN"], "book-size", "with 20 stocks: `show`: expected"),
        ("select.c", &[], "slow-clients", "does not read its replies, another one"),
    ] {
        let lost = lost(&folder, source, defines, &[trial]);
        let [(name, reason)] = &lost[..] else { panic!("{defines:?}: {lost:?}") };
        assert!(name == trial && reason.contains(words), "{defines:?}: {name}: {reason}");
    }
}

/// Servers that are right in other words, or wrong in one thing, lose that and nothing else.
#[test]
fn one_cause_loses_one_trial() {
    if !has("cc") {
        return;
    }
    let folder = Folder::new();
    let only = [
        "golden",
        "wording",
        "exit",
        "book-size",
        "pipelining",
        "bad-input",
        "slow-clients",
        "killed-clients",
        "reset",
    ];
    for (define, trial, words) in [
        ("ODD_COLOUR", "wording", "`show`: expected `rows of ID LEFT PRICE`, found"),
        ("ODD_TYPO", "wording", "expected `[buy] success`, found `[buy] sucess"),
        ("ODD_CAPITAL", "wording", "found `[buy] Success!"),
        ("ODD_HEADING", "wording", "found `ID LEFT PRICE"),
        ("ODD_ECHO", "wording", "found `show"),
        ("ODD_ONE_LINE", "wording", "`show`: expected"),
        ("ODD_NO_END", "wording", "do not say where they end"),
        ("ODD_ONE_NUL", "wording", "do not say where they end"),
        ("ODD_STAYS", "exit", "expected the server to close"),
        ("FAULT_TEN", "book-size", "with 20 stocks"),
        ("FAULT_RESET", "reset", "wrappers of csapp.c"),
    ] {
        let lost = lost(&folder, "server.c", &[define], &only);
        let [(name, reason)] = &lost[..] else { panic!("{define}: {lost:?}") };
        assert!(name == trial && reason.contains(words), "{define}: {name}: {reason}");
    }
    // Two writes meet Nagle's algorithm, which must not cost 40 ms a reply.
    assert_eq!(lost(&folder, "server.c", &["ODD_TWO_WRITES"], &["conservation"]), []);
}

const SHOUT: &str = "#!/usr/bin/env python3
import socketserver, sys
class Talk(socketserver.StreamRequestHandler):
    count = 0
    def handle(self):
        Talk.count += 1
        if Talk.count % 8 == 0:
            return
        for line in self.rfile:
            if line == b'quit\\n':
                return
            self.wfile.write(line.upper())
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('127.0.0.1', int(sys.argv[1])), Talk).serve_forever()
";
const TALKS: &str = r#"
[[trial]]
name = "four"
points = 5
clients = 4
repeat = 3
steps = [{ send = "a b\n" }, { line = "A *" }, { pieces = "cd\nef" }, { send = "\n" },
         { expect = "CD\nEF\n" }]
[[trial]]
name = "quit"
points = 3
steps = [{ send = "x\n" }, { pause = 20 }, { send = "quit\n" }, { end = true }]
[[trial]]
name = "wrong"
points = 2
steps = [{ send = "x\n" }, { expect = "y\n" }]
[[trial]]
name = "eighth"
points = 5
clients = 16
steps = [{ send = "x\n" }, { expect = "X\n" }]
[[trial]]
name = "stays"
points = 1
steps = [{ send = "x\n" }, { line = "X" }, { end = false }]
"#;

#[test]
fn a_teacher_adds_trials_for_another_protocol() {
    if !has("python3") {
        return;
    }
    let (_folder, program) = Folder::with("shout", SHOUT);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("our own file");
    let given = read_trials(TALKS, &[]).expect("trials");
    let options = GradeOptions { trials: Some("talks.toml".into()), given, runs: 2, ..options() };
    let found = grade(&program, &options, &mut |_| {});
    assert_eq!((found.obstacle.as_str(), options.sum()), ("", 16));
    let failed: Vec<_> = found.trials.iter().filter(|row| row.verdict != "passed").collect();
    let [row, eighth] = &failed[..] else { panic!("{failed:?}") };
    // Every eighth client is turned away, so seven eighths of the points stay.
    assert_eq!((eighth.name.as_str(), eighth.points), ("eighth", 4));
    assert!(eighth.reason.starts_with("2 of 2 runs: 2 of 16 clients failed: "), "{eighth:?}");
    assert_eq!((row.name.as_str(), row.points), ("wrong", 0));
    let why = "2 of 2 runs: step 2: expected `y\\n`, found `X\\n`";
    assert_eq!(row.reason, why);
}
