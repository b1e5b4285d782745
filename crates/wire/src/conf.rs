//! Settings and tables as a game server's operators write them by hand.
//!
//! ```text
//! // serverSetting.txt                          name     cost   weight
//! ipAddress  = "0.0.0.0"                        sword    120    3.5
//! serverPort = 6000      // no quotes needed    potion   15     0.2
//! noDelay    = 1         /* or true, yes, on */
//! ```
//!
//! The grammar is that of a published portfolio of a game server: `name = value`, one a line, with
//! the comments of C++. Its reader had one error code a kind; here an error has line, column and
//! what to do. Any editor's encoding is taken ([`crate::text`]). The surprising things: a backslash
//! in quotes is a backslash, because what operators quote is mostly paths of Windows; and an
//! unquoted value that runs into `://` is refused, because the comment would swallow half an
//! address in silence.

mod fault;
mod fuzz;
mod settings;
mod table;

pub use fault::{BadConf, Fault, Kind};
pub(crate) use fuzz::fuzz;
pub use settings::{NAME_MAX, Setting, Settings, flag_of};
pub use table::{Row, Table};

use crate::text;

/// The longest file that is read, in bytes: settings are written by people.
pub const FILE_MAX: usize = 1 << 20;

/// The text of a file of settings or of a table.
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
