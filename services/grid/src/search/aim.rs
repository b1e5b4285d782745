//! The target of a search, and distances to it.

use crate::cell::Cell;
use crate::cost::Cost;
use crate::grid::Grid;
use crate::rule::{Corners, Rule};

/// The length of the shortest path between two cells on a grid without obstacles.
#[inline]
pub(crate) fn distance<R: Rule>(from: Cell, to: Cell) -> Cost {
    let (dx, dy) = (from.x.abs_diff(to.x), from.y.abs_diff(to.y));
    let (dx, dy) = (u32::from(dx), u32::from(dy));
    if R::CORNERS == Corners::FourNeighbour {
        return Cost::of(dx + dy, 0);
    }
    Cost::of(dx.abs_diff(dy), dx.min(dy))
}

/// The turning point of the way from a cell to one that it reached: it walks first, then runs.
pub(crate) fn bend<R: Rule>(from: Cell, to: Cell) -> Cell {
    if R::CORNERS == Corners::FourNeighbour {
        return Cell { x: from.x, y: to.y };
    }
    let (dx, dy) = from.offset(to);
    let diagonal = dx.abs().min(dy.abs());
    from.moved((dx.signum(), dy.signum()), diagonal as u32)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub(crate) cell: Cell,
    in_rows: u32,
    in_columns: u32,
}

impl One {
    pub(crate) fn at(grid: &Grid, cell: Cell) -> One {
        let in_columns = grid.columns().position(cell.y, cell.x);
        One { cell, in_rows: grid.position(cell), in_columns }
    }

    /// A lower bound of the cost from `cell` to the goal.
    #[inline]
    pub(crate) fn remains<R: Rule>(&self, cell: Cell) -> Cost {
        distance::<R>(cell, self.cell)
    }

    /// Whether the goal is at this position of the rows.
    #[inline]
    pub(crate) fn is_reached(&self, position: u32) -> bool {
        position == self.in_rows
    }

    /// The goal among the 64 cells of the rows from a position on.
    #[inline]
    pub(crate) fn in_rows(&self, position: u32) -> u64 {
        bit(self.in_rows, position)
    }

    /// The goal among the 64 cells of the columns from a position on.
    #[inline]
    pub(crate) fn in_columns(&self, position: u32) -> u64 {
        bit(self.in_columns, position)
    }
}

/// The bit of `position` in the window that begins at `first`, if it is inside.
#[inline]
fn bit(position: u32, first: u32) -> u64 {
    let at = position.wrapping_sub(first);
    if at < 64 { 1 << at } else { 0 }
}
