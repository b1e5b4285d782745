//! The ways in which the course's clients end, under every engine. After each the server continues,
//! and its file is unchanged at the end.

use std::fs::File;
use std::process::{Command, Stdio};

use engines::Preset;

use crate::replica::Replica;
use crate::server::{BINARY, Server, each_engine};

/// On a full disk a command ends with a message; a reader that leaves ends it quietly. None panics.
#[test]
fn a_command_whose_output_cannot_be_written_ends_without_a_panic() {
    let commands =
        ["engines", "senders", "museum", "completions bash", "load --schema", "plan", "version"];
    for words in commands {
        let check = |output: Stdio| {
            let mut command = Command::new(BINARY);
            command.args(words.split(' ')).stdin(Stdio::null()).stdout(output);
            let ended = command.stderr(Stdio::piped()).output().expect("our own program");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.code() != Some(101), "{words}: {said}");
            assert!(!said.contains("panicked"), "{words}: {said}");
        };
        check(File::options().write(true).open("/dev/full").expect("a device").into());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        check(writer.into());
    }
}

const BOOK: &str = "1 7 1000\n5 3 3700\n";

/// Types `exit`, reads a block, prints it, and continues until its own input ends. The printed word
/// is the server's: the client received a block. At an end of input it would print its old buffer.
fn goes_on(port: u16) {
    let mut client = Replica::connect(port);
    assert_eq!(client.ask("show\n"), BOOK);
    client.send("exit\n").expect("the server takes requests");
    assert_eq!(client.readnb().expect("a block"), 8192);
    assert_eq!(client.text(), "exit\n");
    // Later lines meet a closed connection: the client gets nothing, or an error.
    let _ = client.send("show\n");
    assert_eq!(client.readnb().unwrap_or(0), 0);
}

/// Leaves its loop when the buffer is `exit` and a newline.
fn leaves_at_the_word_with_its_newline(port: u16) {
    let mut client = Replica::connect(port);
    for line in ["show\n", "buy 1 1\n", "sell 1 1\n", "exit\n", "show\n"] {
        if client.ask(line) == "exit\n" {
            assert_eq!(line, "exit\n");
            return;
        }
    }
    panic!("`exit` was never printed");
}

/// Compares its buffer with `exit` without a newline, which never matches: its input ends it.
fn leaves_at_the_word_alone(port: u16) {
    let mut client = Replica::connect(port);
    for line in ["show\n", "exit\n"] {
        assert_ne!(client.ask(line), "exit");
    }
}

/// Leaves by itself when `exit` is typed, and sends nothing.
fn leaves_without_a_word(port: u16) {
    let mut client = Replica::connect(port);
    assert_eq!(client.ask("sell 5 1\n"), "[sell] success\n");
    assert_eq!(client.ask("buy 5 1\n"), "[buy] success\n");
}

/// Sends `exit` and closes without reading: the server's block meets a reset.
fn leaves_without_listening(port: u16) {
    for _ in 0..10 {
        let mut client = Replica::connect(port);
        client.send("exit\n").expect("the server takes requests");
    }
}

/// Closes after a reply, like the children of `multiclient`.
fn closes_after_a_reply(port: u16) {
    let mut client = Replica::connect(port);
    assert_eq!(client.ask("show\n"), BOOK);
}

/// Is killed while a request is on its way and replies wait.
fn is_killed_in_between(port: u16) {
    let mut client = Replica::connect(port);
    client.send("show\n").expect("the server takes requests");
    client.send("show\nshow\nbuy 1").expect("the server takes requests");
}

/// A way to leave, given the server's port.
type Way = fn(u16);

/// All ways, in order.
const WAYS: &[(&str, Way)] = &[
    ("goes on", goes_on),
    ("leaves at the word with its newline", leaves_at_the_word_with_its_newline),
    ("leaves at the word alone", leaves_at_the_word_alone),
    ("leaves without a word", leaves_without_a_word),
    ("leaves without listening", leaves_without_listening),
    ("closes after a reply", closes_after_a_reply),
    ("is killed in between", is_killed_in_between),
];

fn all_ways(preset: &Preset) {
    let server = Server::on(preset, BOOK);
    for (name, way) in WAYS {
        println!("a client that {name}");
        way(server.port());
        let mut next = Replica::connect(server.port());
        assert_eq!(next.ask("show\n"), BOOK, "after a client that {name}");
    }
    server.keeps(BOOK);
    assert_eq!(server.close(), BOOK);
}

#[test]
fn every_way_to_leave() {
    each_engine(all_ways);
}

/// Reads lines until one begins with `exit` or `EOF`, then sends a last word and closes: one of the
/// few clients whose replies end with a line `EOF`.
#[test]
fn a_client_that_reads_to_a_line_eof() {
    let server = Server::open(BOOK, &["--framing", "eof"]);
    let mut client = Replica::connect(server.port());
    client.send("show\n").expect("the server takes requests");
    let mut printed = String::new();
    while client.readlineb().expect("lines") > 0 && client.text() != "EOF\n" {
        printed += &client.text();
    }
    assert_eq!(printed, BOOK);
    client.send("exit\n").expect("the server takes requests");
    assert_eq!(client.readlineb().expect("a line"), 5);
    assert_eq!(client.text(), "exit\n");
    // The server may have closed by now, which ends that client like a reply.
    let _ = client.send("disc\n");
    drop(client);
    server.keeps(BOOK);
    assert_eq!(server.close(), BOOK);
}

/// The echo client of the course's kit: it sends a line and reads a line. It works if replies are
/// lines, and falls behind by the rows of each `show`.
#[test]
fn the_first_echo_client() {
    let server = Server::open(BOOK, &["--framing", "line"]);
    let mut client = Replica::connect(server.port());
    let mut ask = |line: &str| {
        client.send(line).expect("the server takes requests");
        client.readlineb().expect("a line");
        client.text()
    };
    assert_eq!(ask("buy 1 7\n"), "[buy] success\n");
    assert_eq!(ask("buy 1 1\n"), "Not enough left stocks\n");
    assert_eq!(ask("sell 1 7\n"), "[sell] success\n");
    assert_eq!(ask("show\n"), "1 7 1000\n");
    assert_eq!(ask("sell 5 1\n"), "5 3 3700\n", "the second row of the show before");
    assert_eq!(ask("buy 5 1\n"), "\n", "its end");
    assert_eq!(ask("show\n"), "[sell] success\n");
    // It is three replies late; if it closed now, it would not know whether the last order arrived.
    client.readlineb().expect("a line");
    assert_eq!(client.text(), "[buy] success\n");
    drop(client);
    server.keeps(BOOK);
    assert_eq!(server.close(), BOOK);
}
