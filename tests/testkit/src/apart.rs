//! A server in a separate program, whose client is the same program again. Forking needs a
//! process without a second thread, and the usual harness has several.

use std::env;
use std::net::SocketAddr;
use std::process::Command;

use engines::{Admin, Assets, Control, NoStateStore, Report, Server, Shape, Started};
use seam::Service;
use sys::process::{self, Pid};

use crate::in_process;

/// The word by which the program knows that it is the client.
const CLIENT: &str = "client";

/// A quiet server on a free port of this machine, which signals stop.
pub fn server<'a, S: Service>(
    parts: (&'a S, &'a S::State, &'a Assets),
    control: &'a Control,
) -> Server<'a, S> {
    in_process::server(parts, control, true)
}

/// Runs `server` until its client, this program again, has stopped it, and returns its report.
///
/// # Panics
/// If the server cannot run, or the client fails.
pub fn run<S: Service>(server: &Server<'_, S>, shape: &Shape) -> Report {
    let mut client = None;
    let mut ready = |started: &Started| {
        let address = started.listening.net().expect("an Internet address");
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args([CLIENT, &address.to_string(), &process::this().to_string()]);
        client = Some(command.spawn().expect("this program again"));
    };
    let report = engines::run(server, shape, &mut NoStateStore, Admin::default(), &mut ready);
    let report = report.expect("the server stands");
    let status = client.expect("the server was ready").wait().expect("our own child");
    assert!(status.success(), "{shape}: the client failed: {status}");
    report
}

/// The address and the process of the server, if this program is the client.
pub fn visited() -> Option<(SocketAddr, Pid)> {
    let words: Vec<String> = env::args().collect();
    let [_, word, address, server] = &words[..] else { return None };
    let server = server.parse().ok().and_then(Pid::of).expect("the number of a process");
    (word == CLIENT).then(|| (address.parse().expect("an address"), server))
}
