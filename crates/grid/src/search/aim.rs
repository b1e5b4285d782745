//! The target of a search: one goal, or any of several.

use crate::bits::Bits;
use crate::cell::Cell;
use crate::cost::Cost;
use crate::grid::Grid;
use crate::rule::{Corners, Rule};

/// Up to this many goals, the estimate is the least of the estimates to each. With more goals it is
/// zero, because computing it would take longer than it saves.
const ESTIMATED_MAX: usize = 16;

/// The questions of a search about its goal.
pub(crate) trait Aim {
    /// A lower bound of the cost from `cell` to the goal.
    fn remains<R: Rule>(&self, cell: Cell) -> Cost;
    /// Whether the goal is at this position of the rows.
    fn is_reached(&self, position: u32) -> bool;
    /// The goals among the 64 cells of the rows from a position on.
    fn in_rows(&self, position: u32) -> u64;
    /// The goals among the 64 cells of the columns from a position on.
    fn in_columns(&self, position: u32) -> u64;
}

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

/// One goal.
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
}

/// The bit of `position` in the window that begins at `first`, if it is inside.
#[inline]
fn bit(position: u32, first: u32) -> u64 {
    let at = position.wrapping_sub(first);
    if at < 64 { 1 << at } else { 0 }
}

impl Aim for One {
    #[inline]
    fn remains<R: Rule>(&self, cell: Cell) -> Cost {
        distance::<R>(cell, self.cell)
    }

    #[inline]
    fn is_reached(&self, position: u32) -> bool {
        position == self.in_rows
    }

    #[inline]
    fn in_rows(&self, position: u32) -> u64 {
        bit(self.in_rows, position)
    }

    #[inline]
    fn in_columns(&self, position: u32) -> u64 {
        bit(self.in_columns, position)
    }
}

/// Several goals, marked in both orientations.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    cells: Vec<Cell>,
    rows: Bits,
    columns: Bits,
    /// The grid sides that the marks have room for.
    sides: (u16, u16),
}

impl Default for Many {
    fn default() -> Many {
        let (rows, columns) = (Bits::new(0, 0), Bits::new(0, 0));
        Many { cells: Vec::new(), rows, columns, sides: (0, 0) }
    }
}

impl Many {
    /// Sets the given cells of `grid` as goals.
    pub(crate) fn aim<'a>(&mut self, grid: &Grid, cells: impl Iterator<Item = &'a Cell>) {
        let sides = (grid.width(), grid.height());
        if self.sides == sides {
            self.rows.clear();
            self.columns.clear();
        } else {
            self.rows = Bits::new(sides.0, sides.1);
            self.columns = Bits::new(sides.1, sides.0);
            self.sides = sides;
        }
        self.cells.clear();
        for cell in cells.copied() {
            let position = self.rows.position(cell.x, cell.y);
            if !self.rows.is_free(position) {
                self.rows.flip(position);
                self.columns.flip(self.columns.position(cell.y, cell.x));
                self.cells.push(cell);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

impl Aim for Many {
    #[inline]
    fn remains<R: Rule>(&self, cell: Cell) -> Cost {
        if self.cells.len() > ESTIMATED_MAX {
            return Cost::ZERO;
        }
        let all = self.cells.iter().map(|to| distance::<R>(cell, *to));
        all.min().unwrap_or(Cost::ZERO)
    }

    #[inline]
    fn is_reached(&self, position: u32) -> bool {
        self.rows.is_free(position)
    }

    #[inline]
    fn in_rows(&self, position: u32) -> u64 {
        self.rows.window(position)
    }

    #[inline]
    fn in_columns(&self, position: u32) -> u64 {
        self.columns.window(position)
    }
}
