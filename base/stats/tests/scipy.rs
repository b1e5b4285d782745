//! These statistics against SciPy's on stored cases; `scipy/make.py` made them.

use serde::Deserialize;
use stats::{hodges_lehmann, median, median_interval, signed_rank_interval, spread};

#[derive(Deserialize)]
struct Cases {
    paired: Vec<Paired>,
}

#[derive(Debug, Deserialize)]
struct Paired {
    values: Vec<f64>,
    median: f64,
    interval: [f64; 2],
    hodges_lehmann: f64,
    spread: f64,
    signed_rank: [f64; 2],
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("scipy/cases.json")).expect("the file is ours")
}

fn near(found: f64, want: f64, room: f64, what: &dyn std::fmt::Debug) {
    assert!((found - want).abs() <= room, "expected {want}, found {found}: {what:?}");
}

#[test]
fn medians_and_intervals_agree() {
    for case in cases().paired {
        let values = &case.values;
        near(median(values).expect("values"), case.median, 1e-12, &case);
        let interval = median_interval(values).expect("six values or more");
        near(interval.low, case.interval[0], 1e-12, &case);
        near(interval.high, case.interval[1], 1e-12, &case);
        let interval = signed_rank_interval(values).expect("six values or more");
        near(interval.low, case.signed_rank[0], 1e-12, &case);
        near(interval.high, case.signed_rank[1], 1e-12, &case);
        near(hodges_lehmann(values).expect("values"), case.hodges_lehmann, 1e-12, &case);
        near(spread(values).expect("values"), case.spread, 1e-4 * case.spread, &case);
    }
}
