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

mod fuzz;
mod settings;

pub(crate) use fuzz::fuzz;
pub use settings::{FLAG, NAME_MAX, Setting, Settings, flag_of, span};

/// The longest accepted file in bytes; hand-written files are far shorter.
pub const FILE_MAX: usize = 1 << 20;
