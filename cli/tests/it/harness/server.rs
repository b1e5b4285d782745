//! The real binary on an arm: planned, started, awaited, stopped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sys::process::Pid;
use testkit::procfs::{self, Family};
use testkit::{Ended, Folder, PATIENCE, Process, free_port, ms};

use super::Client;
use crate::arms::Arm;

/// The tested binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A server to be started.
pub struct Plan<'a> {
    arm: &'a Arm,
    service: &'static str,
    workers: Option<usize>,
    args: Vec<String>,
    /// The program and arguments before the binary; that program must `exec` the rest.
    before: Vec<String>,
    binary: PathBuf,
    /// The folder of the book, which lasts as long as the server.
    folder: Option<Folder>,
}

impl<'a> Plan<'a> {
    /// The service on the arm.
    pub fn new(arm: &'a Arm, service: &'static str) -> Plan<'a> {
        let (args, before, folder) = (Vec::new(), Vec::new(), None);
        let (workers, binary) = (arm.workers, BINARY.into());
        Plan { arm, service, workers, args, before, binary, folder }
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

    /// Keeps this folder for as long as the server lives.
    pub fn keeping(self, folder: Folder) -> Plan<'a> {
        Plan { folder: Some(folder), ..self }
    }

    /// Overrides the arm's number of workers.
    pub fn workers(self, workers: usize) -> Plan<'a> {
        Plan { workers: Some(workers), ..self }
    }

    /// Runs the binary by way of another program, such as a shell that sets a limit.
    pub fn behind(mut self, before: &[&str]) -> Plan<'a> {
        self.before = before.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Runs another file instead of the built binary.
    pub fn binary(self, binary: &Path) -> Plan<'a> {
        Plan { binary: binary.to_owned(), ..self }
    }

    fn command(&self) -> Command {
        let mut words: Vec<String> = self.before.clone();
        words.push(self.binary.to_str().expect("the path of the binary is text").to_owned());
        words.extend(["serve", self.service].map(str::to_owned));
        words.extend(self.arm.flags.split(' ').map(str::to_owned));
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
        command.args(&words[1..]);
        command
    }

    /// Starts it and waits until it is ready.
    #[track_caller]
    pub fn start(self) -> Server {
        self.announce().0
    }

    /// Starts it, and returns its announcement too.
    #[track_caller]
    pub fn announce(self) -> (Server, serde_json::Value) {
        let server = testkit::Server::start(&mut self.command());
        let ready = server.ready.clone();
        let count = |key: &str| ready[key].as_u64().expect("a number") as usize;
        let workers = count("workers");
        let most = ready["processes"]["most"].as_u64().map(|most| most as usize);
        let entries = most.unwrap_or(workers) + count("acceptors");
        let descriptors = Family::of(server.pid).descriptors();
        let is_elastic = ready["processes"]["policy"].as_str().is_some_and(|it| it != "static");
        let child = procfs::children(server.pid).first().copied().filter(|_| is_elastic);
        let elastic = child.map(|it| [server.pid, it].map(|pid| procfs::numbers(pid).len()));
        let _folder = self.folder;
        (Server { server, workers, posts: entries, descriptors, elastic, _folder }, ready)
    }

    /// Starts it without waiting, and returns its address too.
    #[track_caller]
    pub fn launch(self) -> (Process, SocketAddr) {
        let port = free_port();
        let process = Process::start(&mut self.with(&["--port", &port.to_string()]).command());
        (process, (Ipv4Addr::LOCALHOST, port).into())
    }

    /// Starts a server that must end by itself, and waits for its end.
    #[track_caller]
    pub fn fail(self) -> Ended {
        Process::start(&mut self.command()).end(PATIENCE)
    }
}

/// A running server.
#[derive(derive_more::Deref, derive_more::DerefMut)]
pub struct Server {
    #[deref]
    #[deref_mut]
    server: testkit::Server,
    /// The number of workers that it reports.
    pub workers: usize,
    /// The number of workers and acceptors.
    pub posts: usize,
    /// The open descriptors of its processes before the first connection.
    descriptors: usize,
    /// Those of the supervisor and of a worker process, if processes follow the load.
    elastic: Option<[usize; 2]>,
    _folder: Option<Folder>,
}

impl Server {
    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Sends one line on a separate connection, and returns the line that answers it.
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

    /// Its processes.
    pub fn family(&self) -> Family {
        Family::of(self.pid)
    }

    /// Whether the number of its worker processes follows the load.
    pub fn is_elastic(&self) -> bool {
        self.elastic.is_some()
    }

    /// Its worker processes; none where workers are threads.
    pub fn children(&self) -> Vec<Pid> {
        procfs::children(self.pid)
    }

    /// Drains it by `SIGTERM` and waits for a clean end.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.server.stop()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(self, limit: Duration) -> Ended {
        self.server.ended(limit)
    }

    /// Waits until every connection is closed: as many descriptors are open as in the beginning, in
    /// each process where the number of processes follows the load.
    #[track_caller]
    pub fn settles(&self) {
        self.settles_at(0);
    }

    /// Waits until there are exactly `count` connections, each of which is one descriptor.
    #[track_caller]
    pub fn settles_at(&self, count: usize) {
        let begin = Instant::now();
        loop {
            let family = self.family();
            let base = self.elastic.map(|[head, each]| head + each * (family.0.len() - 1));
            let (found, base) = (family.descriptors(), base.unwrap_or(self.descriptors) + count);
            if found == base {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "expected {base} descriptors, found {found}");
            std::thread::sleep(ms(20));
        }
    }
}
