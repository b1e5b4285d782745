//! Programs that we have not written: found or not, run to an end, with all that they said.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::room::skip;
use crate::server::PATIENCE;

/// What a program has said.
pub struct Said {
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
    /// Whether its exit code was 0.
    pub ok: bool,
}

impl Said {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// Whether a program is on the path; says that it is skipped where it is not.
pub fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers where only root looks.
    let places = std::env::split_paths(&folders).chain(["/usr/sbin".into()]);
    let found = places.map(|folder| folder.join(program)).any(|path| path.is_file());
    if !found {
        skip(program);
    }
    found
}

/// Runs a command to its end.
///
/// # Panics
/// If it cannot be started or takes longer than [`PATIENCE`], with what it said.
#[track_caller]
pub fn run(command: &mut Command) -> Said {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = collect(child.stdout.take().expect("it is piped"));
    let err = collect(child.stderr.take().expect("it is piped"));
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            break status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            let err = String::from_utf8_lossy(&err.join().expect("a reader")).into_owned();
            panic!("expected an end within {PATIENCE:?}: {command:?}: {err}");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let out = out.join().expect("a reader of a pipe");
    let err = String::from_utf8_lossy(&err.join().expect("a reader of a pipe")).into_owned();
    Said { out, err, ok: status.success() }
}

/// Runs a command that has to succeed.
#[track_caller]
pub fn done(command: &mut Command) -> Said {
    let said = run(command);
    assert!(said.ok, "{command:?} failed: {}{}", said.err, said.text());
    said
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        // What came before an error is as much as anybody can know.
        let _ = from.read_to_end(&mut all);
        all
    })
}

/// A program that runs beside the test and is killed with its guard.
pub struct Beside(pub Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
