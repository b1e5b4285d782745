//! `roundhouse client` with its output in a pipe: the reply's bytes, nothing else.

use std::process::Command;

use crate::server::{BINARY, Server, run};
use testkit::Ended;

const BOOK: &str = "1 7 1000\n5 3 3700\n";

#[track_caller]
fn client(server: &Server, args: &[&str], input: &str) -> Ended {
    let at = format!("127.0.0.1:{}", server.port());
    run(Command::new(BINARY).args(["client", &at]).args(args), input)
}

#[test]
fn every_framing_is_told_from_the_first_reply() {
    for framing in ["line", "fixed:8192", "eof", "length", "fixed:512"] {
        let server = Server::open(BOOK, &["--framing", framing]);
        let expected = format!("{BOOK}[buy] success\nNot enough left stocks\n{BOOK}");
        let asked = "show\nbuy 1 7\n\nbuy 1 1\n";
        for args in [&[][..], &["--framing", framing]] {
            let ran = client(&server, args, asked);
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{framing}");
            assert_eq!(ran.out, expected[..expected.len() - BOOK.len()], "{framing}");
            assert!(!ran.out.contains('\x1b'), "no escape codes in a pipe");
            let ran = client(&server, args, "sell 1 7\nexit\nbuy 1 1\n").success();
            // In line framing the server just closes.
            let bye = if framing == "line" { "" } else { "exit\n" };
            assert_eq!(ran.out, format!("[sell] success\n{bye}"), "{framing}");
        }
        server.close();
    }
}

#[test]
fn lines_can_be_arguments() {
    let server = Server::open(BOOK, &[]);
    let ran = client(&server, &["-e", "buy 5 1", "-e", "show"], "sell 1 1\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "[buy] success\n1 7 1000\n5 2 3700\n"));
    let ran = client(&server, &["-e", "help"], "");
    assert!(ran.out.contains("buy ID N"), "{}", ran.out);
    server.close();
}

#[test]
fn errors_say_what_to_do() {
    let ran = run(Command::new(BINARY).args(["client", "127.0.0.1:1"]), "show\n").exits(1);
    assert!(ran.err.contains("cannot connect") && ran.err.contains("serve stock"), "{}", ran.err);
    run(Command::new(BINARY).args(["client", "a:b:c"]), "").exits(2).says("expected HOST:PORT");
    run(Command::new(BINARY).args(["client", "--framing", "lines"]), "")
        .exits(2)
        .says("fixed:8192");
    let server = Server::open(BOOK, &["--framing", "line"]);
    client(&server, &["--framing", "fixed:8192"], "exit\n").success();
    server.close();
}
