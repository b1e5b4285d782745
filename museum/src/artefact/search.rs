//! A* and jump point search as published: over linked lists, with an estimate that is too high.
//!
//! Steps cost 1 and the root of two, but the estimate counts a diagonal step as two (Manhattan), so
//! it may exceed the remaining cost, and the search may take a detour. The search ends when it
//! first sees the goal, not when the goal is the best open cell. A cell that is found again on a
//! shorter path gets the new cost but keeps its old place in the order (A*), or stays unchanged
//! (JPS). Open and closed cells are linked lists that are traversed for every neighbour, and each
//! node comes from the heap. All of this is reproduced here, and for A* each part can be repaired
//! by itself ([`Repairs`]).

use grid::{Cell, Corners, Grid, oracle};
use std::cell::{Cell as Changing, RefCell};
use std::collections::LinkedList;
use std::rc::Rc;

/// Columns and rows of a step in each direction, clockwise from north.
const STEP: [(i16, i16); 8] =
    [(0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1)];

/// The neighbour of a free cell in a direction, if a step there is legal.
#[inline]
pub fn neighbour(grid: &Grid, corners: Corners, from: Cell, direction: usize) -> Option<Cell> {
    let to = ahead(from, direction)?;
    oracle::step(grid, corners, from, to).map(|_| to)
}

#[inline]
fn ahead(from: Cell, direction: usize) -> Option<Cell> {
    let (dx, dy) = STEP[direction % 8];
    Some(Cell::new(from.x.checked_add_signed(dx)?, from.y.checked_add_signed(dy)?))
}

/// The cost of a step in a direction.
#[inline]
pub fn price(direction: usize) -> f64 {
    if direction.is_multiple_of(2) { 1.0 } else { std::f64::consts::SQRT_2 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// Columns and rows together: more than remains where diagonal steps are allowed.
    Manhattan,
    /// The shortest way on a grid without obstacles.
    Octile,
}

impl Estimate {
    #[inline]
    pub fn of(self, from: Cell, to: Cell) -> f64 {
        let (dx, dy) = (f64::from(from.x.abs_diff(to.x)), f64::from(from.y.abs_diff(to.y)));
        match self {
            Estimate::Manhattan => dx + dy,
            Estimate::Octile => dx.max(dy) - dx.min(dy) + dx.min(dy) * std::f64::consts::SQRT_2,
        }
    }
}

/// The repaired parts of the published A*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repairs {
    pub estimate: Estimate,
    /// The search ends when the goal is taken out, and a better path changes a cell's place in the
    /// order.
    pub exact: bool,
}

/// As published.
pub const NONE: Repairs = Repairs { estimate: Estimate::Manhattan, exact: false };
/// Right, and as slow as before.
pub const ALL: Repairs = Repairs { estimate: Estimate::Octile, exact: true };

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Turning points or cells, from start to goal; empty if there is no path.
    pub cells: Vec<Cell>,
    /// Nodes that were gone on from.
    pub expanded: u32,
}

impl Found {
    /// The length, if the path is legal step by step; the root of two is rounded.
    pub fn length(&self, grid: &Grid, corners: Corners) -> Option<f64> {
        let walked = oracle::walk(grid, corners, self.steps()).ok()?;
        let length =
            f64::from(walked.straight) + f64::from(walked.diagonal) * std::f64::consts::SQRT_2;
        (!self.cells.is_empty()).then_some(length)
    }

    fn steps(&self) -> Vec<Cell> {
        let nearer = |from: u16, to: u16| from + u16::from(from < to) - u16::from(from > to);
        let mut all: Vec<Cell> = self.cells.first().copied().into_iter().collect();
        for pair in self.cells.windows(2) {
            let mut at = pair[0];
            while at != pair[1] {
                at = Cell::new(nearer(at.x, pair[1].x), nearer(at.y, pair[1].y));
                all.push(at);
            }
        }
        all
    }
}

