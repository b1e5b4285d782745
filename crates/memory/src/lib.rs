//! Memory that workers share, be they threads or processes, and what keeps them out of each
//! other's way in it.
//!
//! A [`Region`] places a [`seam::Share`] in private or in shared memory; type and code are the
//! same. Everything else here is made to lie inside such a state: the all-zero bytes are a valid
//! value of each, there are no pointers, and whoever holds something is named, so that the
//! supervisor can let go on behalf of a worker that was killed. [`RwLock`] is the one that cannot
//! name its holders, and says so.
//!
//! The surprising thing: no file here says whether its words are shared by threads or by
//! processes. The futexes are always of the shared kind, which works for both; the private kind
//! saves some tens of nanoseconds of a call that is about to sleep anyway.

#[cfg(not(loom))]
mod board;
mod buffer;
#[cfg(not(loom))]
mod fuzz;
mod gate;
mod lock;
mod padded;
pub mod pool;
#[cfg(not(loom))]
mod region;
pub mod ring;
mod rwlock;
pub mod session;
mod sync;

#[cfg(not(loom))]
pub use board::{
    Board, Doing, LATE_EDGES_NS, Phase, Refusal, Settings, Slot, SlotState, Tally, Totals, Turnover,
};
pub use buffer::Buffer;
#[cfg(not(loom))]
pub use fuzz::fuzz;
pub use gate::{Closed, Gate, Writing};
pub use lock::{Lock, Locked};
pub use padded::Padded;
pub use pool::{Backing, Full, Guard, Handle, Order, Plan, Usage};
#[cfg(not(loom))]
pub use pool::{Boxed, Boxes, Fault, Home, Lent, Pool, Shared, Worker};
#[cfg(not(loom))]
pub use region::{Placement, Refused, Region};
pub use ring::{Ring, RingError};
pub use rwlock::{Reading, RwLock, Sole};
#[cfg(not(loom))]
pub use session::ShardTable;
pub use session::SharedTable;
