//! The look of replies: unchanged for programs, in colours and columns on a terminal.
//!
//! Control characters in a reply are escaped, because a server must not be able to move the cursor
//! or rename the window.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::screen::has_colours;

/// A tone of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Done.
    Green,
    /// Refused by the rules of the market.
    Yellow,
    /// Wrong.
    Red,
    /// Names to act on.
    Bold,
    /// Asides.
    Dim,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Green => AnsiColor::Green.on_default(),
            Tone::Yellow => AnsiColor::Yellow.on_default(),
            Tone::Red => AnsiColor::Red.on_default(),
            Tone::Bold => Style::new().bold(),
            Tone::Dim => Style::new().dimmed(),
        }
    }
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Escape codes may be written.
    pub colours: bool,
}

impl Paint {
    /// Colours as the terminal and the user's environment allow.
    pub fn for_terminal() -> Paint {
        Paint { colours: has_colours() }
    }

    /// The text in a tone.
    pub fn tone<'t>(&self, tone: Tone, text: &'t str) -> Cow<'t, str> {
        if self.colours && !text.is_empty() {
            let style = tone.style();
            format!("{style}{text}{style:#}").into()
        } else {
            text.into()
        }
    }

    /// A reply for a person.
    pub fn reply(&self, text: &[u8]) -> String {
        let text = harmless(text);
        if let Some(rows) = rows(&text).filter(|rows| !rows.is_empty()) {
            return self.table(&rows);
        }
        let mut shown = String::new();
        for line in text.lines() {
            shown += &match tone_of(line) {
                Some(tone) => self.tone(tone, line),
                None => line.into(),
            };
            shown.push('\n');
        }
        shown
    }

    fn table(&self, rows: &[[&str; 3]]) -> String {
        let head = ["ID", "LEFT", "PRICE"];
        let widths: Vec<usize> = (0..3)
            .map(|column| {
                let cells = rows.iter().map(|row| row[column].len());
                cells.chain([head[column].len()]).max().unwrap_or(0)
            })
            .collect();
        let mut shown = String::new();
        let mut line = |cells: [&str; 3], tone: Option<Tone>| {
            let mut text = String::new();
            for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let gap = if index == 0 { "" } else { "  " };
                write!(text, "{gap}{cell:>width$}").expect("a String takes every text");
            }
            shown += &tone.map_or(Cow::from(&text), |tone| self.tone(tone, &text));
            shown.push('\n');
        };
        line(head, Some(Tone::Dim));
        for row in rows {
            // A stock that is sold out is coloured, because it should stand out in a long list.
            line(*row, (row[1] == "0").then_some(Tone::Yellow));
        }
        shown
    }
}

/// The rows of a book, if every line is one.
fn rows(text: &str) -> Option<Vec<[&str; 3]>> {
    let is_number = |word: &&str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            <[&str; 3]>::try_from(words).ok().filter(|row| row.iter().all(is_number))
        })
        .collect()
}

/// The tone of a line by its meaning.
fn tone_of(line: &str) -> Option<Tone> {
    if ["[buy] ", "[sell] "].iter().any(|done| line.starts_with(done)) {
        Some(Tone::Green)
    } else if line.starts_with("Not enough left stock") {
        Some(Tone::Yellow)
    } else if line.starts_with("error") {
        Some(Tone::Red)
    } else {
        None
    }
}

/// A peer's bytes as text without control characters.
pub fn harmless(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            // A server that ends its lines with \r\n gets no escapes for that.
            '\r' => {}
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint { colours: false };
    const BRIGHT: Paint = Paint { colours: true };

    #[test]
    fn a_book_is_a_table() {
        let text = b"1 7 1000\n12 0 300\n";
        assert_eq!(PLAIN.reply(text), "ID  LEFT  PRICE\n 1     7   1000\n12     0    300\n");
        let bright = BRIGHT.reply(text);
        assert!(bright.starts_with("\x1b[2mID  LEFT  PRICE\x1b[0m\n 1"), "{bright:?}");
        assert!(bright.contains("\x1b[33m12     0    300\x1b[0m"), "{bright:?}");
    }

    #[test]
    fn a_reply_has_the_tone_of_its_meaning() {
        let check = |text: &str, expected: &str| {
            assert_eq!(BRIGHT.reply(text.as_bytes()), expected);
            assert_eq!(PLAIN.reply(text.as_bytes()), text);
        };
        check("[buy] success\n", "\x1b[32m[buy] success\x1b[0m\n");
        check("Not enough left stocks\n", "\x1b[33mNot enough left stocks\x1b[0m\n");
        check("error: no\n", "\x1b[31merror: no\x1b[0m\n");
        check("1 2\n", "1 2\n");
        check("hello\n", "hello\n");
        check("", "");
    }

    #[test]
    fn what_a_server_sends_does_nothing_to_the_terminal() {
        assert_eq!(PLAIN.reply(b"\x1b[2J\x07hi\r\n"), "\\u{1b}[2J\\u{7}hi\n");
        assert_eq!(harmless("\u{c8fc}\u{9b}\t\u{7f}".as_bytes()), "\u{c8fc}\\u{9b}\t\\u{7f}");
        assert_eq!(harmless(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
