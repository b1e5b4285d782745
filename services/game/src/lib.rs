//! A world with a map in which sessions walk and see each other.
//!
//! ```text
//!   packet    the packets between client and server
//!   terrain   the map: free cells and spawn points
//!   world     the shared state: positions, routes and the search budget
//!   search    a path search, a slice at a time, in pooled memory
//!   service   packets in and out; the world's tick
//! ```
//!
//! Paths are never searched on the thread that moves bytes. A request becomes a job, which draws on
//! the tick's budget and returns unfinished when the budget is spent. A thousand clients that
//! request the far end of a maze therefore delay each other's paths, but no client's step.
//!
//! [`seam::Cx::push`] tells every client about every step, so one worker must have all sessions;
//! the launcher ensures that.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod packet;
mod search;
mod service;
mod terrain;
mod world;

pub use search::{Outcome, PathSearch};
pub use service::{Game, Options};
pub use terrain::{BadTerrain, Terrain};
pub use world::World;

/// Players and spectators at once.
pub const SEATS: usize = 1024;
