//! Errors of requests and of parsed files.

use crate::cell::Cell;
use crate::grid::SIDE_MAX;

/// Why a request has no answer. "There is no path" is an answer, so it is not listed here.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum GridError {
    /// The grid has no cell, or a side longer than [`SIDE_MAX`].
    #[display("expected a grid of 1 to {SIDE_MAX} columns and rows, found {width} by {height}")]
    Size { width: usize, height: usize },
    #[display("expected a cell of the grid, found {_0}, which is outside")]
    Outside(Cell),
    /// The cell is an obstacle, so no path can begin or end there.
    #[display("expected a free cell, found an obstacle at {_0}: choose a cell next to it")]
    Blocked(Cell),
    /// The grid or the method changed between two steps of one search: begin again.
    #[display(
        "expected the same grid and method in each step of a search, found a change: begin again"
    )]
    Changed,
    /// There is no search to continue.
    #[display("expected a search to go on with, found none: begin one")]
    NotBegun,
    /// A file has the wrong format.
    #[display("line {line}: expected {expected}, found {found}")]
    Parse { line: usize, expected: &'static str, found: String },
}

impl std::error::Error for GridError {}
