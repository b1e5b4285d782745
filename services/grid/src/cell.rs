//! A cell by its column and row.

use std::str::FromStr;

/// A cell: column `x` from the left and row `y` from the top, both from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display,
)]
#[display("{},{}", self.x, self.y)]
pub struct Cell {
    /// The column.
    pub x: u16,
    /// The row.
    pub y: u16,
}

impl Cell {
    /// The cell in column `x` and row `y`.
    pub const fn new(x: u16, y: u16) -> Cell {
        Cell { x, y }
    }

    /// The cell `count` steps of (`dx`, `dy`) away; the caller guarantees that it is on the grid.
    pub(crate) fn moved(self, (dx, dy): (i32, i32), count: u32) -> Cell {
        let count = count as i32;
        let x = i32::from(self.x) + dx * count;
        let y = i32::from(self.y) + dy * count;
        Cell { x: x as u16, y: y as u16 }
    }

    /// The offset from here to `other`, in columns and rows.
    pub(crate) fn offset(self, other: Cell) -> (i32, i32) {
        (i32::from(other.x) - i32::from(self.x), i32::from(other.y) - i32::from(self.y))
    }

    /// Both coordinates in the lower 24 bits of a word: a side of a grid has at most 4096 cells.
    pub(crate) fn packed(self) -> u32 {
        u32::from(self.y) << 12 | u32::from(self.x)
    }

    /// The inverse of [`Cell::packed`]; the upper 8 bits may hold other data.
    pub(crate) fn unpacked(word: u32) -> Cell {
        Cell { x: (word & 0xfff) as u16, y: (word >> 12 & 0xfff) as u16 }
    }
}

impl FromStr for Cell {
    type Err = String;

    /// Reads `X,Y`.
    fn from_str(text: &str) -> Result<Cell, String> {
        let (x, y) = text.split_once(',').unwrap_or((text, ""));
        match (x.trim().parse(), y.trim().parse()) {
            (Ok(x), Ok(y)) => Ok(Cell { x, y }),
            _ => Err(format!("expected a cell as column and row, like 3,14, found `{text}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cell;

    #[test]
    fn a_cell_is_read_as_it_is_written() {
        let cell = Cell::new(70, 35);
        assert_eq!(cell.to_string().parse(), Ok(cell));
        assert_eq!(Cell::unpacked(cell.packed()), cell);
        for wrong in ["", "3", "3,", ",4", "a,b", "-1,2", "70000,1"] {
            assert!(wrong.parse::<Cell>().unwrap_err().contains("column and row"), "{wrong}");
        }
    }
}
