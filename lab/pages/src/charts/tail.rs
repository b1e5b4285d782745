//! Percentile curves on a nines axis: how slow the slow requests are.

use super::{Chart, chart, legend, look, micros, time_axis};
use crate::words;
use document::Table;
use lab::load::Times;
use lab::plan::Plan;
use lab::record::Run;
use lab::trial::Trial;
use lab::verdict::Summary;
use serde_json::{Value, json};
use stats::median;

/// Quantiles of a record with their places on the axis, -log10(1 - q).
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn quantile(times: &Times, at: usize) -> Option<f64> {
    [times.p50_ns, times.p90_ns, times.p99_ns, times.p999_ns][at]
}

fn place(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// One chart for each load point outside curves; for every point if all are on curves.
pub fn tails(run: &Run, summary: &Summary) -> Vec<Chart> {
    let plan = &run.manifest.plan;
    let alone = plan.points.iter().any(|point| point.series.is_empty());
    let wanted = plan.points.iter().filter(|point| !alone || point.series.is_empty());
    wanted
        .enumerate()
        .filter(|(_, point)| summary.points.iter().any(|it| it.point == point.name))
        .filter_map(|(at, point)| tail(run, &point.name, point.is_open(), at))
        .collect()
}

fn tail(run: &Run, point: &str, open: bool, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let mut table = Table::new(&["Server", "p50", "p90", "p99", "p99.9", "longest"]);
    let (mut thin, mut bold) = (Vec::new(), Vec::new());
    for arm in &plan.arms {
        let times: Vec<&Times> = trials_of(run, point, &arm.name).map(|(_, it)| it).collect();
        if times.is_empty() {
            continue;
        }
        thin.extend(times.iter().map(|it| single(plan, &arm.name, it)));
        let middle = |value: &dyn Fn(&Times) -> Option<f64>| {
            // A percentile that some trials do not support would be that of the lucky ones.
            let all: Option<Vec<f64>> = times.iter().map(|it| value(it)).collect();
            all.and_then(|values| median(&values))
        };
        let curve: Vec<Option<f64>> =
            (0..QUANTILES.len()).map(|at| middle(&|it| quantile(it, at))).collect();
        if curve.iter().flatten().count() > 0 {
            bold.push(middle_line(plan, &arm.name, &curve));
        }
        let longest = middle(&|it| it.max_ns);
        let cells = curve.iter().chain([&longest]).map(|it| words::or_none(*it, words::time));
        table.row([arm.name.clone()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    // A single quantile is no curve; the table of numbers has it.
    if !table.rows.iter().any(|row| row[2..5].iter().any(|cell| cell != words::NONE)) {
        return None;
    }
    // The axis ends with the last percentile that any trial supports.
    let known = |at: usize| {
        let mut all = plan.arms.iter().flat_map(|arm| trials_of(run, point, &arm.name));
        all.any(|(_, times)| quantile(times, at).is_some())
    };
    let last = (0..QUANTILES.len()).rev().find(|&at| known(at)).unwrap_or(0);
    let end = place(QUANTILES[last].1) + 0.12;
    thin.extend(bold);
    let ticks: Vec<f64> = QUANTILES.iter().map(|it| place(it.1)).collect();
    let what = if open { "response time" } else { "service time" };
    let figure = json!({"data": thin, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend(),
        "xaxis": {"tickvals": ticks, "ticktext": QUANTILES.map(|it| it.0), "range": [0.2, end],
                  "title": {"text": "share of requests that are quicker"}, "gridcolor": "$grid",
                  "zeroline": false},
        "yaxis": time_axis(what),
    }});
    let caption = "Bold: medians over the blocks. Thin: the single trials. Lower is better. A \
        curve ends where fewer than a hundred requests are slower.";
    let title = format!("{point}: {what}");
    Some(chart(&format!("tail-{at}"), title, caption, 340, &figure, table))
}

/// Trials of an arm that count, with the times that a client feels.
fn trials_of<'a>(
    run: &'a Run,
    point: &'a str,
    arm: &'a str,
) -> impl Iterator<Item = (&'a Trial, &'a Times)> {
    run.trials
        .iter()
        .filter(move |trial| trial.arm == arm && trial.point == point)
        .filter_map(|trial| Some((trial, trial.result()?.latency())))
}

fn single(plan: &Plan, arm: &str, times: &Times) -> Value {
    let (x, y): (Vec<f64>, Vec<Value>) = (0..QUANTILES.len())
        .filter_map(|at| Some((place(QUANTILES[at].1), micros(Some(quantile(times, at)?)))))
        .unzip();
    json!({"type": "scatter", "mode": "lines", "x": x, "y": y, "showlegend": false,
           "legendgroup": arm, "hoverinfo": "skip", "opacity": 0.28,
           "line": {"color": look(plan, arm).colour, "width": 1}})
}

fn middle_line(plan: &Plan, arm: &str, curve: &[Option<f64>]) -> Value {
    let look = look(plan, arm);
    let x: Vec<f64> = QUANTILES.iter().map(|it| place(it.1)).collect();
    let y: Vec<Value> = curve.iter().map(|it| micros(*it)).collect();
    let texts: Vec<String> = curve
        .iter()
        .zip(QUANTILES)
        .map(|(it, (name, _))| format!("{arm} {name}: {}", words::or_none(*it, words::time)))
        .collect();
    json!({"type": "scatter", "mode": "lines+markers", "name": arm, "legendgroup": arm,
           "x": x, "y": y, "text": texts, "hovertemplate": "%{text}<extra></extra>",
           "line": {"color": look.colour, "width": 2.5},
           "marker": {"color": look.colour, "symbol": look.symbol, "size": 8}})
}
