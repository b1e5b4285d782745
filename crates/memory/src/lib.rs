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
mod gate;
mod lock;
mod padded;
#[cfg(not(loom))]
mod region;
mod rwlock;
mod sync;

#[cfg(not(loom))]
pub use board::{Board, Phase, Seat, SeatState, Tally, Totals};
pub use buffer::Buffer;
pub use gate::{Closed, Gate, Writing};
pub use lock::{Lock, Locked};
pub use padded::Padded;
#[cfg(not(loom))]
pub use region::{Placement, Refused, Region};
pub use rwlock::{Reading, RwLock, Sole};
