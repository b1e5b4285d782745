//! The project's judgement of measurements: intervals, verdicts, corrections, and the words for
//! them.
//!
//! The laboratory, the museum and the benches all call this crate, so they all demand the same
//! evidence: paired blocks, a 95 % interval of the median log-ratio, a noise floor from the
//! baseline's twin, and a correction where many comparisons are made. The crate is pure: no
//! I/O, no clock, and every draw comes from a seed. A distribution-free interval of 95 % has a
//! price: below six blocks there is no interval at all.

mod bootstrap;
mod compare;
mod flip;
mod forecast;
mod goal;
mod hash;
mod interval;
pub mod objective;
pub mod rng;
mod shift;
mod step_down;
mod usl;
mod verdict;
pub mod words;

pub use bootstrap::bootstrap_t;
pub use compare::{Comparison, compare};
pub use flip::{EXACT_MAX, sign_flip_p};
pub use forecast::{BLOCKS_MAX, blocks_needed, normal_share, settles_after};
pub use goal::{Goal, GoalVerdict};
pub use hash::fnv1a;
pub use interval::{Interval, hodges_lehmann, median, median_interval, median_ranks, spread};
pub use objective::Objective;
pub use rng::Rng;
pub use shift::{Shift, shift};
pub use step_down::step_down_p;
pub use usl::{Usl, UslFit, fit, fit_blocks};
pub use verdict::{Better, Judgement, Terms, Verdict, judge};

/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values for which the extremes cover the median with 95 %: 1 - 2 / 2^6 = 96.9 %.
pub const VALUES_MIN: usize = 6;
