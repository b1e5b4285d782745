//! A server whose stdout or stderr cannot be written, or has a reader that pauses, serves, saves
//! and stops like any other.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use sys::output::Output;
use sys::signal::Signal;
use testkit::Process;

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Plan, ms};

#[track_caller]
fn check(arm: &Arm, redirections: &str) {
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let script = format!("exec \"$0\" \"$@\" {redirections}");
    let (mut server, address) = arm.stock(&data).behind(&["sh", "-c", &script]).launch();
    let mut client = connect(&mut server, address);
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    drop(client);
    server.signal(Signal::TERM);
    server.end(PATIENCE).success();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 99 10\n", "{redirections}");
}

/// Connects to a server that says nothing of its start.
#[track_caller]
fn connect(server: &mut Process, address: SocketAddr) -> Client {
    loop {
        match Client::try_new(address) {
            Ok(client) => return client,
            Err(_) => std::thread::sleep(ms(5)),
        }
        assert!(server.is_running(), "{}", server.said());
    }
}

/// Full devices, and pipes without a reader.
pub fn an_unwritable_output_costs_nothing(arm: &Arm) {
    check(arm, ">/dev/full");
    check(arm, "2>/dev/full");
    check(arm, ">/dev/full 2>/dev/full");
    check(arm, ">&- 2>&-");
}

/// A pipe at `path` that is full; it stays so while the result lives.
fn full_pipe(path: &Path) -> Output {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is installed");
    assert!(made.success());
    let pipe = Output::append(path).expect("our own pipe");
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    pipe
}

/// A paused reader: of stdout, of stderr, and of both. The access log is one more writer of stdout.
pub fn a_reader_that_pauses_stops_nothing(arm: &Arm) {
    let folder = Folder::new();
    let path = folder.path().join("paused");
    let _pipe = full_pipe(&path);
    let name = path.to_str().expect("a temporary path is text");
    check(arm, &format!(">{name}"));
    for log in ["-", name] {
        let script = format!("exec \"$0\" \"$@\" >{name} 2>{name}");
        let flags = ["--demo", "--verbose", "--access-log", log];
        let plan = Plan::new(arm, "http").with(&flags).behind(&["sh", "-c", &script]);
        let (mut server, address) = plan.launch();
        drop(connect(&mut server, address));
        for _ in 0..20 {
            let mut client = Client::new(address);
            client.send("GET /plaintext HTTP/1.0\r\n\r\n");
            assert!(client.rest().starts_with(b"HTTP/1.1 200 OK"), "{log}");
        }
        server.signal(Signal::TERM);
        server.end(PATIENCE).success();
    }
}
