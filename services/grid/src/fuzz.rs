//! Random grids with random changes: every search finds Dijkstra's result, whatever came before.

use crate::{
    Always, Cell, FourNeighbour, Grid, GridError, Method, NoObstacle, OneObstacle, Path, Progress,
    Rule, Searcher, movingai, oracle,
};
use stats::Rng;

/// Queries on one grid before the next grid.
const QUERIES: u32 = 12;

/// Runs `events` rounds from `seed`.
///
/// # Panics
/// When a search breaks its promise; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let mut done = 0;
    while done < events {
        let at = format!("grid::fuzz seed {seed}, event {done}");
        match rng.below(6) {
            0 => World::<Always>::new(&mut rng).live(&mut rng, &at),
            1 => World::<OneObstacle>::new(&mut rng).live(&mut rng, &at),
            2 | 3 => World::<NoObstacle>::new(&mut rng).live(&mut rng, &at),
            4 => World::<FourNeighbour>::new(&mut rng).live(&mut rng, &at),
            _ => files(&mut rng, &at),
        }
        done += QUERIES;
    }
}

/// A changing grid, and a searcher with its memory.
struct World<R: Rule> {
    grid: Grid,
    searcher: Searcher<R>,
}

impl<R: Rule> World<R> {
    fn new(rng: &mut Rng) -> World<R> {
        let long = rng.once_in(6);
        let (width, height) = match (long, rng.once_in(2)) {
            (false, _) => (1 + rng.below(14), 1 + rng.below(14)),
            (true, true) => (60 + rng.below(140), 1 + rng.below(4)),
            (true, false) => (1 + rng.below(4), 60 + rng.below(140)),
        };
        let walls = rng.below(55);
        let grid = Grid::from_fn(width, height, |_| rng.below(100) >= walls);
        let grid = grid.expect("the sides are small");
        World { grid, searcher: Searcher::new() }
    }

    fn live(&mut self, rng: &mut Rng, at: &str) {
        for _ in 0..QUERIES {
            if rng.once_in(3) {
                self.change(rng, at);
            }
            let (from, to) = (self.cell(rng), self.cell(rng));
            if self.grid.is_free(from) && self.grid.is_free(to) {
                self.query(rng, from, to, at);
            } else {
                let refused = self.searcher.find(&self.grid, Method::Jps, from, to);
                assert!(matches!(refused, Err(GridError::Blocked(_))), "{at}: {refused:?}");
            }
        }
    }

    fn cell(&self, rng: &mut Rng) -> Cell {
        let x = rng.below(usize::from(self.grid.width()));
        Cell::new(x as u16, rng.below(usize::from(self.grid.height())) as u16)
    }

    fn change(&mut self, rng: &mut Rng, at: &str) {
        for _ in 0..1 + rng.below(4) {
            let cell = self.cell(rng);
            let free = !self.grid.is_free(cell);
            assert_eq!(self.grid.set(cell, free), Ok(true), "{at}");
        }
    }

    /// All methods find a legal path of Dijkstra's length, from both ends, or no path.
    fn query(&mut self, rng: &mut Rng, from: Cell, to: Cell, at: &str) {
        let lengths = oracle::costs(&self.grid, R::CORNERS, from);
        let index =
            |to: Cell| usize::from(to.y) * usize::from(self.grid.width()) + usize::from(to.x);
        let truth = lengths[index(to)];
        let at = format!("{at}: {} {from} to {to} on {:?}", R::CORNERS, self.grid);
        for method in [Method::AStar, Method::Jps] {
            for (from, to) in [(from, to), (to, from)] {
                let found = if rng.once_in(2) {
                    self.searcher.find(&self.grid, method, from, to).expect("both are free")
                } else {
                    sliced(&mut self.searcher, &self.grid, method, (from, to), 1 + rng.below(9))
                };
                check::<R>(&self.grid, found, truth, (from, to), &at);
            }
        }
    }
}

/// The path found by a search that runs `cells` cells at a time.
fn sliced<'a, R: Rule>(
    searcher: &'a mut Searcher<R>,
    grid: &Grid,
    method: Method,
    (from, to): (Cell, Cell),
    cells: usize,
) -> Option<Path<'a>> {
    let mut progress = searcher.begin(grid, method, from, to).expect("both are free");
    while progress == Progress::More {
        progress = searcher.step(grid, method, cells as u32).expect("nothing was changed");
    }
    searcher.path()
}

/// A path is legal, ends in the right cells, has the right turning points and the right length.
fn check<R: Rule>(
    grid: &Grid,
    found: Option<Path<'_>>,
    truth: Option<oracle::Pair>,
    (from, to): (Cell, Cell),
    at: &str,
) {
    assert_eq!(found.is_some(), truth.is_some(), "{at}: whether there is a path");
    let (Some(path), Some(truth)) = (found, truth) else { return };
    let cells: Vec<Cell> = path.steps().collect();
    assert_eq!((cells.first(), cells.last()), (Some(&from), Some(&to)), "{at}: the ends");
    let walked = oracle::walk(grid, R::CORNERS, cells.iter().copied());
    assert_eq!(walked, Ok(truth), "{at}: {cells:?}");
    assert_eq!(path.cost().steps(), (truth.straight, truth.diagonal), "{at}");
    let turns = path.turns();
    assert!(turns.iter().all(|turn| cells.contains(turn)), "{at}: {turns:?}");
    let straight_on = |three: &[Cell]| {
        let ((ax, ay), (bx, by)) = (three[0].offset(three[1]), three[1].offset(three[2]));
        (ax.signum(), ay.signum()) == (bx.signum(), by.signum())
    };
    assert!(!turns.windows(3).any(straight_on), "{at}: a turn that is none in {turns:?}");
}

/// Bytes that resemble maps and scenarios are read or refused; accepted ones survive a round trip.
fn files(rng: &mut Rng, at: &str) {
    const PARTS: &str = "\
        type octile\n|type tile\r\n|height 3\n|width 4\n|map\n|....\n|@@.T\n|SWG.\n|\n|\
        version 1\n|version 1.0\n|0\ta.map\t4\t3\t0\t0\t3\t2\t4.2\n|\
        1 a.map 4 3 0 0 3 2 3.82842712\n|x|-1 |99999999999 |\u{e9}";
    let parts: Vec<&str> = PARTS.split('|').collect();
    let mut text = String::new();
    if rng.once_in(2) {
        text.push_str("type octile\nheight 3\nwidth 4\nmap\n");
    }
    for _ in 0..rng.below(12) {
        text.push_str(rng.pick::<&str>(&parts));
    }
    if let Ok(map) = movingai::Map::parse(text.as_bytes()) {
        let again = movingai::Map::parse(map.to_string().as_bytes());
        assert_eq!(again.as_ref(), Ok(&map), "{at}: {text:?}");
        let free = map.grid().map(|grid| grid.free());
        assert!(free.is_ok(), "{at}: a map that was read is a grid");
    }
    if let Ok(queries) = movingai::scenario(text.as_bytes()) {
        assert!(queries.len() <= text.lines().count(), "{at}: {text:?}");
    }
}
