//! The real binary: started, awaited, listened to, stopped. It dies with its handle.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sys::process::{self, Pid};
use sys::seccomp::{self, Rule};
use sys::signal::Signal;

use super::family::{self, Family};
use super::{Client, PATIENCE, eventually, ms};
use crate::arms::Arm;

/// The binary that is tried.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A server to be started.
pub struct Plan<'a> {
    arm: &'a Arm,
    service: &'static str,
    workers: Option<usize>,
    args: Vec<String>,
    /// The program and arguments in front of the binary, which must `exec` what follows.
    before: Vec<String>,
    binary: PathBuf,
    /// Calls that a filter refuses.
    rules: Vec<Rule>,
}

impl<'a> Plan<'a> {
    /// The service on the arm.
    pub fn new(arm: &'a Arm, service: &'static str) -> Plan<'a> {
        let (args, before, rules) = (Vec::new(), Vec::new(), Vec::new());
        Plan { arm, service, workers: arm.workers, args, before, binary: BINARY.into(), rules }
    }

    /// Further arguments.
    pub fn with(mut self, args: &[&str]) -> Plan<'a> {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// The book.
    pub fn data(self, file: &Path) -> Plan<'a> {
        self.with(&["--data", file.to_str().expect("a temporary path is text")])
    }

    /// Another number of workers than the arm's.
    pub fn workers(self, workers: usize) -> Plan<'a> {
        Plan { workers: Some(workers), ..self }
    }

    /// Runs the binary by way of another program, such as a shell that sets a limit.
    pub fn behind(mut self, before: &[&str]) -> Plan<'a> {
        self.before = before.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Runs under a filter that refuses these calls.
    pub fn confined(self, rules: &[Rule]) -> Plan<'a> {
        Plan { rules: rules.to_vec(), ..self }
    }

    /// Runs another file than the binary that was built.
    pub fn binary(self, binary: &Path) -> Plan<'a> {
        Plan { binary: binary.to_owned(), ..self }
    }

    fn command(&self) -> Command {
        let mut words: Vec<String> = self.before.clone();
        words.push(self.binary.to_str().expect("the path of the binary is text").to_owned());
        words.extend(["serve", self.service].map(str::to_owned));
        words.extend(self.arm.flags.iter().map(|&flag| flag.to_owned()));
        if let Some(workers) = self.workers {
            words.extend(["--workers".to_owned(), workers.to_string()]);
            if self.arm.is_hybrid() {
                words.extend(["--threads".to_owned(), workers.min(4).to_string()]);
            }
        }
        words.extend(self.args.iter().cloned());
        if !words.iter().any(|word| word == "--port") {
            words.extend(["--port", "0"].map(str::to_owned));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !self.rules.is_empty() {
            seccomp::confine(&mut command, &self.rules);
        }
        command
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// If it ends instead, with what it said.
    #[track_caller]
    pub fn start(self) -> Server {
        self.announce().0
    }

    /// Starts it, and returns its announcement too.
    ///
    /// # Panics
    /// As [`Plan::start`].
    #[track_caller]
    pub fn announce(self) -> (Server, serde_json::Value) {
        let mut server = self.launch();
        let ready = server.announced();
        let text = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
        server.address = text("listening").parse().expect("`listening` is an address");
        let count = |key: &str| ready[key].as_u64().expect("a number") as usize;
        server.workers = count("workers");
        let most = ready["processes"]["most"].as_u64().map(|most| most as usize);
        server.posts = most.unwrap_or(server.workers) + count("acceptors");
        server.descriptors = server.family().descriptors();
        (server, ready)
    }

    /// Starts it where it is expected to end by itself: waits for that.
    #[track_caller]
    pub fn fail(self) -> Ended {
        self.launch().ended(PATIENCE)
    }

    fn launch(self) -> Server {
        let mut child = self.command().spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("piped above");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The pipe is read on after the test, so that nobody writes into the void.
                let _ = sender.send(line);
            }
        });
        let stderr = child.stderr.take().expect("piped above");
        let words = Arc::new(Mutex::new(Vec::new()));
        let ear = std::thread::spawn({
            let words = Arc::clone(&words);
            move || listen(stderr, &words)
        });
        let pid = Pid::of(child.id() as i32).expect("a child has a number");
        Server {
            child,
            pid,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            workers: 0,
            posts: 0,
            descriptors: 0,
            lines: Mutex::new(lines),
            words,
            ear: Some(ear),
        }
    }
}

/// Collects what comes until the end.
fn listen(mut from: impl Read, words: &Mutex<Vec<u8>>) {
    let mut scratch = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut scratch) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&scratch[..len]);
    }
}

