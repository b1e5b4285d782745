//! The live view of a load: on a terminal a screen, elsewhere plain lines.
//!
//! It runs on its own thread and reads the snapshots that the generator's threads publish on a
//! [`Board`], which is its only cost to them. It draws on stderr, so that stdout holds only the
//! report. Ctrl-C still sends its signal, so that a generator that hangs can be ended like any
//! other program. Only the keys that would leave the screen in disorder (Ctrl-Z, Ctrl-\) are off
//! while it is shown.
//!
//! | file | what |
//! |---|---|
//! | `view.rs` | the state of the run, from beats |
//! | `draw.rs` | the same as a screen |

mod draw;
mod view;

use crate::screen::{self, Screen};
use language::info;
use language::level::{is_quiet, is_verbose};
use load::Plan;
use load::snapshot::Board;
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use view::View;

/// The interval between two drawings.
const PERIOD: Duration = Duration::from_millis(125);
/// Runs shorter than this get no screen.
const SHORT: Duration = Duration::from_secs(1);
/// The interval between two plain lines, on a terminal and in a file.
const LINE: Duration = Duration::from_secs(1);
const LINE_FILE: Duration = Duration::from_secs(5);

/// A running view; dropping it restores the terminal.
pub struct Live {
    over: Arc<AtomicBool>,
    screen: Shared,
    thread: Option<JoinHandle<()>>,
}

/// The terminal while it is drawn on.
type Shared = Arc<Mutex<Option<Screen>>>;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A screen, redrawn periodically.
    Screen,
    /// A line each period.
    Lines(Duration),
    /// No view.
    Nothing,
}

impl Manner {
    /// A screen where one can be drawn, otherwise lines; lines also between the steps of
    /// `--verbose`. With JSON there are no lines, unless `plain` asks for them.
    pub fn of(plain: bool, json: bool) -> Self {
        let (seen, able) = (stderr().is_terminal(), screen::is_able());
        match (plain || is_verbose(), seen) {
            _ if is_quiet() => Self::Nothing,
            (true, _) => Self::Lines(LINE),
            (false, true) if able => Self::Screen,
            (false, true) => Self::Lines(LINE),
            (false, false) if json => Self::Nothing,
            (false, false) => Self::Lines(LINE_FILE),
        }
    }
}

impl Live {
    /// Shows the run that publishes on `board`; keys set the flags of `wishes`.
    pub fn open(manner: Manner, plan: &Plan, board: &Board, wishes: Wishes) -> Option<Live> {
        let (over, screen) = (Arc::new(AtomicBool::new(false)), Shared::default());
        let show = Show {
            over: Arc::clone(&over),
            screen: Arc::clone(&screen),
            board: board.clone(),
            view: View::new(plan),
            wishes,
        };
        let named = thread::Builder::new().name("screen".to_owned());
        let thread = match manner {
            Manner::Nothing => return None,
            Manner::Screen => {
                restore_on_panic(&screen);
                named.spawn(move || show.draw())
            }
            Manner::Lines(period) => named.spawn(move || show.lines(period)),
        };
        // If no thread can be started, the run goes on without a view.
        Some(Live { over, screen, thread: Some(thread.ok()?) })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        // The thread has restored it, unless it has panicked.
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !thread::panicking() {
            let _ = std::panic::take_hook();
        }
    }
}

/// Restores the terminal before a panic message is printed, which would vanish with the screen.
fn restore_on_panic(screen: &Shared) {
    let (screen, previous) = (Arc::clone(screen), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        // A panic while drawing holds the lock; in that case the message is lost, not the terminal.
        let end = Instant::now() + 2 * PERIOD;
        loop {
            match screen.try_lock() {
                Ok(mut screen) => {
                    screen.take();
                    break;
                }
                Err(_) if Instant::now() > end => break,
                Err(_) => thread::sleep(PERIOD / 25),
            }
        }
        previous(panic);
    }));
}

/// The thread's state.
struct Show {
    over: Arc<AtomicBool>,
    screen: Shared,
    board: Board,
    view: View,
    wishes: Wishes,
}

/// The flags that keys set; a key without a flag does nothing.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Ends the run.
    pub stop: Option<Arc<AtomicBool>>,
    /// While it is set, no requests are sent.
    pub hold: Option<Arc<AtomicBool>>,
}

impl Wishes {
    /// Executes a key's command.
    fn obey(&self, key: u8) {
        match (key, &self.stop, &self.hold) {
            (b'q' | b'Q', Some(stop), _) => stop.store(true, Ordering::Relaxed),
            (b's' | b'S', _, Some(hold)) => {
                hold.fetch_xor(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// A hint about keys, or about Ctrl-C if there are no `keys`.
    fn hint(&self, keys: bool) -> &'static str {
        let held = self.hold.as_ref().map(|hold| hold.load(Ordering::Relaxed));
        match (keys, held) {
            (true, Some(true)) => "STOPPED · s: send on · q: report ",
            (true, Some(false)) => "s: stop sending · q: report ",
            (true, None) => "q: stop and report ",
            (false, _) => "Ctrl-C: stop and report ",
        }
    }
}

impl Show {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Draws until the run is over; writes plain lines if no screen can be opened.
    fn draw(mut self) {
        let begun = Instant::now();
        while !self.is_over() {
            self.view.add(self.board.take());
            let long = self.view.planned().is_some_and(|it| it > 2 * SHORT);
            if self.view.has_begun() && (long || begun.elapsed() > SHORT) {
                match Screen::raise() {
                    Some(raised) => *self.lock() = Some(raised),
                    None => return self.lines(LINE),
                }
                break;
            }
            thread::park_timeout(PERIOD);
        }
        while !self.is_over() {
            self.view.add(self.board.take());
            let shared = Arc::clone(&self.screen);
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // A panic elsewhere has closed the screen.
            let Some(screen) = shared.as_mut() else { return };
            screen.pressed().into_iter().for_each(|key| self.wishes.obey(key));
            let paint = |frame: &mut ratatui::Frame<'_>, keys| {
                draw::screen(frame, &self.view, self.wishes.hint(keys));
            };
            if screen.draw(paint).is_err() {
                break;
            }
            drop(shared);
            thread::park_timeout(PERIOD);
        }
        self.lock().take();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Screen>> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(mut self, period: Duration) {
        let mut next = Instant::now() + period;
        while !self.is_over() {
            thread::park_timeout(PERIOD);
            self.view.add(self.board.take());
            if Instant::now() >= next && self.view.has_begun() {
                next += period;
                info!("{}", self.view.line());
            }
        }
    }
}
