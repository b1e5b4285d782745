//! A server whose stdout or stderr cannot be written serves, saves and stops like any other.

use std::fs;
use std::net::{SocketAddr, TcpListener};

use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, ms};

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

#[track_caller]
fn check(arm: &Arm, redirections: &str) {
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let script = format!("exec \"$0\" \"$@\" {redirections}");
    let port = free_port();
    let mut server = arm.stock(&data).behind(&["sh", "-c", &script]).launch(port);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = loop {
        match Client::try_new(address) {
            Ok(client) => break client,
            Err(_) => std::thread::sleep(ms(5)),
        }
        assert!(server.is_running(), "{redirections}: {}", server.said());
    };
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    drop(client);
    server.signal(Signal::TERM);
    server.end(PATIENCE).success();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 99 10\n", "{redirections}");
}

/// Full devices, and pipes without a reader.
pub fn an_unwritable_output_costs_nothing(arm: &Arm) {
    check(arm, ">/dev/full");
    check(arm, "2>/dev/full");
    check(arm, ">/dev/full 2>/dev/full");
    check(arm, ">&- 2>&-");
}
