//! Shortest paths on a grid of free and blocked cells.
//!
//! ```text
//!   Grid       bits, row by row and column by column; one cell changes in constant time
//!   Searcher   A*, jump point search (JPS) and JPS with a table (JPS+); keeps its memory
//!   Jumps      the table of JPS+, repaired cell by cell
//!   Cost       so many straight steps and so many diagonal ones, exactly, as one integer
//!   oracle     Dijkstra as a textbook has it, and what a legal path is, in plain words
//!   movingai   the maps and scenarios of the MovingAI benchmark sets, both dialects
//! ```
//!
//! What may be cut is part of the type: a `Searcher<NoObstacle>` and a `Searcher<Always>` cannot be
//! mixed up, and a table that was made for one cannot be lent to the other. All costs are uniform
//! and a move is possible in both directions or in none; jump point search is wrong without
//! either, so neither can be said here.
//!
//! The surprising thing is that nothing here rounds. A diagonal step costs the square root of two,
//! and comparing sums of such steps in floating point goes wrong by and by; [`Cost`] weighs steps
//! with two integers whose ratio is so near to the root that no two paths of a grid that we accept
//! can be mistaken.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod bits;
mod cell;
mod cost;
mod error;
mod fuzz;
mod grid;
mod jumps;
mod labels;
mod memory;
pub mod movingai;
mod open;
pub mod oracle;
mod path;
mod rule;
mod search;

pub use cell::Cell;
pub use cost::Cost;
pub use error::GridError;
pub use fuzz::fuzz;
pub use grid::{Grid, SIDE_MAX};
pub use jumps::Jumps;
pub use path::{Path, Steps};
pub use rule::{Always, Corners, FourNeighbour, NoObstacle, OneObstacle, Rule};
pub use search::{Event, Method, Progress, Searcher, Stats};
