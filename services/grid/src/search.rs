//! The searches: one loop, two ways to find successors.
//!
//! ```text
//!   take the most promising cell ── the goal? ──> trace the path back
//!            │ no
//!            └── its successors:  A*   neighbours                       (`look`)
//!                                 JPS  jump points, found by scanning   (`jump`)
//! ```
//!
//! The estimate is the length of the shortest path on a grid without obstacles. It never falls
//! by more than the cost of a step, so a cell taken out of the list was reached on a shortest
//! path and is never taken out again. A server with response deadlines can run a search step
//! by step and read its progress.

mod aim;
mod jump;
mod look;

use crate::cell::Cell;
use crate::cost::Cost;
use crate::error::GridError;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::open::Entry;
use crate::path::{Path, extend};
use crate::rule::{NOWHERE, Rule};
pub(crate) use aim::One;
use std::marker::PhantomData;

/// The method of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A*: from each cell that may lie on a shortest path to its neighbours.
    AStar,
    /// Jump point search: scans rows and columns, 64 cells at a time, for jump points.
    Jps,
}

/// Counters of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Cells taken out of the open list and expanded.
    pub expanded: u32,
    /// Insertions into the open list.
    pub opened: u32,
    /// Cells, or words of 64 cells, read to find successors.
    pub scanned: u64,
}

/// An event of a search, for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A cell was put into the open list, reached from another one.
    Opened {
        /// The cell.
        cell: Cell,
        /// The cell it was reached from.
        from: Cell,
    },
    /// A cell was expanded.
    Expanded(Cell),
}

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// [`Searcher::path`] has the path.
    Found,
    /// There is no path.
    Unreachable,
}

/// The present search, or the last one.
#[derive(Clone, Copy, Debug)]
struct Task {
    method: Method,
    fingerprint: u64,
    to: Cell,
    progress: Progress,
    /// The cell where the search ended.
    end: Cell,
    /// The cost of the path, once it is found.
    cost: Cost,
}

/// Finds paths under the rule `R` and reuses its memory: once it has seen the largest grid and the
/// longest search, it allocates nothing.
///
/// One for each thread; searchers may share the grid.
#[derive(Clone, Debug)]
pub struct Searcher<R: Rule> {
    memory: Memory,
    turns: Vec<Cell>,
    task: Option<Task>,
    rule: PhantomData<R>,
}

impl<R: Rule> Default for Searcher<R> {
    fn default() -> Self {
        Searcher { memory: Memory::default(), turns: Vec::new(), task: None, rule: PhantomData }
    }
}

impl<R: Rule> Searcher<R> {
    /// A new searcher, without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds a shortest path, or reports that there is none.
    ///
    /// # Errors
    /// A cell that is outside or blocked.
    pub fn find(
        &mut self,
        grid: &Grid,
        method: Method,
        from: Cell,
        to: Cell,
    ) -> Result<Option<Path<'_>>, GridError> {
        self.begin(grid, method, from, to)?;
        self.step(grid, method, u32::MAX)?;
        Ok(self.path())
    }

    /// Begins a search, which [`Searcher::step`] continues. If the goal is cut off from the start,
    /// the search ends at once.
    ///
    /// # Errors
    /// Those of [`Searcher::find`].
    pub fn begin(
        &mut self,
        grid: &Grid,
        method: Method,
        from: Cell,
        to: Cell,
    ) -> Result<Progress, GridError> {
        self.task = None;
        grid.standing(from)?;
        grid.standing(to)?;
        let joined = grid.is_joined(R::CORNERS, from, to);
        let progress = if joined { Progress::More } else { Progress::Unreachable };
        self.start(grid, method, (from, to), progress);
        Ok(progress)
    }

    fn start(&mut self, grid: &Grid, method: Method, (from, to): (Cell, Cell), progress: Progress) {
        let remains = aim::distance::<R>(from, to);
        self.memory.begin(grid, remains);
        self.turns.clear();
        let fingerprint = grid.fingerprint();
        let (end, cost) = (from, Cost::ZERO);
        self.task = Some(Task { method, fingerprint, to, progress, end, cost });
        if progress == Progress::More {
            let start = (from, NOWHERE);
            self.memory.reach(from, grid.position(from), Cost::ZERO, start, || remains);
        }
    }

    /// Expands at most `cells_max` more cells. A search that has ended stays ended.
    ///
    /// # Errors
    /// If there is no search, or if the grid or the method has changed since it began.
    pub fn step(
        &mut self,
        grid: &Grid,
        method: Method,
        cells_max: u32,
    ) -> Result<Progress, GridError> {
        let Some(mut task) = self.task else { return Err(GridError::NotBegun) };
        if task.progress != Progress::More {
            return Ok(task.progress);
        }
        if task.fingerprint != grid.fingerprint() || task.method != method {
            return Err(GridError::Changed);
        }
        let memory = &mut self.memory;
        let goal = &One::at(grid, task.to);
        match method {
            Method::AStar => task.go(memory, grid, goal, cells_max, look::around::<R>),
            Method::Jps => task.go(memory, grid, goal, cells_max, jump::points::<R>),
        }
        self.task = Some(task);
        if task.progress == Progress::Found {
            self.trace(grid, task.end);
        }
        Ok(task.progress)
    }

    /// The path of the last search, if it has found one.
    pub fn path(&self) -> Option<Path<'_>> {
        let task = self.task.filter(|task| task.progress == Progress::Found)?;
        Some(Path { turns: &self.turns, cost: task.cost })
    }

    /// The counters of the last search.
    pub fn stats(&self) -> Stats {
        self.memory.stats
    }

    /// Whether to record search events from now on. It costs time and memory.
    pub fn watch(&mut self, watched: bool) {
        self.memory.events = watched.then(Vec::new);
    }

    /// The events of the last search, if it was watched.
    pub fn events(&self) -> &[Event] {
        self.memory.events.as_deref().unwrap_or_default()
    }

    /// Collects the turning points of the path to `end`.
    fn trace(&mut self, grid: &Grid, end: Cell) {
        self.turns.clear();
        let mut cell = end;
        loop {
            extend(&mut self.turns, cell);
            let parent = self.memory.parent(grid.position(cell));
            if parent == cell {
                break;
            }
            extend(&mut self.turns, aim::bend::<R>(parent, cell));
            cell = parent;
        }
        self.turns.reverse();
    }
}

/// A cell to expand: its place, its cost, the direction in which it was entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) cell: Cell,
    pub(crate) position: u32,
    pub(crate) cost: Cost,
    pub(crate) entered: usize,
}

impl Task {
    /// The main loop. `expand` reaches the successors of a cell.
    fn go(
        &mut self,
        memory: &mut Memory,
        grid: &Grid,
        aim: &One,
        cells_max: u32,
        expand: impl Fn(&mut Memory, &Grid, &One, At),
    ) {
        for _ in 0..cells_max {
            let (cell, position, (cost, entered)) = loop {
                let Some(Entry { cell, position, .. }) = memory.open.pop() else {
                    self.progress = Progress::Unreachable;
                    return;
                };
                let cell = Cell::unpacked(cell);
                if let Some(known) = memory.leave(position) {
                    break (cell, position, known);
                }
            };
            if aim.is_reached(position) {
                (self.progress, self.end, self.cost) = (Progress::Found, cell, cost);
                return;
            }
            memory.stats.expanded += 1;
            if let Some(events) = &mut memory.events {
                events.push(Event::Expanded(cell));
            }
            expand(memory, grid, aim, At { cell, position, cost, entered });
        }
    }
}
