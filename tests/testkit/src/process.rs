//! A child process whose output is collected. Dropping its handle kills it.
//!
//! Two threads per child collect stdout and stderr from the start, so a chatty child never blocks
//! on a full pipe. Waiting is for a line, for words or for the end, each with a limit, and never
//! for a fixed time. A failed expectation prints the command line and everything that the child
//! wrote.

use std::fmt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::{PATIENCE, Transcript, ms};

/// A running program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The command line, for messages.
    line: String,
    out: Transcript,
    err: Transcript,
    /// Bytes of stdout that [`Process::next_line`] has returned.
    taken: AtomicUsize,
}

/// A program that has ended.
#[derive(Clone)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Everything on stdout, as text.
    pub out: String,
    /// Everything on stdout.
    pub bytes: Vec<u8>,
    /// Everything on stderr.
    pub err: String,
}

/// Runs a program to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    Process::start(command).end(PATIENCE)
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {:?}\nstdout: {}\nstderr: {}", self.code, self.out, self.err)
    }
}

impl Ended {
    /// Expects exit code 0.
    #[track_caller]
    pub fn success(self) -> Ended {
        self.exits(0)
    }

    /// Expects this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "expected exit code {code}, found {self:?}");
        self
    }

    /// Expects exit code 0 of `roundhouse load`, or 98: a busy machine makes its times invalid, but
    /// not its replies.
    #[track_caller]
    pub fn loaded(self) -> Ended {
        assert!(matches!(self.code, Some(0 | 98)), "expected exit code 0 or 98, found {self:?}");
        self
    }

    /// Expects `words` on stderr.
    #[track_caller]
    pub fn says(self, words: &str) -> Ended {
        assert!(self.err.contains(words), "expected {words:?}, found {self:?}");
        self
    }
}

impl Process {
    /// Starts a program without input.
    #[track_caller]
    pub fn start(command: &mut Command) -> Process {
        Process::start_with(command, Stdio::null())
    }

    /// Starts a program with this standard input.
    #[track_caller]
    pub fn start_with(command: &mut Command, stdin: Stdio) -> Process {
        let line = format!("{command:?}");
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        let out = Transcript::of(child.stdout.take().expect("piped above"));
        let err = Transcript::of(child.stderr.take().expect("piped above"));
        Process { child, line, out, err, taken: AtomicUsize::new(0) }
    }

    /// Its standard input, if that is a pipe and was not taken before.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::of(self.child.id().cast_signed()).expect("a child has a number")
    }

    /// Everything on stdout so far.
    pub fn out(&self) -> String {
        self.out.text()
    }

    /// Everything on stderr so far.
    pub fn err(&self) -> String {
        self.err.text()
    }

    /// Everything so far, for messages.
    pub fn said(&self) -> String {
        format!("{}\nstdout: {}\nstderr: {}", self.line, self.out(), self.err())
    }

    /// Waits for the next line on stdout; `None` if the program closes stdout or says nothing
    /// within `limit`.
    pub fn next_line(&self, limit: Duration) -> Option<String> {
        let from = self.taken.load(Ordering::Relaxed);
        let (line, len) = self.out.wait(limit, |bytes| {
            let rest = &bytes[from..];
            let len = rest.iter().position(|&byte| byte == b'\n')?;
            Some((String::from_utf8_lossy(&rest[..len]).into_owned(), len))
        })?;
        self.taken.store(from + len + 1, Ordering::Relaxed);
        Some(line)
    }

    /// Waits until stderr contains `words`.
    #[track_caller]
    pub fn says(&self, words: &str) {
        assert!(self.says_within(words, PATIENCE), "expected {words:?} on stderr: {}", self.said());
    }

    /// Waits until stderr contains `words`; false if it ends or the time is over before that.
    pub fn says_within(&self, words: &str, limit: Duration) -> bool {
        let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(words).then_some(());
        self.err.wait(limit, has).is_some()
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        process::kill(self.pid(), signal).expect("the program runs");
    }

    /// Its exit status, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child")
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// Waits until it has ended, and every process that shares its pipes.
    #[track_caller]
    pub fn end(&mut self, limit: Duration) -> Ended {
        let status = self.end_of_own(limit);
        // Its own children may hold the pipes a moment longer.
        self.falls_silent();
        let (bytes, err) = (self.out.bytes(), self.err());
        Ended { code: status.code(), out: String::from_utf8_lossy(&bytes).into(), bytes, err }
    }

    /// Waits until it has ended, even if another process holds its pipes.
    #[track_caller]
    pub(crate) fn end_of_own(&mut self, limit: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            if begin.elapsed() > limit {
                panic!("expected an end within {limit:?}: {}", self.said());
            }
            std::thread::sleep(ms(2));
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the last holder of its pipes has closed them.
    #[track_caller]
    pub(crate) fn falls_silent(&self) {
        let has_ended = self.err.wait_for_end(PATIENCE) && self.out.wait_for_end(PATIENCE);
        assert!(has_ended, "expected the last process to close its pipes: {}", self.said());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("{}", self.said());
        }
    }
}
