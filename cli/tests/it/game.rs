//! The world on the engines that can carry bytes from one session to another, with its own client.

use std::io::Write;
use std::process::{Command, Stdio};

use ::game::packet::{Ask, Role};
use testkit::Process;
use wire::websocket::Opcode;

use crate::arms::{Arm, EPOLL, POLL, PREFORK, SELECT, THREADS_EPOLL, URING};
use crate::harness::{BINARY, Client, Folder, PATIENCE, Plan, Server};
use crate::websocket;

fn serve(arm: &Arm, more: &[&str]) -> Server {
    Plan::new(arm, "game").workers(1).with(&["--tick", "5ms"]).with(more).start()
}

/// A client that carries out a script.
fn walk(server: &Server, more: &[&str], script: &str) -> Process {
    let mut command = Command::new(BINARY);
    command.args(["walk", &server.address.to_string(), "--script", "-"]).args(more);
    let mut client = Process::start_with(&mut command, Stdio::piped());
    let mut stdin = client.stdin().expect("piped above");
    stdin.write_all(script.as_bytes()).expect("it reads its script");
    client
}

/// The output of a client that ends by itself.
fn lines(server: &Server, more: &[&str], script: &str) -> Vec<String> {
    let ended = walk(server, more, script).end(PATIENCE).success();
    ended.out.lines().map(str::to_owned).collect()
}

/// The next line that a client prints.
fn next(client: &Process) -> String {
    client.next_line(PATIENCE).expect("a line")
}

fn a_walk(arm: &Arm) {
    arm.run(|arm| {
        let server = serve(arm, &[]);
        // A spectator receives the player's walk.
        let watcher = walk(&server, &["--watch"], "watch 20s\n");
        assert!(next(&watcher).starts_with("joined "));
        let told = lines(&server, &["--name", "Ada"], "go 0,0\narrive\ngo 79,39\narrive\nwho\n");
        assert!(told[0].ends_with(" on 80x40"), "{told:?}");
        assert!(told.contains(&"at 0,0".to_owned()), "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("path to 79,39: ")), "{told:?}");
        assert!(told.contains(&"at 79,39".to_owned()), "{told:?}");
        assert!(told.iter().any(|line| line.contains("Spectator")), "{told:?}");
        let lines = std::iter::from_fn(|| Some(next(&watcher)));
        let all: Vec<String> = lines.take_while(|it| !it.starts_with("leave ")).collect();
        assert!(all.iter().any(|line| line.ends_with("Player Ada")), "{all:?}");
        let moves = |to: &str| all.iter().any(|line| line.contains(&format!(" Ada to {to}")));
        assert!(moves("79,39"), "{all:?}");
        drop(watcher);
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

/// A page hears of another page that joins, by bytes that the other's session pushes.
#[test]
fn pages_see_each_other() {
    let join = |client: &mut Client, name: &str| {
        let mut join = Vec::new();
        let name = name.to_owned();
        Ask::Join { version: 1, role: Role::Player, name }.put(&mut join);
        client.send(websocket::frame(Opcode::Binary, &join));
        websocket::next(client)
    };
    for arm in [&EPOLL, &SELECT, &POLL, &URING] {
        arm.run(|arm| {
            let server = serve(arm, &["--websocket"]);
            let (mut one, mut two) = (websocket::enter(&server), websocket::enter(&server));
            join(&mut one, "Ada");
            let (_, welcome) = join(&mut two, "Bob");
            let has = |bytes: &[u8], name: &[u8]| bytes.windows(3).any(|it| it == name);
            assert!(has(&welcome, b"Ada"), "{welcome:?}");
            let (opcode, told) = websocket::next(&mut one);
            assert!(opcode == Opcode::Binary && has(&told, b"Bob"), "{told:?}");
            drop((one, two));
            server.stop();
        });
    }
}

#[test]
fn engines_that_cannot_carry_bytes_are_refused_aloud() {
    for arm in [&PREFORK, &THREADS_EPOLL] {
        Plan::new(arm, "game").fail().exits(2).says("carry bytes from one session");
    }
}

#[test]
fn maps_are_read_or_refused() {
    let (folder, small) =
        Folder::with("small.map", "type octile\nheight 2\nwidth 3\nmap\n.@.\n...\n");
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
        Plan::new(&EPOLL, "game").with(&["--map", map]).fail().exits(1).says(words);
    }
}

/// A server that stops tells its clients.
#[test]
fn a_drain_says_goodbye() {
    let server = serve(&EPOLL, &[]);
    let mut client = walk(&server, &[], "watch 20s\n");
    assert!(next(&client).starts_with("joined "));
    server.stop();
    assert_eq!(next(&client), "bye: it is stopping");
    assert_eq!(client.end(PATIENCE).code, Some(1));
}
