//! The project's judgement of measurements: intervals, verdicts, corrections, and the words for
//! them.
//!
//! The laboratory and the museum call this crate, so they all demand the same
//! evidence: paired blocks, a 95 % interval of the log-ratio that holds for all comparisons made
//! together, and a noise floor from the baseline's twin. One function decides ([`decide`]). The
//! crate is pure: no I/O, no clock, and every draw comes from a seed. A distribution-free interval
//! of 95 % has a price: below six blocks there is no interval at all.

mod bracket;
mod compare;
mod decision;
mod family;
mod forecast;
mod goal;
mod hash;
mod interval;
pub mod objective;
pub mod rng;
mod signed_rank;
pub mod words;

pub use bracket::{Bracket, BracketEdges, BracketStep, bracket};
pub use compare::{Comparison, compare, compare_all};
pub use decision::{Better, Decision, Terms, decide, forecast};
pub use forecast::{BLOCKS_MAX, blocks_needed, normal_share, settles_after};
pub use goal::Goal;
pub use hash::fnv1a;
pub use interval::{Interval, median, median_interval, median_ranks, spread};
pub use objective::Objective;
pub use rng::Rng;
pub use signed_rank::{hodges_lehmann, signed_rank_interval};

/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values for which the extremes cover the median with 95 %: 1 - 2 / 2^6 = 96.9 %.
pub const VALUES_MIN: usize = 6;
