//! The verdict on one paired comparison.
//!
//! Better and worse need an interval wholly beyond the noise floor, which is the distance between
//! the baseline and its own twin (A/A). Equivalent needs an interval wholly inside the margin that
//! was declared beforehand. Everything else is unresolved, with a forecast of the blocks that would
//! settle it.

use crate::{Comparison, VALUES_MIN, settles_after};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// The same, within the margin.
    Equivalent,
    /// Nothing can be concluded.
    Unresolved,
}

/// The direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better: requests per second.
    More,
    /// Less is better: time, memory.
    Less,
}

/// The thresholds that a difference has to exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The noise floor, a log-ratio; see [`Comparison::floor`]. 0 without a twin.
    pub floor: f64,
    /// The largest share that counts as no difference: 0.03 = 3 %.
    pub margin: f64,
}

/// A verdict, and the missing work where it is unresolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Blocks in all that would probably settle an unresolved comparison.
    pub forecast: Option<u32>,
}

/// Judges a comparison; without an interval it is unresolved.
pub fn judge(comparison: &Comparison, better: Better, terms: Terms) -> Judgement {
    let Some(interval) = comparison.interval else {
        let forecast = Some(VALUES_MIN as u32);
        return Judgement { verdict: Verdict::Unresolved, forecast };
    };
    // Turned so that more is better; the ends change places with the sign.
    let sign = if better == Better::More { 1.0 } else { -1.0 };
    let (a, b) = (interval.low.ln() * sign, interval.high.ln() * sign);
    let (low, high) = (a.min(b), a.max(b));
    let Terms { floor, margin } = terms;
    let room = (1.0 + margin).ln();
    let verdict = if low > -room && high < room {
        Verdict::Equivalent
    } else if low > floor {
        Verdict::Better
    } else if high < -floor {
        Verdict::Worse
    } else {
        Verdict::Unresolved
    };
    let forecast = (verdict == Verdict::Unresolved).then(|| {
        let (blocks, centre) = (comparison.log_ratios.len(), comparison.ratio.ln());
        settles_after(blocks, centre, (high - low) / 2.0, floor, room)
    });
    Judgement { verdict, forecast }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;

    #[test]
    fn a_verdict_needs_more_than_the_floor_or_less_than_the_margin() {
        fn check(low: f64, high: f64, floor: f64, want: Verdict) {
            let pairs: Vec<(f64, f64)> =
                (0..6).map(|at| (low + (high - low) * f64::from(at) / 5.0, 1.0)).collect();
            let found = compare(&pairs, 0, 0).expect("six pairs");
            let terms = Terms { floor: (1.0 + floor).ln(), margin: 0.05 };
            let judged = judge(&found, Better::Less, terms);
            assert_eq!(judged.verdict, want, "{low} {high} {floor}");
            assert_eq!(judged.forecast.is_some(), want == Verdict::Unresolved);
        }
        check(2.0, 2.2, 0.01, Verdict::Worse);
        check(0.5, 0.6, 0.01, Verdict::Better);
        check(0.99, 1.02, 0.03, Verdict::Equivalent);
        check(1.2, 1.4, 0.5, Verdict::Unresolved);
        check(0.9, 1.1, 0.0, Verdict::Unresolved);
        let found = compare(&[(2.0, 1.0)], 0, 0).expect("a pair");
        let judged = judge(&found, Better::More, Terms { floor: 0.0, margin: 0.05 });
        assert_eq!(judged, Judgement { verdict: Verdict::Unresolved, forecast: Some(6) });
        assert_eq!(found.floor(), 2.0_f64.ln());
    }
}
