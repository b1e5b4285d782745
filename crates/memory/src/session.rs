//! Sessions by id, the lifetime of their memory, and the choice of the sender.
//!
//! A [`SessionId`] has a shard, an index and a generation in 60 bits, so it fits the user data of
//! `epoll` and `io_uring` with four bits to spare for the kind of operation ([`user_data`]). The
//! dense index is the table: no hash, no tree. A slot that has used up its generations is retired
//! and never names a session again.
//!
//! [`ShardTable`] belongs to one worker and has no atomics. [`SharedTable`] serves
//! several workers, which must hold a [`Ref`] to look inside. Both count the operations
//! that the kernel has in flight for a session: a closed one keeps its slot, and so its
//! buffers, until the last has landed.
//!
//! The surprising thing: looking up a session takes no liveness test. A free slot
//! holds a generation that no id can have, and so does a closing one; one
//! comparison decides all three cases.

mod send;
#[cfg(not(loom))]
mod shard;
mod shared;

pub use send::{Outbox, SharedOutbox};
#[cfg(not(loom))]
pub use shard::{Landing, ShardTable};
pub use shared::{Ref, SharedTable};

use seam::SessionId;

/// The number of kinds of operations that [`user_data`] can distinguish.
pub const OPERATIONS: u8 = 16;

/// The result of closing a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing<T> {
    /// Nothing was in flight: here is its value, and its slot is free.
    Freed(T),
    /// The value stays until all operations have landed and all references are dropped.
    Waits,
    /// There is no such session, or it was closed before.
    Unknown,
}

/// An id and a kind of operation, below [`OPERATIONS`], as one number for the kernel.
///
/// # Panics
/// If `operation` is 16 or more.
#[must_use]
pub fn user_data(operation: u8, id: SessionId) -> u64 {
    assert!(operation < OPERATIONS, "expected an operation below 16, found {operation}");
    u64::from(operation) << 60 | id.bits()
}

/// The kind of operation and the id in a number that came back from the kernel.
#[must_use]
pub fn of_user_data(data: u64) -> (u8, SessionId) {
    ((data >> 60) as u8, SessionId::from_bits(data & (u64::MAX >> 4)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_both_and_gives_both_back() {
        let id = SessionId::new(4095, SessionId::INDEX_MAX - 1, SessionId::GENERATION_MAX);
        for operation in 0..OPERATIONS {
            assert_eq!(of_user_data(user_data(operation, id)), (operation, id));
        }
        assert_eq!(of_user_data(u64::MAX).0, 15, "a strange number is no panic");
    }
}
