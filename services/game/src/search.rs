//! A path search, a slice at a time, in pooled memory.
//!
//! A search needs memory for the whole map, so there are few searchers. A request that finds none
//! free tries again at the next tick. A searcher returns to the pool when its search is dropped,
//! even if the session is gone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use grid::{Cell, Method, Progress, Searcher};

use super::packet::Place;
use super::terrain::{CORNERS, CornerRule, Terrain};
use super::world::World;

/// The number of cells expanded between two requests for budget.
const SLICE: u32 = 256;

/// A path request and its progress. It travels as a job and comes back as an outcome after each
/// slice.
#[derive(Debug)]
pub struct PathSearch {
    from: Cell,
    to: Cell,
    is_exact: bool,
    /// The searcher with what it has found so far.
    lease: Option<Box<Lease>>,
}

/// The outcome of a slice.
#[derive(Debug)]
pub enum Outcome {
    /// Unfinished; continue in the next tick.
    Later(PathSearch),
    /// The route.
    Found(Route),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub is_exact: bool,
    /// The numbers of straight and diagonal steps.
    pub steps: (u32, u32),
    /// The first cell, every turn, the last cell.
    pub turns: Vec<Place>,
}

impl PathSearch {
    /// A new request; both places are on the map, and `from` is free.
    pub fn new(from: Place, to: Place) -> PathSearch {
        let cell = |(x, y)| Cell::new(x, y);
        PathSearch { from: cell(from), to: cell(to), is_exact: true, lease: None }
    }

    /// Continues as far as the budget allows.
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

    /// Begins the search, to the nearest reachable place if the requested one is unreachable;
    /// `None` if there is nowhere to go.
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

    fn stay(&self) -> Route {
        Route { is_exact: false, steps: (0, 0), turns: vec![(self.from.x, self.from.y)] }
    }
}

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
    /// A pool of at most `most` searchers, each made on first use.
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

    pub(super) fn lent(&self) -> usize {
        lock(&self.shared).lent
    }
}

/// A lent searcher; dropping it returns it to the pool.
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

/// A panic leaves no searcher unusable: each search resets it.
fn lock(state: &Mutex<PoolState>) -> std::sync::MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
