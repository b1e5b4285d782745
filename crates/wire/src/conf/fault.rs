//! Faults of a settings file: the place, the cause and the remedy.

use super::{FILE_MAX, NAME_MAX};
use crate::text::Undecodable;
use std::fmt;

/// Why a file or a value was refused. `Display` begins with `LINE:COLUMN: `, so a caller that knows
/// the file puts its name and a colon in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadConf {
    /// The line, from 1.
    pub line: usize,
    /// The column from 1, in characters (in bytes if the file is not text); a tab counts as one.
    pub column: usize,
    /// The fault at that place.
    pub fault: Fault,
}

/// A fault. Quoted text is shortened and its control characters are escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are not text.
    NotText(Undecodable),
    /// The file is longer than [`FILE_MAX`].
    TooLarge {
        /// Its length in bytes.
        len: usize,
    },
    /// Something else where a name is expected.
    NoName {
        /// The text found there.
        found: String,
    },
    /// A name of more than [`NAME_MAX`] characters.
    NameTooLong {
        /// Its length in characters.
        len: usize,
    },
    /// No `=` after the name.
    NoEquals {
        /// The name.
        name: String,
    },
    /// Nothing after the `=` on its line.
    NoValue {
        /// The name.
        name: String,
    },
    /// Quotes that do not end on their line.
    QuoteOpen,
    /// Something after the value.
    Extra {
        /// The extra text.
        found: String,
    },
    /// A value that `//` after a colon cuts off.
    Address {
        /// The value up to the cut.
        found: String,
    },
    /// A comment without `*/`.
    CommentOpen,
    /// A slash that does not begin a comment.
    LoneSlash,
    /// A name that occurs twice.
    Twice {
        /// The name.
        name: String,
        /// The line of its first occurrence.
        first: usize,
    },
    /// A value of the wrong kind.
    NotA {
        /// The setting.
        name: String,
        /// The kind that was expected.
        kind: Kind,
        /// The value.
        found: String,
    },
}

/// The expected kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1, true, yes, on; 0, false, no, off.
    Flag,
}

/// Text from the file in the form in which an error shows it.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 24;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Flag => f.write_str("1, true, yes, on or 0, false, no, off"),
        }
    }
}

impl fmt::Display for BadConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotText(undecodable) => undecodable.fmt(f),
            Fault::TooLarge { len } => {
                write!(f, "expected at most {FILE_MAX} bytes, found {len}; is this the right file?")
            }
            Fault::NoName { found } => write!(
                f,
                "expected a name of letters, digits, `_`, `-` and `.`, found `{found}`; a line is \
                 `name = value`, and comments begin with `//`"
            ),
            Fault::NameTooLong { len } => write!(
                f,
                "expected a name of at most {NAME_MAX} characters, found {len}; shorten it"
            ),
            Fault::NoEquals { name } => {
                write!(f, "expected `=` after `{name}`, found none; write `{name} = value`")
            }
            Fault::NoValue { name } => write!(
                f,
                "expected a value on the line of `{name}`, found its end; write `{name} = \"\"` \
                 for an empty one"
            ),
            Fault::QuoteOpen => f.write_str(
                "expected `\"` before the end of the line, found none; close the quotes",
            ),
            Fault::Extra { found } => write!(
                f,
                "expected the end of the line after the value, found `{found}`; quote a value that \
                 has blanks, put comments after `//`"
            ),
            Fault::Address { found } => write!(
                f,
                "expected a value that no comment cuts off, found `{found}//`; put it in quotes"
            ),
            Fault::CommentOpen => f.write_str("expected `*/`, found the end of the file; close it"),
            Fault::LoneSlash => {
                f.write_str("expected `//` or `/*`, found a single `/`; double it for a comment")
            }
            Fault::Twice { name, first } => write!(
                f,
                "expected each name once, found `{name}` again after line {first}; remove one"
            ),
            Fault::NotA { name, kind, found } => {
                write!(f, "expected `{name}` to be {kind}, found `{found}`; correct it")
            }
        }
    }
}

impl std::error::Error for BadConf {}
