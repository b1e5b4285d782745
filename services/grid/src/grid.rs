//! The grid: free and blocked cells, stored by rows and by columns, changed cell by cell.
//!
//! A grid keeps every cell twice, as a bit of its row and as a bit of its column, because jump
//! point search scans 64 cells per instruction in both directions. `set` is the only way to change
//! a cell, and it keeps the rest consistent: both bits, the count and the fingerprint. It drops the
//! labels of connected components, which the next query computes.

use crate::bits::Bits;
use crate::cell::Cell;
use crate::error::GridError;
use crate::labels::Labels;
use crate::rule::Corners;
use stats::rng::mixed;
use std::fmt;
use std::sync::OnceLock;

/// The longest side for which [`Cost`](crate::Cost) is exact.
pub const SIDE_MAX: usize = 4096;

/// Free and blocked cells.
///
/// Any number of searches may read one grid at the same time; changing it needs exclusive access.
/// [`Grid::set`] takes constant time. The grid computes its connected components at the first
/// query, and again after a change.
#[derive(Clone)]
pub struct Grid {
    width: u16,
    height: u16,
    rows: Bits,
    columns: Bits,
    free: u32,
    fingerprint: u64,
    four: OnceLock<Labels>,
    eight: OnceLock<Labels>,
}

impl Grid {
    /// A grid in which every cell is free.
    ///
    /// # Errors
    /// [`GridError::Size`] for sides of 0 or more than [`SIDE_MAX`].
    pub fn new(width: usize, height: usize) -> Result<Grid, GridError> {
        Grid::from_fn(width, height, |_| true)
    }

    /// A grid of the cells for which `is_free` is true.
    ///
    /// # Errors
    /// [`GridError::Size`] for sides of 0 or more than [`SIDE_MAX`].
    pub fn from_fn(
        width: usize,
        height: usize,
        mut is_free: impl FnMut(Cell) -> bool,
    ) -> Result<Grid, GridError> {
        let fits = |side: usize| (1..=SIDE_MAX).contains(&side);
        if !fits(width) || !fits(height) {
            return Err(GridError::Size { width, height });
        }
        let (columns, rows) = (width as u16, height as u16);
        let mut grid = Grid {
            width: columns,
            height: rows,
            rows: Bits::new(columns, rows),
            columns: Bits::new(rows, columns),
            free: 0,
            fingerprint: mixed((width as u64) << 32 | height as u64),
            four: OnceLock::new(),
            eight: OnceLock::new(),
        };
        for y in 0..rows {
            for x in 0..columns {
                if is_free(Cell { x, y }) {
                    grid.flip(Cell { x, y });
                    grid.free += 1;
                }
            }
        }
        Ok(grid)
    }

    /// Columns.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u16 {
        self.height
    }

    /// The number of free cells.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// All cells, row by row.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<> {
        let width = self.width;
        (0..self.height).flat_map(move |y| (0..width).map(move |x| Cell { x, y }))
    }

    /// Whether `cell` is on the grid.
    pub fn contains(&self, cell: Cell) -> bool {
        cell.x < self.width && cell.y < self.height
    }

    /// Whether `cell` is on the grid and free.
    pub fn is_free(&self, cell: Cell) -> bool {
        self.contains(cell) && self.rows.is_free(self.position(cell))
    }

    /// A number that two grids share if, and for all practical purposes only if, they have the same
    /// sides and the same obstacles. Changing a cell back restores the old number.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Frees `cell` or blocks it, in constant time; returns whether that changed it.
    ///
    /// # Errors
    /// [`GridError::Outside`] for a cell that is not on the grid.
    pub fn set(&mut self, cell: Cell, free: bool) -> Result<bool, GridError> {
        if !self.contains(cell) {
            return Err(GridError::Outside(cell));
        }
        if self.is_free(cell) == free {
            return Ok(false);
        }
        self.flip(cell);
        self.four.take();
        self.eight.take();
        if free {
            self.free += 1;
        } else {
            self.free -= 1;
        }
        Ok(true)
    }

    /// Whether a path can connect the two cells, without searching for it.
    ///
    /// Constant time once the components are known. The first query after a change computes them in
    /// time proportional to the grid.
    pub fn is_joined(&self, corners: Corners, from: Cell, to: Cell) -> bool {
        if !self.is_free(from) || !self.is_free(to) {
            return false;
        }
        let labels = self.labels(corners);
        labels.component(self.position(from)) == labels.component(self.position(to))
    }

    /// The free cell nearest to `to` in a straight line that can be reached from `from`; ties go to
    /// the first by row, then column. `to` may be blocked or cut off. `None` if `from` is not free.
    ///
    /// Takes time proportional to the square of the distance found.
    pub fn nearest_joined(&self, corners: Corners, from: Cell, to: Cell) -> Option<Cell> {
        if !self.is_free(from) {
            return None;
        }
        let labels = self.labels(corners);
        let home = labels.component(self.position(from));
        let mut best: Option<(i64, Cell)> = None;
        let reach = i64::from(self.width.max(to.x)) + i64::from(self.height.max(to.y));
        for ring in 0..=reach {
            if best.is_some_and(|(far, _)| ring * ring > far) {
                break;
            }
            self.on_ring(to, ring, |cell| {
                if self.is_free(cell) && labels.component(self.position(cell)) == home {
                    let (dx, dy) = cell.offset(to);
                    let far = i64::from(dx) * i64::from(dx) + i64::from(dy) * i64::from(dy);
                    let key = (far, (cell.y, cell.x));
                    if best.is_none_or(|(least, kept)| key < (least, (kept.y, kept.x))) {
                        best = Some((far, cell));
                    }
                }
            });
        }
        best.map(|(_, cell)| cell)
    }

    /// Calls `see` for each cell of the grid whose larger distance from `middle`, by
    /// columns or by rows, is `ring`.
    fn on_ring(&self, middle: Cell, ring: i64, mut see: impl FnMut(Cell)) {
        let (x, y) = (i64::from(middle.x), i64::from(middle.y));
        let columns = (x - ring).max(0)..=(x + ring).min(i64::from(self.width) - 1);
        let rows = (y - ring).max(0)..=(y + ring).min(i64::from(self.height) - 1);
        for row in rows {
            let whole = (row - y).abs() == ring;
            let step = if whole { 1 } else { (2 * ring).max(1) as usize };
            let first = if whole { *columns.start() } else { x - ring };
            for column in (first..=*columns.end()).step_by(step) {
                if column >= 0 {
                    see(Cell { x: column as u16, y: row as u16 });
                }
            }
        }
    }

    /// The components under `corners`, computed at the first query.
    fn labels(&self, corners: Corners) -> &Labels {
        let slot = if corners.joins_corners() { &self.eight } else { &self.four };
        slot.get_or_init(|| Labels::of(&self.rows, self.width, self.height, corners))
    }

    /// Flips a cell in both orientations.
    fn flip(&mut self, cell: Cell) {
        self.rows.flip(self.rows.position(cell.x, cell.y));
        self.columns.flip(self.columns.position(cell.y, cell.x));
        self.fingerprint ^= Grid::mark(cell);
    }

    /// The contribution of a free cell to the fingerprint.
    pub(crate) fn mark(cell: Cell) -> u64 {
        mixed(u64::from(cell.packed()) + 1)
    }

    pub(crate) fn rows(&self) -> &Bits {
        &self.rows
    }

    pub(crate) fn columns(&self) -> &Bits {
        &self.columns
    }

    /// The position of `cell` among the rows' bits.
    #[inline]
    pub(crate) fn position(&self, cell: Cell) -> u32 {
        self.rows.position(cell.x, cell.y)
    }

    /// Returns `cell`, if it is on the grid and free.
    ///
    /// # Errors
    /// [`GridError::Outside`], [`GridError::Blocked`].
    pub(crate) fn standing(&self, cell: Cell) -> Result<Cell, GridError> {
        if !self.contains(cell) {
            Err(GridError::Outside(cell))
        } else if !self.is_free(cell) {
            Err(GridError::Blocked(cell))
        } else {
            Ok(cell)
        }
    }
}

