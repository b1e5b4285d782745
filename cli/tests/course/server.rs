//! The programs of the course, and a `stockserver` in a separate folder.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use engines::{Preset, Wait, WorkerCount};
use testkit::{Ended, Folder, PATIENCE, Process, eventually};

/// The tested binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// Runs a test on every engine that this machine has.
pub fn each_engine(test: impl Fn(&Preset)) {
    for preset in testkit::presets() {
        println!("engine {}", preset.name);
        test(preset);
    }
}

/// Whether the engine serves a few clients at once on any machine.
pub fn serves_many(preset: &Preset) -> bool {
    let workers = match preset.count {
        WorkerCount::Connections => usize::MAX,
        WorkerCount::Fixed(workers) => workers,
        WorkerCount::Cores | WorkerCount::TwiceCores => 1,
    };
    preset.wait != Wait::Blocking || workers > 3
}

/// The binary under one of the course's names.
pub fn called(name: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg0(name);
    command
}

/// Starts a program with this standard input.
#[track_caller]
pub fn start(command: &mut Command, input: &str) -> Process {
    let mut process = Process::start_with(command, Stdio::piped());
    let mut stdin = process.stdin().expect("piped above");
    // The input fits into the pipe, so the write does not block; it fails if the program has ended.
    assert!(input.len() < 60_000);
    let _ = stdin.write_all(input.as_bytes());
    process
}

/// Runs a program to its end.
#[track_caller]
pub fn run(command: &mut Command, input: &str) -> Ended {
    start(command, input).end(PATIENCE)
}

/// A `stockserver` in a folder with a `stock.txt`.
#[derive(derive_more::Deref, derive_more::DerefMut)]
pub struct Server {
    #[deref]
    #[deref_mut]
    server: testkit::Server,
    folder: Folder,
}

impl Server {
    /// Starts it on a free port.
    #[track_caller]
    pub fn open(book: &str, args: &[&str]) -> Server {
        let folder = Folder::new();
        folder.file("stock.txt", book);
        let mut command = called("stockserver");
        command.arg("0").args(args).current_dir(folder.path());
        Server { server: testkit::Server::start(&mut command), folder }
    }

    /// As [`Server::open`], on this engine.
    #[track_caller]
    pub fn on(preset: &Preset, book: &str) -> Server {
        Server::open(book, &["--engine", preset.name])
    }

    /// A program of the course with this server's address as arguments.
    pub fn command(&self, name: &str) -> Command {
        let mut command = called(name);
        command.args(["127.0.0.1", &self.port().to_string()]);
        command
    }

    /// Runs `stockclient` on these lines.
    #[track_caller]
    pub fn stockclient(&self, input: &str) -> Ended {
        run(&mut self.command("stockclient"), input)
    }

    /// The file, now.
    pub fn book(&self) -> String {
        self.folder.text("stock.txt")
    }

    /// Waits until the file holds exactly this.
    #[track_caller]
    pub fn keeps(&self, book: &str) {
        eventually(&format!("{book} in the file"), PATIENCE, || self.book() == book);
    }

    /// Stops it and returns the file.
    #[track_caller]
    pub fn close(self) -> String {
        self.server.stop();
        self.folder.text("stock.txt")
    }
}
