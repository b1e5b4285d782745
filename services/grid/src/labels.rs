//! Connected components: a label for each cell, and a table of equivalent labels.
//!
//! The labels are made row by row from runs of free cells.

use crate::bits::Bits;
use crate::rule::Corners;

/// The label of a blocked cell.
const NONE: u32 = 0;

#[derive(Clone, Debug)]
pub(crate) struct Labels {
    of: Vec<u32>,
    /// For each label an equivalent one; the last in the chain names itself.
    same: Vec<u32>,
    corners: bool,
}

impl Labels {
    /// The components of `bits` under a rule.
    pub(crate) fn of(bits: &Bits, width: u16, height: u16, corners: Corners) -> Labels {
        let mut labels = Labels {
            of: vec![NONE; bits.positions()],
            same: vec![NONE],
            corners: corners.joins_corners(),
        };
        for y in 0..height {
            labels.row(bits, bits.position(0, y), u32::from(width));
        }
        for label in 1..labels.same.len() {
            labels.same[label] = labels.root(label as u32);
        }
        labels
    }

    /// Labels a row: each run of free cells joins the runs above that touch it.
    fn row(&mut self, bits: &Bits, first: u32, width: u32) {
        let end = first + width;
        let mut at = first;
        while at < end {
            // A blocked cell follows the row's end, so a run ends in time.
            let blocked = (!bits.window(at)).trailing_zeros();
            if blocked == 0 {
                at += bits.window(at).trailing_zeros().max(1);
                continue;
            }
            let begin = at;
            at += blocked;
            while bits.is_free(at) {
                at += (!bits.window(at)).trailing_zeros();
            }
            self.join_above(bits, begin, at);
        }
    }

    /// Labels the run `begin..end`, with the label of the row above where it touches it.
    fn join_above(&mut self, bits: &Bits, begin: u32, end: u32) {
        let reach = u32::from(self.corners);
        let mut label = NONE;
        let mut above = begin - bits.stride() - reach;
        let last = end - bits.stride() + reach;
        while above < last {
            let free = bits.window(above);
            if free & 1 == 0 {
                above += free.trailing_zeros().max(1);
                continue;
            }
            let root = self.root(self.of[above as usize]);
            label = if label == NONE { root } else { self.join(label, root) };
            above += (!free).trailing_zeros();
        }
        if label == NONE {
            label = self.fresh();
        }
        self.of[begin as usize..end as usize].fill(label);
    }

    fn fresh(&mut self) -> u32 {
        let label = self.same.len() as u32;
        self.same.push(label);
        label
    }

    fn root(&self, label: u32) -> u32 {
        let mut label = label;
        while self.same[label as usize] != label {
            label = self.same[label as usize];
        }
        label
    }

    /// Makes two labels equivalent. The older one represents both, so
    /// chains stay short row after row.
    fn join(&mut self, one: u32, two: u32) -> u32 {
        let (one, two) = (self.root(one), self.root(two));
        let (old, new) = (one.min(two), one.max(two));
        self.same[new as usize] = old;
        old
    }

    pub(crate) fn component(&self, position: u32) -> u32 {
        self.root(self.of[position as usize])
    }
}
