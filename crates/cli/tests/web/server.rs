//! The web server as a child process on any engine, and one of each engine side by side.
//!
//! A server dies with its handle, and nothing here waits longer than [`PATIENCE`].

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::room::Room;

/// The binary that is tried.
const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// How long anything may take that a healthy server does at once, on a machine that has other
/// things to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Server {
    /// What `--engine` was, or what else tells it from others.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// The supervisor, which changes with a hand-over.
    pub pid: Pid,
    child: Child,
    lines: Mutex<Receiver<String>>,
    words: Arc<Mutex<Vec<u8>>>,
    ear: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `site` and the routes of the demonstration, and is ready.
    #[track_caller]
    pub fn open(engine: &str, site: &Room, args: &[&str]) -> Server {
        let folder = site.path().to_str().expect("a temporary path is text");
        let mut command = Command::new(BINARY);
        command.args(["serve", "http", "--demo", "--engine", engine]).args(args);
        if !args.contains(&"--port") {
            command.args(["--port", "0"]);
        }
        command.arg(folder).stdin(Stdio::null());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("it is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The pipe is read on after the test, so that nobody writes into the void.
                let _ = sender.send(line);
            }
        });
        let words = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().expect("it is piped");
        let heard = Arc::clone(&words);
        let ear = std::thread::spawn(move || listen(stderr, &heard));
        let pid = Pid::of(child.id().cast_signed()).expect("a child has a number");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let name = engine.to_owned();
        let mut server =
            Server { name, address, pid, child, lines: Mutex::new(lines), words, ear: Some(ear) };
        server.address = server.announced().0;
        server
    }

    /// The next line on stdout: address and number of a server that is ready.
    #[track_caller]
    fn announced(&self) -> (SocketAddr, Pid) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.recv_timeout(PATIENCE).unwrap_or_default();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = self.said();
            panic!("{}: expected a line of JSON when ready, found {line:?}: {said}", self.name)
        });
        let address = ready["listening"].as_str().and_then(|text| text.parse().ok());
        let pid = ready["pid"].as_i64().and_then(|number| Pid::of(number as i32));
        (address.expect("an address"), pid.expect("a process"))
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it has said on stderr so far.
    pub fn said(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&words).into_owned()
    }

    /// Waits until it has said `words`.
    #[track_caller]
    pub fn says(&self, words: &str) {
        eventually(&format!("{} says {words:?}: {}", self.name, self.said()), || {
            self.said().contains(words)
        });
    }

    /// Its worker processes, now; none where workers are threads.
    pub fn children(&self) -> Vec<Pid> {
        let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mine = |pid: &Pid| parent(*pid) == Some(self.pid.number());
        numbers.filter_map(Pid::of).filter(mine).collect()
    }

    /// Anonymous memory of the supervisor and its workers, in bytes.
    pub fn memory(&self) -> u64 {
        self.children().iter().chain([&self.pid]).filter_map(|pid| anonymous(*pid)).sum()
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        process::kill(self.pid, signal).expect("the server runs");
    }

    /// Waits for a successor, which this is from now on, and for the end of the server before.
    #[track_caller]
    pub fn succeeded(&mut self) {
        let before = self.pid;
        let (address, pid) = self.announced();
        assert_eq!(address, self.address, "a successor listens where its predecessor did");
        self.pid = pid;
        eventually("the server before has left", || {
            // The first one is our child and has to be collected.
            let _ = self.child.try_wait();
            parent(before).is_none()
        });
    }

    /// Whether the server that was started has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops it by `SIGTERM`, waits for the end, and returns what it has said.
    #[track_caller]
    pub fn close(mut self) -> String {
        self.signal(Signal::TERM);
        let ear = self.ear.take().expect("joined here only");
        eventually("the last process has closed stderr", || ear.is_finished());
        let said = self.said();
        assert!(said.contains("stopped after"), "{}: no drained stop: {said}", self.name);
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.pid.number().cast_unsigned() != self.child.id() && parent(self.pid).is_some() {
            let _ = process::kill(self.pid, Signal::KILL);
        }
        let said = self.said();
        if std::thread::panicking() {
            println!("{} said:\n{said}", self.name);
        } else {
            assert!(!said.contains("panicked"), "{} panicked: {said}", self.name);
        }
    }
}

/// A connection, each wait on which has an end.
pub fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Waits until `is_true`.
///
/// # Panics
/// If it does not become true.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < PATIENCE, "expected within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One server of each named engine that this machine has, started side by side.
pub fn servers(site: &Room) -> Vec<Server> {
    let names = engines::PRESETS.iter().map(|preset| preset.name);
    let names: Vec<&str> = names.filter(|name| *name != "uring" || has_uring()).collect();
    std::thread::scope(|scope| {
        let open = |name| scope.spawn(move || Server::open(name, site, &[]));
        let opened: Vec<_> = names.into_iter().map(open).collect();
        opened.into_iter().map(|it| it.join().expect("a server that is ready")).collect()
    })
}

/// Whether the kernel lets us make a ring; says so where it does not.
pub fn has_uring() -> bool {
    // The end of a ring interrupts the thread that made it, so that is one of its own.
    let make = || sys::uring::Uring::new(&sys::uring::Setup::default()).is_ok();
    let found = std::thread::spawn(make).join().unwrap_or(false);
    if !found {
        crate::room::skip("io_uring");
    }
    found
}

/// Does something with each server, a thread for each, and fails where one of them failed.
pub fn each(servers: &[Server], act: impl Fn(&Server) + Sync) {
    std::thread::scope(|scope| {
        let act = &act;
        let begun: Vec<_> = servers.iter().map(|it| (it, scope.spawn(move || act(it)))).collect();
        let ended = begun.into_iter().map(|(server, it)| (&server.name, it.join().is_err()));
        let failed: Vec<&String> = ended.filter(|(_, bad)| *bad).map(|(name, _)| name).collect();
        assert!(failed.is_empty(), "these engines failed: {failed:?}");
    });
}

/// Collects what comes until the end.
fn listen(mut from: impl Read, words: &Mutex<Vec<u8>>) {
    let mut scratch = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut scratch) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&scratch[..len]);
    }
}

/// The parent of a living process (proc_pid_stat(5)); one that waits to be collected has ended.
fn parent(pid: Pid) -> Option<i32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

/// A process's own pages, in bytes (proc_pid_status(5)).
fn anonymous(pid: Pid) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
