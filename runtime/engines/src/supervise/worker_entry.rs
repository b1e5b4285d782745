//! A worker as the supervisor follows it.

use seam::Instant;

/// A worker as the supervisor follows it, from one generation to the next.
pub(super) struct WorkerEntry {
    pub generation: u32,
    pub born: Instant,
    /// Deaths in a row shortly after the start.
    pub failures: u32,
    pub respawn_at: Option<Instant>,
    pub alive: bool,
    /// The worker was told to leave, because there are too many.
    pub retiring: bool,
    /// Its predecessor had served its number of connections.
    pub recycled: bool,
}

impl WorkerEntry {
    pub(super) fn new(generation: u32, born: Instant) -> WorkerEntry {
        WorkerEntry {
            generation,
            born,
            failures: 0,
            respawn_at: None,
            alive: false,
            retiring: false,
            recycled: false,
        }
    }
}
