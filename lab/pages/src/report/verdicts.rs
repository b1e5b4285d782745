//! The verdict table: for each load point one group of rows, one row for each arm.

use crate::charts::look;
use crate::strip::{self, Axis};
use crate::words;
use lab::plan::{LoadPoint, Model, Plan, Rate};
use lab::record::Run;
use lab::verdict::{ArmSummary, ArmVerdict, Light, Metric, PointSummary, Summary, Verdict};
use serde::Serialize;
use stats::{Comparison, Interval};

/// One load point.
#[derive(Serialize)]
pub(super) struct Group {
    point: String,
    what: String,
    /// Name of each metric, and the words for its two sides: left, right.
    metrics: Vec<(&'static str, &'static str, &'static str)>,
    rows: Vec<Row>,
}

/// One arm at one load point.
#[derive(Serialize)]
struct Row {
    arm: String,
    note: String,
    colour: String,
    twin: bool,
    /// The baseline's medians, by which the other rows are divided.
    own: Option<String>,
    absent: Option<String>,
    /// One for each metric of the group.
    cells: Vec<Option<Cell>>,
    lamps: Vec<(&'static str, String)>,
}

/// One comparison.
#[derive(Serialize)]
struct Cell {
    class: &'static str,
    word: &'static str,
    term: &'static str,
    bound: &'static str,
    ratio: String,
    interval: String,
    strip: String,
    aside: String,
}

/// A comparison outside the groups.
#[derive(Serialize)]
pub(super) struct Further {
    arm: String,
    point: String,
    metric: &'static str,
    class: &'static str,
    word: String,
    ratio: String,
    p: String,
    registered: bool,
}

/// An interval that explains a word.
#[derive(Serialize)]
pub(super) struct Example {
    class: &'static str,
    word: &'static str,
    strip: String,
    text: &'static str,
}

/// The metrics of a group: the load point's lead metric and CPU; if the lead metric is CPU, speed.
fn metrics(point: &PointSummary) -> Vec<Metric> {
    let has = |metric: &Metric| point.arms.iter().any(|arm| arm.judged(*metric).is_some());
    let second = if point.lead == Metric::Cpu { Metric::Throughput } else { Metric::Cpu };
    let mut all = vec![point.lead, second];
    all.retain(|metric| *metric == point.lead || has(metric));
    all
}

/// One axis for all strips of the page, so that they can be compared by eye.
pub(super) fn axis(summary: &Summary) -> Axis {
    let shown = summary.points.iter().flat_map(|point| {
        let metrics = metrics(point);
        let judged = point.arms.iter().flat_map(|arm| &arm.judged);
        judged.filter(move |it| metrics.contains(&it.metric))
    });
    Axis::holding(shown.flat_map(|it| {
        let ends = it.comparison.interval.map(|range| [range.low, range.high]);
        ends.into_iter().flatten().chain([it.comparison.ratio])
    }))
}

/// The separate load points, then those of each curve, by its name. If all belong to curves, all go
/// into the first part.
pub(super) fn groups(
    run: &Run,
    summary: &Summary,
    axis: Axis,
) -> (Vec<Group>, Vec<(String, Vec<Group>)>) {
    let plan = &run.manifest.plan;
    let (mut own, mut curves) = (Vec::new(), Vec::<(String, Vec<Group>)>::new());
    for point in &summary.points {
        let load = plan.points.iter().find(|it| it.name == point.point);
        let series = load.map(|it| it.series.as_str()).unwrap_or_default();
        let group = group(plan, point, axis, words::block_ms(run));
        if series.is_empty() {
            own.push(group);
        } else if let Some((_, known)) = curves.iter_mut().find(|(name, _)| name == series) {
            known.push(group);
        } else {
            curves.push((series.to_string(), vec![group]));
        }
    }
    if own.is_empty() {
        own = curves.into_iter().flat_map(|(_, groups)| groups).collect();
        return (own, Vec::new());
    }
    (own, curves)
}

fn group(plan: &Plan, point: &PointSummary, axis: Axis, block_ms: f64) -> Group {
    let metrics = metrics(point);
    let note = |name: &str| plan.arms.iter().find(|arm| arm.name == name).map(|it| it.note.clone());
    let rows = point
        .arms
        .iter()
        .map(|arm| Row {
            arm: arm.arm.clone(),
            note: note(&arm.arm).unwrap_or_default(),
            colour: look(plan, &arm.arm).colour.trim_start_matches('$').to_string(),
            twin: arm.twin,
            own: arm.baseline.then(|| own(arm)),
            absent: arm.absent.clone(),
            cells: metrics.iter().map(|&it| cell(point, arm, it, axis, block_ms)).collect(),
            lamps: arm.lamps.iter().map(|lamp| (light(lamp.light), lamp.text.clone())).collect(),
        })
        .collect();
    let named = |metric: &Metric| {
        let (better, worse) = metric.words();
        let (left, right) =
            if metric.better() == stats::Better::More { (worse, better) } else { (better, worse) };
        (metric.name(), left, right)
    };
    let load = plan.points.iter().find(|it| it.name == point.point);
    Group {
        point: point.point.clone(),
        what: load.map(what).unwrap_or_default(),
        metrics: metrics.iter().map(named).collect(),
        rows,
    }
}

fn light(light: Light) -> &'static str {
    match light {
        Light::Green => "green",
        Light::Amber => "amber",
        Light::Red => "red",
    }
}

/// Its medians in a line.
fn own(arm: &ArmSummary) -> String {
    let shown = [Metric::Capacity, Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu];
    let value = |metric: Metric| match (metric, arm.median(metric)) {
        (Metric::P99, _) => Some(format!("p99 {}", super::facts::p99(arm)?)),
        (Metric::Throughput, Some(rps)) => Some(words::value(metric, rps)),
        (_, median) => Some(format!("{} {}", metric.name(), words::value(metric, median?))),
    };
    shown.into_iter().filter_map(value).collect::<Vec<_>>().join(", ")
}

fn cell(
    point: &PointSummary,
    arm: &ArmSummary,
    metric: Metric,
    axis: Axis,
    block_ms: f64,
) -> Option<Cell> {
    let judged = arm.judged(metric)?;
    let (class, term) = class(judged.verdict);
    let bound = match (judged.at_least, judged.comparison.ratio > 1.0) {
        (false, _) => "",
        (true, true) => "≥ ",
        (true, false) => "≤ ",
    };
    let interval = judged.comparison.interval.as_ref().map(words::interval).unwrap_or_default();
    let strip = strip::draw(axis, class, point.floor(metric), &judged.comparison);
    let ratio = words::ratio(judged.comparison.ratio);
    if arm.twin {
        // The twin need not settle: its purpose is to show the noise.
        let (word, term, aside) = ("noise", "floor", String::new());
        return Some(Cell { class: "open", word, term, bound, ratio, interval, strip, aside });
    }
    let word = judged.verdict.word(metric);
    Some(Cell { class, word, term, bound, ratio, interval, strip, aside: aside(judged, block_ms) })
}

fn aside(judged: &ArmVerdict, block_ms: f64) -> String {
    let text = match (judged.held_back, judged.forecast, judged.at_least) {
        (true, _, _) => "clear alone, but one of many".to_string(),
        (_, Some(blocks), _) => words::forecast(blocks, block_ms),
        (_, None, true) => "a bound: the generator was the limit".to_string(),
        (_, None, false) => String::new(),
    };
    match (judged.registered, text.is_empty()) {
        (true, _) => text,
        (false, true) => words::UNREGISTERED.to_string(),
        (false, false) => format!("{text}; {}", words::UNREGISTERED),
    }
}

fn class(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Better => ("better", "verdict"),
        Verdict::Worse => ("worse", "verdict"),
        Verdict::Equivalent => ("same", "equivalent"),
        Verdict::Unresolved => ("open", "unresolved"),
        Verdict::GeneratorLimited => ("limited", "limited"),
    }
}

