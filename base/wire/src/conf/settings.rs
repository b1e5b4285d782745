//! Lines of `name = value`, with comments.
//!
//! The configuration files of all servers (`--config`) have this format. One reader walks through
//! the text and counts lines and columns, so every fault has a place that an editor can show. A
//! name, `=` and the value are on one line; a value is a word or a text in quotes; `//` and `/* */`
//! are comments. A slash that begins a word is a path (`/dev/null`), a lone slash is a fault. The
//! caller decides which names exist; this file only refuses a name that occurs twice.

use std::time::Duration;

use super::FILE_MAX;
use crate::text::{self, Fault, shown};

/// The longest name, in characters.
pub const NAME_MAX: usize = 255;

/// One line of a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name as written.
    pub name: String,
    /// The value without its quotes.
    pub value: String,
    /// The line of the name, from 1.
    pub line: usize,
    /// The column of the name, from 1, in characters.
    pub column: usize,
    /// The column of the value.
    pub value_column: usize,
}

/// A whole settings file, in the order of its lines. No name occurs twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    settings: Vec<Setting>,
}

impl Settings {
    /// Reads a whole file, in any encoding of [`crate::text`].
    ///
    /// # Errors
    /// [`Fault`] for the first fault.
    pub fn parse(bytes: &[u8]) -> Result<Settings, Fault> {
        if bytes.len() > FILE_MAX {
            let len = bytes.len();
            let why =
                format!("expected at most {FILE_MAX} bytes, found {len}; is this the right file?");
            return Err(Fault { line: 1, column: 1, why });
        }
        let decoded = text::decode(bytes).map_err(|bad| bad.fault(bytes))?;
        let mut reader = Reader { rest: &decoded.text, line: 1, column: 1 };
        let mut settings: Vec<Setting> = Vec::new();
        while let Some(setting) = reader.setting()? {
            // Settings files are short, so a linear search for duplicates is fine.
            if let Some(first) = settings.iter().find(|first| first.name == setting.name) {
                let why = format!(
                    "expected each name once, found `{}` again after line {}; remove one",
                    shown(&setting.name),
                    first.line
                );
                return Err(Fault { line: setting.line, column: setting.column, why });
            }
            settings.push(setting);
        }
        Ok(Settings { settings })
    }

    /// The settings in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }
}

/// The words of a flag, for messages.
pub const FLAG: &str = "1, true, yes, on or 0, false, no, off";

