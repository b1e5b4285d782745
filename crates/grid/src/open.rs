//! The open list: a heap in which each parent has four children, by one 64-bit key.
//!
//! The key is the estimated cost of the whole path and, where that is equal, the distance that is
//! still to go, so that of equally good cells the one nearest to the goal comes first. Four
//! children make the heap half as deep as two, and their keys lie beside each other. A cell that
//! is found again on a shorter way is put in again; what is outdated is skipped when it comes out.

/// Children of a node.
const CHILDREN: usize = 4;

/// A key and the cell it belongs to.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    cell: u32,
}

/// Cells to be looked at, the most promising first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    entries: Vec<Entry>,
}

impl Open {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Puts a cell in.
    #[inline]
    pub(crate) fn push(&mut self, key: u64, cell: u32) {
        let mut hole = self.entries.len();
        self.entries.push(Entry { key, cell });
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.entries[parent].key <= key {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = Entry { key, cell };
    }

    /// Takes the cell with the least key out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let last = self.entries.pop()?;
        let Some(first) = self.entries.first().copied() else { return Some((last.key, last.cell)) };
        let len = self.entries.len();
        let mut hole = 0;
        loop {
            let child = hole * CHILDREN + 1;
            if child >= len {
                break;
            }
            let children = &self.entries[child..len.min(child + CHILDREN)];
            let (mut least, mut key) = (0, children[0].key);
            for (at, entry) in children.iter().enumerate().skip(1) {
                if entry.key < key {
                    (least, key) = (at, entry.key);
                }
            }
            if key >= last.key {
                break;
            }
            self.entries[hole] = children[least];
            hole = child + least;
        }
        self.entries[hole] = last;
        Some((first.key, first.cell))
    }
}

#[cfg(test)]
mod tests {
    use super::Open;
    use crate::dice::Dice;

    #[test]
    fn what_is_least_comes_out_first() {
        for seed in 0..50 {
            let mut dice = Dice::new(seed);
            let (mut open, mut model) = (Open::default(), Vec::new());
            for cell in 0..400 {
                if dice.once_in(3) {
                    let least = model.iter().min().copied();
                    let found = open.pop();
                    assert_eq!(found.map(|it| it.0), least.map(|it: (u64, u32)| it.0), "{seed}");
                    model.retain(|it| Some(*it) != found);
                } else {
                    let key = dice.below(50) as u64;
                    open.push(key, cell);
                    model.push((key, cell));
                }
            }
        }
    }
}
