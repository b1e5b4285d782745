//! A bitmap of the cells, row after row, with a blocked border; scans read 64 cells at a time.
//!
//! A set bit is a free cell. Each row ends with at least one blocked bit, which is also the left
//! neighbour of the next row's first cell, and there is a blocked row above and below. So no scan
//! needs to test for the grid's edge. Extra words before and after make every window readable.

/// Blocked bits before the first border row: a window may begin 63 bits before its cell.
const LEAD: u32 = 64;

/// The cells of a grid in one orientation.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    stride: u32,
}

impl Bits {
    /// A blocked grid of `rows` rows of `len` cells.
    pub(crate) fn new(len: u16, rows: u16) -> Bits {
        let stride = (u32::from(len) + 1).next_multiple_of(64);
        let words = LEAD / 64 + stride / 64 * (u32::from(rows) + 2) + 2;
        Bits { words: vec![0; words as usize], stride }
    }

    /// The distance between two rows.
    pub(crate) fn stride(&self) -> u32 {
        self.stride
    }

    /// The number of positions, borders included.
    pub(crate) fn positions(&self) -> usize {
        self.words.len() * 64
    }

    #[inline]
    pub(crate) fn position(&self, at: u16, row: u16) -> u32 {
        LEAD + (u32::from(row) + 1) * self.stride + u32::from(at)
    }

    #[inline]
    pub(crate) fn is_free(&self, position: u32) -> bool {
        self.words[(position >> 6) as usize] >> (position & 63) & 1 == 1
    }

    /// Flips the cell at `position` between free and blocked.
    pub(crate) fn flip(&mut self, position: u32) {
        self.words[(position >> 6) as usize] ^= 1 << (position & 63);
    }

    /// The 64 cells from `position` on; the lowest bit is the first cell.
    #[inline]
    pub(crate) fn window(&self, position: u32) -> u64 {
        let (at, shift) = ((position >> 6) as usize, position & 63);
        let pair = &self.words[at..at + 2];
        // Two shifts, because one shift by 64 is undefined.
        pair[0] >> shift | pair[1] << 1 << (63 - shift)
    }

    /// The cell and its eight neighbours, row by row from the one above to the left.
    #[inline]
    pub(crate) fn around(&self, position: u32) -> usize {
        let left = position - 1;
        let (above, below) = (left - self.stride, left + self.stride);
        // A row is a whole number of words, so the three windows have the same shift in theirs.
        let shift = left & 63;
        let three = |first: u32| {
            let word = self.words[(first >> 6) as usize] >> shift;
            // Two times in 64 a window reaches into the next word.
            if shift < 62 { word & 7 } else { self.window(first) & 7 }
        };
        (three(above) | three(left) << 3 | three(below) << 6) as usize
    }
}
