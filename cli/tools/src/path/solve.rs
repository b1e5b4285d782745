//! One path by one method, with a record of the search.

use std::time::{Duration, Instant};

use super::Algorithm;
use grid::{Always, FourNeighbour, NoObstacle, OneObstacle, Rule};
use grid::{Cell, Corners, Cost, Event, Grid, GridError, Searcher, Stats};

/// The number of searches that are timed, besides the recorded one; the fastest counts.
const TIMED: u32 = 5;

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The grid.
    pub grid: &'a Grid,
    /// Which corners a diagonal step may pass.
    pub corners: Corners,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The start.
    pub from: Cell,
    /// The goal.
    pub to: Cell,
}

/// A path, and the search for it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Each cell from the first to the last; empty if there is no path.
    pub cells: Vec<Cell>,
    /// The cost of the path.
    pub cost: Cost,
    /// Counts of the search.
    pub stats: Stats,
    /// Its steps, in order.
    pub events: Vec<Event>,
    /// The time of the fastest of several warm searches.
    pub took: Duration,
}

impl Question<'_> {
    /// Times several searches and records one.
    pub fn answer(self) -> Result<Answer, GridError> {
        match self.corners {
            Corners::Always => self.under::<Always>(),
            Corners::OneObstacle => self.under::<OneObstacle>(),
            Corners::NoObstacle => self.under::<NoObstacle>(),
            Corners::FourNeighbour => self.under::<FourNeighbour>(),
        }
    }

    fn under<R: Rule>(self) -> Result<Answer, GridError> {
        let Question { grid, algorithm, from, to, .. } = self;
        let method = algorithm.method();
        let mut searcher = Searcher::<R>::new();
        let mut took = Duration::MAX;
        for _ in 0..TIMED {
            let begin = Instant::now();
            searcher.find(grid, method, from, to)?;
            took = took.min(begin.elapsed());
        }
        searcher.watch(true);
        let found = searcher.find(grid, method, from, to)?;
        let cost = found.map_or(Cost::ZERO, |path| path.cost());
        let cells = found.map(|path| path.steps().collect()).unwrap_or_default();
        let (stats, events) = (searcher.stats(), searcher.events().to_vec());
        Ok(Answer { cells, cost, stats, events, took })
    }
}
