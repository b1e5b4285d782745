//! Connected components: a label for each cell, and a table of equivalent labels.
//!
//! The labels are made row by row from runs of free cells. Opening a cell joins its neighbours.
//! Blocking a cell may split its surroundings; it does not if the free neighbours still reach each
//! other among themselves, which is the usual case. Otherwise the labels are dropped.

use crate::bits::Bits;
use crate::rule::Corners;

/// The label of a blocked cell.
const NONE: u32 = 0;

/// Components of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// A label for each position.
    of: Vec<u32>,
    /// For each label an equivalent one; the last in the chain names itself.
    same: Vec<u32>,
    /// Above this number of labels, counting again is cheaper.
    limit: usize,
    corners: bool,
}

impl Labels {
    /// The components of `bits` under a rule.
    pub(crate) fn of(bits: &Bits, width: u16, height: u16, corners: Corners) -> Labels {
        let mut labels = Labels {
            of: vec![NONE; bits.positions()],
            same: vec![NONE],
            limit: usize::MAX,
            corners: corners.joins_corners(),
        };
        for y in 0..height {
            labels.row(bits, bits.position(0, y), u32::from(width));
        }
        for label in 1..labels.same.len() {
            labels.same[label] = labels.root(label as u32);
        }
        labels.limit = 2 * labels.same.len() + 1024;
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

    /// The component of the free cell at `position`.
    pub(crate) fn component(&self, position: u32) -> u32 {
        self.root(self.of[position as usize])
    }

    /// Joins a newly free cell to its neighbours; false if counting again is cheaper.
    pub(crate) fn open(&mut self, position: u32, stride: u32, around: usize) -> bool {
        let mut label = NONE;
        for bit in self.neighbours() {
            if around >> bit & 1 == 1 {
                let other = position + bit / 3 * stride + bit % 3 - stride - 1;
                let other = self.of[other as usize];
                label = if label == NONE { self.root(other) } else { self.join(label, other) };
            }
        }
        if label == NONE {
            label = self.fresh();
        }
        self.of[position as usize] = label;
        self.same.len() < self.limit
    }

    /// Removes a cell; false if that may have split its component.
    pub(crate) fn close(&mut self, position: u32, around: usize) -> bool {
        self.of[position as usize] = NONE;
        !self.may_tear(around)
    }

    /// The bits of the neighbours that touch the middle.
    fn neighbours(&self) -> impl Iterator<Item = u32> + use<> {
        let corners = self.corners;
        [1, 3, 5, 7, 0, 2, 6, 8].into_iter().take(if corners { 8 } else { 4 })
    }

    /// Whether the free neighbours of a blocked middle form several groups around it.
    fn may_tear(&self, around: usize) -> bool {
        let free = around & !(1 << 4);
        let touching = self.neighbours().filter(|bit| free >> bit & 1 == 1);
        let touching = touching.fold(0_usize, |set, bit| set | 1 << bit);
        if touching == 0 {
            return false;
        }
        let mut group: usize = 1 << touching.trailing_zeros();
        loop {
            let wider = group
                | (0..9).filter(|bit| group >> bit & 1 == 1).fold(0, |set, bit| {
                    set | (0..9).filter(|it| self.touch(bit, *it)).fold(0, |set, it| set | 1 << it)
                });
            let wider = wider & free;
            if wider == group {
                return touching & !group != 0;
            }
            group = wider;
        }
    }

    /// Whether two cells of a neighbourhood touch.
    fn touch(&self, one: i32, two: i32) -> bool {
        let (dx, dy) = ((one % 3 - two % 3).abs(), (one / 3 - two / 3).abs());
        if self.corners { dx.max(dy) == 1 } else { dx + dy == 1 }
    }
}
