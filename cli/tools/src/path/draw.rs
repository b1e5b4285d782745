//! A map with a path as text, a character for each cell.
//!
//! A map that is wider than the terminal is scaled down: each square of cells shows its most
//! important one, so that a path never vanishes between walls.

use grid::{Cell, Event, Grid};

/// The characters of cells, the least important first.
const SIGNS: [char; 6] = ['.', '#', 'o', '*', 'G', 'S'];
const FREE: usize = 0;
const WALL: usize = 1;
const EXPANDED: usize = 2;
const PATH: usize = 3;
const GOAL: usize = 4;
const START: usize = 5;

/// The map with a path and the expanded cells, at most `columns_max` wide.
pub fn draw(grid: &Grid, path: &[Cell], events: &[Event], columns_max: usize) -> String {
    let (width, height) = (usize::from(grid.width()), usize::from(grid.height()));
    let side = width.div_ceil(columns_max.max(1));
    let (columns, rows) = (width.div_ceil(side), height.div_ceil(side));
    let mut walls = vec![0; columns * rows];
    let at = |cell: Cell| usize::from(cell.y) / side * columns + usize::from(cell.x) / side;
    for cell in grid.cells().filter(|cell| !grid.is_free(*cell)) {
        walls[at(cell)] += 1;
    }
    // A square is a wall if most of its cells are walls.
    let most = side * side / 2 + side * side % 2;
    let solid = |count: usize| if count >= most { WALL } else { FREE };
    let mut shown: Vec<usize> = walls.into_iter().map(solid).collect();
    let mut show = |cell: Cell, sign: usize| shown[at(cell)] = sign.max(shown[at(cell)]);
    for event in events {
        if let Event::Expanded(cell) = event {
            show(*cell, EXPANDED);
        }
    }
    path.iter().for_each(|cell| show(*cell, PATH));
    if let [start, .., goal] | [start @ goal] = path {
        show(*start, START);
        show(*goal, GOAL);
    }
    let line =
        |row: &[usize]| row.iter().map(|sign| SIGNS[*sign]).chain(['\n']).collect::<String>();
    shown.chunks(columns).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> (Grid, Vec<Cell>) {
        let grid = Grid::from_fn(4, 3, |cell| cell != Cell::new(1, 1)).unwrap();
        (grid, vec![Cell::new(0, 0), Cell::new(1, 0), Cell::new(2, 1), Cell::new(3, 2)])
    }

    #[test]
    fn signs_stand_for_cells() {
        let (grid, path) = room();
        assert_eq!(draw(&grid, &path, &[], 80), "S*..\n.#*.\n...G\n");
        let seen = [Event::Expanded(Cell::new(0, 2)), Event::Expanded(Cell::new(0, 0))];
        assert_eq!(draw(&grid, &path, &seen, 80), "S*..\n.#*.\no..G\n");
        assert_eq!(draw(&grid, &path[..1], &[], 80), "S...\n.#..\n....\n");
    }

    #[test]
    fn a_wide_map_is_drawn_smaller_and_keeps_its_path() {
        let (grid, path) = room();
        assert_eq!(draw(&grid, &path, &[], 2), "S*\n.G\n");
    }
}
