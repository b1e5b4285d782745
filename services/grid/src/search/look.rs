//! A*: cell by cell.
//!
//! Of the many shortest paths between two cells one is kept, by the same order as in jump point
//! search. A cell therefore has one or two successors instead of eight and is found about once
//! (Sturtevant and Rabin, "Canonical Orderings on Grids", IJCAI 2016). The set of expanded cells
//! and their order hardly change: the loop only avoids finding each cell up to eight times.

use super::{At, One};
use crate::cost::Cost;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::rule::{Rule, STEP};

/// Reaches the neighbours of a cell that a path through it may lead to.
pub(super) fn around<R: Rule>(memory: &mut Memory, grid: &Grid, aim: &One, at: At) {
    // Wider than its bits, so that one instruction finds the lowest.
    let mut moves = u32::from(R::successors(at.entered, grid.rows().around(at.position)));
    let stride = grid.rows().stride() as i32;
    while moves != 0 {
        let direction = moves.trailing_zeros() as usize;
        moves &= moves - 1;
        // Counted here, because most target processors have no
        // popcount instruction in the baseline.
        memory.stats.scanned += 1;
        let (dx, dy) = STEP[direction];
        let cell = at.cell.moved((dx, dy), 1);
        let position = at.position.wrapping_add_signed(dx + dy * stride);
        let step = if direction.is_multiple_of(2) { Cost::STRAIGHT } else { Cost::DIAGONAL };
        memory
            .reach(cell, position, at.cost + step, (at.cell, direction), || aim.remains::<R>(cell));
    }
}