/// The value of a word where a flag is expected.
pub fn flag_of(word: &str) -> Option<bool> {
    match word {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The longest duration of a setting.
const SPAN_MAX: Duration = Duration::from_secs(86_400);

/// A duration of at most a day, such as `300ms`, `1.5s`, `2m`, `1h 30m`; a bare number is seconds.
///
/// # Errors
/// The text is no duration, is negative, or is longer than a day: what was expected and found.
pub fn span(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    let found = seconds.or_else(|| humantime::parse_duration(text).ok());
    found
        .filter(|span| *span <= SPAN_MAX)
        .ok_or_else(|| format!("expected a time such as 300ms, 1.5s, 2m, found `{text}`"))
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The rest of the text and its position.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Reader<'a> {
    fn bad(&self, why: impl Into<String>) -> Fault {
        Fault { line: self.line, column: self.column, why: why.into() }
    }

    /// The fault of something after a value, which begins with `rest`.
    fn extra(&self, rest: &str) -> Fault {
        let found = shown(rest.split_whitespace().next().unwrap_or_default());
        self.bad(format!(
            "expected the end of the line after the value, found `{found}`; quote a value that has \
             blanks, put comments after `//`"
        ))
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        for c in taken.chars() {
            (self.line, self.column) = match c {
                '\n' => (self.line + 1, 1),
                _ => (self.line, self.column + 1),
            };
        }
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, is_in: impl Fn(char) -> bool) -> &'a str {
        let len = self.rest.find(|c| !is_in(c)).unwrap_or(self.rest.len());
        self.take(len)
    }

    /// The next setting; `None` at the end of the file.
    fn setting(&mut self) -> Result<Option<Setting>, Fault> {
        self.between(char::is_whitespace)?;
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (line, column) = (self.line, self.column);
        let name = self.take_while(is_of_name);
        let len = name.chars().count();
        if name.is_empty() {
            let found = shown(self.rest.split_whitespace().next().unwrap_or_default());
            return Err(self.bad(format!(
                "expected a name of letters, digits, `_`, `-` and `.`, found `{found}`; a line is \
                 `name = value`, and comments begin with `//`"
            )));
        }
        if len > NAME_MAX {
            let why = format!(
                "expected a name of at most {NAME_MAX} characters, found {len}; shorten it"
            );
            return Err(Fault { line, column, why });
        }
        self.between(is_blank)?;
        if !self.rest.starts_with('=') {
            let name = shown(name);
            return Err(self
                .bad(format!("expected `=` after `{name}`, found none; write `{name} = value`")));
        }
        self.take(1);
        self.between(is_blank)?;
        // A comment may have ended on a later line.
        if self.line != line || self.rest.is_empty() || self.rest.starts_with('\n') {
            let name = shown(name);
            return Err(self.bad(format!(
                "expected a value on the line of `{name}`, found its end; write `{name} = \"\"` \
                 for an empty one"
            )));
        }
        let value_column = self.column;
        let value = self.value()?.to_owned();
        let value_line = self.line;
        self.between(is_blank)?;
        if self.line == value_line && !self.rest.is_empty() && !self.rest.starts_with('\n') {
            return Err(self.extra(self.rest));
        }
        Ok(Some(Setting { name: name.to_owned(), value, line, column, value_column }))
    }

    fn value(&mut self) -> Result<&'a str, Fault> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let line = quoted.split('\n').next().unwrap_or_default();
            let why = "expected `\"` before the end of the line, found none; close the quotes";
            let len = line.find('"').ok_or_else(|| self.bad(why))?;
            return Ok(&self.take(len + 2)[1..=len]);
        }
        let word = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let word = &self.rest[..word];
        let comment = [word.find("//"), word.find("/*")].into_iter().flatten().min();
        let word = &word[..comment.unwrap_or(word.len())];
        if word.ends_with(':') && self.rest[word.len()..].starts_with("//") {
            let found = shown(word);
            return Err(self.bad(format!(
                "expected a value that no comment cuts off, found `{found}//`; put it in quotes"
            )));
        }
        // The caller has skipped comments, so at least one character is left.
        if let Some(quote) = word.find('"') {
            self.take(quote);
            return Err(self.extra(&word[quote..]));
        }
        Ok(self.take(word.len()))
    }

    /// Skips comments and the characters for which `is_blank` holds.
    fn between(&mut self, is_blank: impl Fn(char) -> bool) -> Result<(), Fault> {
        loop {
            self.take_while(&is_blank);
            if self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let why = "expected `*/`, found the end of the file; close it";
                let len = comment.find("*/").ok_or_else(|| self.bad(why))?;
                self.take(len + 4);
            } else if self.rest.starts_with('/') && !self.is_path() {
                let why = "expected `//` or `/*`, found a single `/`; double it for a comment";
                return Err(self.bad(why));
            } else {
                return Ok(());
            }
        }
    }

    /// Whether a single slash begins a value, such as `/dev/null`, and not a mistyped comment.
    fn is_path(&self) -> bool {
        self.rest[1..].starts_with(|c: char| !c.is_whitespace())
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() && c != '\n'
}

#[cfg(test)]
mod tests {
    use super::{NAME_MAX, Settings, span};
    use crate::conf::FILE_MAX;
    use std::time::Duration;

    /// The settings file of the portfolio's server.
    const SERVER: &str = "// \u{c11c}\u{bc84} \u{c124}\u{c815}\r\n\
        ipAddress = \"0.0.0.0\"\r\n\
        serverPort = 6000 // one port\r\n\
        /* threads:\r\n as many as there are cores */\r\n\
        workerThread = 4\r\nrunningThread=2\r\n\r\n\
        noDelay\t= 0\r\nmaxClient = 200";

    fn check(text: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
        let settings = Settings::parse(text.as_ref()).unwrap_or_else(|bad| panic!("{bad}"));
        let found: Vec<_> = settings.iter().map(|one| (&one.name[..], &one.value[..])).collect();
        assert_eq!(found, expected);
    }

    fn check_refused(text: impl AsRef<[u8]>, expected: &str) {
        let message = Settings::parse(text.as_ref()).expect_err("refused").to_string();
        assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
    }

