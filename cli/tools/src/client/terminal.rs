//! The conversation on a terminal.
//!
//! The conversation survives the end of a server: the next line connects again. The client never
//! repeats a request by itself, because it cannot know whether the server executed the first one.
//! The terminal itself edits lines; `rlwrap roundhouse client` adds a history.

use std::io::{self, Write};

use anyhow::{Context, Result};
use language::eprintln;
use load::Target;
use wire::framing::Framing;

use super::link::{Link, Lost};
use super::paint::{Paint, Tone, harmless};

/// The prompt.
const PROMPT: &str = "stock> ";

/// Reads lines until the end of input, or `exit`.
///
/// # Errors
/// If there is no server in the beginning, or the terminal cannot be read.
pub fn run(at: Target, framing: Option<Framing>) -> Result<()> {
    let mut talk = Talk { at, framing, link: None, paint: Paint::for_terminal() };
    talk.connect(true)?;
    let mut lines = io::stdin().lines();
    loop {
        print(&talk.paint.tone(Tone::Bold, PROMPT))?;
        let Some(line) = lines.next() else { return print("\n") };
        let line = line.context("cannot read the terminal")?;
        if !talk.line(line.trim())? {
            return Ok(());
        }
    }
}

struct Talk {
    at: Target,
    framing: Option<Framing>,
    /// `None` after the server has closed.
    link: Option<Link>,
    paint: Paint,
}

impl Talk {
    /// Connects and reports that.
    fn connect(&mut self, is_first: bool) -> Result<()> {
        let (mut link, book) = super::open(&self.at, self.framing)?;
        let book = match book {
            Some(book) => book,
            None => link.ask(b"show", &mut |waiting| say(&self.paint, Tone::Dim, &waiting))?,
        };
        // A server does not change its framing between two connections.
        self.framing = Some(link.framing());
        let stocks = harmless(&book).lines().count();
        let again = if is_first { "" } else { " again" };
        let mut words = format!(
            "connected{again} to {}: {stocks} stocks, framing {}",
            self.at.address,
            link.framing()
        );
        if is_first {
            words += "; `help` lists commands, Ctrl-D leaves";
        }
        say(&self.paint, Tone::Dim, &words);
        self.link = Some(link);
        Ok(())
    }

    /// Deals with one line; false if it was the last.
    fn line(&mut self, line: &str) -> Result<bool> {
        if line.is_empty() {
            return Ok(true);
        }
        match line {
            "help" => {
                print(&String::from_utf8_lossy(&super::help()))?;
                return Ok(true);
            }
            "exit" if self.link.is_none() => return Ok(false),
            _ => {}
        }
        if self.link.as_mut().is_none_or(Link::is_over) {
            self.link = None;
            if let Err(error) = self.connect(false) {
                say(&self.paint, Tone::Red, &format!("{error:#}"));
                return Ok(true);
            }
        }
        let Some(link) = &mut self.link else { return Ok(true) };
        let paint = self.paint;
        match link.ask(line.as_bytes(), &mut |waiting| say(&paint, Tone::Dim, &waiting)) {
            Ok(_) if line == "exit" => return Ok(false),
            Ok(text) => print(&self.paint.reply(&text))?,
            Err(_) if line == "exit" => return Ok(false),
            Err(lost @ Lost::TooLong(_)) => say(&self.paint, Tone::Red, &lost.to_string()),
            Err(lost) => {
                self.link = None;
                let words = format!(
                    "{lost}; it is unknown whether `{line}` was executed. The next line connects \
                     again"
                );
                say(&self.paint, Tone::Red, &words);
            }
        }
        Ok(true)
    }
}

/// Prints a message (stderr).
fn say(paint: &Paint, tone: Tone, words: &str) {
    eprintln!("{}", paint.tone(tone, &language::tr(words)));
}

fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot print a reply")
}
