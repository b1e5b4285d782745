//! What is wrong with a file of settings or a table, where, and what to do.

use super::{FILE_MAX, NAME_MAX};
use crate::text::Undecodable;
use std::fmt;

/// Why a file was refused, or a value. `Display` begins with `LINE:COLUMN: `, so that a caller who
/// knows the file prefixes its name and a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadConf {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters (in bytes where the bytes are no text); a tab is one.
    pub column: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong. Texts that were found are shortened and without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are no text.
    NotText(Undecodable),
    /// The file is longer than [`FILE_MAX`].
    TooLarge {
        /// Its length in bytes.
        len: usize,
    },
    /// Something else where a name must stand.
    NoName {
        /// What stands there.
        found: String,
    },
    /// A name of more than [`NAME_MAX`] characters.
    NameTooLong {
        /// How many it has.
        len: usize,
    },
    /// No `=` behind the name.
    NoEquals {
        /// The name.
        name: String,
    },
    /// Nothing behind the `=` on its line.
    NoValue {
        /// The name.
        name: String,
    },
    /// Quotes that do not end on their line.
    QuoteOpen,
    /// Something behind the value.
    Extra {
        /// What it is.
        found: String,
    },
    /// A value that `//` behind a colon cuts off.
    Address {
        /// The value as far as it got.
        found: String,
    },
    /// A comment that has no `*/`.
    CommentOpen,
    /// A slash that begins no comment.
    LoneSlash,
    /// A name for the second time.
    Twice {
        /// The name.
        name: String,
        /// The line that had it first.
        first: usize,
    },
    /// A value of another kind than was asked for.
    NotA {
        /// The setting or column.
        name: String,
        /// What was asked for.
        kind: Kind,
        /// The value.
        found: String,
    },
    /// A table without a line of names.
    NoColumns,
    /// A row that has not one cell for each column.
    Cells {
        /// How many columns there are.
        expected: usize,
        /// How many cells the row has.
        found: usize,
    },
}

/// What a value is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1, true, yes, on; 0, false, no, off.
    Flag,
    /// A whole number in a range.
    Int {
        /// The least that is taken.
        least: i64,
        /// The greatest.
        greatest: i64,
    },
    /// A finite number.
    Float,
}

/// A piece of foreign text as an error shows it.
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
            Kind::Int { least, greatest } => {
                write!(f, "a whole number from {least} to {greatest}")
            }
            Kind::Float => f.write_str("a number such as 0.5"),
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
                write!(f, "expected `=` behind `{name}`, found none; write `{name} = value`")
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
                "expected the end of the line behind the value, found `{found}`; quote a value \
                 that has blanks, put comments behind `//`"
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
            Fault::NoColumns => {
                f.write_str("expected a line of column names, found none; add it at the top")
            }
            Fault::Cells { expected, found } => write!(
                f,
                "expected {expected} cells, one for each column, found {found}; quote a cell that \
                 holds the separator"
            ),
        }
    }
}

impl std::error::Error for BadConf {}
