//! `roundhouse top` on a separate terminal, and as a line of JSON.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::arms::{EPOLL, PREFORK};
use crate::harness::{BINARY, Folder, PATIENCE};
use crate::market::book;
use testkit::Terminal;

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

fn top(args: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("top").args(args).stdin(Stdio::null()).output().expect("the binary starts")
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
    let output = top(&[&pid, "--once", "--json", "--interval", "100ms"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["service"], &told["pid"]), (&"stock".into(), &server.pid.number().into()));
    assert_eq!(told["shape"]["engine"], "epoll");
    assert_eq!(told["cost"]["processes"], 1);
    assert!(told["between"]["window_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1));
    let plain = String::from_utf8(top(&[&pid, "--once"]).stdout).expect("text");
    assert!(plain.contains("stock on epoll") && plain.contains("board        _"), "{plain}");
    server.stop();
    let nobody = top(&[&pid, "--once"]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(nobody.status.code() == Some(1) && said.contains("found none that answers"), "{said}");
}

#[test]
fn without_a_terminal_it_says_what_to_say() {
    let server = EPOLL.book(book(3, 1000)).start();
    let output = top(&[&server.pid.to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("--once"), "{said}");
    server.stop();
}

#[test]
fn an_address_or_a_path_of_ones_own() {
    let (folder, data) = Folder::with("stock.txt", book(3, 1000));
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "127.0.0.1:0"]).announce();
    let place = ready["admin"].as_str().expect("an address");
    assert!(place.starts_with("http://127.0.0.1:"), "{place}");
    let told = String::from_utf8(top(&[place, "--once"]).stdout).expect("text");
    assert!(told.contains("stock on epoll"), "{told}");
    server.stop();
    let path = folder.path().join("own.sock");
    let path = path.to_str().expect("text");
    let server = EPOLL.stock(&data).with(&["--admin", path]).start();
    let told = String::from_utf8(top(&[path, "--once"]).stdout).expect("text");
    assert!(told.contains("stock on epoll"), "{told}");
    let other = folder.file("other.txt", book(3, 1000));
    EPOLL.stock(&other).with(&["--admin", path]).fail().exits(2).says("another server answers");
    server.stop();
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "none"]).announce();
    assert_eq!(ready["admin"], Value::Null);
    server.stop();
    let open = EPOLL.stock(&data).with(&["--admin", "0.0.0.0:0"]).fail();
    assert!(open.code == Some(2) && open.err.contains("--admin-anywhere"), "{}", open.err);
}
