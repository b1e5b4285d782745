//! The search state of each position, kept from one search to the next without clearing it.
//!
//! The best cost so far and the number of the search share a word. The numbers count down, so
//! everything an earlier search left is larger than any cost of the present one. "Never seen",
//! "seen by an earlier search" and "found on a longer way" are one comparison.

use crate::cell::Cell;
use crate::cost::{self, Cost};
use crate::grid::Grid;
use crate::open::{Entry, Open};
use crate::search::{Event, Stats};

/// The bits of a word that hold a cost.
const COST: u64 = (1 << cost::BITS) - 1;
/// The number of searches between two clearings of the memory.
const SEARCHES: u64 = (1 << (64 - cost::BITS)) - 1;
/// The key holds the estimate in whole steps, without these bits.
const STEP_BITS: u32 = 24;

/// The shift of the direction, above the cell.
const ENTERED: u32 = 24;
/// The position was expanded.
const LEFT: u32 = 1 << 31;

/// A position: a search reads both halves together, so they lie together.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The number of the last search here, and the best cost that it found.
    best: u64,
    /// The parent cell, and above it the direction of entry.
    parent: u32,
}

/// A position that no search has reached.
const UNSEEN: Node = Node { best: u64::MAX, parent: 0 };

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    nodes: Vec<Node>,
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
        if self.nodes.len() < positions {
            self.nodes.resize(positions, UNSEEN);
        }
        if self.search == 0 {
            self.nodes.fill(UNSEEN);
            self.search = SEARCHES << cost::BITS;
        }
        self.search -= 1 << cost::BITS;
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
        let word = self.search | cost.word();
        let node = &mut self.nodes[position as usize];
        if word >= node.best {
            return;
        }
        *node = Node { best: word, parent: (entered as u32) << ENTERED | parent.packed() };
        self.open.push(Entry { key: key(cost, estimate()), cell: cell.packed(), position });
        self.stats.opened += 1;
        if let Some(events) = &mut self.events {
            events.push(Event::Opened { cell, from: parent });
        }
    }

    /// Expands a position from the open list: returns its cost, and the direction in which
    /// it was reached. `None` if it was expanded before: a shorter way was found
    /// meanwhile, and that entry came first.
    #[inline]
    pub(crate) fn leave(&mut self, position: u32) -> Option<(Cost, usize)> {
        let node = &mut self.nodes[position as usize];
        if node.parent & LEFT != 0 {
            return None;
        }
        let entered = node.parent >> ENTERED;
        node.parent |= LEFT;
        Some((Cost::from_word(node.best & COST), entered as usize))
    }

    /// The cell from which the position was reached.
    #[inline]
    pub(crate) fn parent(&self, position: u32) -> Cell {
        Cell::unpacked(self.nodes[position as usize].parent)
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
            assert_eq!(memory.leave(position), Some((Cost::STRAIGHT, 2)), "round {round}");
            memory.reach(two, position, Cost::STRAIGHT, (one, 3), || Cost::ZERO);
            assert_eq!(memory.leave(position), None, "expanded once, in round {round}");
        }
    }
}
