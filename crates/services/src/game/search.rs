//! A search for a path: a slice at a time, in memory that is lent.
//!
//! The memory of a search is as large as the map, so there are few searchers, and who finds none
//! comes again at the next tick. A searcher goes back by itself wherever its search ends, also when
//! the session that sent it is gone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use grid::{Cell, Method, Progress, Searcher};

use super::packet::Place;
use super::terrain::{CORNERS, CornerRule, Terrain};
use super::world::World;

/// Cells that are gone on from before the budget is asked again.
const SLICE: u32 = 256;

/// A request for a path, and how far it has come. A job, and between two slices an outcome.
#[derive(Debug)]
pub struct PathSearch {
    from: Cell,
    to: Cell,
    is_exact: bool,
    /// The searcher with what it has found so far.
    lease: Option<Box<Lease>>,
}

/// What comes of a slice.
#[derive(Debug)]
pub enum Outcome {
    /// There is more to do, when the tick allows.
    Later(PathSearch),
    /// The way.
    Found(Route),
}

/// A way to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// It leads where it was asked to.
    pub is_exact: bool,
    /// Straight steps and diagonal ones.
    pub steps: (u32, u32),
    /// The first cell, each at which the direction changes, the last.
    pub turns: Vec<Place>,
}

impl PathSearch {
    /// A request that nobody has begun with; both places are on the map, and `from` is free.
    pub fn new(from: Place, to: Place) -> PathSearch {
        let cell = |(x, y)| Cell::new(x, y);
        PathSearch { from: cell(from), to: cell(to), is_exact: true, lease: None }
    }

    /// Goes on as far as the budget allows.
    pub(super) fn run(mut self, terrain: &Terrain, pool: &SearcherPool, world: &World) -> Outcome {
        let mut lease = match self.lease.take() {
            Some(lease) => lease,
            None => match pool.lend() {
                Some(lease) => match self.begin(terrain, lease) {
                    Some(lease) => lease,
                    None => return Outcome::Found(self.stay()),
                },
                None => return Outcome::Later(self),
            },
        };
        loop {
            let granted = world.grant(SLICE);
            if granted == 0 {
                return Outcome::Later(PathSearch { lease: Some(lease), ..self });
            }
            match lease.searcher().step(terrain.grid(), Method::Jps, granted) {
                Ok(Progress::More) => {}
                Ok(Progress::Found) => return Outcome::Found(self.way(lease.searcher())),
                Ok(Progress::Unreachable) | Err(_) => return Outcome::Found(self.stay()),
            }
        }
    }

    /// Begins the search, to the nearest place that can be reached if the one that was asked for
    /// cannot; nothing if there is nowhere to go.
    fn begin(&mut self, terrain: &Terrain, mut lease: Box<Lease>) -> Option<Box<Lease>> {
        let grid = terrain.grid();
        if !grid.is_free(self.to) || !grid.is_joined(CORNERS, self.from, self.to) {
            self.is_exact = false;
            self.to = grid.nearest_joined(CORNERS, self.from, self.to)?;
        }
        lease.searcher().begin(grid, Method::Jps, self.from, self.to).ok()?;
        Some(lease)
    }

    fn way(&self, searcher: &Searcher<CornerRule>) -> Route {
        let Some(path) = searcher.path() else { return self.stay() };
        let turns = path.turns().iter().map(|cell| (cell.x, cell.y)).collect();
        Route { is_exact: self.is_exact, steps: path.cost().steps(), turns }
    }

    /// No way at all: one stays.
    fn stay(&self) -> Route {
        Route { is_exact: false, steps: (0, 0), turns: vec![(self.from.x, self.from.y)] }
    }
}

/// Searchers that nobody uses at the moment.
#[derive(Debug)]
pub(super) struct SearcherPool {
    shared: Arc<Mutex<PoolState>>,
    most: usize,
}

#[derive(Debug)]
struct PoolState {
    idle: Vec<Searcher<CornerRule>>,
    lent: usize,
}

impl SearcherPool {
    /// At most so many searchers; none is made before it is wanted.
    pub(super) fn new(most: usize) -> SearcherPool {
        let state = PoolState { idle: Vec::new(), lent: 0 };
        SearcherPool { shared: Arc::new(Mutex::new(state)), most }
    }

    fn lend(&self) -> Option<Box<Lease>> {
        let mut state = lock(&self.shared);
        if state.lent == self.most {
            return None;
        }
        state.lent += 1;
        let searcher = state.idle.pop().unwrap_or_default();
        Some(Box::new(Lease { searcher: Some(searcher), pool: Arc::clone(&self.shared) }))
    }

    /// How many are lent.
    pub(super) fn lent(&self) -> usize {
        lock(&self.shared).lent
    }
}

/// A lent searcher; dropping it gives it back.
struct Lease {
    searcher: Option<Searcher<CornerRule>>,
    pool: Arc<Mutex<PoolState>>,
}

impl Lease {
    fn searcher(&mut self) -> &mut Searcher<CornerRule> {
        self.searcher.get_or_insert_default()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = lock(&self.pool);
        state.lent -= 1;
        state.idle.extend(self.searcher.take());
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

/// Searchers are whole also after a panic: each search begins anew.
fn lock(state: &Mutex<PoolState>) -> std::sync::MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
