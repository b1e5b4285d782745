//! A worker's place among the others.

use seam::WorkerId;

/// A worker's place in the group that shares listeners: all workers, or those of one process.
#[derive(Clone, Copy)]
pub struct Member {
    /// The slot of the group's first worker.
    pub first: usize,
    /// The number within the group.
    pub index: usize,
    /// The number of workers in the group; an acceptor or a listener comes after them.
    pub workers: usize,
}

impl Member {
    /// The worker `id` in the group of all `workers`, whose first slot is `first`.
    pub fn of_all(first: usize, workers: usize, id: WorkerId) -> Member {
        Member { first, index: id.slot() - first, workers }
    }

    /// Whether the member is not a worker but the acceptor or the listener.
    pub fn feeds_workers(&self) -> bool {
        self.index >= self.workers
    }
}
