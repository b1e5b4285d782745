//! A program on a terminal of its own: a pseudo-terminal (pty(7)) whose other end the test types at
//! and looks at.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// How long anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program and the person in front of it. Dropping it kills the program.
pub struct Terminal {
    /// The program.
    pub child: Child,
    near: File,
    screen: Arc<Mutex<Vec<u8>>>,
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

    /// Types.
    pub fn press(&mut self, keys: &[u8]) {
        self.near.write_all(keys).expect("somebody reads the keys");
    }

    /// All that was shown, as it came.
    pub fn shown(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen).into_owned()
    }

    /// Waits until `text` is shown at or behind byte `from` of [`Terminal::shown`]; where it ends.
    ///
    /// Who draws a whole screen jumps over blanks, so words of such are awaited one by one.
    #[track_caller]
    pub fn shows(&self, from: usize, text: &str) -> usize {
        let begin = Instant::now();
        loop {
            let shown = self.shown();
            let fresh = shown.get(from..).unwrap_or_default();
            if let Some(at) = fresh.find(text) {
                return from + at + text.len();
            }
            assert!(begin.elapsed() < PATIENCE, "expected {text:?} in {fresh:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether keys are echoed, wait for the end of a line, and can interrupt.
    pub fn is_usual(&self) -> bool {
        let modes = tcgetattr(&self.near).expect("our own terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for the end of the program, which leaves the terminal as it was before.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "expected an end: {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(self.is_usual(), "as it was before");
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
