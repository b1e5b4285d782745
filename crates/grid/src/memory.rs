//! The search state of each position, kept from one search to the next without clearing it.
//!
//! The best cost so far and the number of the search share a word. The numbers count down, so
//! everything an earlier search left is larger than any cost of the present one. "Never seen",
//! "seen by an earlier search", "expanded" and "found on a longer way" are one comparison.

use crate::cell::Cell;
use crate::cost::{self, Cost};
use crate::grid::Grid;
use crate::open::{Entry, Open};
use crate::search::{At, Event, Stats};

/// The position is in the open list. An expanded one has the smaller word, so no way of the same
/// cost reaches it again.
const OPEN: u64 = 1;
/// The first bit of a cost in a word, and that of the number of the search above it.
const COST_AT: u32 = 1;
const SEARCH_AT: u32 = COST_AT + cost::BITS;
/// The number of searches between two clearings of the memory.
const SEARCHES: u64 = (1 << (64 - SEARCH_AT)) - 1;
/// The key holds the estimate in whole steps, without these bits.
const STEP_BITS: u32 = 24;
/// The shift of the direction of entry, above the cell of an entry in the open list.
const ENTERED: u32 = 24;

/// The memory of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Of each position the number of the last search here, the best cost that it found, and
    /// whether it is open. A search reads this of every neighbour, so nothing else lies between.
    best: Vec<u64>,
    /// The cell from which each position was reached.
    parents: Vec<u32>,
    /// The number of the present search, shifted above the costs.
    search: u64,
    pub(crate) open: Open,
    pub(crate) stats: Stats,
    pub(crate) events: Option<Vec<Event>>,
}

impl Memory {
    /// Starts a search on `grid` with no known positions; `estimate` is that of the first cell.
    pub(crate) fn begin(&mut self, grid: &Grid, estimate: Cost) {
        let positions = grid.rows().positions();
        if self.best.len() < positions {
            self.best.resize(positions, u64::MAX);
            self.parents.resize(positions, 0);
        }
        if self.search == 0 {
            self.best.fill(u64::MAX);
            self.search = SEARCHES << SEARCH_AT;
        }
        self.search -= 1 << SEARCH_AT;
        self.open.clear(key(Cost::ZERO, estimate));
        self.stats = Stats::default();
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Records that `cell`, at `position`, can be reached from `parent` at `cost`, `entered` in a
    /// direction, if that is an improvement; `estimate` is the remaining distance to the goal.
    #[inline(always)]
    pub(crate) fn reach(
        &mut self,
        cell: Cell,
        position: u32,
        cost: Cost,
        (parent, entered): (Cell, usize),
        estimate: impl FnOnce() -> Cost,
    ) {
        let word = self.search | cost.word() << COST_AT | OPEN;
        let best = &mut self.best[position as usize];
        if word >= *best {
            return;
        }
        *best = word;
        self.parents[position as usize] = parent.packed();
        let cell_entered = (entered as u32) << ENTERED | cell.packed();
        self.open.push(Entry { key: key(cost, estimate()), cell: cell_entered, position });
        self.stats.opened += 1;
        if let Some(events) = &mut self.events {
            events.push(Event::Opened { cell, from: parent });
        }
    }

    /// Takes an entry out of the open list: its cell and position, and the cost and the direction
    /// in which it was reached. Entries of expanded cells are skipped: a shorter way was found
    /// meanwhile, and its entry came first. `None` if nothing is open.
    #[inline]
    pub(crate) fn expand(&mut self) -> Option<At> {
        loop {
            let Entry { cell, position, .. } = self.open.pop()?;
            let best = &mut self.best[position as usize];
            if *best & OPEN != 0 {
                *best &= !OPEN;
                let cost = Cost::from_word((*best & !(u64::MAX << SEARCH_AT)) >> COST_AT);
                let entered = (cell >> ENTERED) as usize;
                return Some(At { cell: Cell::unpacked(cell), position, cost, entered });
            }
        }
    }

    /// The cell from which the position was reached.
    #[inline]
    pub(crate) fn parent(&self, position: u32) -> Cell {
        Cell::unpacked(self.parents[position as usize])
    }
}

/// The priority in the open list: by the estimated total, then by the remainder.
#[inline]
pub(crate) fn key(cost: Cost, estimate: Cost) -> u64 {
    (cost + estimate).word() << (64 - cost::BITS) | estimate.word() >> STEP_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::SIDE_MAX;

    #[test]
    fn the_largest_estimate_fits_beside_the_largest_sum() {
        let corner_to_corner = Cost::of(2 * SIDE_MAX as u32, 0);
        assert!(corner_to_corner.word() >> STEP_BITS < 1 << (64 - cost::BITS));
    }

    #[test]
    fn memory_outlives_its_numbers() {
        let grid = Grid::new(2, 1).unwrap();
        let (one, two) = (Cell::new(0, 0), Cell::new(1, 0));
        let mut memory = Memory::default();
        for round in 0..2 * SEARCHES + 3 {
            memory.begin(&grid, Cost::ZERO);
            let position = grid.position(two);
            memory.reach(two, position, Cost::of(9, 0), (one, 2), || Cost::ZERO);
            memory.reach(two, position, Cost::STRAIGHT, (one, 2), || Cost::ZERO);
            let found = memory.expand().map(|at| (at.position, at.cost, at.entered));
            assert_eq!(found, Some((position, Cost::STRAIGHT, 2)), "round {round}");
            assert!(memory.expand().is_none(), "the longer way is skipped");
            memory.reach(two, position, Cost::STRAIGHT, (one, 3), || Cost::ZERO);
            assert!(memory.expand().is_none(), "expanded once");
        }
    }
}
