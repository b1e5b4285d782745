//! `race` and `duet` from the real binary, at the smallest size: what they write and what they
//! say, not how quick anything is.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A directory of one test, removed with its guard.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Room(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn roundhouse(dir: &Path, words: &[&str]) -> Output {
    let output = Command::new(EXE).args(words).current_dir(dir).output();
    output.expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: [&str; 8] =
    ["--blocks", "1", "--depths", "1,4", "--window", "50ms", "--warmup", "20ms"];

#[test]
fn a_race_writes_its_report_and_an_engine_that_is_not_there_has_its_row() {
    let room = Room::new("race");
    let words = [&["race", "stock", "--arms", "iterative,epoll,steam"], &SMALL[..]].concat();
    let output = roundhouse(&room.0, &words);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{told}");
    for want in ["depth 1", "depth 4", "iterative", "(twin)", "steam: not measured: ", "`steam`"] {
        assert!(said.contains(want), "expected `{want}` in\n{said}\n{told}");
    }
    let runs = lab::record::read(&room.0.join("report.jsonl")).expect("it wrote the raw data");
    let run = runs.first().expect("one run");
    let measured = run.trials.iter().filter_map(|trial| trial.result());
    for load in measured.clone() {
        let check = load.checked().expect("the market's books are compared");
        assert!(check.ok && load.requests > 0, "{load:?}");
        assert!(load.server.is_some() && load.generator.is_some(), "{load:?}");
    }
    assert_eq!(measured.count(), 6, "two arms and a twin at two depths");
    let page = std::fs::read_to_string(room.0.join("report.html")).expect("it wrote the report");
    assert!(page.contains("Verdict against epoll") && page.len() < 4_000_000);
}

#[test]
fn a_second_race_is_appended_and_json_is_one_document() {
    let room = Room::new("twice");
    let words =
        [&["race", "--arms", "epoll", "--no-twin", "--json", "--out", "kept"], &SMALL[..]].concat();
    for _ in 0..2 {
        let output = roundhouse(&room.0, &words);
        let json: lab::verdict::Summary =
            serde_json::from_slice(&output.stdout).expect("one JSON document on stdout");
        assert_eq!(json.points.len(), 2);
        assert_eq!(json.broken, Vec::<String>::new());
    }
    let runs = lab::record::read(&room.0.join("kept/report.jsonl")).expect("the raw data");
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].manifest.plan_hash, runs[1].manifest.plan_hash);
}

/// Says `success` to everything and always shows the same book.
fn lie(peer: TcpStream) {
    let Ok(mut replies) = peer.try_clone() else { return };
    for line in BufReader::new(peer).lines().map_while(Result::ok) {
        let word = line.split(' ').next().unwrap_or_default();
        let reply = match word {
            "show" => "1 1000 5\n\n".to_string(),
            _ => format!("[{word}] success\n"),
        };
        if replies.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_that_lies_about_its_books_makes_the_race_fail_loudly() {
    let room = Room::new("liar");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            thread::spawn(|| lie(peer));
        }
    });
    // The process is there to be watched and stopped; the lies come from this one.
    let arm = format!(r#"liar=sh -c 'echo "{{\"listening\":\"{address}\"}}"; exec sleep 60'"#);
    let words =
        [&["race", "--arms", "epoll", "--arm", &arm, "--mix", "buy=1"], &SMALL[..]].concat();
    let output = roundhouse(&room.0, &words);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("MODEL CHECK FAILED: liar, depth 1, block 1"), "{told}");
    let page = std::fs::read_to_string(room.0.join("report.html")).expect("it wrote the report");
    assert!(page.contains("The speeds below must not be used"));
}

#[test]
fn a_duet_says_what_a_request_costs() {
    let room = Room::new("duet");
    let arm = |engine: &str| {
        format!("{engine}={EXE} serve stock --port 0 --data {{dir}}/stock.txt --engine {engine}")
    };
    let words = ["duet", "--arm", &arm("epoll"), "--arm", &arm("iterative"), "--connections", "1"];
    let size =
        ["--fresh-pairs", "1", "--windows", "2", "--window", "20ms", "--warmup", "10ms", "--json"];
    let output = roundhouse(&room.0, &[&words[..], &size[..]].concat());
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    let found: lab::duet::Outcome =
        serde_json::from_slice(&output.stdout).expect("one JSON document on stdout");
    let ratio = found.pairings[0].ratio.expect("one pair was played");
    assert!(ratio > 0.02 && ratio < 50.0, "CPU per request epoll / iterative is {ratio}");
}

#[test]
fn plans_that_make_no_sense_are_usage_errors() {
    fn check(words: &[&str], want: &str) {
        let room = Room::new(&format!("usage-{}", want.len()));
        let output = roundhouse(&room.0, words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(want), "{words:?}: {told}");
    }
    check(&["race", "--vs", "steam"], "expected the baseline to be one of iterative, epoll");
    check(&["race", "--blocks", "0"], "expected 1 block or more");
    check(&["race", "--arm", "nothing"], "expected NAME=COMMAND");
    check(&["duet", "--arm", "a=b"], "expected two arms or more");
}
