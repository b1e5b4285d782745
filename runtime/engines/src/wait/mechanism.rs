//! The interface of a way of waiting to a container.

use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::member::Member;
use crate::status::Gauge;

/// One process's way of waiting, with the data that its workers share.
pub(crate) trait Mechanism: Sync {
    /// One worker's life.
    ///
    /// # Errors
    /// The worker can no longer wait.
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault>;

    /// Whether a process has one pool of sessions for all its workers.
    fn pools_sessions(&self) -> bool {
        false
    }

    /// Whether the member after all workers is a listener of this mechanism, which also calls the
    /// service's tick.
    fn has_listener(&self) -> bool {
        false
    }

    /// Reports that the listener has ended.
    fn listener_ended(&self) {}

    /// Its own figures for the status.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
