//! The processes of a server, as `/proc` shows them: proc_pid_stat(5), proc_pid_fd(5).

use std::fs;
use std::time::Duration;

use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::{PATIENCE, eventually};

/// The supervisor and its children.
pub struct Family(pub Vec<Pid>);

/// Clock ticks in a second (`USER_HZ`, the same on every Linux architecture that we build for).
const TICKS: u64 = 100;

impl Family {
    /// The process and its children, now.
    pub fn of(head: Pid) -> Family {
        let mut members = vec![head];
        members.extend(children(head));
        Family(members)
    }

    /// Stops all of them, as a debugger or a swapping machine would.
    #[track_caller]
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let still = |pid: &Pid| is_stopped(*pid) || !is_alive(*pid);
        eventually("all processes are stopped", PATIENCE, || self.0.iter().all(still));
    }

    /// Continues all of them.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        for &pid in &self.0 {
            // Where each client has a process, one may have ended since.
            let _ = process::kill(pid, signal);
        }
    }

    /// The number of descriptors that are open in all of them.
    pub fn descriptors(&self) -> usize {
        self.0.iter().map(|pid| numbers(*pid).len()).sum()
    }

    /// CPU time used so far; processes that were reaped are not counted.
    pub fn cpu(&self) -> Duration {
        let ticks: u64 = self.0.iter().filter_map(|pid| Some(stat(*pid)?.ticks)).sum();
        Duration::from_millis(ticks * 1000 / TICKS)
    }

    /// Anonymous memory in use, in bytes; pages shared since a fork count in each.
    pub fn memory(&self) -> u64 {
        self.0.iter().filter_map(|pid| status(*pid, "RssAnon:")).sum()
    }
}

/// The children of `parent`, in the order of their numbers.
pub fn children(parent: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<Pid> = numbers
        .filter_map(Pid::of)
        .filter(|pid| stat(*pid).is_some_and(|fields| fields.parent == parent.number()))
        .collect();
    found.sort();
    found
}

/// Whether the process runs. A zombie, which only waits to be reaped, does not; but a killed
/// process whose first thread is a zombie may have others that still accept a connection.
pub fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|fields| fields.state != 'Z' || fields.threads > 1)
}

/// Whether the process is stopped, which takes some time after the signal was sent.
pub fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|fields| fields.state == 'T')
}

/// The numbers of the open descriptors.
pub fn numbers(pid: Pid) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    names.collect()
}

struct Stat {
    state: char,
    parent: i32,
    ticks: u64,
    threads: u64,
}

/// A line of proc_pid_stat(5), read after the name in brackets, which may hold any character.
fn stat(pid: Pid) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        threads: number(17)?,
    })
}

/// Private writable memory, in use or not, in bytes: what `RLIMIT_DATA` bounds.
pub fn data_bytes(pid: Pid) -> Option<u64> {
    status(pid, "VmData:")
}

/// An amount of memory from proc_pid_status(5).
fn status(pid: Pid, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
