//! One listing of the market that is watched: whether there was a moment at which all its rows were
//! right. A listing without such a moment mixes two states (a torn read).
//!
//! While a listing is on its way, each stock has two bounds that orders move: fewest pieces are
//! left if every open buy is executed and no open sell, most in the opposite case. The listing
//! is whole if its rows are within all bounds at one moment.

/// The index of a stock's lower bound.
pub(super) const LOW: usize = 0;
/// The index of a stock's upper bound.
pub(super) const HIGH: usize = 1;
/// A listing that takes longer than this number of changes is not judged.
const CHANGES_MAX: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) number: u64,
    /// The bounds of each stock at the request.
    bounds: Vec<[i64; 2]>,
    /// Stock, bound and difference, in their order.
    changes: Vec<(u32, usize, i64)>,
}

impl Listing {
    pub(super) fn new(number: u64, bounds: impl Iterator<Item = [i64; 2]>) -> Self {
        Self { number, bounds: bounds.collect(), changes: Vec::new() }
    }

    pub(super) fn note(&mut self, stock: u32, bound: usize, by: i64) {
        if !self.is_full() {
            self.changes.push((stock, bound, by));
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.changes.len() == CHANGES_MAX
    }

    /// Whether the pieces that were listed as left were at no moment left together.
    pub(super) fn mixes_states(mut self, lefts: impl Iterator<Item = i64>) -> bool {
        let lefts: Vec<i64> = lefts.collect();
        let is_wrong = |left, [low, high]: [i64; 2]| u32::from(left < low || left > high);
        let both = lefts.iter().zip(&self.bounds);
        let mut wrong: u32 = both.map(|(left, bounds)| is_wrong(*left, *bounds)).sum();
        for &(stock, bound, by) in &self.changes {
            let (left, bounds) = (lefts[stock as usize], &mut self.bounds[stock as usize]);
            if wrong == 0 {
                break;
            }
            wrong -= is_wrong(left, *bounds);
            bounds[bound] += by;
            wrong += is_wrong(left, *bounds);
        }
        wrong > 0 && self.changes.len() < CHANGES_MAX
    }
}
