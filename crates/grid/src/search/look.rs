//! A*: every neighbour is a successor.

use super::{Aim, At};
use crate::cost::Cost;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::rule::{Rule, STEP};

/// Reaches every neighbour of a cell.
pub(super) fn every<R: Rule, A: Aim>(memory: &mut Memory, grid: &Grid, aim: &A, at: At) {
    let mut moves = R::MOVES[grid.rows().around(at.position)];
    memory.stats.scanned += 8;
    let stride = grid.rows().stride() as i32;
    while moves != 0 {
        let direction = moves.trailing_zeros() as usize;
        moves &= moves - 1;
        let (dx, dy) = STEP[direction];
        let cell = at.cell.moved((dx, dy), 1);
        let position = at.position.wrapping_add_signed(dx + dy * stride);
        let step = if direction.is_multiple_of(2) { Cost::STRAIGHT } else { Cost::DIAGONAL };
        memory.reach(cell, position, at.cost + step, at.cell, || aim.remains::<R>(cell));
    }
}
