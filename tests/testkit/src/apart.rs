//! A server in a separate program, whose client is the same program again. Forking needs a
//! process without a second thread, and the usual harness has several.

use std::env;
use std::net::SocketAddr;
use std::process::{Child, Command};

use engines::{Assets, Control, Server};
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

/// Starts this program again, as the client of the server at `listening`.
pub fn client(listening: SocketAddr) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args([CLIENT, &listening.to_string(), &process::this().to_string()]);
    command.spawn().expect("this program again")
}

/// The address and the process of the server, if this program is the client.
pub fn visited() -> Option<(SocketAddr, Pid)> {
    let words: Vec<String> = env::args().collect();
    let [_, word, address, server] = &words[..] else { return None };
    let server = server.parse().ok().and_then(Pid::of).expect("the number of a process");
    (word == CLIENT).then(|| (address.parse().expect("an address"), server))
}
