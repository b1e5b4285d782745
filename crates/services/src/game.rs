//! A world with a map, in which sessions walk and watch each other.
//!
//! ```text
//!   packet    what client and server say to each other, as bytes
//!   terrain   the map: what is free, and where one appears
//!   world     the shared state: who is where, on which way, and what may still be searched
//!   search    a search for a path, a slice at a time, in memory that is lent
//!   service   packets to the world and back; the world's tick
//! ```
//!
//! Nothing is searched where bytes are moved: a request for a path leaves as a job, which takes
//! from what the tick allows and comes back unfinished when that is used up. So a thousand who ask
//! for the far end of a maze make each other wait for paths, and nobody for a step.
//!
//! Everybody hears of everybody's steps, by [`seam::Cx::push`]; so one worker must have all
//! sessions, which the launcher sees to.

mod fuzz;
pub mod packet;
mod search;
mod service;
mod terrain;
mod world;

pub use fuzz::fuzz;
pub use search::{Outcome, PathSearch};
pub use service::{Game, Options};
pub use terrain::{BadTerrain, Terrain};
pub use world::World;

/// Players and spectators at one time.
pub const SEATS: usize = 1024;
