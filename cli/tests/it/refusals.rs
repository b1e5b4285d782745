//! Impossible combinations are refused before anything starts, with a sentence and exit code 2;
//! failures at start have exit code 1.

use crate::arms::{
    Arm, EPOLL, EPOLL_EDGE, ITERATIVE, PREFORK, THREADS_BLOCKING, THREADS_EPOLL, URING,
};
use crate::harness::{Ended, Folder, Plan};
use crate::market::book;

fn arm(flags: &'static str) -> Arm {
    Arm { flags, workers: None, ..EPOLL }
}

/// The server ends at once with `code`, prints each of `words`, and nothing on stdout.
#[track_caller]
fn check(ended: Ended, code: i32, words: &[&str]) {
    words.iter().fold(ended.exits(code), |ended, word| ended.says(word));
}

#[track_caller]
fn check_refused(flags: &'static str, words: &[&str]) {
    check(arm(flags).book("1 10 100\n").fail(), 2, words);
}

#[test]
fn websockets_where_there_are_none() {
    for service in ["http", "media"] {
        let refused = Plan::new(&EPOLL, service).with(&["--websocket"]).fail();
        check(refused, 2, &["--websocket is refused: "]);
    }
    check_refused("--websocket-origin https://a.org", &["--websocket"]);
    check_refused("--websocket --websocket-origin A.org", &["in lower case", "`A.org`"]);
}

#[test]
fn unknown_words() {
    check_refused("--engine epol", &["`epol`", "iterative", "prefork", "epoll", "uring"]);
    check_refused("--wait select2", &["select2", "select, poll, epoll, coroutine"]);
    check_refused("--container fork", &["fork", "solo, helped, thread-per", "threads, processes"]);
    check_refused("--framing fixed", &["fixed"]);
    check_refused("--index tree", &["--index expects one of hash", "red-black", "`tree`"]);
    check_refused("--no-such-flag", &["--no-such-flag"]);
    check_refused("--drain soon", &["soon"]);
    check_refused("--work 2s", &["expected a time to 1s such as 20us"]);
}

#[test]
fn points_that_cannot_be() {
    check_refused("--engine iterative --workers 3", &["--workers 3", "--container"]);
    check_refused("--engine epoll --workers 0", &["1 to", "found 0"]);
    check_refused("--engine uring --edge", &["epoll", "--edge"]);
    check_refused("--engine prefork --edge", &["epoll", "--edge"]);
    check_refused("--engine select --accept lock", &["select", "--accept shared"]);
    check_refused("--engine fork --wait epoll", &["--wait blocking"]);
    check_refused("--engine thread --workers 4", &["--max-connections 4"]);
    check_refused("--engine fork --max-connections 5000", &["2046", "5000"]);
    check_refused("--engine prefork --accept handoff", &["--accept pass"]);
    check_refused("--engine pool --accept pass", &["--accept handoff"]);
}

#[test]
fn a_limit_below_the_number_of_workers() {
    let words = ["--max-connections 4", "16", "--workers"];
    check_refused("--engine prefork --max-connections 4", &words);
    check_refused("--engine iterative --max-connections 0", &["--max-connections 0"]);
}

#[test]
fn locks_that_name_no_reader_between_processes() {
    let words = ["per-stock", "worker process", "snapshot or global"];
    check_refused("--engine prefork --lock per-stock", &words);
    check_refused("--engine fork --lock per-stock", &words);
    let flags = "--container processes --wait epoll --lock per-stock";
    check_refused(flags, &words);
    let server = THREADS_BLOCKING.book("1 10 100\n").with(&["--lock", "per-stock"]).start();
    server.says("no snapshot");
    assert_eq!(server.show(), "1 10 100\n");
}

#[test]
fn a_book_that_the_framing_cannot_hold() {
    let words = ["fixed:8192", "1000 stocks", "--framing line"];
    check(EPOLL.book(book(1000, 1)).with(&["--framing", "fixed:8192"]).fail(), 2, &words);
}

#[test]
fn books_that_are_none() {
    check(EPOLL.book("1 10 100\n2 -5 100\n").fail(), 1, &["stock.txt", ":2:3:"]);
    let folder = Folder::new();
    let words = ["absent.txt", "ID LEFT PRICE"];
    check(EPOLL.stock(&folder.path().join("absent.txt")).fail(), 1, &words);
}

/// Another server has the port; also tested if workers have separate listeners.
#[test]
fn a_port_in_use() {
    let (folder, data) = Folder::with("stock.txt", "1 10 100\n");
    let own = folder.file("own.txt", "1 10 100\n");
    // Two servers of `--accept reuseport` share a port; `drained` tries that.
    let others = [ITERATIVE, PREFORK, EPOLL_EDGE, THREADS_EPOLL, URING];
    for (first, others) in [(&ITERATIVE, &others[..]), (&THREADS_EPOLL, &others[..3])] {
        let first = first.stock(&own).start();
        let port = first.address.port().to_string();
        for arm in others {
            arm.run(|arm| {
                let ended = arm.stock(&data).with(&["--port", &port]).fail();
                check(ended, 1, &["cannot listen on 127.0.0.1", "stop it, or say --port 0"]);
            });
        }
        assert_eq!(first.ask("sell 1 1"), "[sell] success");
        first.stop();
    }
}
