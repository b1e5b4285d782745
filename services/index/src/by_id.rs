//! An index from a 32-bit id to a row, nearly always in one probe.
//!
//! Open addressing with linear probing over slots that the caller lends; never more than half full,
//! so a failing probe ends soon. The hash is multiplicative (Knuth, TAOCP vol. 3, 6.4): the top
//! bits of the id times 2^64 divided by the golden ratio, which spreads the dense ids of real books
//! evenly. The index uses only as many slots as its rows need, so a small book touches a few cache
//! lines of storage laid out for a million rows.
//!
//! Ids are inserted once and never removed. Id 0 marks a free slot and
//! can be neither stored nor found.

/// 2^64 / golden ratio, rounded to odd.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One place of the lent storage; all-zero bytes are a free one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    id: u32,
    row: u32,
}

/// The index, without its storage; all-zero bytes are an empty one that uses one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ById {
    bits: u32,
    len: u32,
}

/// The reason that an id was not inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The id is present already, with this row.
    Duplicate {
        /// The row that was inserted with the id before.
        row: u32,
    },
    /// The id is 0.
    Zero,
    /// The index holds as many rows as it was sized for.
    Full,
}

impl ById {
    /// The number of slots for an index of `rows` rows: a power of two, at least twice as many.
    pub const fn slots_for(rows: usize) -> usize {
        (2 * rows).next_power_of_two()
    }

    /// An empty index for up to `rows` rows.
    ///
    /// # Panics
    /// If `rows` needs more than 2^31 slots: its callers have a fixed, far smaller capacity.
    pub fn sized_for(rows: usize) -> ById {
        let bits = ById::slots_for(rows).trailing_zeros();
        assert!(bits < 32, "{rows} rows are more than 32-bit row numbers carry");
        ById { bits, len: 0 }
    }

    /// Inserts `id` with `row`.
    ///
    /// `slots` is the storage: the same slice in each call, zero before the first insertion, with
    /// at least [`ById::slots_for`] elements.
    ///
    /// # Errors
    /// [`Refused`]; the index is then unchanged.
    pub fn insert(&mut self, slots: &mut [Slot], id: u32, row: u32) -> Result<(), Refused> {
        if id == 0 {
            return Err(Refused::Zero);
        }
        let mut at = self.home(id);
        while slots[at].id != 0 {
            if slots[at].id == id {
                return Err(Refused::Duplicate { row: slots[at].row });
            }
            at = self.after(at);
        }
        if (self.len as usize + 1) * 2 > 1 << self.bits {
            return Err(Refused::Full);
        }
        slots[at] = Slot { id, row };
        self.len += 1;
        Ok(())
    }

    /// The row of `id`.
    #[inline]
    pub fn find(&self, slots: &[Slot], id: u32) -> Option<u32> {
        let mut at = self.home(id);
        loop {
            let slot = slots[at];
            if slot.id == 0 {
                return None;
            }
            if slot.id == id {
                return Some(slot.row);
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        // Two shifts, because an empty index has no bits and a shift by 64 is undefined.
        (u64::from(id).wrapping_mul(SPREAD) >> 1 >> (63 - self.bits)) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & ((1 << self.bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{ById, Slot};

    fn storage(rows: usize) -> Vec<Slot> {
        vec![Slot::default(); ById::slots_for(rows)]
    }

    #[test]
    fn zero_bytes_are_an_empty_index() {
        let index = ById::default();
        assert_eq!(index.find(&storage(0), 0), None);
        assert_eq!(index.find(&storage(0), 7), None);
        assert_eq!(index, ById::sized_for(0));
    }

    /// The longest run of probes over `ids`, which are inserted in order.
    fn longest_probe(ids: impl ExactSizeIterator<Item = u32> + Clone) -> usize {
        let (mut index, mut slots) = (ById::sized_for(ids.len()), storage(ids.len()));
        for (row, id) in ids.clone().enumerate() {
            index.insert(&mut slots, id, row as u32).expect("ids are distinct");
        }
        let probes = |id| {
            let mut at = index.home(id);
            let mut probes = 1;
            while slots[at].id != id {
                at = index.after(at);
                probes += 1;
            }
            probes
        };
        ids.map(probes).max().unwrap_or(0)
    }

    #[test]
    fn dense_and_strided_ids_take_few_probes() {
        assert_eq!(longest_probe(1..11), 1);
        assert!(longest_probe(1..100_001) <= 3);
        assert!(longest_probe((0..50_000u32).map(|n| 1 + n * 1024)) <= 8);
    }
}
