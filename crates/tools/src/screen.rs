//! The terminal of the live view: a second screen (xterm's alternate one), and keys without echo.
//!
//! Whatever raises it puts it down when it is dropped, in every way a value can be dropped. Signals
//! that end a run are flags here and do not end the process before that.
//!
//! The terminal is never asked anything: its size comes from the kernel, and where its cursor is
//! does not matter. So one that does not answer, such as a recorder's, is as good as any other.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};
use std::io::{self, IsTerminal, Stderr, stderr, stdin};

/// A raised terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    area: Rect,
    keys: Option<Keys>,
}

/// Keys that come as they are pressed; dropping it makes them lines again.
struct Keys {
    before: Termios,
}

/// Whether a screen can be drawn: the terminal knows how, and it is ours at the moment.
pub fn is_able() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    // Who is in the background would be stopped for touching the terminal (SIGTTOU).
    let front = tcgetpgrp(stderr()).map_or(true, |group| group == rustix::process::getpgrp());
    !dumb && front
}

impl Screen {
    /// Takes the terminal; `None` where it has no size or cannot be drawn on.
    pub fn raise() -> Option<Self> {
        let area = area().filter(|area| !area.is_empty())?;
        let terminal = terminal(area).ok()?;
        let keys = Keys::take();
        // From here on dropping it restores everything.
        let screen = Self { terminal, area, keys };
        execute!(stderr(), EnterAlternateScreen, Hide).ok()?;
        Some(screen)
    }

    /// What was pressed since the last time.
    pub fn pressed(&mut self) -> Vec<u8> {
        self.keys.as_mut().map_or_else(Vec::new, Keys::pressed)
    }

    /// Draws one picture; the painter is told whether there are keys.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>, bool)) -> io::Result<()> {
        let keys = self.keys.is_some();
        if let Some(area) = area().filter(|area| *area != self.area) {
            execute!(stderr(), Clear(ClearType::All))?;
            (self.terminal, self.area) = (terminal(area)?, area);
        }
        self.terminal.draw(|frame| paint(frame, keys)).map(|_| ())
    }
}

/// What the terminal's size is at the moment.
fn area() -> Option<Rect> {
    let size = tcgetwinsize(stderr()).ok()?;
    Some(Rect::new(0, 0, size.ws_col, size.ws_row))
}

/// An empty screen of a size.
fn terminal(area: Rect) -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    Terminal::with_options(CrosstermBackend::new(stderr()), options)
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
        self.keys.take();
    }
}

impl Keys {
    fn take() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut during = before.clone();
        during.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read takes what is there and does not wait (termios(3), MIN = TIME = 0).
        during.special_codes[SpecialCodeIndex::VMIN] = 0;
        during.special_codes[SpecialCodeIndex::VTIME] = 0;
        // No key stands for these (_POSIX_VDISABLE is 0 on Linux).
        during.special_codes[SpecialCodeIndex::VSUSP] = 0;
        during.special_codes[SpecialCodeIndex::VQUIT] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &during).ok()?;
        Some(Self { before })
    }

    fn pressed(&mut self) -> Vec<u8> {
        let mut pressed = vec![0; 64];
        let count = rustix::io::read(stdin(), &mut pressed).unwrap_or(0);
        pressed.truncate(count);
        pressed
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // What was typed meanwhile is not for the shell.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.before);
    }
}
