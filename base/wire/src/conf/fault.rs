//! Faults of a settings file: the place, the cause and the remedy.

use super::{FILE_MAX, NAME_MAX};
use crate::text::Undecodable;

/// Why a file or a value was refused. `Display` begins with `LINE:COLUMN: `, so a caller that knows
/// the file puts its name and a colon in front.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{}:{}: {}", self.line, self.column, self.fault)]
pub struct BadConf {
    /// The line, from 1.
    pub line: usize,
    /// The column from 1, in characters (in bytes if the file is not text); a tab counts as one.
    pub column: usize,
    /// The fault at that place.
    pub fault: Fault,
}

/// A fault. Quoted text is shortened and its control characters are escaped.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// The bytes are not text.
    #[display("{}", _0)]
    NotText(Undecodable),
    /// The file is longer than [`FILE_MAX`].
    #[display("expected at most {FILE_MAX} bytes, found {len}; is this the right file?")]
    TooLarge { len: usize },
    /// Something else where a name is expected.
    #[display(
        "expected a name of letters, digits, `_`, `-` and `.`, found `{found}`; a line is `name = \
         value`, and comments begin with `//`"
    )]
    NoName { found: String },
    /// A name of more than [`NAME_MAX`] characters.
    #[display("expected a name of at most {NAME_MAX} characters, found {len}; shorten it")]
    NameTooLong { len: usize },
    /// No `=` after the name.
    #[display("expected `=` after `{name}`, found none; write `{name} = value`")]
    NoEquals { name: String },
    /// Nothing after the `=` on its line.
    #[display(
        "expected a value on the line of `{name}`, found its end; write `{name} = \"\"` for an \
         empty one"
    )]
    NoValue { name: String },
    /// Quotes that do not end on their line.
    #[display("expected `\"` before the end of the line, found none; close the quotes")]
    QuoteOpen,
    /// Something after the value.
    #[display(
        "expected the end of the line after the value, found `{found}`; quote a value that has \
         blanks, put comments after `//`"
    )]
    Extra { found: String },
    /// A value that `//` after a colon cuts off.
    #[display("expected a value that no comment cuts off, found `{found}//`; put it in quotes")]
    Address { found: String },
    /// A comment without `*/`.
    #[display("expected `*/`, found the end of the file; close it")]
    CommentOpen,
    /// A slash that does not begin a comment.
    #[display("expected `//` or `/*`, found a single `/`; double it for a comment")]
    LoneSlash,
    /// A name that occurs twice.
    #[display("expected each name once, found `{name}` again after line {first}; remove one")]
    Twice { name: String, first: usize },
}

/// The expected kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum Kind {
    /// 1, true, yes, on; 0, false, no, off.
    #[display("1, true, yes, on or 0, false, no, off")]
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

impl std::error::Error for BadConf {}