impl fmt::Debug for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Grid {} by {}, {} free", self.width, self.height, self.free)?;
        for y in 0..self.height {
            let row = (0..self.width).map(|x| if self.is_free(Cell { x, y }) { '.' } else { '@' });
            writeln!(f, "{}", row.collect::<String>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;
    use stats::Rng;

    fn random(rng: &mut Rng) -> Grid {
        let (width, height) = (1 + rng.below(12), 1 + rng.below(12));
        let walls = rng.below(60);
        Grid::from_fn(width, height, |_| rng.below(100) >= walls).unwrap()
    }

    #[test]
    fn sides_have_limits() {
        for (width, height) in [(0, 1), (1, 0), (SIDE_MAX + 1, 1), (1, usize::MAX)] {
            assert_eq!(Grid::new(width, height).unwrap_err(), GridError::Size { width, height });
        }
        assert_eq!(Grid::new(SIDE_MAX, 1).unwrap().free(), 4096);
    }

    #[test]
    fn components_are_right_after_any_changes() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let mut grid = random(&mut rng);
            let all: Vec<Cell> = grid.cells().collect();
            for _ in 0..30 {
                let cell = all[rng.below(all.len())];
                let free = rng.once_in(2);
                let was = grid.is_free(cell);
                assert_eq!(grid.set(cell, free), Ok(was != free));
                for corners in [Corners::Always, Corners::OneObstacle] {
                    let from = all[rng.below(all.len())];
                    let costs = oracle::costs(&grid, corners, from);
                    for (at, to) in all.iter().enumerate() {
                        let joined = grid.is_joined(corners, from, *to);
                        assert_eq!(
                            joined,
                            costs[at].is_some(),
                            "seed {seed} {from} {to}\n{grid:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_fingerprint_comes_back_with_the_cells() {
        let mut grid = Grid::new(9, 7).unwrap();
        let before = grid.fingerprint();
        grid.set(Cell::new(3, 3), false).unwrap();
        assert_ne!(grid.fingerprint(), before);
        grid.set(Cell::new(3, 3), true).unwrap();
        assert_eq!(grid.fingerprint(), before);
        assert_ne!(Grid::new(7, 9).unwrap().fingerprint(), before);
    }

    #[test]
    fn the_nearest_joined_cell_is_the_nearest() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let grid = random(&mut rng);
            let all: Vec<Cell> = grid.cells().collect();
            let (from, to) = (all[rng.below(all.len())], all[rng.below(all.len())]);
            let far = |cell: &Cell| {
                let (dx, dy) = cell.offset(to);
                (dx * dx + dy * dy, cell.y, cell.x)
            };
            let joined = all.iter().filter(|it| grid.is_joined(Corners::NoObstacle, from, **it));
            let expected = joined.min_by_key(|cell| far(cell)).copied();
            let found = grid.nearest_joined(Corners::NoObstacle, from, to);
            assert_eq!(found, expected, "seed {seed} {from} {to}\n{grid:?}");
        }
    }
}
