//! The peers, each set up as its authors benchmark it.

use grid::{Cell, Grid};
use grid_pathfinding::{PathingGrid, waypoints_to_path};
use grid_util::Point;
use grid_util::grid::ValueGrid;

/// The crate `grid_pathfinding` with its defaults: diagonal steps, improved pruning.
pub struct Jumper {
    grid: PathingGrid,
}

impl Jumper {
    /// A peer with the same obstacles as `grid`.
    pub fn new(grid: &Grid) -> Jumper {
        let (width, height) = (usize::from(grid.width()), usize::from(grid.height()));
        let mut theirs = PathingGrid::new(width, height, true);
        for cell in grid.cells() {
            theirs.set(i32::from(cell.x), i32::from(cell.y), !grid.is_free(cell));
        }
        theirs.allow_diagonal_move = true;
        theirs.improved_pruning = true;
        theirs.initialize();
        theirs.generate_components();
        Jumper { grid: theirs }
    }

    /// The path, cell by cell; empty if none is found.
    pub fn path(&self, from: Cell, to: Cell) -> Vec<Cell> {
        let point = |cell: Cell| Point::new(i32::from(cell.x), i32::from(cell.y));
        let turns = self.grid.get_waypoints_single_goal(point(from), point(to), false);
        let cells = turns.map(waypoints_to_path).unwrap_or_default();
        cells.into_iter().map(|it| Cell::new(it.x as u16, it.y as u16)).collect()
    }
}

/// The crate `pathfinding`: its generic A*, with whole costs and no allocation for successors.
pub struct Generic {
    free: Vec<bool>,
    width: i32,
    height: i32,
}

/// Weights whose ratio is the root of two to a part in 10^14; large enough for any path.
const STRAIGHT: u64 = 15_994_428;
const DIAGONAL: u64 = 22_619_537;
const AROUND: [(i32, i32); 8] =
    [(0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1)];

impl Generic {
    /// A peer with the same obstacles as `grid`.
    pub fn new(grid: &Grid) -> Generic {
        let free = grid.cells().map(|cell| grid.is_free(cell)).collect();
        Generic { free, width: i32::from(grid.width()), height: i32::from(grid.height()) }
    }

    fn is_free(&self, x: i32, y: i32) -> bool {
        let inside = (0..self.width).contains(&x) && (0..self.height).contains(&y);
        inside && self.free[(y * self.width + x) as usize]
    }

    /// The path, cell by cell; empty if none is found.
    pub fn path(&self, from: Cell, to: Cell) -> Vec<Cell> {
        let goal = (i32::from(to.x), i32::from(to.y));
        let successors = |&(x, y): &(i32, i32)| {
            AROUND.into_iter().filter_map(move |(dx, dy)| {
                if !self.is_free(x + dx, y + dy) {
                    return None;
                }
                if dx == 0 || dy == 0 {
                    return Some(((x + dx, y + dy), STRAIGHT));
                }
                let open = self.is_free(x + dx, y) && self.is_free(x, y + dy);
                open.then_some(((x + dx, y + dy), DIAGONAL))
            })
        };
        let remains = |&(x, y): &(i32, i32)| {
            let (dx, dy) = (x.abs_diff(goal.0), y.abs_diff(goal.1));
            u64::from(dx.abs_diff(dy)) * STRAIGHT + u64::from(dx.min(dy)) * DIAGONAL
        };
        let start = (i32::from(from.x), i32::from(from.y));
        let found = pathfinding::prelude::astar(&start, successors, remains, |it| *it == goal);
        let cells = found.map(|(cells, _)| cells).unwrap_or_default();
        cells.into_iter().map(|(x, y)| Cell::new(x as u16, y as u16)).collect()
    }
}
