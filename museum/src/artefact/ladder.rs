//! The same A*, one repair of its bookkeeping at a time.
//!
//! Every rung visits the same cells in nearly the same order and finds a shortest path. The rungs
//! differ in the storage of nodes, the way to find the best of them, and the way to find a cell's
//! node: by traversal (lists), by look-up (a map, a hash), or by index (an array by cell).

use super::search::{ALL, Estimate, Found, neighbour, price};
use grid::{Cell, Corners, Grid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// A search node: the state of a cell in a rung.
#[derive(Clone, Copy, Debug)]
struct Known {
    cell: Cell,
    g: f64,
    parent: Option<Cell>,
    closed: bool,
}

/// Positive numbers compare as their bits do.
fn rank(f: f64) -> u64 {
    f.to_bits()
}

fn estimate(from: Cell, to: Cell) -> f64 {
    ALL.estimate.of(from, to)
}

/// The open list as an ordered map (the repair that the portfolio itself proposes), nodes in a hash
/// table.
pub fn ordered(grid: &Grid, corners: Corners, from: Cell, to: Cell) -> Found {
    let mut open: BTreeMap<(u64, u32), Cell> = BTreeMap::new();
    let mut places: HashMap<Cell, (u64, u32)> = HashMap::new();
    let mut count = 0;
    let mut nodes: HashMap<Cell, Known> = HashMap::new();
    nodes.insert(from, Known { cell: from, g: 0.0, parent: None, closed: false });
    open.insert((rank(estimate(from, to)), 0), from);
    let mut expanded = 0;
    while let Some((_, cell)) = open.pop_first() {
        let Some(node) = nodes.get_mut(&cell) else { continue };
        node.closed = true;
        let node = *node;
        if cell == to {
            return traced(to, expanded, |cell| nodes.get(&cell).copied());
        }
        expanded += 1;
        for direction in 0..8 {
            let Some(next) = neighbour(grid, corners, cell, direction) else { continue };
            let (g, parent) = (node.g + price(direction), Some(cell));
            let known = nodes.get(&next);
            if known.is_some_and(|known| known.closed || g >= known.g - 1e-9) {
                continue;
            }
            count += 1;
            let place = (rank(g + estimate(next, to)), count);
            if let Some(before) = places.insert(next, place) {
                open.remove(&before);
            }
            open.insert(place, next);
            nodes.insert(next, Known { cell: next, g, parent, closed: false });
        }
    }
    Found { cells: Vec::new(), expanded }
}

/// A binary heap, in which a cell may lie several times, and nodes in an array by cell that
/// persists from search to search, each with the number of its search.
#[derive(Debug)]
pub struct Dense {
    nodes: Vec<(u32, Known)>,
    width: usize,
    search: u32,
    open: BinaryHeap<Reverse<(u64, Cell)>>,
    estimate: Estimate,
}

impl Dense {
    pub fn new(grid: &Grid, estimate: Estimate) -> Dense {
        let width = usize::from(grid.width());
        let nowhere = Known { cell: Cell::new(0, 0), g: 0.0, parent: None, closed: false };
        let nodes = vec![(0, nowhere); width * usize::from(grid.height())];
        Dense { nodes, width, search: 0, open: BinaryHeap::new(), estimate }
    }

    #[inline]
    fn known(&mut self, cell: Cell) -> Option<&mut Known> {
        let (search, known) =
            &mut self.nodes[usize::from(cell.y) * self.width + usize::from(cell.x)];
        (*search == self.search).then_some(known)
    }

    #[inline]
    fn set(&mut self, node: Known) {
        let at = usize::from(node.cell.y) * self.width + usize::from(node.cell.x);
        self.nodes[at] = (self.search, node);
    }

    /// Finds a path, a shortest one if the estimate is never too high.
    pub fn find(&mut self, grid: &Grid, corners: Corners, from: Cell, to: Cell) -> Found {
        self.search += 1;
        self.open.clear();
        self.set(Known { cell: from, g: 0.0, parent: None, closed: false });
        self.open.push(Reverse((rank(self.estimate.of(from, to)), from)));
        let mut expanded = 0;
        while let Some(Reverse((_, cell))) = self.open.pop() {
            let Some(node) = self.known(cell) else { continue };
            if std::mem::replace(&mut node.closed, true) {
                continue;
            }
            let node = *node;
            if cell == to {
                return traced(to, expanded, |cell| self.known(cell).copied());
            }
            expanded += 1;
            for direction in 0..8 {
                let Some(next) = neighbour(grid, corners, cell, direction) else { continue };
                let (g, parent) = (node.g + price(direction), Some(cell));
                let known = self.known(next);
                if known.is_none_or(|known| !known.closed && g < known.g - 1e-9) {
                    self.set(Known { cell: next, g, parent, closed: false });
                    self.open.push(Reverse((rank(g + self.estimate.of(next, to)), next)));
                }
            }
        }
        Found { cells: Vec::new(), expanded }
    }
}

fn traced(to: Cell, expanded: u32, mut known: impl FnMut(Cell) -> Option<Known>) -> Found {
    let mut cells = vec![to];
    while let Some(parent) = cells.last().and_then(|cell| known(*cell)).and_then(|it| it.parent) {
        cells.push(parent);
    }
    cells.reverse();
    Found { cells, expanded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Rng;

    #[test]
    fn every_rung_finds_what_the_oracle_finds() {
        let rule = Corners::OneObstacle;
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let grid = Grid::from_fn(17, 11, |_| rng.below(4) > 0).expect("a small grid");
            let free: Vec<Cell> = grid.cells().filter(|cell| grid.is_free(*cell)).collect();
            let (from, to) = (free[0], free[free.len() - 1]);
            let costs = grid::oracle::costs(&grid, rule, from);
            let want = costs[usize::from(to.y) * 17 + usize::from(to.x)].map(|pair| {
                f64::from(pair.straight) + f64::from(pair.diagonal) * std::f64::consts::SQRT_2
            });
            let all = [
                ordered(&grid, rule, from, to),
                Dense::new(&grid, Estimate::Octile).find(&grid, rule, from, to),
                super::super::search::astar(&grid, rule, from, to, ALL),
            ];
            for (rung, found) in all.iter().enumerate() {
                let length = found.length(&grid, rule);
                let same = match (length, want) {
                    (Some(found), Some(want)) => (found - want).abs() < 1e-6,
                    (found, want) => found.is_none() && want.is_none(),
                };
                assert!(same, "seed {seed}, rung {rung}: expected {want:?}, found {length:?}");
            }
        }
    }
}
