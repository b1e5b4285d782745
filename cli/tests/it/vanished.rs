//! Half-open connections: the peer's machine is gone or has lost its state, and no segment informed
//! the server. The server notices by keepalive probes, by sending, or by its idle limit, and then
//! frees the connection.

use crate::arms::Arm;
use crate::harness::{Client, Server, skip};
use crate::market::book;

/// Clients that were served and disappear without a segment; false if the machine forbids that.
#[track_caller]
fn haunt(server: &Server, count: usize, last_words: &str) -> bool {
    let mut ghosts: Vec<Client> = (0..count).map(|_| server.client()).collect();
    for ghost in &mut ghosts {
        assert_eq!(ghost.ask("sell 1 1"), "[sell] success");
        ghost.send(last_words);
    }
    let gone = ghosts.into_iter().all(|ghost| ghost.vanish().is_ok());
    if !gone {
        skip("half-open connections");
    }
    gone
}

/// The server frees vanished clients, and then serves others.
#[track_caller]
fn check(arm: &Arm, args: &[&str], last_words: &str) {
    let server = arm.book(book(2000, 100)).with(args).start();
    if !haunt(&server, arm.crowd(4), last_words) {
        return;
    }
    server.settles();
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.stop().says("0 workers replaced");
}

/// Keepalive probes detect them.
pub fn who_vanished_is_asked_for(arm: &Arm) {
    check(arm, &["--keepalive", "1s"], "");
}

/// Without probes the idle limit ends them.
pub fn who_vanished_is_idle(arm: &Arm) {
    check(arm, &["--keepalive", "0", "--idle", "300ms"], "");
}

/// Replies to a client that is gone.
pub fn replies_to_who_vanished(arm: &Arm) {
    check(arm, &["--keepalive", "0"], &"show\n".repeat(200));
}
