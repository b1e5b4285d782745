//! These statistics against SciPy's on stored cases; `scipy/make.py` made them.

use serde::Deserialize;
use stats::{
    bootstrap_t, fit, hodges_lehmann, median, median_interval, shift, sign_flip_p, spread,
};

#[derive(Deserialize)]
struct Cases {
    paired: Vec<Paired>,
    shifts: Vec<Shifted>,
    laws: Vec<Law>,
}

#[derive(Debug, Deserialize)]
struct Paired {
    kind: String,
    values: Vec<f64>,
    median: f64,
    interval: [f64; 2],
    sign_flip_p: f64,
    hodges_lehmann: f64,
    spread: f64,
    bootstrap_t: [f64; 2],
}

#[derive(Debug, Deserialize)]
struct Shifted {
    first: Vec<f64>,
    second: Vec<f64>,
    shift: f64,
    interval: Option<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
struct Law {
    points: Vec<(f64, f64)>,
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("scipy/cases.json")).expect("the file is ours")
}

fn near(found: f64, want: f64, room: f64, what: &dyn std::fmt::Debug) {
    assert!((found - want).abs() <= room, "expected {want}, found {found}: {what:?}");
}

#[test]
fn medians_intervals_and_tests_agree() {
    for case in cases().paired {
        let values = &case.values;
        near(median(values).expect("values"), case.median, 1e-12, &case);
        let interval = median_interval(values).expect("six values or more");
        near(interval.low, case.interval[0], 1e-12, &case);
        near(interval.high, case.interval[1], 1e-12, &case);
        near(sign_flip_p(values, 1).expect("values"), case.sign_flip_p, 1e-9, &case);
        near(hodges_lehmann(values).expect("values"), case.hodges_lehmann, 1e-12, &case);
        near(spread(values).expect("values"), case.spread, 1e-4 * case.spread, &case);
    }
}

#[test]
fn bootstrap_intervals_agree_as_far_as_their_draws_do() {
    for case in cases().paired {
        let found = bootstrap_t(&case.values, 20_000, 7).expect("six values or more");
        // The far end rests on one draw in forty; a long tail makes it jump.
        let width = case.bootstrap_t[1] - case.bootstrap_t[0];
        let room = if case.kind == "normal" { 0.08 } else { 0.2 } * width;
        near(found.low, case.bootstrap_t[0], room, &case);
        near(found.high, case.bootstrap_t[1], room, &case);
    }
}

#[test]
fn shifts_agree() {
    for case in cases().shifts {
        let found = shift(&case.first, &case.second).expect("values");
        near(found.shift, case.shift, 1e-12, &case);
        let ends = found.interval.map(|it| [it.low, it.high]);
        assert_eq!(ends.is_some(), case.interval.is_some(), "{case:?}");
        for (found, want) in ends.iter().flatten().zip(case.interval.iter().flatten()) {
            near(*found, *want, 1e-12, &case);
        }
    }
}

#[test]
fn scalability_laws_agree() {
    for case in cases().laws {
        let found = fit(&case.points).expect("seven sizes");
        near(found.lambda, case.lambda, 1e-3 * case.lambda, &case);
        near(found.sigma, case.sigma, 1e-4 + 1e-3 * case.sigma, &case);
        near(found.kappa, case.kappa, 1e-6 + 1e-3 * case.kappa, &case);
    }
}
