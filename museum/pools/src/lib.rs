//! Pools of reusable objects and rings of bytes: the structures of a published portfolio, without
//! its faults.
//!
//! A pool keeps its objects in an array or each in an allocation of its own, and uses the free
//! slots in the order of a stack or of a queue: four pools, with guards and counts. No server of
//! this project uses them, because its engines reuse buffers in simpler ways; the museum compares
//! them with heaps and with the published pools. Memory that servers share is in `memory`.
//!
//! The surprising thing: a pool of one owner has not one atomic instruction, and its links of free
//! slots never lie in the slots ([`pool`]).

mod fuzz;
pub mod pool;
pub mod ring;

pub use fuzz::fuzz;
pub use pool::{Backing, Fault, Full, Guard, Handle, Order, Plan, Pool, Usage};
pub use ring::{Ring, RingError};
