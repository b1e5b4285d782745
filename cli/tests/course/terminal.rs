//! `stockclient` on a terminal.

use crate::server::Server;
use testkit::Terminal;

const BOOK: &str = "1 7 1000\n5 3 3700\n12 0 20\n";

/// Control-D: the end of input.
const END: &[u8] = b"\x04";

#[test]
fn the_courses_client_on_a_terminal() {
    let server = Server::open(BOOK, &[]);
    let start = || Terminal::start(server.command("stockclient").env_remove("NO_COLOR"));
    let mut terminal = start();
    terminal.press(b"buy 5 1\n");
    let seen = terminal.shows(0, "[buy] success\r\n");
    terminal.press(b"show\n");
    terminal.shows(seen, "1 7 1000\r\n5 2 3700\r\n");
    terminal.press(END);
    assert_eq!(terminal.ended().code(), Some(0), "{:?}", terminal.shown());
    assert!(!terminal.shown().contains('\x1b'), "{:?}", terminal.shown());
    // A dead connection takes no more input.
    let mut waiting = start();
    waiting.press(b"show\n");
    let seen = waiting.shows(0, "5 2 3700\r\n");
    server.close();
    waiting.shows(seen, "the server has closed the connection");
    assert_eq!(waiting.ended().code(), Some(1), "{:?}", waiting.shown());
}
