//! Jump point search by scanning 64 cells at a time.
//!
//! A run goes straight and stops at the first cell that has a forced neighbour, at the goal, or
//! before an obstacle; the three rows around it are read as words, so most runs end in the first.
//! A walk goes cell by cell and starts runs to both sides. A cell on a walk at which such a run
//! finds something is not a successor itself: the search reaches the run's result from the walk's
//! first cell by one bend. The cells between never enter the open list (Harabor and Grastien,
//! "Improving Jump Point Search", ICAPS 2014: block scanning and intermediate pruning).

use super::{At, One};
use crate::bits::Bits;
use crate::cell::Cell;
use crate::cost::Cost;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::rule::{Rule, STEP, turned};

/// The cells of a window whose two neighbours are in it too.
const INNER: u64 = !(1 | 1 << 63);
/// The step of the window.
const STRIDE: u32 = 62;

/// Reaches the jump points around a cell.
pub(super) fn points<R: Rule>(memory: &mut Memory, grid: &Grid, aim: &One, at: At) {
    let mut successors = R::successors(at.entered, grid.rows().around(at.position));
    while successors != 0 {
        let direction = successors.trailing_zeros() as usize;
        successors &= successors - 1;
        let mut jump = Jump { memory, grid, aim, from: at.cell };
        if R::WALKS >> direction & 1 == 1 {
            jump.walk::<R>(at, direction);
        } else {
            jump.run::<R>(at.cell, at.position, at.cost, direction);
        }
    }
}

/// The state that all runs and walks from one cell share.
struct Jump<'a> {
    memory: &'a mut Memory,
    grid: &'a Grid,
    aim: &'a One,
    from: Cell,
}

impl Jump<'_> {
    /// Walks cell by cell in `direction`, with runs to both sides.
    fn walk<R: Rule>(&mut self, at: At, direction: usize) {
        let rows = self.grid.rows();
        let step = STEP[direction];
        let by = step.0 + step.1 * rows.stride() as i32;
        let price = if direction.is_multiple_of(2) { Cost::STRAIGHT } else { Cost::DIAGONAL };
        let (left, right) = (turned(direction, R::TURN), turned(direction, 8 - R::TURN));
        let At { mut cell, mut position, mut cost, .. } = at;
        let mut around = rows.around(position);
        while R::MOVES[around] >> direction & 1 == 1 {
            cell = cell.moved(step, 1);
            position = position.wrapping_add_signed(by);
            cost += price;
            around = rows.around(position);
            self.memory.stats.scanned += 1;
            if self.aim.is_reached(position) || R::FORCED[direction][around] != 0 {
                self.reach::<R>(cell, position, cost, direction);
                return;
            }
            self.run::<R>(cell, position, cost, left);
            self.run::<R>(cell, position, cost, right);
        }
    }

    /// Runs in `direction` from a cell that costs `cost`, and reaches the cell where the run stops.
    #[inline]
    fn run<R: Rule>(&mut self, cell: Cell, position: u32, cost: Cost, direction: usize) {
        let (grid, aim) = (self.grid, self.aim);
        let (rows, columns) = (grid.rows(), grid.columns());
        let scanned = &mut self.memory.stats.scanned;
        let goals_in_row = |at| aim.in_rows(at);
        let goals_in_column = |at| aim.in_columns(at);
        let found = match direction {
            2 => forward::<R>(rows, position, goals_in_row, scanned),
            6 => backward::<R>(rows, position, goals_in_row, scanned),
            4 => forward::<R>(columns, columns.position(cell.y, cell.x), goals_in_column, scanned),
            _ => backward::<R>(columns, columns.position(cell.y, cell.x), goals_in_column, scanned),
        };
        if let Some(count) = found {
            let cell = cell.moved(STEP[direction], count);
            self.reach::<R>(cell, grid.position(cell), cost + Cost::of(count, 0), direction);
        }
    }

    #[inline]
    fn reach<R: Rule>(&mut self, cell: Cell, position: u32, cost: Cost, entered: usize) {
        let aim = self.aim;
        self.memory.reach(cell, position, cost, (self.from, entered), || aim.remains::<R>(cell));
    }
}

/// The steps of a run towards higher positions; `None` if it ends at an obstacle.
#[inline]
fn forward<R: Rule>(
    bits: &Bits,
    from: u32,
    goals: impl Fn(u32) -> u64,
    scanned: &mut u64,
) -> Option<u32> {
    let mut first = from;
    loop {
        *scanned += 1;
        let here = bits.window(first);
        let above = bits.window(first - bits.stride());
        let below = bits.window(first + bits.stride());
        let forced = R::forced_forward(above, here) | R::forced_forward(below, here);
        let stops = (forced | !here | goals(first)) & INNER;
        if stops != 0 {
            let at = stops.trailing_zeros();
            return (here >> at & 1 == 1).then(|| first + at - from);
        }
        first += STRIDE;
    }
}

/// The same towards lower positions.
#[inline]
fn backward<R: Rule>(
    bits: &Bits,
    from: u32,
    goals: impl Fn(u32) -> u64,
    scanned: &mut u64,
) -> Option<u32> {
    let mut first = from - 63;
    loop {
        *scanned += 1;
        let here = bits.window(first);
        let above = bits.window(first - bits.stride());
        let below = bits.window(first + bits.stride());
        let forced = R::forced_backward(above, here) | R::forced_backward(below, here);
        let stops = (forced | !here | goals(first)) & INNER;
        if stops != 0 {
            let at = 63 - stops.leading_zeros();
            return (here >> at & 1 == 1).then(|| from - first - at);
        }
        first -= STRIDE;
    }
}
