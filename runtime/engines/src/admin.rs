//! The administration interface of a server: a separate socket, besides the one for clients.
//!
//! It runs in the supervisor's loop, which may fork and must therefore have one thread; so no code
//! here waits. A client that sends nothing or does not read its answer keeps one of a few slots for
//! some seconds and delays no other client. This module does not know the protocol: it passes bytes
//! to an [`AdminHandler`] and sends the answer.

mod door;
mod queue;

use std::time::Duration;

use crate::knobs::Knobs;
use crate::status::Sample;

pub use door::Door;
pub(crate) use queue::AdminQueue;

/// The administration of a server.
#[derive(Default)]
pub struct Admin<'a> {
    /// The administration's socket, and the handler of its requests.
    pub handler: Option<(Door, Box<dyn AdminHandler + 'a>)>,
    /// The action of `SIGHUP` besides [`crate::StateStore::reload`].
    pub reload: Option<Box<dyn FnMut() -> Reload + 'a>>,
    /// Each worker's step after a change of the settings.
    pub renew: Option<&'a Renew<'a>>,
    /// Called by the supervisor again and again, the first time at its start: a sign of life.
    pub pulse: Option<Pulse<'a>>,
}

/// The longest time between two calls, and the function.
pub type Pulse<'a> = (Duration, Box<dyn FnMut() + 'a>);

/// Called on a reload, first by the supervisor and then by each worker between two of its turns,
/// with the number of the edition. It rereads data that a process keeps for itself, such as
/// certificates, and returns a report. Only the supervisor's report is printed; later workers are
/// copies of its process.
pub type Renew<'a> = dyn Fn(u32) -> Option<String> + Sync + 'a;

/// Answers the clients of the administration.
pub trait AdminHandler {
    /// Decides what to do about the bytes that a client has sent so far.
    fn handle(&mut self, request: &[u8], sample: &mut dyn FnMut() -> Sample) -> Answer;

    /// Answers a command that was executed, given its report.
    fn carried_out(&mut self, order: Order, words: &[String]) -> Vec<u8>;
}

/// An [`AdminHandler`]'s answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request is not complete.
    More,
    /// The answer, after which the connection is closed.
    Say(Vec<u8>),
    /// A command to execute; the answer follows.
    Obey(Order),
}

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display(rename_all = "lowercase")]
pub enum Order {
    /// Drain, as the first `SIGTERM` does.
    Drain,
    /// Accept no more and end with the last connection, as after a hand-over; it serves a listener
    /// that others share.
    Leave,
    /// Cut connections, as a second `SIGTERM` does.
    Quit,
    /// Reload, as `SIGHUP` does.
    Reload,
}

/// The result of a reload.
#[derive(Clone, Debug, Default)]
pub struct Reload {
    /// The new settings, of which only those are taken that a reload changes ([`Knobs::live`]).
    pub knobs: Option<Knobs>,
    /// Text that says what was done and what cannot be done.
    pub words: Vec<String>,
}
