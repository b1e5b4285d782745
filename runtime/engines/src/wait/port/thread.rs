//! The data of one thread of a port.

use seam::{Buffers, Instant};
use sys::uring::{Completion, Filled};

use super::completion_port::{CompletionPort, Job, Message, WorkItem};
use super::scheduler::Role;
use crate::context::WorkerContext;

// Tokens of sessions are below 2^60 and have a generation of 1 or more; this one, like
// TOKEN_LISTENER, names no session.
pub(super) const TOKEN_STOP: u64 = 2;

pub(super) struct PortThread<'a, 'd> {
    pub context: &'a WorkerContext<'d>,
    pub port: &'a CompletionPort,
    /// Its number among the threads.
    pub me: usize,
    pub role: Role,
    pub buffers: Buffers,
    /// The time of this batch, or of the leader's present check.
    pub now: Instant,
    /// The items that this thread will hand to the scheduler.
    pub new_items: Vec<WorkItem>,
    pub jobs: Vec<Job>,
    pub batch: Vec<WorkItem>,
    /// The number of items of the last batch, and its duration in nanoseconds.
    pub cost: Option<(usize, u64)>,
    /// The messages of the session that is stepped.
    pub inbox: Vec<Message>,
    /// Buffers that have been read.
    pub read: Vec<Filled>,
    pub found: Vec<Completion>,
    /// For receives by a call, while the server drains.
    pub scratch: Vec<u8>,
}
