//! Pools of reusable objects and rings of bytes, for programs that serve many sessions.
//!
//! No server of this project uses them: their engines reuse buffers in simpler ways. The museum and
//! the benches compare them with allocators and with published pools. Memory that servers share is
//! in `memory`.
//!
//! The surprising thing: a pool of one owner has not one atomic instruction, and the shared one
//! needs some only for every magazine of slots ([`pool`]).

#[cfg(not(loom))]
mod fuzz;
pub mod pool;
pub mod ring;

#[cfg(not(loom))]
pub use fuzz::fuzz;
pub use pool::{Backing, Full, Guard, Handle, Order, Plan, Usage};
#[cfg(not(loom))]
pub use pool::{Boxed, Boxes, Fault, Home, Lent, Pool, Shared, Worker};
pub use ring::{Ring, RingError};

/// Atomics of the standard library, or those of loom (`--cfg loom`).
mod sync {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
}
