//! A warmed-up search allocates nothing; neither does changing a cell.

use allocation_counter::measure;
use grid::{Cell, FourNeighbour, Grid, Method, NoObstacle, OneObstacle, Rule, Searcher};

/// A grid with walls that leave one gap each, at alternating ends, and pillars between.
fn rooms(side: u16) -> Grid {
    let grid = Grid::from_fn(side.into(), side.into(), |Cell { x, y }| {
        let gap = if y % 32 == 0 { side - 2 } else { 1 };
        (y % 16 != 8 || x == gap) && (x % 7 != 3 || y % 5 != 2)
    });
    grid.expect("the sides are small")
}

fn queries(grid: &Grid) -> Vec<(Cell, Cell)> {
    let free: Vec<Cell> = grid.cells().filter(|cell| grid.is_free(*cell)).collect();
    let ends = free.iter().step_by(97).zip(free.iter().rev().step_by(89));
    ends.map(|(from, to)| (*from, *to)).collect()
}

fn check<R: Rule>() {
    let grid = rooms(128);
    let queries = queries(&grid);
    let mut searcher = Searcher::<R>::new();
    let mut run = |found: &mut u32| {
        for (from, to) in &queries {
            for method in [Method::AStar, Method::Jps] {
                let path = searcher.find(&grid, method, *from, *to).expect("both are free");
                *found += path.map_or(0, |path| path.steps().count() as u32);
            }
        }
    };
    let (mut first, mut second) = (0, 0);
    run(&mut first);
    let spent = measure(|| run(&mut second));
    assert!(first > 1_000 && first == second, "{first} {second}");
    assert_eq!(spent.count_total, 0, "{:?} under {:?}", spent, R::CORNERS);
}

#[test]
fn queries_after_the_first_round_allocate_nothing() {
    check::<NoObstacle>();
    check::<OneObstacle>();
    check::<FourNeighbour>();
}

#[test]
fn a_changed_cell_allocates_nothing() {
    let mut grid = rooms(64);
    let (from, to) = (Cell::new(0, 0), Cell::new(63, 63));
    let corners = NoObstacle::CORNERS;
    assert!(grid.is_joined(corners, from, to));
    let spent = measure(|| {
        // In the open, so that no component is split.
        for free in [false, true, false, true] {
            grid.set(Cell::new(5, 4), free).expect("it is on the grid");
            assert!(grid.is_joined(corners, from, to));
        }
    });
    assert_eq!(spent.count_total, 0, "{spent:?}");
}
