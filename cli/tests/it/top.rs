//! `roundhouse top` on a separate terminal, and as a line of JSON.

use std::process::Command;

use serde_json::Value;

use crate::arms::{EPOLL, PREFORK};
use crate::harness::{BINARY, Folder, PATIENCE};
use crate::market::book;
use testkit::{Ended, Terminal, run};

fn terminal(args: &[&str]) -> Terminal {
    Terminal::start(Command::new(BINARY).arg("top").args(args))
}

/// The screen skips blanks instead of drawing them, so the test awaits single words.
#[track_caller]
fn await_words(terminal: &Terminal, words: &[&str]) {
    for word in words {
        terminal.shows(0, word);
    }
}

fn top(args: &[&str]) -> Ended {
    run(Command::new(BINARY).arg("top").args(args))
}

#[test]
fn it_shows_a_server_and_drains_it_by_a_key() {
    let server = PREFORK.book(book(3, 1000)).workers(2).start();
    let mut terminal = terminal(&[&server.pid.to_string(), "--interval", "100ms"]);
    await_words(&terminal, &["\x1b[?1049h", "stock", "prefork", "ready", "accepted", "reload"]);
    assert_eq!(server.ask("sell 1 1"), "[sell] success");
    // The answer, the connection: counts of the table.
    terminal.press(b"s");
    await_words(&terminal, &["requests"]);
    // Any key other than y means no.
    terminal.press(b"d");
    await_words(&terminal, &["server?"]);
    terminal.press(b"n");
    terminal.press(b"r");
    await_words(&terminal, &["nothing"]);
    terminal.press(b"dy");
    assert_eq!(server.ended(PATIENCE).code, Some(0), "drained");
    assert_eq!(terminal.ended().code(), Some(0));
    // The last words may still be on their way from the terminal.
    await_words(&terminal, &["\x1b[?1049l", "the server has ended"]);
    let shown = terminal.shown();
    let (_, after) = shown.rsplit_once("\x1b[?1049l").expect("the screen is given back");
    assert!(after.contains("the server has ended"), "{after}");
}

#[test]
fn it_leaves_a_server_alone_when_it_leaves() {
    let mut server = EPOLL.book(book(3, 1000)).start();
    let mut terminal = terminal(&[&server.pid.to_string()]);
    await_words(&terminal, &["epoll", "leave"]);
    terminal.press(b"q");
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(server.is_running());
    server.stop();
}

#[test]
fn one_sample_as_json() {
    let server = EPOLL.book(book(3, 1000)).start();
    let pid = server.pid.to_string();
    let text = top(&[&pid, "--once", "--json", "--interval", "100ms"]).out;
    assert_eq!(text.lines().count(), 1, "{text}");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["service"], &told["pid"]), (&"stock".into(), &server.pid.number().into()));
    assert_eq!(told["shape"]["engine"], "epoll");
    assert_eq!(told["cost"]["processes"], 1);
    assert!(told["between"]["window_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1));
    let plain = top(&[&pid, "--once"]).out;
    assert!(plain.contains("stock on epoll") && plain.contains("board        _"), "{plain}");
    server.stop();
    top(&[&pid, "--once"]).exits(1).says("found none that answers");
}

#[test]
fn without_a_terminal_it_says_what_to_say() {
    let server = EPOLL.book(book(3, 1000)).start();
    top(&[&server.pid.to_string()]).exits(1).says("--once");
    server.stop();
}

#[test]
fn an_address_or_a_path_of_ones_own() {
    let (folder, data) = Folder::with("stock.txt", book(3, 1000));
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "127.0.0.1:0"]).announce();
    let place = ready["admin"].as_str().expect("an address");
    assert!(place.starts_with("http://127.0.0.1:"), "{place}");
    let told = |place: &str| top(&[place, "--once"]).out;
    assert!(told(place).contains("stock on epoll"), "{}", told(place));
    server.stop();
    let path = folder.path().join("own.sock");
    let path = path.to_str().expect("text");
    let server = EPOLL.stock(&data).with(&["--admin", path]).start();
    assert!(told(path).contains("stock on epoll"), "{}", told(path));
    let other = folder.file("other.txt", book(3, 1000));
    EPOLL.stock(&other).with(&["--admin", path]).fail().exits(2).says("another server answers");
    server.stop();
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "none"]).announce();
    assert_eq!(ready["admin"], Value::Null);
    server.stop();
    EPOLL.stock(&data).with(&["--admin", "0.0.0.0:0"]).fail().exits(2).says("--admin-anywhere");
}
