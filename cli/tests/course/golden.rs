//! The session of the course's specification, by each client, under every engine.

use engines::Preset;
use testkit::{PATIENCE, eventually};

use crate::replica::Replica;
use crate::server::{Server, each_engine};

/// The specification's book, in the order of its file.
const BOOK: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n";
/// The session: typed lines and printed lines.
const SESSION: &[(&str, &str)] = &[
    ("show\n", BOOK),
    ("buy 5 3\n", "[buy] success\n"),
    ("sell 2 2\n", "[sell] success\n"),
    ("show\n", "1 7 1000\n5 0 3700\n3 10 1200\n4 8 5000\n2 8 20000\n"),
    ("buy 1 8\n", "Not enough left stocks\n"),
    ("buy 1 6\n", "[buy] success\n"),
    ("show\n", LAST),
    ("exit\n", "exit\n"),
];
/// The book afterwards.
const LAST: &str = "1 1 1000\n5 0 3700\n3 10 1200\n4 8 5000\n2 8 20000\n";

fn by_stockclient(preset: &Preset) {
    let server = Server::on(preset, BOOK);
    let typed: String = SESSION.iter().map(|row| row.0).collect();
    let printed: String = SESSION.iter().map(|row| row.1).collect();
    let ran = server.stockclient(&typed);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), printed.as_str(), ""));
    server.keeps(LAST);
    assert_eq!(server.close(), LAST);
}

fn by_the_courses_client(preset: &Preset) {
    let server = Server::on(preset, BOOK);
    let mut client = Replica::connect(server.port());
    for (typed, printed) in SESSION {
        assert_eq!(client.ask(typed), *printed, "{typed:?}");
    }
    // It sends until its own input ends, when the server has stopped reading.
    let _ = client.send("show\n");
    drop(client);
    server.keeps(LAST);
    assert_eq!(server.close(), LAST);
}

#[test]
fn the_golden_session() {
    each_engine(|preset| {
        by_stockclient(preset);
        by_the_courses_client(preset);
    });
}

#[test]
fn the_server_says_what_the_courses_said() {
    let server = Server::open(BOOK, &[]);
    assert_eq!(server.stockclient("show\nbuy 1 1\n").code, Some(0));
    let said = || server.err();
    eventually("the time is told", PATIENCE, || said().contains("elapsed time: "));
    let said = said();
    assert!(said.contains("Connected to (127.0.0.1, "), "{said}");
    assert!(said.contains("server received 5 bytes\nserver received 8 bytes\n"), "{said}");
    server.close();
    let quiet = Server::open(BOOK, &["--quiet"]);
    assert_eq!(quiet.stockclient("show\n").code, Some(0));
    assert_eq!(quiet.err(), "");
    quiet.close();
}
