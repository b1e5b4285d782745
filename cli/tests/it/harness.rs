//! The basis of the suite: servers on an arm, clients whose every wait has a limit, and control
//! groups that bound a server's memory.

mod cage;
mod client;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit};
use sys::process::Pid;

pub use testkit::procfs::{Family, data_bytes, is_alive, is_stopped, numbers};
pub use testkit::{Ended, Folder, PATIENCE, eventually, free_port, ms, rounds, skip, soak};

pub use cage::Cage;
pub use client::Client;
pub use server::{BINARY, Plan, Server};

/// Bounds a resource of a process of ours; none is no bound.
pub fn limit(pid: Pid, resource: Resource, current: Option<u64>, maximum: Option<u64>) {
    let pid = rustix::process::Pid::from_raw(pid.number());
    let limit = Rlimit { current, maximum };
    rustix::process::prlimit(pid, resource, limit).expect("our own child's limit");
}

/// Raises a flag when it goes out of scope, also by a panic, so that every thread of a test ends.
pub struct Raise<'a>(pub &'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
