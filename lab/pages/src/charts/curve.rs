//! Curves along a series of load points: throughput against concurrency, latency against rate.
//!
//! `report.rs` calls `sweeps` for load points that belong to one series. Each point is a median
//! over the blocks with its interval. An open series has the offered rate on its axis and adds the
//! answered share, because latencies beyond the capacity describe the length of the run only.

use super::{Chart, chart, legend, look, micros, short, time_axis};
use crate::words;
use document::Table;
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{Place, Summary, Sweep};
use serde::Serialize;
use serde_json::{Value, json};

/// One series of load points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Throughput, latency.
    pub charts: Vec<Chart>,
}

/// All series of a run that have at least two places.
pub fn sweeps(run: &Run, summary: &Summary) -> Vec<Series> {
    let plan = &run.manifest.plan;
    let drawn = summary.sweeps.iter().enumerate();
    drawn
        .filter(|(_, sweep)| sweep.curves.iter().any(|curve| curve.places.len() > 1))
        .map(|(at, sweep)| {
            let charts = match sweep.open {
                true => vec![latency(plan, sweep, at), answered(plan, sweep, at)],
                false => vec![throughput(plan, sweep, at), latency(plan, sweep, at)],
            };
            let charts = charts.into_iter().flatten().collect();
            Series { name: sweep.series.clone(), charts }
        })
        .collect()
}

fn throughput(plan: &Plan, sweep: &Sweep, at: usize) -> Option<Chart> {
    let mut data = Vec::new();
    let mut table = Table::new(&["Server", "Connections", "requests/s", "Interval"]);
    for curve in &sweep.curves {
        let known: Vec<&Place> =
            curve.places.iter().filter(|it| it.throughput_rps.is_some()).collect();
        let rps = |it: &Place| short(it.throughput_rps.unwrap_or(0.0));
        let look = look(plan, &curve.arm);
        let above: Vec<f64> =
            known.iter().map(|it| short(it.high_rps.map_or(0.0, |high| high - rps(it)))).collect();
        let below: Vec<f64> =
            known.iter().map(|it| short(it.low_rps.map_or(0.0, |low| rps(it) - low))).collect();
        data.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": curve.arm, "legendgroup": curve.arm,
            "x": known.iter().map(|it| it.x).collect::<Vec<_>>(),
            "y": known.iter().map(|it| rps(it)).collect::<Vec<_>>(),
            "error_y": {"type": "data", "symmetric": false, "array": above, "arrayminus": below,
                        "color": look.colour, "thickness": 1.5, "width": 3},
            "line": {"color": look.colour, "width": 2},
            "marker": {"color": look.colour, "symbol": look.symbol, "size": 8},
            "hovertemplate": "%{fullData.name}, %{x} connections: %{y:,.0f}/s<extra></extra>",
        }));
        for it in known {
            let range = it
                .low_rps
                .zip(it.high_rps)
                .map(|(low, high)| format!("[{}, {}]", words::grouped(low), words::grouped(high)));
            table.row(vec![
                curve.arm.clone(),
                words::grouped(it.x),
                words::grouped(it.throughput_rps.unwrap_or(0.0)),
                range.unwrap_or_else(|| words::NONE.to_string()),
            ]);
        }
    }
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend(),
        "xaxis": doubling("connections", sweep),
        "yaxis": {"title": {"text": "requests/s"}, "rangemode": "tozero", "gridcolor": "$grid",
                  "zeroline": false, "automargin": true},
    }});
    let caption = "Marks: medians over the blocks with their intervals.";
    let title = "Throughput against concurrency".to_string();
    let drawn = !table.rows.is_empty();
    drawn.then(|| chart(&format!("sweep-{at}"), title, caption, 360, &figure, table))
}

