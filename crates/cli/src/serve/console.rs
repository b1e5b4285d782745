//! An operator's keys: `d` disconnects the first session, `q` stops the server.
//!
//! On a terminal keys come as they are pressed, from a pipe they come as bytes. A thread looks for
//! them a few times a second instead of sleeping in a read that nobody could end; the terminal is
//! as it was when the console is dropped.

use std::io::{IsTerminal, stdin};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use sys::poll::{PollFd, poll};
use sys::process;
use sys::signal::{self, Signal};

/// Between two looks for keys.
const PERIOD: Duration = Duration::from_millis(50);

/// What they do.
const KEYS: &str = "keys: d disconnects the first session, q stops the server";

/// The keys while the server runs.
pub struct Console {
    over: Arc<AtomicBool>,
    /// The terminal as it was.
    before: Option<Termios>,
}

impl Console {
    /// Takes keys on a thread of `scope`; `dismiss` ends the first session and says what it did.
    pub fn open<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        dismiss: &'env (dyn Fn() -> String + Sync),
    ) -> Console {
        let console = Console { over: Arc::default(), before: quiet() };
        if console.before.is_some() {
            eprintln!("{KEYS}");
        }
        // The thread inherits this; a signal that it took would not be the supervisor's.
        let _ = signal::block(&[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2]);
        let over = Arc::clone(&console.over);
        scope.spawn(move || listen(&over, dismiss));
        console
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(before) = &self.before {
            // What was typed meanwhile is not for the shell.
            let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Lets keys come one by one and unseen; `None` where there is no terminal.
fn quiet() -> Option<Termios> {
    if !stdin().is_terminal() {
        return None;
    }
    let before = tcgetattr(stdin()).ok()?;
    let mut during = before.clone();
    during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    // A read takes what is there and does not wait (termios(3), MIN = TIME = 0).
    during.special_codes[SpecialCodeIndex::VMIN] = 0;
    during.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin(), OptionalActions::Now, &during).ok()?;
    Some(before)
}

/// Obeys keys until the console is closed, or the pipe they come from ends.
fn listen(over: &AtomicBool, dismiss: &(dyn Fn() -> String + Sync)) {
    let terminal = stdin().is_terminal();
    while !over.load(Ordering::Relaxed) {
        let input = stdin();
        let mut ready = [PollFd::new(input.as_fd(), true, false)];
        if poll(&mut ready, Some(PERIOD)).unwrap_or(0) == 0 {
            continue;
        }
        let mut keys = [0; 64];
        let count = rustix::io::read(stdin(), &mut keys).unwrap_or(0);
        if count == 0 && !terminal {
            return;
        }
        keys[..count].iter().for_each(|&key| obey(key, dismiss));
    }
}

fn obey(key: u8, dismiss: &(dyn Fn() -> String + Sync)) {
    match key {
        b'd' | b'D' => eprintln!("{}", dismiss()),
        b'q' | b'Q' => stop(),
        b'\n' | b'\r' => {}
        _ => eprintln!("{KEYS}"),
    }
}

/// As TERM does, so that there is one way to stop.
fn stop() {
    let _ = process::kill(process::this(), Signal::TERM);
}
