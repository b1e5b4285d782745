//! What a search knows of each position, kept from one search to the next without clearing it.
//!
//! The best cost so far and the number of the search share a word. The numbers count down, so that
//! whatever an earlier search has left is larger than any cost of the present one: "never seen",
//! "seen by an earlier search" and "found on a longer way" are one comparison.

use crate::cell::Cell;
use crate::cost::{self, Cost};
use crate::grid::Grid;
use crate::open::Open;
use crate::search::{Event, Stats};

/// The part of a word that is a cost.
const COST: u64 = (1 << cost::BITS) - 1;
/// Searches between two times that everything is cleared.
const SEARCHES: u64 = (1 << (64 - cost::BITS)) - 1;
/// The estimate is part of the key in whole steps, which leaves out these bits.
const STEP_BITS: u32 = 24;

/// Where a search writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    best: Vec<u64>,
    parent: Vec<u32>,
    /// The number of the present search, in its place above the costs.
    search: u64,
    pub(crate) open: Open,
    pub(crate) stats: Stats,
    pub(crate) events: Option<Vec<Event>>,
}

impl Memory {
    /// Forgets everything, and has room for `grid` afterwards.
    pub(crate) fn begin(&mut self, grid: &Grid) {
        let positions = grid.rows().positions();
        if self.best.len() < positions {
            self.best.resize(positions, u64::MAX);
            self.parent.resize(positions, 0);
        }
        if self.search == 0 {
            self.best.fill(u64::MAX);
            self.search = SEARCHES << cost::BITS;
        }
        self.search -= 1 << cost::BITS;
        self.open.clear();
        self.stats = Stats::default();
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Notes that `cell`, at `position`, can be reached from `parent` at `cost`, if that is news;
    /// `estimate` is what remains to the goal.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        cell: Cell,
        position: u32,
        cost: Cost,
        parent: Cell,
        estimate: impl FnOnce() -> Cost,
    ) {
        let word = self.search | cost.word();
        let best = &mut self.best[position as usize];
        if word >= *best {
            return;
        }
        *best = word;
        self.parent[position as usize] = parent.packed();
        self.open.push(key(cost, estimate()), cell.packed());
        self.stats.opened += 1;
        if let Some(events) = &mut self.events {
            events.push(Event::Opened { cell, from: parent });
        }
    }

    /// The cost of the position, which this search has reached.
    #[inline]
    pub(crate) fn cost(&self, position: u32) -> Cost {
        Cost::from_word(self.best[position as usize] & COST)
    }

    /// The cell from which the position was reached.
    #[inline]
    pub(crate) fn parent(&self, position: u32) -> Cell {
        Cell::unpacked(self.parent[position as usize])
    }
}

/// The place in the open list: by the whole, then by what remains.
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
            memory.begin(&grid);
            let position = grid.position(two);
            memory.reach(two, position, Cost::of(9, 0), one, || Cost::ZERO);
            assert_eq!(memory.cost(position), Cost::of(9, 0), "round {round}");
            memory.reach(two, position, Cost::STRAIGHT, one, || Cost::ZERO);
            assert_eq!(memory.cost(position), Cost::STRAIGHT, "round {round}");
        }
    }
}
