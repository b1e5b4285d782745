//! The conversation on a terminal.
//!
//! The conversation survives the end of a server: the next line connects again. The client never
//! repeats a request by itself, because it cannot know whether the server executed the first one.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use language::eprintln;
use load::Target;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Editor};
use wire::framing::Framing;

use super::history;
use super::link::{Link, Lost};
use super::paint::{Paint, Tone, harmless};
use super::prompt::{PROMPT, Prompter};

/// The keys, for `help`.
const KEYS: &str = "
Tab        complete a command or a stock's ID
Up, Down   former lines; Ctrl-R searches them
Ctrl-C     drop the line
Ctrl-D     leave
";

/// Reads lines until the end of input, or `exit`.
///
/// # Errors
/// If there is no server in the beginning, or the terminal cannot be read.
pub fn run(at: Target, framing: Option<Framing>) -> Result<()> {
    let paint = Paint::for_terminal();
    let mut talk = Talk { at, framing, link: None, paint, editor: editor(paint)?, history: None };
    talk.connect(true)?;
    talk.remember();
    loop {
        match talk.editor.readline(PROMPT) {
            Ok(line) => {
                if !talk.line(line.trim())? {
                    return Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("cannot read the terminal"),
        }
    }
}

fn editor(paint: Paint) -> Result<Editor<Prompter, FileHistory>> {
    let config = Config::builder()
        .max_history_size(history::LINES_MAX)
        .and_then(|config| config.history_ignore_dups(true))
        .context("cannot set the history up")?
        .history_ignore_space(true)
        .auto_add_history(true)
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(if paint.colours { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor = Editor::with_config(config).context("cannot set the line editor up")?;
    editor.set_helper(Some(Prompter::new(paint)));
    Ok(editor)
}

struct Talk {
    at: Target,
    framing: Option<Framing>,
    /// `None` after the server has closed.
    link: Option<Link>,
    paint: Paint,
    editor: Editor<Prompter, FileHistory>,
    /// The history file, if it can be used.
    history: Option<PathBuf>,
}

impl Talk {
    /// Connects, learns the stocks and reports that.
    fn connect(&mut self, is_first: bool) -> Result<()> {
        let (mut link, book) = super::open(&self.at, self.framing)?;
        let book = match book {
            Some(book) => book,
            None => link.ask(b"show", &mut |waiting| say(&self.paint, Tone::Dim, &waiting))?,
        };
        // A server does not change its framing between two connections.
        self.framing = Some(link.framing());
        let book = harmless(&book);
        let stocks = book.lines().count();
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
        self.learn(&book);
        self.link = Some(link);
        Ok(())
    }

    fn learn(&mut self, book: &str) {
        if let Some(prompter) = self.editor.helper_mut() {
            prompter.learn(book);
        }
    }

    /// Loads the history; without a file the client works without one.
    fn remember(&mut self) {
        let Some(file) = history::file() else { return };
        let loaded = history::make_room(&file).map_err(ReadlineError::Io).and_then(|()| match self
            .editor
            .load_history(&file)
        {
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        });
        match loaded {
            Ok(()) => self.history = Some(file),
            Err(error) => {
                let words = format!("lines are not remembered: {}: {error}", file.display());
                say(&self.paint, Tone::Yellow, &words);
            }
        }
    }

    /// Saves the last line, so that closing the terminal loses none.
    fn keep(&mut self) {
        let Some(file) = &self.history else { return };
        if let Err(error) = self.editor.append_history(file) {
            let words = format!("lines are no longer remembered: {}: {error}", file.display());
            say(&self.paint, Tone::Yellow, &words);
            self.history = None;
        }
    }

    /// Deals with one line; false if it was the last.
    fn line(&mut self, line: &str) -> Result<bool> {
        if line.is_empty() {
            return Ok(true);
        }
        self.keep();
        match line {
            "help" => {
                let text = [super::help().as_slice(), KEYS.as_bytes()].concat();
                print(&String::from_utf8_lossy(&text))?;
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
            Ok(text) => {
                print(&self.paint.reply(&text))?;
                self.learn(&harmless(&text));
            }
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
