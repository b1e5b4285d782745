//! A full-screen terminal (xterm's alternate screen), and keys without echo.
//!
//! Dropping it restores the terminal, also in a panic. Signals that end a run only set flags, so
//! the process does not end before that.
//!
//! The terminal is never queried: the kernel knows its size, and its cursor does not matter. So a
//! terminal that does not answer, such as a recorder, works too.

use anstream::{AutoStream, ColorChoice};
use language::tr;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::force_color_output;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use server::Keys;
use std::io::{self, Stderr, stderr, stdout};

/// The terminal while it is drawn on.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    area: Rect,
    keys: Option<Keys>,
}

/// Sets what `--color` says, for text and for screens.
pub fn colour(choice: clap::ColorChoice) {
    let (text, screens) = match choice {
        clap::ColorChoice::Auto => return,
        clap::ColorChoice::Always => (ColorChoice::Always, true),
        clap::ColorChoice::Never => (ColorChoice::Never, false),
    };
    text.write_global();
    force_color_output(screens);
}

/// Whether text on stdout may be coloured: it is a terminal that can, and neither `NO_COLOR`
/// (no-color.org) nor `CLICOLOR=0` forbids it.
pub fn has_colours() -> bool {
    AutoStream::choice(&stdout()) != ColorChoice::Never
}

/// Whether a screen can be drawn: the terminal supports it, and the process is in the foreground.
pub fn is_able() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    // A background process that changes the terminal is stopped (SIGTTOU).
    let front = tcgetpgrp(stderr()).map_or(true, |group| group == rustix::process::getpgrp());
    !dumb && front
}

impl Screen {
    /// Takes over the terminal; `None` if it has no size or cannot be drawn on.
    pub fn raise() -> Option<Self> {
        let area = area().filter(|area| !area.is_empty())?;
        let terminal = terminal(area).ok()?;
        let keys = Keys::take(false);
        // From here on dropping restores everything.
        let screen = Self { terminal, area, keys };
        execute!(stderr(), EnterAlternateScreen, Hide).ok()?;
        Some(screen)
    }

    /// The keys pressed since the last call.
    pub fn pressed(&mut self) -> Vec<u8> {
        self.keys.as_ref().map_or_else(Vec::new, Keys::pressed)
    }

    /// Draws one picture; `paint` gets whether there are keys.
    pub fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>, bool)) -> io::Result<()> {
        let keys = self.keys.is_some();
        if let Some(area) = area().filter(|area| *area != self.area) {
            execute!(stderr(), Clear(ClearType::All))?;
            (self.terminal, self.area) = (terminal(area)?, area);
        }
        self.terminal.draw(|frame| paint(frame, keys)).map(|_| ())
    }
}

/// Draws lines that begin with a name, and whether each is bad news.
pub(crate) fn named_lines(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: &[(String, bool)],
    heading: &str,
) {
    let lines = lines.iter().map(|(line, is_bad)| {
        let line = tr(line);
        let (name, rest) = line.split_at(line.find("  ").unwrap_or_default());
        let rest = Span::raw(rest.to_owned());
        let rest = if *is_bad { rest.red() } else { rest };
        Line::from(vec![Span::raw(format!(" {name}")).dim(), rest])
    });
    let block = Block::bordered().title(tr(heading));
    let text = Paragraph::new(lines.collect::<Vec<_>>()).wrap(Wrap { trim: false });
    frame.render_widget(text.block(block), area);
}

/// Draws rates over time, oldest first; the latest are those that fit.
pub(crate) fn chart(frame: &mut Frame<'_>, area: Rect, points: &[f64], heading: &str) {
    let block = Block::bordered().title(tr(heading));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let fits = usize::from(inner.width).min(points.len());
    let points: Vec<u64> = points[points.len() - fits..].iter().map(|rate| *rate as u64).collect();
    frame.render_widget(Sparkline::default().data(&points).style(Color::Green), inner);
}

/// The terminal's present size.
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