    fn utf16(text: &str, half: fn(u16) -> [u8; 2], mark: bool) -> Vec<u8> {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{text}").encode_utf16().flat_map(half).collect()
    }

    #[test]
    fn every_encoding_is_read() {
        let expected = [
            ("ipAddress", "0.0.0.0"),
            ("serverPort", "6000"),
            ("workerThread", "4"),
            ("runningThread", "2"),
            ("noDelay", "0"),
            ("maxClient", "200"),
        ];
        check(SERVER, &expected);
        check(format!("\u{feff}{SERVER}"), &expected);
        for mark in [true, false] {
            check(utf16(SERVER, u16::to_le_bytes, mark), &expected);
            check(utf16(SERVER, u16::to_be_bytes, mark), &expected);
        }
        check(encoding_rs::EUC_KR.encode(SERVER).0, &expected);
        let korean = encoding_rs::EUC_KR.encode("\u{c774}\u{b984} = \"\u{d64d} \u{ae38}\u{b3d9}\"");
        check(korean.0, &[("\u{c774}\u{b984}", "\u{d64d} \u{ae38}\u{b3d9}")]);
    }

    #[test]
    fn values_and_comments() {
        check("", &[]);
        check(" \t\r\n// nothing\n/**/ /***/", &[]);
        check("a=1", &[("a", "1")]);
        check("a = \"\"\nb = \" x // y /* z */ \"", &[("a", ""), ("b", " x // y /* z */ ")]);
        check("a = 1//x\nb = 2/*x*/\nc = /*x*/ 3", &[("a", "1"), ("b", "2"), ("c", "3")]);
        check("a /* x */ = 1 /* y\n z */ b = 2", &[("a", "1"), ("b", "2")]);
        check(
            "path = C:\\new\\table\nq = \"C:\\new\"",
            &[("path", "C:\\new\\table"), ("q", "C:\\new")],
        );
        check("dev = /dev/null\nx.y-z_1 = a=b", &[("dev", "/dev/null"), ("x.y-z_1", "a=b")]);
        check("url = \"http://x\"", &[("url", "http://x")]);
    }

    #[test]
    fn refusals_have_a_place_and_an_advice() {
        check_refused("a = 1\n = 2", "2:2: expected a name");
        check_refused("a = 1\n  \"b\" = 2", "2:3: expected a name of letters, digits");
        check_refused("\u{ae38} 5", "1:3: expected `=` after `\u{ae38}`");
        check_refused("a", "1:2: expected `=` after `a`");
        check_refused("a =\nb = 2", "1:4: expected a value on the line of `a`");
        check_refused("a = // 5", "1:9: expected a value");
        check_refused("a = /* 5\n*/ 6", "2:4: expected a value");
        check_refused("a = \"x\nb = \"y\"", "1:5: expected `\"`");
        check_refused("a = 1 2", "1:7: expected the end of the line after the value, found `2`");
        check_refused("a = \"x\" y", "1:9: expected the end");
        check_refused("a = x\"y\"", "1:6: expected the end");
        check_refused("u = http://x.y", "1:5: expected a value that no comment cuts off");
        check_refused("a = 1\n/* b", "2:1: expected `*/`");
        check_refused("a = 1 / b", "1:7: expected `//` or `/*`");
        check_refused("/ b", "1:1: expected `//` or `/*`");
        check_refused(
            "a = 1\nb = 2\na = 3",
            "3:1: expected each name once, found `a` again after line 1",
        );
        check_refused(b"a = 1\nb = \xff\xff", "2:5: expected text in UTF-8");
        check_refused("a".repeat(NAME_MAX + 1) + " = 1", "1:1: expected a name of at most 255");
        check_refused(vec![b' '; FILE_MAX + 1], "1:1: expected at most 1048576 bytes");
        check("a".repeat(NAME_MAX) + " = 1", &[(&"a".repeat(NAME_MAX), "1")]);
        check(vec![b' '; FILE_MAX], &[]);
    }

    #[test]
    fn spans() {
        for (text, ms) in [("300ms", 300), ("1.5s", 1500), ("2", 2000), ("1m", 60_000), ("0s", 0)] {
            assert_eq!(span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(span("40us"), Ok(Duration::from_micros(40)));
        assert_eq!(span("1h 30m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "s", "2d", "-1", "-1s", "1e300s", "nan", "inf", "25h", "1x"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
