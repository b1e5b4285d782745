//! The buffers of a worker with blocking code.

use seam::{Buffers, Instant};

use crate::limits::{BLOCKING_BUFFERS, RECEIVE_BYTES};

/// The buffers that a worker keeps from one connection to the next.
pub struct Kept {
    /// Input, in a capacity of [`RECEIVE_BYTES`] whose pages the kernel touches as it needs them.
    pub scratch: Vec<u8>,
    pub buffers: Buffers,
    /// The connections that it has served, which name its sessions.
    pub served: u32,
    /// The time of the service's next tick, if this worker calls it.
    pub next_tick: Option<Instant>,
}

impl Kept {
    /// Buffers for one connection at a time.
    pub fn new() -> Kept {
        Kept::sparing(BLOCKING_BUFFERS)
    }

    /// The same with at most `spare_max` spare ones.
    pub fn sparing(spare_max: usize) -> Kept {
        let mut buffers = Buffers::new(spare_max);
        let first = buffers.take();
        buffers.put(first);
        let scratch = Vec::with_capacity(RECEIVE_BYTES);
        Kept { scratch, buffers, served: 0, next_tick: None }
    }
}
