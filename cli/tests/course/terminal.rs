//! `roundhouse client` and `stockclient` on a terminal.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::server::{BINARY, Server};
use testkit::{PATIENCE, Terminal};

const BOOK: &str = "1 7 1000\n5 3 3700\n12 0 20\n";

/// A program on a terminal, and the part of its screen that has been read.
struct Person {
    terminal: Terminal,
    /// The length of the checked part of the screen.
    seen: usize,
}

impl Person {
    /// Starts the program on a separate terminal.
    #[track_caller]
    fn start(command: &mut Command) -> Person {
        if !command.get_envs().any(|(name, _)| name == "NO_COLOR") {
            command.env_remove("NO_COLOR");
        }
        Person { terminal: Terminal::start(command), seen: 0 }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.press(keys.as_bytes());
    }

    /// The whole output, in order.
    fn screen(&self) -> String {
        self.terminal.shown()
    }

    /// Waits until this text appears after the part that was read before.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        self.seen = self.terminal.shows(self.seen, text);
    }

    /// Waits for the end of the program.
    #[track_caller]
    fn ends(&mut self, code: i32) {
        assert_eq!(self.terminal.ended().code(), Some(code), "{:?}", self.screen());
    }
}

fn client(port: u16) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["client", &format!("127.0.0.1:{port}")]);
    command
}

const DOWN_THE_LINE: &str = "\x04";

#[test]
fn a_conversation_in_tables_and_colours() {
    let server = Server::open(BOOK, &[]);
    let mut terminal = Person::start(&mut client(server.port()));
    terminal.sees("3 stocks, framing fixed:8192");
    terminal.sees("stock> ");
    // A book is a table.
    terminal.types("show\r");
    terminal.sees("\x1b[2mID  LEFT  PRICE\x1b[0m\r\n 1     7   1000\r\n 5     3   3700\r\n");
    terminal.sees("\x1b[33m12     0     20\x1b[0m");
    terminal.sees("stock> ");
    for _ in 0..2 {
        terminal.types("buy 5 1\r");
        terminal.sees("\x1b[32m[buy] success\x1b[0m");
        terminal.sees("stock> ");
    }
    terminal.types("buy 12 1\r");
    terminal.sees("\x1b[33mNot enough left stocks\x1b[0m");
    terminal.sees("stock> ");
    terminal.types("help\r");
    terminal.sees("sell ID N");
    terminal.sees("stock> ");
    terminal.types(DOWN_THE_LINE);
    terminal.ends(0);
    server.keeps("1 7 1000\n5 1 3700\n12 0 20\n");
    assert_eq!(server.close(), "1 7 1000\n5 1 3700\n12 0 20\n");
}

#[test]
fn no_color_is_respected() {
    let server = Server::open(BOOK, &[]);
    let mut terminal = Person::start(client(server.port()).env("NO_COLOR", "1"));
    terminal.sees("stock> ");
    terminal.types("show\r");
    terminal.sees("ID  LEFT  PRICE\r\n 1     7   1000");
    terminal.sees("stock> ");
    terminal.types("buy 1\r");
    terminal.sees("error: expected `buy ID N`, found 1 argument");
    terminal.sees("stock> ");
    terminal.types(DOWN_THE_LINE);
    terminal.ends(0);
    let screen = terminal.screen();
    let tones = ["\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
    assert!(!tones.iter().any(|tone| screen.contains(tone)), "{screen:?}");
    server.close();
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("ours").port();
    let answer = |stream: &mut TcpStream, line: &str, reply: &str| {
        let mut heard = vec![0; line.len()];
        stream.read_exact(&mut heard).expect("a request");
        assert_eq!(String::from_utf8_lossy(&heard), line);
        stream.write_all(reply.as_bytes()).expect("the client reads");
    };
    let server = std::thread::spawn(move || {
        let take = || {
            let (stream, _) = listener.accept().expect("a client");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream
        };
        let mut first = take();
        answer(&mut first, "show\n", "1 2 3\n\n");
        // The server receives an order and ends.
        answer(&mut first, "buy 1 1\n", "");
        drop(first);
        let mut second = take();
        answer(&mut second, "show\n", "1 2 3\n\n");
        answer(&mut second, "sell 1 1\n", "[sell] \x1b[2Jsuccess\n");
        drop(second);
        drop(take());
        // The listener keeps other tests from getting the port.
        listener
    });
    let mut terminal = Person::start(&mut client(port));
    terminal.sees("stock> ");
    terminal.types("buy 1 1\r");
    terminal.sees("it is unknown whether `buy 1 1` was executed");
    terminal.sees("stock> ");
    terminal.types("sell 1 1\r");
    terminal.sees("connected again");
    terminal.sees("[sell] \\u{1b}[2Jsuccess");
    terminal.sees("stock> ");
    terminal.types("show\r");
    terminal.sees("the connection");
    let listener = server.join().expect("all three conversations");
    terminal.sees("stock> ");
    terminal.types("exit\r");
    terminal.ends(0);
    drop(listener);
}

#[test]
fn the_courses_client_on_a_terminal() {
    let server = Server::open(BOOK, &[]);
    let mut terminal = Person::start(&mut server.command("stockclient"));
    terminal.types("buy 5 1\n");
    terminal.sees("[buy] success\r\n");
    terminal.types("show\n");
    terminal.sees("1 7 1000\r\n5 2 3700\r\n");
    terminal.types(DOWN_THE_LINE);
    terminal.ends(0);
    assert!(!terminal.screen().contains('\x1b'), "{:?}", terminal.screen());
    // A dead connection takes no more input.
    let mut waiting = Person::start(&mut server.command("stockclient"));
    waiting.types("show\n");
    waiting.sees("5 2 3700\r\n");
    server.close();
    waiting.sees("the server has closed the connection");
    waiting.ends(1);
}
