//! A program on a separate terminal: a pseudo-terminal (pty(7)) whose other end belongs to the
//! test, which sends keys and reads the screen.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::{PATIENCE, Transcript, ms, wait_for};

/// A program and its terminal. The program is killed with its handle.
pub struct Terminal {
    child: Child,
    near: File,
    screen: Transcript,
}

impl Terminal {
    /// Starts the program on a terminal of 40 lines of 120 columns.
    #[track_caller]
    pub fn start(command: &mut Command) -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&near).and_then(|()| unlockpt(&near)).expect("our own terminal");
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&near, size).expect("our own terminal");
        let name = ptsname(&near, Vec::new()).expect("it has a name");
        let far = File::options().read(true).write(true).open(name.to_str().expect("text"));
        let far = far.expect("the program's end");
        let stream = || Stdio::from(far.try_clone().expect("a descriptor"));
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm-256color");
        let child = command.spawn().expect("the program starts");
        let near = File::from(near);
        let screen = Transcript::of(near.try_clone().expect("a descriptor"));
        Terminal { child, near, screen }
    }

    /// Sends keys.
    pub fn press(&mut self, keys: &[u8]) {
        self.near.write_all(keys).expect("the program reads the keys");
    }

    /// Everything on the screen so far, with its escape sequences.
    pub fn shown(&self) -> String {
        self.screen.text()
    }

    /// Waits until `text` is shown at or after byte `from` of [`Terminal::shown`]; returns its end.
    ///
    /// A program that draws whole screens moves the cursor over blanks, so wait for its words one
    /// by one.
    #[track_caller]
    pub fn shows(&self, from: usize, text: &str) -> usize {
        let look = |bytes: &[u8]| {
            let shown = String::from_utf8_lossy(bytes);
            let at = shown.get(from..).unwrap_or_default().find(text)?;
            Some(from + at + text.len())
        };
        self.screen.wait(PATIENCE, look).unwrap_or_else(|| {
            panic!("expected {text:?} in {:?}", self.shown().get(from..));
        })
    }

    /// Whether the terminal is in its usual mode: echo, whole lines, signals from keys.
    pub fn is_usual(&self) -> bool {
        let modes = tcgetattr(&self.near).expect("our own terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Sends a signal to the program.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::of(self.child.id().cast_signed()).expect("a child has a number");
        process::kill(pid, signal).expect("the program runs");
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let status = wait_for("the program ends", PATIENCE, || {
            self.child.try_wait().expect("our own child")
        });
        assert!(self.is_usual(), "the terminal's mode is restored");
        // Its last words may still be on their way; another program may keep the terminal open.
        self.screen.wait_for_end(ms(500));
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
