//! The stock market: `show`, `buy ID N`, `sell ID N`, `exit`, `help` over lines of text.
//!
//! ```text
//!   book      stock.txt <-> entries                    command   a line -> a request, by one table
//!   market    the shared state: rows with atomic       service   bytes -> requests -> replies,
//!             leaves, trees over them, the gate                  batch by batch
//!   sheet     the file with its text and comments       show      one snapshot, rendered once
//!   choice    --index, --order, --lock and others      queue     orders on their way to a log
//!   replicated  the same, if several nodes serve the market
//!   work    computation that makes a request costlier
//! ```
//!
//! The protocol comes from a course exercise whose clients still exist: a request is a line of at
//! most [`LINE_MAX`] bytes, and [`wire::framing::Framing`] frames the reply. Every request gets
//! exactly one reply, except that `exit` in `line` framing just closes. Errors begin with `error:`,
//! change nothing and keep the connection, unless the line was too long to find its end.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod book;
mod choice;
pub mod command;
mod market;
pub mod queue;
pub mod replicated;
mod service;
mod sheet;
mod show;
mod trade;
pub mod work;

pub use choice::{Durability, Index, Lock, Order, Reads};
pub use market::{CAPACITY, Market, Refusal};
pub use service::{HeldReplies, LINE_MAX, Options, Stock};
pub use sheet::Sheet;
pub use trade::{Side, Trade};

use seam::Peer;

/// The line that the course's server prints of a connection.
fn connected(peer: Peer) -> String {
    match peer {
        Peer::Net(at) => format!("Connected to ({}, {})", at.ip(), at.port()),
        Peer::Local => "Connected to (local, 0)".to_owned(),
    }
}
