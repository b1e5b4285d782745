//! The reference for the searches: Dijkstra's algorithm as in a textbook, and the definition of a
//! legal path in plain words.
//!
//! The only code shared with the searches is [`Grid::is_free`]: no table of neighbourhoods, no
//! scan, no estimate, no weight. Lengths are pairs of whole numbers, compared by squaring.

use crate::cell::Cell;
use crate::grid::Grid;
use crate::rule::Corners;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A length: straight steps at 1, diagonal steps at the square root of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Straight steps.
    pub straight: u32,
    /// Diagonal steps.
    pub diagonal: u32,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        // a + b r < c + d r  if and only if  a - c < (d - b) r; both sides squared, with signs.
        let left = i128::from(self.straight) - i128::from(other.straight);
        let right = i128::from(other.diagonal) - i128::from(self.diagonal);
        (left * left.abs()).cmp(&(2 * right * right.abs()))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether a legal step joins the two cells under a rule, and whether it is diagonal.
pub fn step(grid: &Grid, corners: Corners, from: Cell, to: Cell) -> Option<bool> {
    let (dx, dy) = from.offset(to);
    if !grid.is_free(from) || !grid.is_free(to) || dx.abs().max(dy.abs()) != 1 {
        return None;
    }
    if dx == 0 || dy == 0 {
        return Some(false);
    }
    let beside = [Cell::new(to.x, from.y), Cell::new(from.x, to.y)];
    let obstacles = beside.iter().filter(|cell| !grid.is_free(**cell)).count();
    let fits = match corners {
        Corners::Always => true,
        Corners::OneObstacle => obstacles <= 1,
        Corners::NoObstacle => obstacles == 0,
        Corners::FourNeighbour => false,
    };
    fits.then_some(true)
}

/// The lengths of the shortest paths from `from` to every cell, row by
/// row; `None` where no path leads.
pub fn costs(grid: &Grid, corners: Corners, from: Cell) -> Vec<Option<Pair>> {
    let at = |cell: Cell| usize::from(cell.y) * usize::from(grid.width()) + usize::from(cell.x);
    let mut costs: Vec<Option<Pair>> =
        vec![None; usize::from(grid.width()) * usize::from(grid.height())];
    let mut open = BinaryHeap::new();
    if grid.is_free(from) {
        costs[at(from)] = Some(Pair::default());
        open.push(Reverse((Pair::default(), from)));
    }
    while let Some(Reverse((cost, cell))) = open.pop() {
        if costs[at(cell)] != Some(cost) {
            continue;
        }
        for to in neighbours(cell) {
            let Some(diagonal) = step(grid, corners, cell, to) else { continue };
            let longer = Pair {
                straight: cost.straight + u32::from(!diagonal),
                diagonal: cost.diagonal + u32::from(diagonal),
            };
            if costs[at(to)].is_none_or(|known| longer < known) {
                costs[at(to)] = Some(longer);
                open.push(Reverse((longer, to)));
            }
        }
    }
    costs
}

/// The eight cells around one; fewer at the upper and left border.
fn neighbours(cell: Cell) -> impl Iterator<Item = Cell> {
    let around = |middle: u16| (-1..=1).filter_map(move |by| middle.checked_add_signed(by));
    around(cell.y).flat_map(move |y| around(cell.x).map(move |x| Cell { x, y }))
}

/// The first illegal step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected a legal step, found one from {} to {}", self.from, self.to)]
pub struct Illegal {
    /// The first cell of the step.
    pub from: Cell,
    /// The second cell of the step.
    pub to: Cell,
}

/// Checks a path and sums its steps.
///
/// # Errors
/// The first illegal step; for a path of one blocked cell, one from it to itself.
pub fn walk(
    grid: &Grid,
    corners: Corners,
    cells: impl IntoIterator<Item = Cell>,
) -> Result<Pair, Illegal> {
    let mut sum = Pair::default();
    let mut last: Option<Cell> = None;
    for to in cells {
        let from = last.unwrap_or(to);
        if last.is_none() {
            if !grid.is_free(to) {
                return Err(Illegal { from, to });
            }
        } else {
            match step(grid, corners, from, to) {
                Some(true) => sum.diagonal += 1,
                Some(false) => sum.straight += 1,
                None => return Err(Illegal { from, to }),
            }
        }
        last = Some(to);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_compare_as_numbers_do() {
        let pair = |straight, diagonal| Pair { straight, diagonal };
        assert!(pair(0, 5) > pair(7, 0) && pair(0, 5) < pair(8, 0));
        assert!(pair(3, 2) > pair(1, 3) && pair(1, 3) > pair(5, 0));
        assert_eq!(pair(4, 4).cmp(&pair(4, 4)), Ordering::Equal);
    }

    #[test]
    fn the_rules_differ_at_one_corner_and_at_two() {
        // . @      . @
        // . .      @ .
        let mut grid = Grid::new(2, 2).unwrap();
        let (from, to) = (Cell::new(0, 0), Cell::new(1, 1));
        let legal = |grid: &Grid| Corners::ALL.map(|rule| step(grid, rule, from, to).is_some());
        assert_eq!(legal(&grid), [true, true, true, false]);
        grid.set(Cell::new(1, 0), false).unwrap();
        assert_eq!(legal(&grid), [true, true, false, false]);
        grid.set(Cell::new(0, 1), false).unwrap();
        assert_eq!(legal(&grid), [true, false, false, false]);
    }

    #[test]
    fn an_illegal_path_is_found_out() {
        let mut grid = Grid::new(3, 1).unwrap();
        let cells = [Cell::new(0, 0), Cell::new(1, 0), Cell::new(2, 0)];
        assert_eq!(walk(&grid, Corners::Always, cells), Ok(Pair { straight: 2, diagonal: 0 }));
        let leap = [cells[0], cells[2]];
        let illegal = Illegal { from: cells[0], to: cells[2] };
        assert_eq!(walk(&grid, Corners::Always, leap), Err(illegal));
        grid.set(cells[0], false).unwrap();
        assert!(walk(&grid, Corners::Always, [cells[0]]).is_err(), "it stands in a wall");
    }
}
