//! A map with a path as a scalable picture, light or dark like the reader's screen.

use std::fmt::Write as _;

use super::Algorithm;
use super::solve::Answer;
use grid::{Cell, Corners, Event, Grid};

/// A cell's side, in the picture's units.
const SIDE: u32 = 10;

const STYLE: &str = "\
svg{background:#fbfbf9}.wall{fill:#59626d}.seen{fill:#8fb8e8;opacity:.55}\
.path{fill:none;stroke:#c8641b;stroke-width:3.4;stroke-linejoin:round;stroke-linecap:round}\
.start{fill:#0a7048}.goal{fill:#ab2f1b}.edge{fill:none;stroke:#8d96a0;stroke-width:1}\
@media(prefers-color-scheme:dark){svg{background:#121518}.wall{fill:#717b86}\
.seen{fill:#2f5f96}.path{stroke:#ec9a60}.start{fill:#66d3a0}.goal{fill:#f29784}}";

/// The picture as a file.
pub fn svg(grid: &Grid, answer: &Answer, algorithm: Algorithm, corners: Corners) -> String {
    let (width, height) = (u32::from(grid.width()) * SIDE, u32::from(grid.height()) * SIDE);
    let mut text = String::new();
    let said = format!(
        "{} by {} cells, {}, corner rule {corners}: {}",
        grid.width(),
        grid.height(),
        algorithm.title(),
        if answer.cells.is_empty() {
            "no path".to_owned()
        } else {
            format!("a path of length {:.4}", answer.cost.length())
        }
    );
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{said}</title>\n<style>{STYLE}</style>\n"
    );
    let _ = writeln!(text, "<path class=\"wall\" d=\"{}\"/>", runs(grid, |it| !grid.is_free(it)));
    let mut seen: Vec<Cell> = answer.events.iter().filter_map(expanded).collect();
    seen.sort_unstable();
    let is_seen = |cell: Cell| seen.binary_search(&cell).is_ok();
    let _ = writeln!(text, "<path class=\"seen\" d=\"{}\"/>", runs(grid, is_seen));
    if let [start, .., goal] | [start @ goal] = &answer.cells[..] {
        let middle = |cell: &Cell| {
            let middle = |at: u16| u32::from(at) * SIDE + SIDE / 2;
            (middle(cell.x), middle(cell.y))
        };
        let points = answer.cells.iter().map(|cell| {
            let (x, y) = middle(cell);
            format!("{x},{y}")
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "<polyline class=\"path\" points=\"{points}\"/>");
        for (class, cell) in [("start", start), ("goal", goal)] {
            let (x, y) = middle(cell);
            let _ = writeln!(text, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"6\"/>");
        }
    }
    let _ = write!(text, "<rect class=\"edge\" width=\"{width}\" height=\"{height}\"/>\n</svg>\n");
    text
}

fn expanded(event: &Event) -> Option<Cell> {
    match event {
        Event::Expanded(cell) => Some(*cell),
        Event::Opened { .. } => None,
    }
}

/// One closed rectangle for each run of chosen cells in a row.
fn runs(grid: &Grid, chosen: impl Fn(Cell) -> bool) -> String {
    let mut path = String::new();
    for y in 0..grid.height() {
        let mut x = 0;
        while x < grid.width() {
            let end = (x..grid.width()).find(|x| !chosen(Cell::new(*x, y)));
            let end = end.unwrap_or(grid.width());
            if end > x {
                let (left, top) = (u32::from(x) * SIDE, u32::from(y) * SIDE);
                let long = u32::from(end - x) * SIDE;
                let _ = write!(path, "M{left} {top}h{long}v{SIDE}h-{long}z");
            }
            x = end.max(x + 1);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::solve::Question;

    #[test]
    fn the_picture_says_what_it_shows() {
        let grid = Grid::from_fn(5, 3, |cell| cell.x != 2 || cell.y == 2).unwrap();
        let (algorithm, corners) = (Algorithm::Jps, Corners::NoObstacle);
        let (from, to) = (Cell::new(0, 0), Cell::new(4, 0));
        let question = Question { grid: &grid, corners, algorithm, from, to };
        let text = svg(&grid, &question.answer().unwrap(), algorithm, corners);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
        assert!(text.contains("a path of length 6.8284"), "{text}");
        assert!(text.contains("d=\"M20 0h10v10h-10zM20 10h10v10h-10z\""), "{text}");
        assert!(text.contains("points=\"5,5 "), "{text}");
    }
}
