//! The world on the engines that can carry bytes from one session to another, with the client that
//! comes with it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::arms::{Arm, EPOLL, POLL, PREFORK, SELECT, THREADS_EPOLL, URING};
use crate::harness::{BINARY, Folder, PATIENCE, Plan, Server, eventually};

fn serve(arm: &Arm, more: &[&str]) -> Server {
    Plan::new(arm, "game").workers(1).with(&["--tick", "5ms"]).with(more).start()
}

/// A client that carries out a script.
fn walk(server: &Server, more: &[&str], script: &str) -> (Child, std::process::ChildStdout) {
    let mut child = Command::new(BINARY)
        .args(["walk", &server.address.to_string(), "--script", "-"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped above");
    stdin.write_all(script.as_bytes()).expect("it reads its script");
    let stdout = child.stdout.take().expect("piped above");
    (child, stdout)
}

/// What a client prints, once it has ended by itself.
fn lines(server: &Server, more: &[&str], script: &str) -> Vec<String> {
    let (mut child, stdout) = walk(server, more, script);
    let lines = BufReader::new(stdout).lines().map(|line| line.expect("text")).collect();
    let status = child.wait().expect("our own child");
    let stderr = child.stderr.take().map(|it| std::io::read_to_string(it).unwrap_or_default());
    assert!(status.success(), "{status}: {stderr:?}, {lines:?}");
    lines
}

fn a_walk(arm: &Arm) {
    arm.run(|arm| {
        let server = serve(arm, &[]);
        // One who looks on hears of the walk that another makes.
        let (mut watcher, heard) = walk(&server, &["--watch"], "watch 20s\n");
        let mut heard = BufReader::new(heard).lines().map(|line| line.expect("text"));
        assert!(heard.next().expect("a line").starts_with("joined "));
        let told = lines(&server, &["--name", "Ada"], "go 0,0\narrive\ngo 79,39\narrive\nwho\n");
        assert!(told[0].ends_with(" on 80x40"), "{told:?}");
        assert!(told.contains(&"at 0,0".to_owned()), "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("path to 79,39: ")), "{told:?}");
        assert!(told.contains(&"at 79,39".to_owned()), "{told:?}");
        assert!(told.iter().any(|line| line.contains("Spectator")), "{told:?}");
        let all: Vec<String> = heard.by_ref().take_while(|it| !it.starts_with("leave ")).collect();
        assert!(all.iter().any(|line| line.ends_with("Player Ada")), "{all:?}");
        let moves = |to: &str| all.iter().any(|line| line.contains(&format!(" Ada to {to}")));
        assert!(moves("79,39"), "{all:?}");
        watcher.kill().expect("our own child");
        watcher.wait().expect("our own child");
        server.stop();
    });
}

#[test]
fn a_walk_is_seen_under_epoll() {
    a_walk(&EPOLL);
}

#[test]
fn a_walk_is_seen_under_select_and_poll() {
    a_walk(&SELECT);
    a_walk(&POLL);
}

#[test]
fn a_walk_is_seen_under_uring() {
    a_walk(&URING);
}

#[test]
fn engines_that_cannot_carry_bytes_are_refused_aloud() {
    for arm in [&PREFORK, &THREADS_EPOLL] {
        let refused = Plan::new(arm, "game").fail();
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("carry bytes from one session"), "{}", refused.stderr);
    }
}

#[test]
fn maps_are_read_or_refused() {
    let folder = Folder::new();
    let small = folder.file("small.map", "type octile\nheight 2\nwidth 3\nmap\n.@.\n...\n");
    let small = small.to_str().expect("a temporary path is text");
    let server = serve(&EPOLL, &["--map", small]);
    let told = lines(&server, &[], "map\ngo 0,0\narrive\ngo 2,0\narrive\ngo 1,0\ngo 9,9\n");
    assert_eq!(told[1..3], [".#.", "..."], "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("path to 2,0: 0 straight and 2 diagonal")));
    assert!(told.iter().any(|line| line.ends_with("as near as one gets")), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("no way: Outside"), "{told:?}");
    server.stop();
    let blocked = folder.file("blocked.map", "type octile\nheight 1\nwidth 1\nmap\n@\n");
    for (map, words) in
        [(blocked.to_str().expect("text"), "a free cell"), ("absent", "cannot read")]
    {
        let refused = Plan::new(&EPOLL, "game").with(&["--map", map]).fail();
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

/// A server that stops says so to everybody.
#[test]
fn a_drain_says_goodbye() {
    let server = serve(&EPOLL, &[]);
    let (mut child, stdout) = walk(&server, &[], "watch 20s\n");
    let mut heard = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    assert!(heard.next().expect("a line").starts_with("joined "));
    server.stop();
    assert_eq!(heard.next().as_deref(), Some("bye: it stops"));
    let mut code = None;
    eventually("the client ends", PATIENCE, || {
        code = child.try_wait().expect("our own child");
        code.is_some()
    });
    assert_eq!(code.and_then(|code| code.code()), Some(1));
}
