//! The table of JPS+: the distance to the next jump point for each cell and direction.
//!
//! A positive entry is the distance to a jump point; otherwise its negative is the number of steps
//! before an obstacle (Rabin and Silva, "JPS+: An Extreme A* Speed Optimization for Static Uniform
//! Cost Grids", Game AI Pro 2, 2015). Each entry follows from the neighbourhood and from the
//! entries one step ahead, so the table is filled from each direction's far end. A table belongs to
//! one state of the grid; after a change it is made again.

use crate::cell::Cell;
use crate::cost::Cost;
use crate::error::GridError;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::rule::{NOWHERE, Rule, STEP, turned};
use crate::search::{At, One};
use std::marker::PhantomData;

/// The order of filling: entries come before those that look them up.
const STRAIGHT: [usize; 4] = [2, 6, 0, 4];
const DIAGONAL: [usize; 4] = [1, 3, 5, 7];

/// Distances to jump points under the rule `R`: 16 bytes per cell.
#[derive(Clone, Debug)]
pub struct Jumps<R: Rule> {
    entries: Vec<[i16; 8]>,
    fingerprint: u64,
    rule: PhantomData<R>,
}

impl<R: Rule> Jumps<R> {
    /// Computes the table of `grid`, in time proportional to its cells.
    pub fn of(grid: &Grid) -> Jumps<R> {
        let entries = vec![[0; 8]; grid.rows().positions()];
        let mut jumps = Jumps { entries, fingerprint: grid.fingerprint(), rule: PhantomData };
        for direction in Self::order() {
            let (dx, dy) = STEP[direction];
            // The entries ahead are filled before those that look them up.
            for row in 0..grid.height() {
                let y = if dy > 0 { grid.height() - 1 - row } else { row };
                for column in 0..grid.width() {
                    let x = if dx > 0 { grid.width() - 1 - column } else { column };
                    let position = grid.position(Cell { x, y });
                    let entry = jumps.computed(grid, position, direction);
                    jumps.entries[position as usize][direction] = entry;
                }
            }
        }
        jumps
    }

    /// Directions of runs first, then of walks; other directions have no entries.
    fn order() -> impl Iterator<Item = usize> {
        let straight = STRAIGHT.into_iter();
        let walks = |direction: &usize| R::WALKS >> *direction & 1 == 1;
        // With four neighbours the walks are straight and there are no diagonals.
        let runs = straight.clone().filter(move |it| !walks(it));
        runs.chain(straight.filter(walks)).chain(DIAGONAL.into_iter().filter(walks))
    }

    /// Checks that the table matches the grid's present state.
    ///
    /// # Errors
    /// [`GridError::StaleTable`].
    pub fn fits(&self, grid: &Grid) -> Result<(), GridError> {
        if self.fingerprint == grid.fingerprint() { Ok(()) } else { Err(GridError::StaleTable) }
    }

    /// Computes an entry from those one step ahead.
    fn computed(&self, grid: &Grid, position: u32, direction: usize) -> i16 {
        let rows = grid.rows();
        if !rows.is_free(position) || R::MOVES[rows.around(position)] >> direction & 1 == 0 {
            return 0;
        }
        let ahead = position.wrapping_add_signed(delta(grid, direction));
        let entries = &self.entries[ahead as usize];
        let stops = R::FORCED[direction][rows.around(ahead)] != 0
            || (R::WALKS >> direction & 1 == 1
                && (entries[turned(direction, R::TURN)] > 0
                    || entries[turned(direction, 8 - R::TURN)] > 0));
        match entries[direction] {
            _ if stops => 1,
            further @ 1.. => further + 1,
            further => further - 1,
        }
    }

    /// Reaches the jump points around a cell, as a search does.
    #[inline]
    pub(crate) fn points(&self, memory: &mut Memory, grid: &Grid, goal: &One, at: At) {
        let mut successors = R::successors(at.entered, grid.rows().around(at.position));
        while successors != 0 {
            let direction = successors.trailing_zeros() as usize;
            successors &= successors - 1;
            let mut jump = Jump { table: self, memory, grid, goal, from: at.cell };
            if R::WALKS >> direction & 1 == 1 {
                jump.walk(at.cell, at.cost, direction);
            } else {
                jump.run(at.cell, at.cost, direction);
            }
        }
    }
}

