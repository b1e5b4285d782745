//! A server: a process that prints a line of JSON with its address when it is ready.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::procfs::is_alive;
use crate::{Ended, PATIENCE, Process, eventually};

/// A port of loopback for a server that is restarted on it.
pub fn free_port() -> u16 {
    sys::free_port(Ipv4Addr::LOCALHOST.into()).expect("a free port")
}

/// A running server. Dropping the handle kills it, and fails the test if the server panicked.
#[derive(Debug, derive_more::Deref, derive_more::DerefMut)]
pub struct Server {
    #[deref]
    #[deref_mut]
    process: Process,
    /// The supervisor; after a handover, the successor's supervisor.
    pub pid: Pid,
    /// Its address.
    pub address: SocketAddr,
    /// The line that it printed when it was ready.
    pub ready: Value,
}

impl Server {
    /// Starts a server and waits until it is ready.
    #[track_caller]
    pub fn start(command: &mut Command) -> Server {
        Server::start_with(command, Stdio::null())
    }

    /// The same with this standard input.
    #[track_caller]
    pub fn start_with(command: &mut Command, stdin: Stdio) -> Server {
        let process = Process::start_with(command, stdin);
        let ready = announcement(&process)
            .unwrap_or_else(|| panic!("expected a server that is ready: {}", process.said()));
        let listening = ready["listening"].as_str();
        let address = listening.and_then(|text| match text.starts_with("unix:") {
            true => Some(SocketAddr::from(([0; 4], 0))),
            false => text.parse().ok(),
        });
        let address = address.unwrap_or_else(|| panic!("`listening` is an address: {ready}"));
        let pid = process.pid();
        Server { process, pid, address, ready }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sends a signal to the supervisor.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        process::kill(self.pid, signal).expect("the server runs");
    }

    /// Waits until a successor announces itself. Signals go to it from then on.
    #[track_caller]
    pub fn hands_over(&mut self) {
        let ready = announcement(&self.process)
            .unwrap_or_else(|| panic!("expected a successor: {}", self.process.said()));
        assert_eq!(ready["listening"], self.address.to_string());
        let pid = ready["pid"].as_i64().and_then(|pid| Pid::of(pid as i32));
        self.pid = pid.expect("`pid` is a number");
    }

    /// Waits until a successor is ready and its predecessor has left; the predecessor's exit code,
    /// if it is our child.
    #[track_caller]
    pub fn succeeded(&mut self) -> Option<i32> {
        let before = self.pid;
        self.hands_over();
        self.leaves(before)
    }

    /// Waits until the predecessor `before` has left; the exit code of the process that we started,
    /// once it has ended.
    #[track_caller]
    pub fn leaves(&mut self, before: Pid) -> Option<i32> {
        if before != self.process.pid() {
            eventually("the server before has left", PATIENCE, || !is_alive(before));
        }
        self.process.end_of_own(PATIENCE).code()
    }

    /// Waits for the end.
    #[track_caller]
    pub fn ended(mut self, limit: Duration) -> Ended {
        self.process.end(limit)
    }

    /// Drains it by `SIGTERM` and waits for a clean end.
    #[track_caller]
    pub fn stop(mut self) -> Ended {
        self.signal(Signal::TERM);
        if self.pid == self.process.pid() {
            let ended = self.process.end(PATIENCE);
            assert_eq!(ended.code, Some(0), "expected a drained stop: {}", ended.err);
            return ended;
        }
        let pid = self.pid;
        eventually("the successor ends", PATIENCE, || !is_alive(pid));
        self.process.falls_silent();
        self.process.end(PATIENCE)
    }
}

/// The next line on stdout, as JSON; `None` if the process closes stdout before that.
#[track_caller]
fn announcement(process: &Process) -> Option<Value> {
    let line = process.next_line(PATIENCE)?;
    let ready = serde_json::from_str(&line);
    Some(ready.unwrap_or_else(|_| panic!("expected a line of JSON: {}", process.said())))
}

impl Drop for Server {
    fn drop(&mut self) {
        let has_successor = self.pid != self.process.pid();
        self.process.kill();
        if has_successor && is_alive(self.pid) {
            let _ = process::kill(self.pid, Signal::KILL);
        }
        if !std::thread::panicking() {
            // A worker that saw a broken law panicked.
            let err = self.process.err();
            assert!(!err.contains("panicked"), "the server panicked: {err}");
        }
    }
}