/// A running server.
pub struct Server {
    child: Child,
    /// The supervisor.
    pub pid: Pid,
    /// Where it listens.
    pub address: SocketAddr,
    /// How many workers it says it has.
    pub workers: usize,
    /// How many there are with those that only accept.
    pub posts: usize,
    /// How many descriptors its processes had open before the first connection.
    descriptors: usize,
    lines: Mutex<Receiver<String>>,
    words: Arc<Mutex<Vec<u8>>>,
    ear: Option<JoinHandle<()>>,
}

/// A server that has ended.
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All that it said on stderr.
    pub stderr: String,
}

impl Server {
    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Sends one line on a connection of its own, and returns the line that answers it.
    #[track_caller]
    pub fn ask(&self, request: &str) -> String {
        self.client().ask(request)
    }

    /// The book by `show`, in line framing.
    #[track_caller]
    pub fn show(&self) -> String {
        let mut client = self.client();
        client.send("show\n");
        client.block()
    }

    /// Its processes, now.
    pub fn family(&self) -> Family {
        Family::of(self.pid)
    }

    /// Its worker processes, now; none where workers are threads.
    pub fn children(&self) -> Vec<Pid> {
        family::children(self.pid)
    }

    /// What it has said on stderr so far.
    pub fn said(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&words).into_owned()
    }

    /// Waits until it has said `words`.
    #[track_caller]
    pub fn says(&self, words: &str) {
        let begin = Instant::now();
        while !self.said().contains(words) {
            let said = self.said();
            assert!(begin.elapsed() < PATIENCE, "expected {words:?} on stderr, found {said:?}");
            std::thread::sleep(ms(5));
        }
    }

    /// The next line on stdout: a server is ready.
    #[track_caller]
    fn announced(&self) -> serde_json::Value {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.recv_timeout(PATIENCE).unwrap_or_default();
        serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = self.said();
            panic!("expected a line of JSON when ready, found {line:?}; stderr: {said}")
        })
    }

    /// Waits until a successor is ready and the server before has left, and returns the exit code
    /// of that. From here on this is the successor.
    #[track_caller]
    pub fn succeeded(&mut self) -> Option<i32> {
        let ready = self.announced();
        assert_eq!(ready["listening"], self.address.to_string());
        let (before, after) = (self.pid, ready["pid"].as_i64().and_then(|pid| Pid::of(pid as i32)));
        self.pid = after.expect("`pid` is a number");
        eventually("the server before has left", PATIENCE, || match self.child.try_wait() {
            // A later one is not our child.
            Ok(Some(_)) => !family::is_alive(before),
            _ => false,
        });
        self.child.try_wait().expect("our own child").and_then(|status| status.code())
    }

    /// Stops a successor by `SIGTERM`, waits for its end and returns what all have said.
    #[track_caller]
    pub fn stop_successor(mut self) -> String {
        self.signal(Signal::TERM);
        eventually("the successor ends", PATIENCE, || !family::is_alive(self.pid));
        let ear = self.ear.take().expect("joined here only");
        eventually("the last process has closed stderr", PATIENCE, || ear.is_finished());
        self.said()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        process::kill(self.pid, signal).expect("the server runs");
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(mut self, limit: Duration) -> Ended {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                let ear = self.ear.take().expect("joined here only");
                // Workers hold the pipe too; they die with their supervisor.
                eventually("the last process has closed stderr", PATIENCE, || ear.is_finished());
                return Ended { code: status.code(), stderr: self.said() };
            }
            let said = self.said();
            assert!(begin.elapsed() < limit, "expected an end within {limit:?}; stderr: {said}");
            std::thread::sleep(ms(5));
        }
    }

    /// Stops it by `SIGTERM` and expects a clean end.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        let ended = self.ended(PATIENCE);
        assert_eq!(ended.code, Some(0), "expected a drained stop; stderr: {}", ended.stderr);
        ended
    }

    /// Waits until every connection is closed: as many descriptors are open as in the beginning.
    #[track_caller]
    pub fn settles(&self) {
        self.settles_at(0);
    }

    /// Waits until there are exactly `count` connections, each of which is one descriptor.
    #[track_caller]
    pub fn settles_at(&self, count: usize) {
        let begin = Instant::now();
        loop {
            let (found, base) = (self.family().descriptors(), self.descriptors + count);
            if found == base {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "expected {base} descriptors, found {found}");
            std::thread::sleep(ms(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.pid.number().cast_unsigned() != self.child.id() && family::is_alive(self.pid) {
            let _ = process::kill(self.pid, Signal::KILL);
        }
        let said = self.said();
        if std::thread::panicking() {
            println!("stderr of the server:\n{said}");
        } else {
            // A broken law panics in the worker that saw it.
            assert!(!said.contains("panicked"), "the server panicked: {said}");
        }
    }
}
