//! Memory that workers, threads or processes, share, and the locks that protect it.
//!
//! A [`Region`] places a [`seam::Share`] in private or in shared memory; type and code are the
//! same. Everything else here may lie inside such a state: the all-zero bytes are a valid value of
//! each, there are no pointers, and each lock names its holder, so the supervisor can release it on
//! behalf of a killed worker. Only [`RwLock`] cannot name its holders; its documentation says so.
//!
//! The surprising thing: no file here distinguishes words shared by threads from words shared by
//! processes. The futexes are always of the shared kind, which works for both. The private kind
//! saves some tens of nanoseconds of a call that is about to sleep anyway.

#[cfg(not(loom))]
mod board;
mod buffer;
#[cfg(not(loom))]
mod event_count;
#[cfg(not(loom))]
mod file_words;
#[cfg(not(loom))]
mod fuzz;
mod gate;
mod lock;
mod padded;
#[cfg(not(loom))]
mod region;
mod rwlock;
pub mod session;
#[cfg(not(loom))]
pub mod shared;
mod stack;
mod sync;

#[cfg(not(loom))]
pub use board::{
    Board, Doing, LATE_EDGES_NS, Phase, Refusal, Settings, Slot, SlotState, Tally, Throttle,
    Totals, Turnover,
};
pub use buffer::Buffer;
#[cfg(not(loom))]
pub use event_count::EventCount;
#[cfg(not(loom))]
pub use file_words::FileWords;
#[cfg(not(loom))]
pub use fuzz::fuzz;
pub use gate::{Closed, Gate, Writing};
pub use lock::{Lock, Locked};
pub use padded::Padded;
#[cfg(not(loom))]
pub use region::{Placement, Refused, Region};
pub use rwlock::{Reading, RwLock, Sole};
pub use session::{Full, SharedTable};
pub use stack::Stack;