/// The distance from a position to the next in `direction`.
fn delta(grid: &Grid, direction: usize) -> i32 {
    let (dx, dy) = STEP[direction];
    dx + dy * grid.rows().stride() as i32
}

/// The state that all runs and walks from one cell share.
struct Jump<'a, R: Rule> {
    table: &'a Jumps<R>,
    memory: &'a mut Memory,
    grid: &'a Grid,
    goal: &'a One,
    from: Cell,
}

impl<R: Rule> Jump<'_, R> {
    #[inline]
    fn entry(&mut self, cell: Cell, direction: usize) -> i16 {
        self.memory.stats.scanned += 1;
        self.table.entries[self.grid.position(cell) as usize][direction]
    }

    /// Walks from jump point to jump point, with runs to both sides at each.
    fn walk(&mut self, from: Cell, spent: Cost, direction: usize) {
        let step = STEP[direction];
        let steps = |count| {
            if direction.is_multiple_of(2) { Cost::of(count, 0) } else { Cost::of(0, count) }
        };
        let (mut cell, mut cost) = (from, spent);
        loop {
            let entry = self.entry(cell, direction);
            let reach = u32::from(entry.unsigned_abs());
            if let Some(level) = self.level_with_goal(cell, step)
                && level <= reach
            {
                let aside = cell.moved(step, level);
                self.turn_to_goal(aside, cost + steps(level));
            }
            if entry <= 0 {
                return;
            }
            cell = cell.moved(step, reach);
            cost += steps(reach);
            let position = self.grid.position(cell);
            if R::FORCED[direction][self.grid.rows().around(position)] != 0 {
                self.reach(cell, cost, direction);
                return;
            }
            self.run(cell, cost, turned(direction, R::TURN));
            self.run(cell, cost, turned(direction, 8 - R::TURN));
        }
    }

    /// The steps of a walk until the goal lies on it or in a direction of its runs.
    #[inline]
    fn level_with_goal(&self, cell: Cell, (dx, dy): (i32, i32)) -> Option<u32> {
        let (columns, rows) = cell.offset(self.goal.cell);
        let level = match (dx, dy) {
            (0, _) => rows * dy,
            _ => (columns * dx).min(rows * dy),
        };
        (level > 0).then_some(level as u32)
    }

    /// Reaches the goal from a cell level with it, if no obstacle stands between.
    fn turn_to_goal(&mut self, cell: Cell, cost: Cost) {
        let (dx, dy) = cell.offset(self.goal.cell);
        let left = (dx.abs() + dy.abs()) as u32;
        if left == 0 {
            self.reach(cell, cost, NOWHERE);
            return;
        }
        let direction = match (dx, dy) {
            (0, ..0) => 0,
            (0, _) => 4,
            (..0, _) => 6,
            _ => 2,
        };
        if left <= u32::from(self.entry(cell, direction).unsigned_abs()) {
            self.reach(self.goal.cell, cost + Cost::of(left, 0), direction);
        }
    }

    /// Goes to the next jump point of a run, or to the goal if that comes first.
    fn run(&mut self, cell: Cell, cost: Cost, direction: usize) {
        let entry = self.entry(cell, direction);
        let reach = u32::from(entry.unsigned_abs());
        let (dx, dy) = cell.offset(self.goal.cell);
        let (x, y) = STEP[direction];
        let left = dx * x + dy * y;
        let ahead = left > 0 && (if x == 0 { dx } else { dy }) == 0;
        if ahead && left as u32 <= reach {
            self.reach(self.goal.cell, cost + Cost::of(left as u32, 0), direction);
        } else if entry > 0 {
            self.reach(cell.moved((x, y), reach), cost + Cost::of(reach, 0), direction);
        }
    }

    #[inline]
    fn reach(&mut self, cell: Cell, cost: Cost, entered: usize) {
        let (position, goal) = (self.grid.position(cell), self.goal);
        self.memory.reach(cell, position, cost, (self.from, entered), || goal.remains::<R>(cell));
    }
}