/// A node, from the heap, that two lists and its children point to.
struct Node {
    cell: Cell,
    /// The direction in which it was entered; 8 for the start.
    direction: usize,
    g: Changing<f64>,
    f: Changing<f64>,
    parent: RefCell<Option<Rc<Node>>>,
}

type Nodes = LinkedList<Rc<Node>>;

/// Takes the node with the least sum out of a list, the first of equals.
fn take_least(open: &mut Nodes) -> Option<Rc<Node>> {
    let mut least: Option<(usize, f64)> = None;
    for (at, node) in open.iter().enumerate() {
        if least.is_none_or(|(_, f)| node.f.get() < f) {
            least = Some((at, node.f.get()));
        }
    }
    let mut rest = open.split_off(least?.0);
    let node = rest.pop_front();
    open.append(&mut rest);
    node
}

fn traced(goal: Option<Rc<Node>>, expanded: u32) -> Found {
    let mut cells = Vec::new();
    let mut at = goal;
    while let Some(node) = at {
        cells.push(node.cell);
        at = node.parent.borrow().clone();
    }
    cells.reverse();
    Found { cells, expanded }
}

fn node(cell: Cell, direction: usize, g: f64, f: f64, parent: Option<Rc<Node>>) -> Rc<Node> {
    let (g, f, parent) = (Changing::new(g), Changing::new(f), RefCell::new(parent));
    Rc::new(Node { cell, direction, g, f, parent })
}

/// A* over two linked lists.
pub fn astar(grid: &Grid, corners: Corners, from: Cell, to: Cell, repairs: Repairs) -> Found {
    search(from, to, Some(repairs), |cell, _| {
        let next = move |direction| neighbour(grid, corners, cell, direction);
        (0..8).filter_map(move |it| Some((it, next(it)?, price(it))))
    })
}

/// Jump point search over two linked lists, as published: a cell that is found again stays
/// unchanged, whatever the cost of the new path.
pub fn jps(grid: &Grid, corners: Corners, from: Cell, to: Cell) -> Found {
    let jumper = &Jumper { grid, corners, to };
    search(from, to, None, |cell, entered| {
        let jump = move |direction| jumper.jump(cell, direction);
        jumper.directions(cell, entered).into_iter().filter_map(move |it| {
            let next = jump(it)?;
            Some((it, next, Estimate::Octile.of(cell, next)))
        })
    })
}

/// The common part of both: `ways` gives directions, cells and costs from a cell that was entered
/// in a direction.
fn search<W: Iterator<Item = (usize, Cell, f64)>>(
    from: Cell,
    to: Cell,
    repairs: Option<Repairs>,
    ways: impl Fn(Cell, usize) -> W,
) -> Found {
    let Repairs { estimate, exact } = repairs.unwrap_or(NONE);
    let mut open = Nodes::from([node(from, 8, 0.0, estimate.of(from, to), None)]);
    let mut closed = Nodes::new();
    let mut expanded = 0;
    while let Some(node) = take_least(&mut open) {
        if exact && node.cell == to {
            return traced(Some(node), expanded);
        }
        expanded += 1;
        closed.push_back(node.clone());
        for (direction, cell, price) in ways(node.cell, node.direction) {
            let g = node.g.get() + price;
            let known = open.iter().chain(&closed).find(|it| it.cell == cell);
            let Some(known) = known else {
                let (f, parent) = (g + estimate.of(cell, to), Some(node.clone()));
                open.push_back(self::node(cell, direction, g, f, parent));
                continue;
            };
            // Rounded sums of the same steps in another order are no shorter way.
            if repairs.is_some() && g < known.g.get() - 1e-9 {
                known.g.set(g);
                known.parent.replace(Some(node.clone()));
                if exact {
                    known.f.set(g + estimate.of(cell, to));
                }
            }
        }
        if !exact && let Some(goal) = open.iter().find(|it| it.cell == to) {
            return traced(Some(goal.clone()), expanded);
        }
    }
    traced(None, expanded)
}