fn latency(plan: &Plan, sweep: &Sweep, at: usize) -> Option<Chart> {
    let mut data = Vec::new();
    let first = if sweep.open { "Offered" } else { "Connections" };
    let mut table = Table::new(&["Server", first, "p50", "p99"]);
    for curve in &sweep.curves {
        let look = look(plan, &curve.arm);
        let x: Vec<f64> = curve.places.iter().map(|it| across(sweep, it)).collect();
        for (name, dash) in [("p50", "dot"), ("p99", "solid")] {
            let of = |it: &Place| if name == "p50" { it.p50_ns } else { it.p99_ns };
            if curve.places.iter().all(|it| of(it).is_none()) {
                continue;
            }
            data.push(json!({
                "type": "scatter", "mode": "lines+markers", "name": format!("{} {name}", curve.arm),
                "x": x, "y": curve.places.iter().map(|it| micros(of(it))).collect::<Vec<_>>(),
                "line": {"color": look.colour, "width": 2, "dash": dash},
                "marker": {"color": look.colour, "symbol": look.symbol, "size": 7},
                "hovertemplate": "%{fullData.name} at %{x:,.0f}: %{y:,.1f} µs<extra></extra>",
            }));
        }
        for it in &curve.places {
            table.row(vec![
                curve.arm.clone(),
                words::grouped(across(sweep, it)),
                words::or_none(it.p50_ns, words::time),
                words::or_none(it.p99_ns, words::time),
            ]);
        }
    }
    if data.is_empty() {
        return None;
    }
    let (axis, title, what) = match sweep.open {
        true => (rates(sweep), "Latency against rate", "response time"),
        false => (doubling("connections", sweep), "Latency against concurrency", "service time"),
    };
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend(),
        "xaxis": axis, "yaxis": time_axis(what),
    }});
    let caption = "Solid: p99. Dotted: p50. Medians over the blocks. Where a curve bends upwards, \
        the server has begun to let requests wait.";
    Some(chart(&format!("latency-{at}"), title.to_string(), caption, 360, &figure, table))
}

/// The answered share of the offered requests.
fn answered(plan: &Plan, sweep: &Sweep, at: usize) -> Option<Chart> {
    let mut data = Vec::new();
    let mut table = Table::new(&["Server", "Offered", "Answered", "Share"]);
    for curve in &sweep.curves {
        let look = look(plan, &curve.arm);
        let known: Vec<(f64, f64)> = curve
            .places
            .iter()
            .filter_map(|it| Some((it.offered_rps.filter(|&rps| rps > 0.0)?, it.throughput_rps?)))
            .collect();
        let shares = known.iter().map(|(offered, done)| short(done / offered * 100.0));
        data.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": curve.arm,
            "x": known.iter().map(|it| short(it.0)).collect::<Vec<_>>(),
            "y": shares.collect::<Vec<_>>(), "line": {"color": look.colour, "width": 2},
            "marker": {"color": look.colour, "symbol": look.symbol, "size": 7},
            "hovertemplate": "%{fullData.name}: %{y:.1f} % of %{x:,.0f}/s<extra></extra>",
        }));
        for (offered, done) in known {
            table.row(vec![
                curve.arm.clone(),
                words::grouped(offered),
                words::grouped(done),
                format!("{:.1} %", done / offered * 100.0),
            ]);
        }
    }
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend(),
        "xaxis": rates(sweep),
        "yaxis": {"title": {"text": "answered, % of offered"}, "gridcolor": "$grid",
                  "zeroline": false, "automargin": true},
    }});
    let caption = "Below 100 % the server does not keep up, and latencies at that rate only say \
        how long the run was.";
    let drawn = !table.rows.is_empty();
    let title = "Answered against offered".to_string();
    drawn.then(|| chart(&format!("answered-{at}"), title, caption, 280, &figure, table))
}

/// The position of a place on the horizontal axis: its offered rate, or its connections.
fn across(sweep: &Sweep, place: &Place) -> f64 {
    if sweep.open { short(place.offered_rps.unwrap_or(place.x)) } else { place.x }
}

fn rates(sweep: &Sweep) -> Value {
    let known =
        sweep.curves.iter().flat_map(|curve| &curve.places).any(|it| it.offered_rps.is_some());
    let title = if known { "offered requests/s" } else { "offered load" };
    json!({"title": {"text": title}, "rangemode": "tozero", "gridcolor": "$grid",
           "zeroline": false})
}

/// A logarithmic axis with a tick at each place.
fn doubling(title: &str, sweep: &Sweep) -> Value {
    let mut ticks: Vec<f64> =
        sweep.curves.iter().flat_map(|curve| curve.places.iter().map(|it| it.x)).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let texts: Vec<String> = ticks.iter().map(|it| words::grouped(*it)).collect();
    json!({"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": texts,
           "gridcolor": "$grid", "zeroline": false})
}
