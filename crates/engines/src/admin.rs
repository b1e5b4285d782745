//! The administration of a server: a door of its own, beside the one that peers come by.
//!
//! It lives in the supervisor's loop, which may fork and must therefore have one thread; so nothing
//! here waits. A client that neither asks nor reads keeps one of a few places for some seconds
//! and delays no other. The protocol is not known here: bytes go to an [`AdminHandler`] and come
//! back from it.

mod door;
mod queue;

use crate::knobs::Knobs;
use crate::server::Renew;
use crate::status::Sample;

pub use door::Door;
pub(crate) use queue::AdminQueue;

/// What stands beside a server.
#[derive(Default)]
pub struct Admin<'a> {
    /// Who answers at the administration's door.
    pub handler: Option<(Door, Box<dyn AdminHandler + 'a>)>,
    /// What `SIGHUP` does beside [`crate::StateStore::reload`].
    pub reload: Option<Box<dyn FnMut() -> Reload + 'a>>,
    /// What each worker does after that.
    pub renew: Option<&'a Renew<'a>>,
}

/// Answers those who come to the administration's door.
pub trait AdminHandler {
    /// What to do about all that a visitor has `said` so far.
    fn hear(&mut self, said: &[u8], sample: &mut dyn FnMut() -> Sample) -> Answer;

    /// An order was carried out: what the visitor is told, given what there is to say about it.
    fn carried_out(&mut self, order: Order, words: &[String]) -> Vec<u8>;
}

/// What an [`AdminHandler`] makes of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The visitor has not finished.
    More,
    /// This is the answer, and the end.
    Say(Vec<u8>),
    /// To be carried out, and answered then.
    Obey(Order),
}

/// What a visitor can order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the first `SIGTERM`.
    Drain,
    /// As a second one at once: connections are cut.
    Quit,
    /// As `SIGHUP`.
    Reload,
}

/// What a reload has come to.
#[derive(Clone, Debug, Default)]
pub struct Reload {
    /// What shall be in force, of which that is taken which can change while workers serve: idle,
    /// write stall, drain, connections, spare workers.
    pub knobs: Option<Knobs>,
    /// What was done and what cannot be done, in words.
    pub words: Vec<String>,
}