/// A load point in words.
pub(super) fn what(load: &LoadPoint) -> String {
    let life = match load.requests_per_connection {
        0 => "connections stay open".to_string(),
        n => format!("a new connection after every {}", words::counted(n, "request")),
    };
    let clients = words::counted(u64::from(load.connections), "connection");
    let mut parts = match load.model {
        Model::Closed => {
            let depth = words::counted(u64::from(load.depth), "request");
            vec![clients, format!("{depth} in flight on each"), life]
        }
        Model::Open { rate, .. } => vec![format!("open load, {}", rate_words(rate)), clients, life],
        Model::Overload { factor } => {
            vec![format!("{factor} times what the arm can do, then half of it"), clients, life]
        }
        Model::Capacity { quantile, limit_ns, .. } => vec![
            format!(
                "the highest rate with {} % within {}",
                quantile * 100.0,
                words::time(limit_ns as f64)
            ),
            clients,
            life,
        ],
    };
    if load.idle > 0 {
        parts.push(format!("{} more that are silent", words::grouped(f64::from(load.idle))));
    }
    if !load.mix.is_empty() {
        parts.push(format!("mix {}", load.mix));
    }
    parts.join(", ")
}

fn rate_words(rate: Rate) -> String {
    match rate {
        Rate::Absolute(rps) => format!("{} requests/s", words::grouped(rps)),
        Rate::Slowest(share) => {
            format!("{} of what the slowest arm can do", words::percent(share))
        }
        Rate::Own(share) => format!("{} of what each arm can do", words::percent(share)),
    }
}

/// Every comparison that no group shows, the registered ones first.
pub(super) fn further(summary: &Summary) -> Vec<Further> {
    let mut found: Vec<Further> = Vec::new();
    for point in &summary.points {
        let shown = metrics(point);
        for arm in point.arms.iter().filter(|arm| !arm.twin) {
            for judged in arm.judged.iter().filter(|it| !shown.contains(&it.metric)) {
                found.push(Further {
                    arm: arm.arm.clone(),
                    point: point.point.clone(),
                    metric: judged.metric.name(),
                    class: class(judged.verdict).0,
                    word: words::verdict(judged),
                    ratio: words::ratio_with_interval(judged),
                    p: words::or_none(judged.p_corrected.or(judged.p), |p| format!("{p:.3}")),
                    registered: judged.registered,
                });
            }
        }
    }
    found.sort_by_key(|it| !it.registered);
    found
}

/// Four intervals that explain the four words.
pub(super) fn examples() -> Vec<Example> {
    let axis = Axis::holding([1.3].into_iter());
    let floor = 1.06_f64.ln();
    [
        ("better", "faster", (1.10, 1.16, 1.22), "the whole interval lies beyond the grey band"),
        ("worse", "slower", (0.80, 0.86, 0.91), "the same, on the other side of 1"),
        (
            "same",
            "equivalent",
            (0.98, 1.0, 1.02),
            "the whole interval is close to 1, as agreed before",
        ),
        (
            "open",
            "unresolved",
            (0.97, 1.08, 1.19),
            "both is possible still; more blocks are needed",
        ),
    ]
    .into_iter()
    .map(|(class, word, (low, ratio, high), text)| {
        let interval = Some(Interval { low, high, cover: 0.969 });
        let found = Comparison { log_ratios: Vec::new(), ratio, interval, bootstrap: None };
        Example { class, word, strip: strip::draw(axis, class, floor, &found), text }
    })
    .collect()
}