struct Jumper<'a> {
    grid: &'a Grid,
    corners: Corners,
    to: Cell,
}

impl Jumper<'_> {
    fn step(&self, from: Cell, direction: usize) -> Option<Cell> {
        neighbour(self.grid, self.corners, from, direction)
    }

    fn is_free(&self, from: Cell, direction: usize) -> bool {
        ahead(from, direction).is_some_and(|it| self.grid.is_free(it))
    }

    /// Directions that an obstacle makes necessary for a search that comes in `direction`.
    fn forced(&self, cell: Cell, direction: usize) -> [Option<usize>; 2] {
        let blocked_turn = if direction.is_multiple_of(2) { [2, 6] } else { [3, 5] };
        let new_turn = if direction.is_multiple_of(2) { [1, 7] } else { [2, 6] };
        [0, 1].map(|side| {
            let new = (direction + new_turn[side]) % 8;
            let is_forced = !self.is_free(cell, direction + blocked_turn[side])
                && self.step(cell, new).is_some();
            is_forced.then_some(new)
        })
    }

    fn directions(&self, cell: Cell, entered: usize) -> Vec<usize> {
        if entered == 8 {
            return (0..8).collect();
        }
        let mut all = vec![entered];
        if !entered.is_multiple_of(2) {
            all.extend([(entered + 1) % 8, (entered + 7) % 8]);
        }
        all.extend(self.forced(cell, entered).into_iter().flatten());
        all
    }

    /// The next cell in a direction from which the search must continue.
    fn jump(&self, from: Cell, direction: usize) -> Option<Cell> {
        let mut at = from;
        loop {
            at = self.step(at, direction)?;
            if at == self.to || self.forced(at, direction).iter().any(Option::is_some) {
                return Some(at);
            }
            if !direction.is_multiple_of(2) {
                let beside = [(direction + 1) % 8, (direction + 7) % 8];
                if beside.into_iter().any(|it| self.jump(at, it).is_some()) {
                    return Some(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::movingai::Map;

    #[test]
    fn the_repaired_search_is_right_and_the_published_ones_are_not() {
        let mut longer = [0; 2];
        let queries = [
            (0, 20, 10, 24.1421),
            (0, 70, 35, 84.4975),
            (1, 20, 10, 38.1421),
            (1, 70, 35, 108.0122),
        ];
        for (map, x, y, shortest) in queries {
            let grid = Map::parse(grid::PORTFOLIO_MAPS[map]).and_then(|it| it.grid());
            let grid = grid.expect("it is a grid");
            let (from, to) = (Cell::new(0, 0), Cell::new(x, y));
            let rule = Corners::OneObstacle;
            let length = |it: Found| it.length(&grid, rule).expect("a legal path");
            let right = length(astar(&grid, rule, from, to, ALL));
            assert!((right - shortest).abs() < 1e-3, "to {x}, {y}: {right}");
            let published =
                [length(astar(&grid, rule, from, to, NONE)), length(jps(&grid, rule, from, to))];
            for (longer, found) in longer.iter_mut().zip(published) {
                assert!(found > shortest - 1e-3, "shorter than the shortest");
                *longer += usize::from(found > shortest + 1e-3);
            }
        }
        assert!(longer.iter().all(|it| *it > 0), "too long somewhere: {longer:?}");
    }

    #[test]
    fn where_there_is_no_way_none_is_found() {
        let mut grid = Grid::new(5, 3).expect("a small grid");
        for y in 0..3 {
            grid.set(Cell::new(2, y), false).expect("inside");
        }
        let (from, to) = (Cell::new(0, 0), Cell::new(4, 2));
        for repairs in [NONE, ALL] {
            assert_eq!(astar(&grid, Corners::OneObstacle, from, to, repairs).cells, []);
        }
        assert_eq!(jps(&grid, Corners::OneObstacle, from, to).cells, []);
    }
}
