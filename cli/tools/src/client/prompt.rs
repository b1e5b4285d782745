//! The line editor's help: it completes commands and ids, shows missing parameters, and colours
//! known commands.
//!
//! The library `rustyline` calls the traits of `Prompter` at each key. The commands come from
//! `COMMANDS`, the ids from the last reply to `show`, which the client passes to `learn`. A hint
//! names the missing parameters in a dim tone; it is a placeholder, so no key inserts it. Without
//! colours there are no hints, because they would look like typed text.

use std::borrow::Cow;

use ::stock::command::{COMMANDS, Command};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::paint::{Paint, Tone, rows};

/// The prompt.
pub const PROMPT: &str = "stock> ";

/// The editor's knowledge.
pub struct Prompter {
    paint: Paint,
    /// The stocks of the last `show`, by number.
    stocks: Vec<Stock>,
}

struct Stock {
    id: String,
    about: String,
}

impl Prompter {
    /// A prompter that knows the commands but no stock.
    pub fn new(paint: Paint) -> Prompter {
        Prompter { paint, stocks: Vec::new() }
    }

    /// Learns the stocks from the reply to `show`; other text changes nothing.
    pub fn learn(&mut self, book: &str) {
        let about = |[id, left, price]: &[&str; 3]| format!("{id} ({left} left, {price} each)");
        let stock = |row: &[&str; 3]| Stock { id: row[0].to_owned(), about: about(row) };
        let stocks: Vec<Stock> = rows(book).unwrap_or_default().iter().map(stock).collect();
        if stocks.is_empty() {
            return;
        }
        self.stocks = stocks;
        // Stocks are sorted by number, because that is how a user searches a list, however the
        // server orders its book.
        self.stocks.sort_by_key(|stock| (stock.id.len(), stock.id.clone()));
    }

    /// The beginning of the word at the end of `before`, and its completions.
    fn candidates(&self, before: &str) -> (usize, Vec<Pair>) {
        let start = before.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let (words, begun) = (before[..start].split_whitespace(), &before[start..]);
        let words: Vec<&str> = words.collect();
        let pairs = match words.as_slice() {
            [] => COMMANDS
                .iter()
                .filter(|command| command.name.starts_with(begun))
                .map(|command| Pair {
                    display: command.usage().to_string(),
                    // A command with parameters gets the space before them.
                    replacement: format!(
                        "{}{}",
                        command.name,
                        if command.params.is_empty() { "" } else { " " }
                    ),
                })
                .collect(),
            [name]
                if self
                    .named(name)
                    .is_some_and(|command| command.params.first() == Some(&"ID")) =>
            {
                self.stocks
                    .iter()
                    .filter(|stock| stock.id.starts_with(begun))
                    .map(|stock| Pair {
                        display: stock.about.clone(),
                        replacement: format!("{} ", stock.id),
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        (start, pairs)
    }

    /// The parameters still to be typed.
    fn missing(&self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace();
        let command = self.named(words.next()?)?;
        let given = words.count();
        let open = line.ends_with([' ', '\t']);
        let rest = command.params.get(given..).filter(|rest| !rest.is_empty())?;
        Some(format!("{}{}", if open { "" } else { " " }, rest.join(" ")))
    }

    fn named(&self, word: &str) -> Option<&'static Command> {
        COMMANDS.iter().find(|command| command.name == word)
    }
}

impl Completer for Prompter {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(self.candidates(&line[..pos]))
    }
}

/// The names of the missing parameters. They are placeholders, so no key inserts them.
pub struct Missing(String);

impl Hint for Missing {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Prompter {
    type Hint = Missing;

    fn hint(&self, line: &str, pos: usize, _context: &Context<'_>) -> Option<Missing> {
        // A hint without a separate tone would look like typed text.
        if pos == line.len() && self.paint.colours { self.missing(line).map(Missing) } else { None }
    }
}

impl Highlighter for Prompter {
    fn highlight<'l>(&self, line: &'l str, _pos: usize) -> Cow<'l, str> {
        let end = line.find([' ', '\t']).unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        let tone = match self.named(word) {
            Some(_) => Tone::Bold,
            // A word that is still being typed cannot be called wrong yet.
            None if rest.is_empty() => return line.into(),
            None => Tone::Red,
        };
        format!("{}{rest}", self.paint.tone(tone, word)).into()
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        self.paint.tone(Tone::Bold, prompt)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.paint.tone(Tone::Dim, hint)
    }

    fn highlight_char(&self, _line: &str, _pos: usize, kind: CmdKind) -> bool {
        // The first word may change its tone with any key; a moving cursor changes nothing.
        self.paint.colours && kind != CmdKind::MoveCursor
    }
}

impl Validator for Prompter {}

impl Helper for Prompter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompter() -> Prompter {
        let mut prompter = Prompter::new(Paint { colours: true });
        prompter.learn("1 7 1000\n10 0 20\n5 3 3700\n");
        prompter.learn("[buy] success\n");
        prompter
    }

    #[test]
    fn commands_and_ids_are_completed() {
        let prompter = prompter();
        let check = |before: &str, start: usize, expected: &[&str]| {
            let (at, pairs) = prompter.candidates(before);
            let found: Vec<&str> = pairs.iter().map(|pair| pair.replacement.as_str()).collect();
            assert_eq!((at, found.as_slice()), (start, expected), "{before:?}");
        };
        check("s", 0, &["show", "sell "]);
        check("b", 0, &["buy "]);
        check("x", 0, &[]);
        check("buy ", 4, &["1 ", "5 ", "10 "]);
        check("buy 1", 4, &["1 ", "10 "]);
        check("sell\t5", 5, &["5 "]);
        check("  buy 1", 6, &["1 ", "10 "]);
        check("buy 1 ", 6, &[]);
        check("show ", 5, &[]);
        let (_, pairs) = prompter.candidates("buy 5");
        assert_eq!(pairs[0].display, "5 (3 left, 3700 each)");
    }

    #[test]
    fn hints_say_what_is_missing() {
        let prompter = prompter();
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(prompter.missing(line).as_deref(), expected, "{line:?}");
        };
        check("buy", Some(" ID N"));
        check("buy ", Some("ID N"));
        check("buy 1", Some(" N"));
        check("sell 1 ", Some("N"));
        check("buy 1 2", None);
        check("buy 1 2 3", None);
        check("show", None);
        check("bu", None);
        check("", None);
    }

    #[test]
    fn a_command_is_bold_and_a_wrong_one_red() {
        let prompter = prompter();
        assert_eq!(prompter.highlight("buy 1", 0), "\x1b[1mbuy\x1b[0m 1");
        assert_eq!(prompter.highlight("bye 1", 0), "\x1b[31mbye\x1b[0m 1");
        assert_eq!(prompter.highlight("bu", 0), "bu");
        assert_eq!(prompter.highlight("", 0), "");
    }
}
