//! The map: free cells, rows as packets encode them, and spawn points.

use grid::{Cell, Corners, Grid, OneObstacle, Rule};

/// The corner rule of the world: one of the two cells next to a diagonal step must be free.
pub type CornerRule = OneObstacle;
/// The corner rule as a value.
pub const CORNERS: Corners = <OneObstacle as Rule>::CORNERS;

const SPAWNS: usize = 256;
/// Free cells that are sampled to find the largest connected area.
const SAMPLES: usize = 64;

/// An unusable map.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display, derive_more::Error)]
pub enum BadTerrain {
    /// No cell is free.
    #[display("expected a free cell on the map, found none")]
    NothingFree,
}

/// The immutable map.
#[derive(Debug)]
pub struct Terrain {
    grid: Grid,
    /// Spawn points, all reachable from each other.
    spawns: Vec<Cell>,
}

impl Terrain {
    /// Prepares a map. This takes a moment for a large map, because the spawn points must be found.
    ///
    /// # Errors
    /// [`BadTerrain::NothingFree`].
    pub fn new(grid: Grid) -> Result<Terrain, BadTerrain> {
        let free: Vec<Cell> = grid.cells().filter(|&cell| grid.is_free(cell)).collect();
        let sample: Vec<Cell> =
            (0..SAMPLES).filter_map(|at| free.get(spread(at, free.len())).copied()).collect();
        let joined =
            |from: Cell| sample.iter().filter(|&&to| grid.is_joined(CORNERS, from, to)).count();
        // The largest connected area holds most of the sample.
        let Some(&home) = sample.iter().max_by_key(|&&cell| joined(cell)) else {
            return Err(BadTerrain::NothingFree);
        };
        let spawns = (0..SPAWNS)
            .filter_map(|at| free.get(spread(at, free.len())).copied())
            .filter(|&cell| grid.is_joined(CORNERS, home, cell))
            .collect();
        Ok(Terrain { grid, spawns })
    }

    /// The grid of free cells.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        (self.grid.width(), self.grid.height())
    }

    /// The spawn point of the session with this number.
    pub fn spawn(&self, number: u64) -> Cell {
        self.spawns[(number % self.spawns.len() as u64) as usize]
    }

    /// A row as a packet encodes it: one bit a column, lowest first.
    pub fn row(&self, row: u16) -> Vec<u8> {
        let mut bits = vec![0; usize::from(self.grid.width()).div_ceil(8)];
        for x in (0..self.grid.width()).filter(|&x| self.grid.is_free(Cell::new(x, row))) {
            bits[usize::from(x / 8)] |= 1 << (x % 8);
        }
        bits
    }
}

/// The `at`-th of many numbers spread over `0..most` (the golden ratio sequence); 0 if `most` is 0.
fn spread(at: usize, most: usize) -> usize {
    let part = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((part * most as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_appears_where_most_of_the_land_is() {
        // A wall cuts off the first column.
        let grid = Grid::from_fn(40, 20, |cell| cell.x != 1).expect("a size");
        let terrain = Terrain::new(grid).expect("there is land");
        let home = terrain.spawn(0);
        for number in 0..1000 {
            let cell = terrain.spawn(number);
            assert!(cell.x > 1 && terrain.grid().is_joined(CORNERS, home, cell), "{cell:?}");
        }
        assert_eq!(terrain.row(0)[..2], [0b1111_1101, 0xff]);
        let blocked = Grid::from_fn(3, 3, |_| false).expect("a size");
        assert_eq!(Terrain::new(blocked).err(), Some(BadTerrain::NothingFree));
    }
}
