//! Curves: load points that share a series, for every arm.

use crate::metric::Metric;
use crate::plan::{LoadPoint, Plan};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use stats::{median, median_interval};

/// One series of load points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Its name, as [`crate::plan::LoadPoint::series`].
    pub series: String,
    /// Whether its points are open: `x` is then an offered rate or share, else connections.
    pub open: bool,
    /// One for each arm with results, in the plan's order.
    pub curves: Vec<Curve>,
}

/// One arm along a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the arm.
    pub arm: String,
    /// In the order of `x`.
    pub places: Vec<Place>,
}

/// One arm at one point of a series: medians over blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Connections, or the value of [`crate::plan::LoadPoint::x`].
    pub x: f64,
    /// Name of the load point.
    pub point: String,
    /// Offered requests per second, if open.
    pub offered_rps: Option<f64>,
    /// Answered requests per second.
    pub throughput_rps: Option<f64>,
    /// 95 % interval of that median; absent below six blocks.
    pub low_rps: Option<f64>,
    /// Its upper end.
    pub high_rps: Option<f64>,
    /// Median latency, nanoseconds.
    pub p50_ns: Option<f64>,
    /// 99th percentile, nanoseconds.
    pub p99_ns: Option<f64>,
    /// CPU per request, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Memory of the process tree, kilobytes.
    pub memory_kb: Option<f64>,
}

/// All series of a plan, in the order of first use. A separate closed point is no curve.
pub(super) fn sweeps(plan: &Plan, trials: &[Trial]) -> Vec<Sweep> {
    let mut names: Vec<&str> = Vec::new();
    for point in plan.points.iter().filter(|point| !point.series.is_empty()) {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    names.into_iter().map(|name| sweep(plan, trials, name)).collect()
}

fn sweep(plan: &Plan, trials: &[Trial], series: &str) -> Sweep {
    let mut points: Vec<(f64, &LoadPoint)> = plan
        .points
        .iter()
        .filter(|point| point.series == series)
        .map(|point| (point.x.unwrap_or(f64::from(point.connections)), point))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let open = points.iter().any(|(_, point)| point.is_open());
    let curves = plan
        .arms
        .iter()
        .map(|arm| curve(trials, &arm.name, &points))
        .filter(|curve| !curve.places.is_empty())
        .collect();
    Sweep { series: series.to_string(), open, curves }
}

fn curve(trials: &[Trial], arm: &str, points: &[(f64, &LoadPoint)]) -> Curve {
    let mut places = Vec::new();
    for &(x, point) in points {
        let mut mine: Vec<&Trial> =
            trials.iter().filter(|it| it.arm == arm && it.point == point.name).collect();
        mine.sort_by_key(|trial| trial.block);
        let speeds: Vec<f64> =
            mine.iter().filter_map(|trial| Metric::Throughput.in_trial(trial)).collect();
        if !speeds.is_empty() {
            places.push(place(x, point, &mine, &speeds));
        }
    }
    Curve { arm: arm.to_string(), places }
}

fn place(x: f64, point: &LoadPoint, mine: &[&Trial], speeds: &[f64]) -> Place {
    let middle = |value: &dyn Fn(&Trial) -> Option<f64>| {
        median(&mine.iter().filter_map(|trial| value(trial)).collect::<Vec<_>>())
    };
    let of = |metric: Metric| middle(&|trial| metric.in_trial(trial));
    let range = median_interval(speeds);
    Place {
        x,
        point: point.name.clone(),
        offered_rps: middle(&|trial| trial.seen.offered_rps),
        throughput_rps: median(speeds),
        low_rps: range.map(|it| it.low),
        high_rps: range.map(|it| it.high),
        p50_ns: of(Metric::P50),
        p99_ns: of(Metric::P99),
        cpu_ns: of(Metric::Cpu),
        memory_kb: of(Metric::Memory),
    }
}
