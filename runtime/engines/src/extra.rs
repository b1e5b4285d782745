//! A worker that serves no connections. It is a thread where workers are threads and a process
//! where they are processes, is replaced when it dies, and leaves when the server does.
//!
//! Sessions of the other workers store orders for it in the shared state and ring its bell
//! ([`seam::Cx::ring`]).

use std::error::Error;

use memory::Board;
use seam::WorkerId;
use sys::eventfd::EventFd;

use crate::parts::assets::Assets;

/// The reason why an extra worker could not begin or go on.
pub type ExtraFault = Box<dyn Error + Send + Sync>;

/// A worker in addition to those that serve connections.
pub trait ExtraWorker: Sync {
    /// Checks whether the worker could begin, as far as that is known before the server starts.
    ///
    /// # Errors
    /// The missing resource, and the remedy.
    fn check(&self) -> Result<(), ExtraFault>;

    /// Runs until the server ends.
    ///
    /// # Errors
    /// The reason why it cannot go on; the supervisor starts another worker.
    fn run(&self, entry: &ExtraWorkerEntry<'_>) -> Result<(), ExtraFault>;
}

/// An extra worker's place in a server.
pub struct ExtraWorkerEntry<'a> {
    /// The server's files.
    pub assets: &'a Assets,
    /// The scoreboard.
    pub board: &'a Board,
    /// Its own name.
    pub id: WorkerId,
    /// The number of slots of its entry; `id` names the first.
    pub slots: usize,
    /// Rung when an order has changed.
    pub orders: &'a EventFd,
    /// Readable from the moment the server leaves [`memory::Phase::Ready`].
    pub stop: &'a EventFd,
    /// Rung by the worker when the supervisor should look at the board.
    pub bell: &'a EventFd,
    /// Print notes (stderr).
    pub verbose: bool,
    /// The server took over from another one, whose sessions ring a bell that this worker does not
    /// hear.
    pub is_successor: bool,
}

/// An extra worker as the server holds it.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    pub worker: &'a dyn ExtraWorker,
    /// Rung when a session has changed an order.
    pub orders: &'a EventFd,
    /// The first slot of its entry, which comes after those of all others.
    pub slot: usize,
}
