//! A warmed-up search allocates nothing.

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
