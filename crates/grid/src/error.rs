//! Errors of requests and of parsed files.

use crate::cell::Cell;
use crate::grid::SIDE_MAX;
use std::fmt;

/// Why a request has no answer. "There is no path" is an answer, so it is not listed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GridError {
    /// The grid has no cell, or a side longer than [`SIDE_MAX`].
    Size {
        /// The requested columns.
        width: usize,
        /// The requested rows.
        height: usize,
    },
    /// The cell is not on the grid.
    Outside(Cell),
    /// The cell is an obstacle, so no path can begin or end there.
    Blocked(Cell),
    /// The request has no goal.
    NoGoal,
    /// JPS+ searches for one goal at a time.
    OneGoal,
    /// The grid's obstacles differ from those that the table was made
    /// for: repair it or make it again.
    StaleTable,
    /// The grid or the method changed between two steps of one search: begin again.
    Changed,
    /// There is no search to continue.
    NotBegun,
    /// A file has the wrong format.
    Parse {
        /// The line number, from 1.
        line: usize,
        /// The expected text.
        expected: &'static str,
        /// The text found, shortened.
        found: String,
    },
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GridError::Size { width, height } => write!(
                f,
                "expected a grid of 1 to {SIDE_MAX} columns and rows, found {width} by {height}"
            ),
            GridError::Outside(cell) => {
                write!(f, "expected a cell of the grid, found {cell}, which is outside")
            }
            GridError::Blocked(cell) => {
                write!(f, "expected a free cell, found an obstacle at {cell}: choose one beside it")
            }
            GridError::NoGoal => write!(f, "expected at least one goal, found none"),
            GridError::OneGoal => {
                write!(f, "expected one goal for JPS+, found several: use JPS or A* for them")
            }
            GridError::StaleTable => write!(
                f,
                "expected a table of this grid's obstacles, found one of others: repair it with \
                 each change, or make it again"
            ),
            GridError::Changed => write!(
                f,
                "expected the same grid and method in each step of a search, found a change: \
                 begin again"
            ),
            GridError::NotBegun => {
                write!(f, "expected a search to go on with, found none: begin one")
            }
            GridError::Parse { line, expected, found } => {
                write!(f, "line {line}: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for GridError {}
