//! A path: its turning points, and each of its steps.

use crate::cell::Cell;
use crate::cost::Cost;

/// A path found by a search, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    pub(crate) turns: &'a [Cell],
    pub(crate) cost: Cost,
}

impl<'a> Path<'a> {
    /// The first cell, each cell at which the direction changes, and the last; one cell for a path
    /// without a step.
    pub fn turns(&self) -> &'a [Cell] {
        self.turns
    }

    /// The cost of the path.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Each cell from the first to the last.
    pub fn steps(&self) -> Steps<'a> {
        let (first, rest) =
            self.turns.split_first().map_or((None, &[][..]), |(first, rest)| (Some(*first), rest));
        Steps { next: first, rest }
    }
}

/// The cells of a [`Path`].
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    next: Option<Cell>,
    rest: &'a [Cell],
}

impl Iterator for Steps<'_> {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        let cell = self.next?;
        self.next = self.rest.first().map(|turn| {
            let (dx, dy) = cell.offset(*turn);
            cell.moved((dx.signum(), dy.signum()), 1)
        });
        if self.next == self.rest.first().copied() {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        Some(cell)
    }
}

/// Appends `cell` to turning points that are collected from the goal to the start.
pub(crate) fn extend(turns: &mut Vec<Cell>, cell: Cell) {
    if turns.last() == Some(&cell) {
        return;
    }
    if let [.., before, last] = turns[..] {
        let direction = |from: Cell, to: Cell| {
            let (dx, dy) = from.offset(to);
            (dx.signum(), dy.signum())
        };
        if direction(before, last) == direction(last, cell) {
            turns.pop();
        }
    }
    turns.push(cell);
}
