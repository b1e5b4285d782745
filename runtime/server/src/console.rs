//! An operator's keys: `d` disconnects the first session, `q` stops the server.
//!
//! A terminal delivers keys as they are pressed, a pipe as bytes. A thread polls for them a few
//! times a second, because a blocking read could not be ended. Dropping the console restores the
//! terminal.

use std::io::{IsTerminal, stdin};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use language::info;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use sys::poll::{PollFd, poll};
use sys::process;
use sys::signal::{self, Signal};

/// The interval at which keys are polled for.
const PERIOD: Duration = Duration::from_millis(50);

/// The hint about keys.
const KEYS: &str = "keys: d disconnects the first session, q stops the server";

/// The keys while a server runs.
pub struct Console {
    over: Arc<AtomicBool>,
    /// The terminal, if there is one.
    keys: Option<Keys>,
}

/// Unbuffered keys without echo; dropping it restores line mode.
pub struct Keys {
    before: Termios,
}

impl Console {
    /// Takes keys on a thread of `scope`; `dismiss` ends the first session and describes that.
    pub fn open<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        dismiss: &'env (dyn Fn() -> String + Sync),
    ) -> Console {
        let console = Console { over: Arc::default(), keys: Keys::take(true) };
        if console.keys.is_some() {
            info!("{KEYS}");
        }
        // A new thread inherits the mask, so signals reach the supervisor.
        let _ = signal::block(&[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2]);
        let over = Arc::clone(&console.over);
        let listener = Builder::new().name("keys".to_owned());
        if let Err(error) = listener.spawn_scoped(scope, move || listen(&over, dismiss)) {
            language::eprintln!("keys are not read: {error}");
        }
        console
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Keys {
    /// Switches line mode and echo off; `None` without a terminal. With `signals`, the keys of
    /// SIGTSTP and SIGQUIT still send them.
    pub fn take(signals: bool) -> Option<Keys> {
        if !stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut during = before.clone();
        during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns at once (termios(3), MIN = TIME = 0).
        during.special_codes[SpecialCodeIndex::VMIN] = 0;
        during.special_codes[SpecialCodeIndex::VTIME] = 0;
        if !signals {
            // No key sends these signals (_POSIX_VDISABLE is 0 on Linux).
            during.special_codes[SpecialCodeIndex::VSUSP] = 0;
            during.special_codes[SpecialCodeIndex::VQUIT] = 0;
        }
        tcsetattr(stdin(), OptionalActions::Now, &during).ok()?;
        Some(Keys { before })
    }

    /// The keys pressed since the last call.
    pub fn pressed(&self) -> Vec<u8> {
        let mut pressed = vec![0; 64];
        let count = rustix::io::read(stdin(), &mut pressed).unwrap_or(0);
        pressed.truncate(count);
        pressed
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // Keys typed meanwhile are discarded, so that the shell does not get them.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Executes the commands of keys until the console is closed or the pipe ends.
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
        b'd' | b'D' => info!("{}", dismiss()),
        // By TERM, so that there is only one way to stop.
        b'q' | b'Q' => drop(process::kill(process::this(), Signal::TERM)),
        b'\n' | b'\r' => {}
        _ => info!("{KEYS}"),
    }
}
