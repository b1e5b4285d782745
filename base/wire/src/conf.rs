//! Settings files that operators of game servers write by hand.
//!
//! ```text
//! // serverSetting.txt
//! ipAddress  = "0.0.0.0"
//! serverPort = 6000      // no quotes needed
//! noDelay    = 1         /* or true, yes, on */
//! ```
//!
//! The grammar comes from a published portfolio of a game server: one `name = value` a line, with
//! the comments of C++. Its parser had one error code for each kind of fault; here an error has a
//! line, a column and a remedy. Every encoding of [`crate::text`] is accepted. Two rules may
//! surprise:
//!
//! - A backslash in quotes is a plain backslash, because operators mostly quote Windows paths.
//! - An unquoted value that runs into `://` is refused, because the comment would silently swallow half
//!   of an address.

mod fault;
mod fuzz;
mod settings;

pub use fault::{BadConf, Fault, Kind};
pub(crate) use fuzz::fuzz;
pub use settings::{NAME_MAX, Setting, Settings, flag_of, span};

use crate::text;

/// The longest accepted file in bytes; hand-written files are far shorter.
pub const FILE_MAX: usize = 1 << 20;

/// The text of a settings file.
fn decoded(bytes: &[u8]) -> Result<String, BadConf> {
    if bytes.len() > FILE_MAX {
        return Err(BadConf { line: 1, column: 1, fault: Fault::TooLarge { len: bytes.len() } });
    }
    text::decode(bytes).map(|decoded| decoded.text.into_owned()).map_err(|undecodable| {
        let before = &bytes[..undecodable.offset.min(bytes.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        BadConf { line, column, fault: Fault::NotText(undecodable) }
    })
}
