//! `stockclient` on a terminal.

use std::process::Command;

use crate::server::Server;
use testkit::Terminal;

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
        command.env_remove("NO_COLOR");
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

const DOWN_THE_LINE: &str = "\x04";

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
