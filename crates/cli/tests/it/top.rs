//! `roundhouse top` on a terminal of its own, and as a line of JSON.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::arms::{EPOLL, PREFORK};
use crate::harness::{BINARY, Folder, PATIENCE, eventually};
use crate::market::book;

/// `top` on a terminal, and who looks at it.
struct Terminal {
    child: Child,
    near: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(args: &[&str]) -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&near).and_then(|()| unlockpt(&near)).expect("our own terminal");
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&near, size).expect("our own terminal");
        let name = ptsname(&near, Vec::new()).expect("it has a name");
        let far = File::options().read(true).write(true).open(name.to_str().expect("text"));
        let far = far.expect("the program's end");
        let stream = || Stdio::from(far.try_clone().expect("a descriptor"));
        let mut command = Command::new(BINARY);
        command.arg("top").args(args).env("TERM", "xterm-256color");
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let child = command.spawn().expect("the binary starts");
        let (near, screen) = (File::from(near), Arc::new(Mutex::new(Vec::new())));
        let (mut eye, seen) = (near.try_clone().expect("a descriptor"), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut scratch = [0; 4096];
            // The end is told as an error (EIO) when the program has gone.
            while let Ok(count @ 1..) = eye.read(&mut scratch) {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&scratch[..count]);
            }
        });
        Terminal { child, near, screen }
    }

    fn shown(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen).into_owned()
    }

    /// Blanks are jumped over, not drawn, so words are awaited one by one.
    #[track_caller]
    fn shows(&self, words: &[&str]) {
        for word in words {
            let what = format!("{word:?} on the screen");
            eventually(&what, PATIENCE, || self.shown().contains(word));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.near.write_all(keys).expect("somebody reads the keys");
    }

    fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        eventually("it ends", PATIENCE, || {
            code = self.child.try_wait().expect("our own child");
            code.is_some()
        });
        let modes = tcgetattr(&self.near).expect("our own terminal").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "as it was before");
        code.and_then(|status| status.code())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top(args: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("top").args(args).stdin(Stdio::null()).output().expect("the binary starts")
}

#[test]
fn it_shows_a_server_and_drains_it_by_a_key() {
    let folder = Folder::new();
    let server = PREFORK.stock(&folder.file("stock.txt", book(3, 1000))).workers(2).start();
    let mut terminal = Terminal::start(&[&server.pid.to_string(), "--interval", "100ms"]);
    terminal.shows(&["\x1b[?1049h", "stock", "prefork", "ready", "accepted", "reload"]);
    assert_eq!(server.ask("sell 1 1"), "[sell] success");
    // The answer, the connection: counts of the table.
    terminal.press(b"s");
    terminal.shows(&["requests"]);
    // Any other key than y is no.
    terminal.press(b"d");
    terminal.shows(&["server?"]);
    terminal.press(b"n");
    terminal.press(b"r");
    terminal.shows(&["nothing"]);
    terminal.press(b"dy");
    assert_eq!(server.ended(PATIENCE).code, Some(0), "drained");
    assert_eq!(terminal.ended(), Some(0));
    let shown = terminal.shown();
    let (_, after) = shown.rsplit_once("\x1b[?1049l").expect("the screen is given back");
    assert!(after.contains("the server has ended"), "{after}");
}

#[test]
fn it_leaves_a_server_alone_when_it_leaves() {
    let folder = Folder::new();
    let mut server = EPOLL.stock(&folder.file("stock.txt", book(3, 1000))).start();
    let mut terminal = Terminal::start(&[&server.pid.to_string()]);
    terminal.shows(&["epoll", "leave"]);
    terminal.press(b"q");
    assert_eq!(terminal.ended(), Some(0));
    assert!(server.is_running());
    server.stop();
}

#[test]
fn one_sample_as_json() {
    let folder = Folder::new();
    let server = EPOLL.stock(&folder.file("stock.txt", book(3, 1000))).start();
    let pid = server.pid.to_string();
    let output = top(&[&pid, "--once", "--json", "--interval", "100ms"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["service"], &told["pid"]), (&"stock".into(), &server.pid.number().into()));
    assert_eq!(told["shape"]["engine"], "epoll");
    assert_eq!(told["cost"]["processes"], 1);
    assert!(told["between"]["window_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1));
    let plain = String::from_utf8(top(&[&pid, "--once"]).stdout).expect("text");
    assert!(plain.contains("stock on epoll") && plain.contains("board        _"), "{plain}");
    server.stop();
    let nobody = top(&[&pid, "--once"]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(nobody.status.code() == Some(1) && said.contains("found nobody"), "{said}");
}

#[test]
fn without_a_terminal_it_says_what_to_say() {
    let folder = Folder::new();
    let server = EPOLL.stock(&folder.file("stock.txt", book(3, 1000))).start();
    let output = top(&[&server.pid.to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("--once"), "{said}");
    server.stop();
}

#[test]
fn an_address_or_a_path_of_ones_own() {
    let folder = Folder::new();
    let data = folder.file("stock.txt", book(3, 1000));
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "127.0.0.1:0"]).announce();
    let place = ready["admin"].as_str().expect("an address");
    assert!(place.starts_with("http://127.0.0.1:"), "{place}");
    let told = String::from_utf8(top(&[place, "--once"]).stdout).expect("text");
    assert!(told.contains("stock on epoll"), "{told}");
    server.stop();
    let path = folder.path().join("own.sock");
    let path = path.to_str().expect("text");
    let server = EPOLL.stock(&data).with(&["--admin", path]).start();
    let told = String::from_utf8(top(&[path, "--once"]).stdout).expect("text");
    assert!(told.contains("stock on epoll"), "{told}");
    let second = EPOLL.stock(&data).with(&["--admin", path]).fail();
    assert!(second.code == Some(2) && second.stderr.contains("somebody"), "{}", second.stderr);
    server.stop();
    let (server, ready) = EPOLL.stock(&data).with(&["--admin", "none"]).announce();
    assert_eq!(ready["admin"], Value::Null);
    server.stop();
    let open = EPOLL.stock(&data).with(&["--admin", "0.0.0.0:0"]).fail();
    assert!(open.code == Some(2) && open.stderr.contains("--admin-anywhere"), "{}", open.stderr);
}
