//! The server under trial as a process: limited, watched, and gone at the end.
//!
//! A thread watches its process group and kills it at limits of time, memory, threads. Its outputs
//! go into two files of limited size, so that it never waits for a reader.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use lab::server::Process;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use stats::words;

/// Limits of each process (getrlimit(2)): virtual memory, for the stacks of a thousand threads with
/// 8 MiB each; seconds of CPU time; files, its output too; descriptors for a thousand clients.
const LIMITS: [(Resource, u64); 5] = [
    (Resource::As, 32 << 30),
    (Resource::Core, 0),
    (Resource::Cpu, 120),
    (Resource::Fsize, 256 << 20),
    (Resource::Nofile, 4096),
];
/// Threads of all processes, and bytes of anonymous memory of one: forks share theirs.
const THREADS_MAX: u64 = 4096;
const MEMORY_MAX: u64 = 1 << 30;
/// The unit of proc_pid_statm(5), in bytes; some kernels have larger pages.
const PAGE: u64 = 4096;
/// How often the watch looks. Each look reads a file of every process of the machine.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Confined {
    pub(crate) process: Process,
    /// The limit that the watch found exceeded.
    exceeded: Arc<OnceLock<String>>,
    /// The watch ends when this is dropped.
    _watched: Sender<()>,
}

/// A process of the group (proc_pid_stat(5)).
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) is_zombie: bool,
    pub(crate) threads: u64,
    pub(crate) anonymous_bytes: u64,
}

impl Confined {
    /// Starts a command line in `folder`, to be killed after `time`; its outputs go to `outputs`.
    pub(crate) fn start(
        line: &[String],
        folder: &Path,
        outputs: &Path,
        time: Duration,
    ) -> Result<Confined, String> {
        let process = Process::start_with(line, None, outputs, "server", |command| {
            command.current_dir(folder);
            sys::process::end_with_parent(command, sys::signal::Signal::KILL);
        })?;
        let group = process.pid();
        for (resource, most) in LIMITS {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            // A lower limit of ours stays.
            let _ = prlimit(Some(group), resource, limit);
        }
        let exceeded = Arc::new(OnceLock::new());
        let (_watched, watched) = mpsc::channel();
        let (why, end) = (exceeded.clone(), Instant::now() + time);
        thread::spawn(move || {
            while watched.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let late = Instant::now() > end;
                let found = late.then(|| format!("not done after {}", words::span(time)));
                if let Some(found) = found.or_else(|| excess(&members(group))) {
                    let _ = why.set(found);
                    let _ = kill_process_group(group, Signal::KILL);
                    return;
                }
            }
        });
        Ok(Confined { process, exceeded, _watched })
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        members(self.process.pid())
    }

    /// Sends a signal to the whole group, as Ctrl-C on a terminal does.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.process.pid(), signal);
    }

    /// Its end in words, with the usual cause and the end of its output; `None` while it runs.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        let status = self.process.status()?;
        let said = last_words(&self.process.output(), &self.process.errors());
        let how = match self.exceeded.get() {
            Some(limit) => format!("was killed: {limit}"),
            None => ending(status, &said),
        };
        let said = if said.is_empty() { said } else { format!("; it wrote: {said}") };
        Some(how + &said)
    }
}

/// The last lines of a program: its errors, the first of a build before them, or its output.
fn last_words(output: &str, errors: &str) -> String {
    let text = if errors.trim_ascii().is_empty() { output } else { errors };
    let first = text.lines().map(str::trim).find(|line| line.contains("error: "));
    let text = String::from_utf8_lossy(&text.as_bytes()[text.len().saturating_sub(400)..]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    let first = first.filter(|line| !last.contains(line));
    first.into_iter().chain(last.iter().copied()).collect::<Vec<_>>().join(" / ")
}

/// An end and its usual cause.
fn ending(status: ExitStatus, said: &str) -> String {
    use sys::signal::Signal;
    let signal = status.signal().map(Signal::of);
    let cause = match signal {
        Some(Signal::PIPE) => ": it wrote to a client that had left; ignore SIGPIPE",
        _ if said.contains("Interrupted system call") => {
            ": a call that a signal interrupts (EINTR) must be repeated"
        }
        _ if ["Connection reset", "Broken pipe"].iter().any(|error| said.contains(error)) => {
            ": the wrappers of csapp.c end the program at an error of one client"
        }
        _ => "",
    };
    match signal {
        Some(signal) => format!("was killed by {signal}{cause}"),
        None => format!("ended with exit code {}{cause}", status.code().unwrap_or_default()),
    }
}

/// The limit that a group exceeds.
fn excess(members: &[Member]) -> Option<String> {
    let is_large = members.iter().any(|member| member.anonymous_bytes > MEMORY_MAX);
    let threads: u64 = members.iter().map(|member| member.threads).sum();
    let memory = is_large.then(|| format!("more than {} MiB in a process", MEMORY_MAX >> 20));
    memory.or_else(|| (threads > THREADS_MAX).then(|| format!("more than {THREADS_MAX} threads")))
}

fn members(group: Pid) -> Vec<Member> {
    let read = |pid: u32| {
        let stat = meter::proc::stat(pid)?;
        if stat[5] != u64::from(group.as_raw_nonzero().get().unsigned_abs()) {
            return None;
        }
        let pages = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let pages: Vec<u64> = pages.split(' ').filter_map(|word| word.parse().ok()).collect();
        let anonymous_bytes = pages.get(1)?.saturating_sub(*pages.get(2)?) * PAGE;
        let is_zombie = stat[3] == u64::from(b'Z');
        Some(Member { pid, is_zombie, threads: stat[20], anonymous_bytes })
    };
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_with_its_usual_cause() {
        let told = |status, said| ending(ExitStatus::from_raw(status), said);
        assert!(told(13, "").contains("killed by SIGPIPE: it wrote"));
        assert!(told(256, "accept: Interrupted system call").contains("exit code 1: a call that"));
        assert!(told(256, "Rio_readlineb error: Connection reset by peer").contains("csapp.c"));
        assert_eq!(last_words("1\n2\n\n 3 \n4\n", "\n"), "2 / 3 / 4");
        let build = "a.c:3: error: no `x`\n1\n2\nmake: *** [a] Error 1\n";
        assert_eq!(
            last_words("cc a.c\n", build),
            "a.c:3: error: no `x` / 1 / 2 / make: *** [a] Error 1"
        );
    }

    #[test]
    fn limits_are_of_the_group_or_of_a_process() {
        let member = Member { pid: 1, is_zombie: false, threads: 2000, anonymous_bytes: 1 << 20 };
        let large = Member { anonymous_bytes: 3 << 30, ..member };
        assert_eq!(excess(&[member; 2]), None);
        assert_eq!(excess(&[member; 3]).as_deref(), Some("more than 4096 threads"));
        assert_eq!(excess(&[large]).as_deref(), Some("more than 1024 MiB in a process"));
    }
}
