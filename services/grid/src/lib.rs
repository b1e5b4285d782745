//! Shortest paths on a grid of free and blocked cells.
//!
//! ```text
//!   Grid       bits, row by row and column by column; one cell changes in constant time
//!   Searcher   A* and jump point search (JPS); keeps its memory
//!   Cost       numbers of straight and of diagonal steps, exactly, as one integer
//!   oracle     Dijkstra as in a textbook, and the definition of a legal path in plain words
//!   movingai   the maps and scenarios of the MovingAI benchmark sets, both dialects
//! ```
//!
//! The corner rule is part of the type: a `Searcher<NoObstacle>` and a `Searcher<Always>` cannot
//! be mixed up. All costs are uniform, and every
//! move is possible in both directions or in none. Jump point search needs both, so the types
//! cannot express anything else.
//!
//! The surprising thing: nothing here rounds. A diagonal step costs the square root of two, and
//! sums of such steps in floating point drift. [`Cost`] weighs steps with two integers whose ratio
//! is so close to the root that it orders all paths of an accepted grid correctly.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod bits;
mod cell;
mod cost;
mod error;
mod fuzz;
mod grid;
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
pub use path::{Path, Steps};
pub use rule::{Always, Corners, FourNeighbour, NoObstacle, OneObstacle, Rule};
pub use search::{Event, Method, Progress, Searcher, Stats};

/// The portfolio's maps in MovingAI's format: open ground with diamonds of walls, and the maze.
pub const PORTFOLIO_MAPS: [&[u8]; 2] =
    [include_bytes!("../maps/portfolio-open.map"), include_bytes!("../maps/portfolio-maze.map")];
