//! `roundhouse path` as a user types it: found, drawn, checked, refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Ended, Folder, PATIENCE, Server};

use crate::server::BINARY;

fn path(args: &[&str]) -> Ended {
    testkit::run(Command::new(BINARY).arg("path").args(args))
}

#[test]
fn the_path_is_drawn_over_its_map() {
    let map = "type octile\nheight 3\nwidth 5\nmap\n.....\n.@@@.\n.....\n";
    let (_folder, map) = Folder::with("drawn.map", map);
    let map = map.display().to_string();
    let output = path(&["find", &map, "--from", "0,1", "--to", "4,1"]);
    let Ended { code, out, err, .. } = output;
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.starts_with("*****\nS###G\n.....\n") || out.starts_with(".....\nS###G\n*****\n"),
        "{out}"
    );
    assert!(
        out.contains("6.0000 long: 6 straight and 0 diagonal steps, rule no-obstacle"),
        "{out}"
    );
    for algorithm in ["astar", "jps"] {
        let args = ["find", &map, "--from", "0,1", "--to", "4,1", "--rule", "one-obstacle"];
        let other = path(&[&args[..], &["--algorithm", algorithm, "--json"]].concat()).out;
        let told: Value = serde_json::from_str(&other).expect("one line of JSON");
        let length = told["length"].as_f64().expect("a number");
        assert!((length - 4.8284).abs() < 5e-5, "{algorithm}: {told}");
    }
}

#[test]
fn what_cannot_be_reached_is_said_and_gone_near_to_if_asked() {
    let (_folder, map) = Folder::with("parted.map", "type octile\nheight 1\nwidth 5\nmap\n..@..\n");
    let map = map.display().to_string();
    let check = |args: &[&str], wanted: i32, says: &str| {
        let Ended { code, out, err, .. } = path(&[&["find", &map][..], args].concat());
        assert_eq!(code, Some(wanted), "{out}{err}");
        assert!((out + &err).contains(says), "{args:?} says {says:?}: {err}");
    };
    check(&["--from", "0,0", "--to", "4,0"], 1, "no path from 0,0 to 4,0");
    check(&["--from", "0,0", "--to", "4,0", "--nearest"], 0, "1,0 is the nearest cell that can");
    check(&["--from", "0,0", "--to", "2,0"], 1, "an obstacle at 2,0");
    check(&["--from", "0,0", "--to", "5,0"], 1, "outside");
    check(&["--from", "0", "--to", "5,0"], 2, "column and row");
    check(&["--from", "0,0", "--to", "1,0", "--rule", "any"], 2, "one-obstacle");
}

/// Sends bytes to the editor in pieces of `piece` and reads until it closes.
fn ask(editor: &Server, bytes: &[u8], piece: usize) -> String {
    let mut stream = TcpStream::connect(editor.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    for part in bytes.chunks(piece) {
        stream.write_all(part).expect("it reads");
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers and closes");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_editor_answers_over_http() {
    let editor = Server::start(Command::new(BINARY).args(["path", "edit"]));
    let close = "Host: localhost\r\nConnection: close\r\n";
    let page = ask(&editor, format!("GET / HTTP/1.1\r\n{close}\r\n").as_bytes(), 9);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("</html>\n"), "{page}");
    let question = json!({"rows": ["...", ".@.", "..."], "from": [0, 0], "to": [2, 2],
                          "rule": "one-obstacle", "algorithms": ["jps"]});
    let body = question.to_string();
    let post = |body: &str| {
        let len = body.len();
        format!("POST /search HTTP/1.1\r\n{close}Content-Length: {len}\r\n\r\n{body}")
    };
    for piece in [1, 7, 4096] {
        let answer = ask(&editor, post(&body).as_bytes(), piece);
        let (head, told) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let told: Value = serde_json::from_str(told).expect("JSON");
        assert_eq!(told["answers"]["jps"]["diagonal"], 1, "{told}");
    }
    assert!(ask(&editor, post("{}").as_bytes(), 99).starts_with("HTTP/1.1 400 "));
    let two = format!("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\nPUT / HTTP/1.1\r\n{close}\r\n");
    let answer = ask(&editor, two.as_bytes(), 3);
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("expected GET /"), "{answer}");
    let long = format!("POST /search HTTP/1.1\r\n{close}Content-Length: 99999999\r\n\r\n");
    assert!(ask(&editor, long.as_bytes(), 999).starts_with("HTTP/1.1 413 "));
}
