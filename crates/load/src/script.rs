//! What is asked, and whether the reply is right: the protocol script.
//!
//! A script is sans-I/O. It fills bytes that the driver sends, is fed bytes that the driver
//! received, and keeps for each connection what it still waits for. It borrows what it is fed and
//! says how much it used; the driver keeps the rest and offers it again with more behind it.
//!
//! A run may also be audited: when all is over the driver asks one last request on a connection
//! of its own and the script gives its verdict from the reply.

mod ledger;
mod line;
mod stock;

pub use line::{Line, LineOptions};
pub use stock::{SHOW, Stock, StockOptions};

use crate::faults::Faults;
use crate::report::Check;

/// What a script made of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many bytes, from the front, will not be needed again.
    pub used: usize,
    /// How many requests they answered, right or wrong. Wrong ones are also counted as faults.
    pub done: u32,
}

/// A protocol, from the client's side. Connections are named by their place `at`, from zero.
pub trait Script {
    /// A connection is made at `at`; nothing is owed on it.
    fn open(&mut self, at: usize);

    /// Appends `count` requests to `out`.
    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>);

    /// Takes what came on the connection, the unused rest of the last time first.
    fn hear(&mut self, at: usize, bytes: &[u8], faults: &mut Faults) -> Heard;

    /// The connection is gone; what is unanswered on it may or may not have happened.
    fn close(&mut self, at: usize);

    /// What to ask on a connection of its own when all is over; empty if there is no audit.
    fn audit(&self) -> &[u8] {
        b""
    }

    /// Whether `reply` holds the whole answer to [`Script::audit`].
    fn audit_is_whole(&self, _reply: &[u8]) -> bool {
        true
    }

    /// Judges the run as a whole, from the answer to [`Script::audit`].
    fn verdict(&self, reply: &[u8]) -> Check;
}

/// The front of a reply as text for a message.
fn shown(bytes: &[u8]) -> String {
    let cut = bytes.len().min(60);
    let dots = if cut < bytes.len() { "..." } else { "" };
    format!("`{}`{dots}", bytes[..cut].escape_ascii())
}
