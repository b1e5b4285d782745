//! How much a command prints, and how wide: `--quiet`, `--verbose`, and tables where no terminal
//! is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use sys::signal::Signal;
use testkit::{Ended, Server, Terminal, run};

use crate::{BINARY, Room, root};

/// A short race, an exhibit, and the checks of the machine.
const RACE: [&str; 12] = [
    "race", "--full", "--arms", "epoll", "--blocks", "1", "--depths", "1", "--window", "50ms",
    "--warmup", "20ms",
];
const EXHIBIT: [&str; 6] = ["museum", "staircase", "--scale", "0.05", "--clients", "1,2"];

/// A market, and its target.
fn served(flag: &str) -> (Server, String) {
    let words = ["serve", "stock", "--engine", "epoll", "--port", "0", flag];
    let server = Server::start(Command::new(BINARY).args(words.iter().filter(|it| !it.is_empty())));
    let target = format!("stock://{}", server.address);
    (server, target)
}

fn load(target: &str) -> [&str; 6] {
    ["load", target, "--closed", "2", "--for", "100ms"]
}

/// The output of a command with these flags.
fn told(words: &[&str], flags: &[&str]) -> Ended {
    let room = Room::shared();
    let ended = room.run(&[words, flags].concat());
    assert!(!ended.out.is_empty(), "{words:?} {flags:?}: {ended:?}");
    ended
}

#[test]
fn a_quiet_command_prints_results_only() {
    let (server, target) = served("--quiet");
    let doctor = ["doctor", "--blocks", "2"];
    for words in [&RACE[..], &EXHIBIT[..], &load(&target), &doctor] {
        assert_eq!(told(words, &["--quiet", "--verbose"]).err, "", "{words:?}");
    }
    let Ended { out, err, .. } = server.stop();
    assert!(out.contains("listening") && err.is_empty(), "{out}{err}");
}

#[test]
fn a_verbose_command_prints_its_steps() {
    fn check(words: &[&str], steps: &[&str]) {
        let err = told(words, &["--verbose"]).err;
        for step in steps {
            assert!(err.contains(step), "{words:?}: expected `{step}` in\n{err}");
        }
    }
    let (server, target) = served("--verbose");
    check(&RACE, &["language en", "/roundhouse serve stock", "block 1 · 0 trials so far"]);
    check(&EXHIBIT, &["process ", "begin: ", "1/"]);
    check(
        &load(&target),
        &["language en", "load of 127.0.0.1:", ": 2 connections, 1 threads, seed "],
    );
    let err = server.stop().err;
    for step in ["engine epoll: solo x shared x epoll, 1 workers", "administration at unix:/"] {
        assert!(err.contains(step), "expected `{step}` in\n{err}");
    }
}

#[test]
fn a_quiet_command_draws_nothing_on_a_terminal() {
    let room = Room::shared();
    let mut race = Terminal::start(room.command(&RACE).arg("--quiet").env("NO_COLOR", "1"));
    assert!(race.ended().success());
    let shown = race.shown();
    assert!(shown.contains("What is the price") || shown.contains("epoll"), "{shown}");
    assert!(!shown.contains('\x1b') && !shown.contains("report.html"), "{shown}");
    let mut server =
        Terminal::start(&mut room.command(&["serve", "stock", "--port", "0", "--quiet"]));
    server.shows(0, "epoll");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!server.shown().contains("stopped") && !server.shown().contains("try"));
}

/// Lets a market log an order.
fn trade(room: &Room) {
    std::fs::write(room.path().join("stock.txt"), "1 10 1000\n").expect("a folder");
    let words = ["serve", "stock", "--port", "0", "--data", "stock.txt", "--durability", "os"];
    let server = Server::start(&mut room.command(&words));
    let mut client = TcpStream::connect(server.address).expect("a market");
    client.write_all(b"buy 1 1\n").expect("it reads");
    client.read_exact(&mut [0; 4]).expect("it replies");
    server.stop();
}

#[test]
fn what_a_command_says_fits_80_columns() {
    let room = Room::shared();
    trade(&room);
    let exhibit = [&EXHIBIT[..], &["--report", "."]].concat();
    let old = format!("{BINARY} serve stock --port {{port}} --engine epoll");
    let ab = ["ab", &old, &old, "--budget", "1s", "--dry-run"];
    let log = ["log", "show", "stock.txt.log"];
    let plain = [&["race", "--dry-run"][..], &["engines", "--all"], &["senders"]];
    for words in [&plain[..], &[&ab, &exhibit, &log]].concat() {
        for lang in ["en", "ko"] {
            let text = room.run(&[words, &["--lang", lang]].concat()).success().out;
            assert!(!text.is_empty(), "{words:?}");
            // A path that is longer than a line stands alone in it.
            let is_word = |line: &str| !line.trim().contains(' ');
            for line in text.lines().filter(|line| !is_word(line)) {
                assert!(stats::words::columns(line) <= 80, "{words:?}, {lang}:\n{line}");
            }
        }
    }
}

#[test]
fn tables_fit_80_columns_where_no_terminal_is() {
    /// A row of a table, and not a sentence.
    fn is_row(line: &str) -> bool {
        line.contains('─') || line.trim().contains("  ")
    }
    fn check(words: &[&str]) {
        let text = run(Command::new(BINARY).args(words)).out;
        assert!(text.lines().any(is_row), "{words:?}: {text}");
        for line in text.lines().filter(|line| is_row(line)) {
            assert!(stats::words::columns(line) <= 80, "{words:?}:\n{line}");
        }
    }
    check(&["engines"]);
    check(&["engines", "--all"]);
    check(&["senders"]);
    check(&["museum"]);
    check(&["doctor", "--quick"]);
    check(&["doctor", "--quick", "--lang", "ko"]);
    check(&["museum", "--lang", "ko"]);
    let (server, _) = served("");
    let pid = server.pid.to_string();
    check(&["top", &pid, "--once"]);
    check(&["top", &pid, "--once", "--lang", "ko"]);
    let races = root().join("runs/2026-11-22-2cpu-intel-xeon-processor/races");
    for name in ["foreign", "web", "planted", "identical"] {
        let file = races.join(format!("{name}.jsonl.gz")).display().to_string();
        check(&["report", &file]);
        check(&["report", &file, "--lang", "ko"]);
    }
}
