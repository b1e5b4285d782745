//! What the tests stand on: a directory, a server in it, programs that are run to their end.
//! Nothing here can hang: each wait has an end.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use engines::{Crowd, PRESETS, Preset, Wait};
use sys::process::{self, Pid};
use sys::signal::Signal;

/// The binary that is tried.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");
/// How long anything may take that goes at once on a machine at rest.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a test under every engine that this machine can run.
pub fn each_engine(test: impl Fn(&Preset)) {
    for preset in PRESETS {
        if matches!(preset.wait, Wait::Uring | Wait::Port) && !has_uring() {
            skip("io_uring");
            continue;
        }
        println!("engine {}", preset.name);
        test(preset);
    }
}

/// Whether a few clients are served at one time on any machine.
pub fn serves_many(preset: &Preset) -> bool {
    let workers = match preset.crowd {
        Crowd::Connections => usize::MAX,
        Crowd::Fixed(workers) => workers,
        Crowd::Cores | Crowd::TwiceCores => 1,
    };
    preset.wait != Wait::Blocking || workers > 3
}

fn has_uring() -> bool {
    // The end of a ring interrupts the thread that made it, so that is one of its own.
    let make = || sys::uring::Uring::new(&sys::uring::Setup::default()).is_ok();
    std::thread::spawn(make).join().unwrap_or(false)
}

/// Says that something cannot be tried on this machine; `what` has a row in `tests/skips.toml`.
pub fn skip(what: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/skips.toml");
    let rows = fs::read_to_string(path).expect("the list of skips");
    let row = format!("what = \"{what}\"");
    assert!(rows.lines().any(|line| line == row), "expected a row {row} in tests/skips.toml");
    println!("skipped: {what}");
}

/// Waits until `is_true`.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < PATIENCE, "expected within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory that goes away with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("roundhouse-course-{}-{serial}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary directory");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self, name: &str) -> String {
        fs::read(self.0.join(name)).map_or(String::new(), |b| String::from_utf8_lossy(&b).into())
    }

    fn create(&self, name: &str) -> File {
        File::create(self.0.join(name)).expect("a temporary file")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// This program under one of the course's names.
pub fn called(name: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg0(name);
    command
}

/// A program that has ended.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A program that runs. It dies with its handle.
pub struct Running {
    child: Child,
    folder: Folder,
}

impl Running {
    /// Starts it with this standard input.
    pub fn start(command: &mut Command, input: &str) -> Running {
        let folder = Folder::new();
        command.stdin(Stdio::piped());
        command.stdout(folder.create("out")).stderr(folder.create("err"));
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped above");
        // Less than a pipe holds, so nobody waits; who does not read it has ended.
        assert!(input.len() < 60_000);
        let _ = stdin.write_all(input.as_bytes());
        Running { child, folder }
    }

    pub fn pid(&self) -> Pid {
        Pid::of(self.child.id() as i32).expect("a child has a number")
    }

    pub fn out(&self) -> String {
        self.folder.text("out")
    }

    pub fn err(&self) -> String {
        self.folder.text("err")
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                return Ran { code: status.code(), out: self.out(), err: self.err() };
            }
            let (out, err) = (self.out(), self.err());
            assert!(begin.elapsed() < PATIENCE, "no end within {PATIENCE:?}: {out}\n{err}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
#[track_caller]
pub fn run(command: &mut Command, input: &str) -> Ran {
    Running::start(command, input).end()
}

/// A `stockserver` in a directory with a `stock.txt`.
pub struct Server {
    server: Running,
    folder: Folder,
    pub port: u16,
}

impl Server {
    /// Starts it on a free port.
    #[track_caller]
    pub fn open(book: &str, args: &[&str]) -> Server {
        let folder = Folder::new();
        fs::write(folder.path().join("stock.txt"), book).expect("a temporary file");
        let mut command = called("stockserver");
        command.arg("0").args(args).current_dir(folder.path());
        let mut server = Running::start(&mut command, "");
        let begin = Instant::now();
        let ready = loop {
            if let Some((line, _)) = server.out().split_once('\n') {
                break line.to_owned();
            }
            let ended = server.child.try_wait().expect("our own child").is_some();
            let said = server.err();
            assert!(!ended && begin.elapsed() < PATIENCE, "the server is not ready: {said}");
            std::thread::sleep(Duration::from_millis(5));
        };
        let ready: serde_json::Value = serde_json::from_str(&ready).expect("a line of JSON");
        let listening = ready["listening"].as_str().expect("`listening` is a text");
        let (_, port) = listening.rsplit_once(':').expect("an address");
        let port = port.parse().expect("a port");
        Server { server, folder, port }
    }

    /// As [`Server::open`], on this engine.
    #[track_caller]
    pub fn on(preset: &Preset, book: &str) -> Server {
        Server::open(book, &["--engine", preset.name])
    }

    /// What it has said on stderr.
    pub fn said(&self) -> String {
        self.server.err()
    }

    /// A program of the course with this server's place as arguments.
    pub fn command(&self, name: &str) -> Command {
        let mut command = called(name);
        command.args(["127.0.0.1", &self.port.to_string()]);
        command
    }

    /// Runs `stockclient` on these lines.
    #[track_caller]
    pub fn stockclient(&self, input: &str) -> Ran {
        run(&mut self.command("stockclient"), input)
    }

    /// The file, now.
    pub fn book(&self) -> String {
        self.folder.text("stock.txt")
    }

    /// Waits until the file holds exactly this.
    #[track_caller]
    pub fn keeps(&self, book: &str) {
        let begin = Instant::now();
        loop {
            let found = self.book();
            if found == book {
                return;
            }
            let said = self.said();
            let said = &said[said.len().saturating_sub(500)..];
            assert!(begin.elapsed() < PATIENCE, "expected {book}found {found}the server: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it, expects a clean end, and returns the file as it is then.
    #[track_caller]
    pub fn close(self) -> String {
        let Server { server, folder, .. } = self;
        process::kill(server.pid(), Signal::TERM).expect("the server runs");
        let ended = server.end();
        assert_eq!(ended.code, Some(0), "expected a drained stop: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        folder.text("stock.txt")
    }
}
