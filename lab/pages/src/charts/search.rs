//! Capacity: the search for it, and the effect of overload.

use super::{Chart, chart, legend, look, micros, short, time_axis};
use crate::words;
use document::Table;
use lab::observations::Search;
use lab::plan::{Model, Plan};
use lab::record::Run;
use lab::verdict::{ArmSummary, Metric, Summary};
use serde_json::{Value, json};
use stats::median;

/// One chart for each load point that searched for a capacity.
pub fn capacities(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| capacity(run, &point.name, at)).collect()
}

fn capacity(run: &Run, point: &str, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let mut data = Vec::new();
    let mut table = Table::new(&["Server", "Block", "Capacity", "Probes", "Ended by"]);
    let mut promise: Option<(f64, u64)> = None;
    for arm in &plan.arms {
        let mine: Vec<(u32, &Search)> = run
            .trials
            .iter()
            .filter(|trial| trial.arm == arm.name && trial.point == point)
            .filter_map(|trial| Some((trial.block, trial.seen.search.as_ref()?)))
            .collect();
        for (block, search) in &mine {
            promise = Some((search.quantile, search.limit_ns));
            table.row(vec![
                arm.name.clone(),
                (block + 1).to_string(),
                words::or_none(search.capacity_rps, words::grouped),
                search.probes.len().to_string(),
                if search.generator_limited { "the generator" } else { "the promise" }.to_string(),
            ]);
        }
        let look = look(plan, &arm.name);
        for (kept, symbol) in [(true, look.symbol), (false, "x-thin-open")] {
            let probes: Vec<_> = mine
                .iter()
                .flat_map(|(_, search)| &search.probes)
                .filter(|probe| probe.kept == kept)
                .collect();
            data.push(json!({
                "type": "scatter", "mode": "markers", "name": arm.name, "legendgroup": arm.name,
                "showlegend": kept,
                "x": probes.iter().map(|it| short(it.rate_rps)).collect::<Vec<_>>(),
                "y": probes.iter().map(|it| micros(it.latency_ns)).collect::<Vec<_>>(),
                "text": probes.iter().map(|it| it.why.as_str()).collect::<Vec<_>>(),
                "marker": {"color": look.colour, "symbol": symbol, "size": 8},
                "hovertemplate": "%{fullData.name}, %{x:,.0f}/s: %{y:,.1f} µs %{text}\
                    <extra></extra>",
            }));
        }
    }
    let (quantile, limit_ns) = promise?;
    let limit = limit_ns as f64;
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend(),
        "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y",
                    "y0": limit / 1e3, "y1": limit / 1e3,
                    "line": {"color": "$bad", "width": 1.5, "dash": "dash"}}],
        "xaxis": {"type": "log", "title": {"text": "offered requests/s"}, "gridcolor": "$grid",
                  "zeroline": false, "dtick": "D2", "tickformat": "~s"},
        "yaxis": time_axis("response time"),
    }});
    let promised = format!("{} % within {}", short(quantile * 100.0), words::time(limit));
    let caption = "Each mark is one probe with a fresh server; crosses broke the promise \
        (dashed). Response times are those of the promised share.";
    let title = format!("{point}: {promised}");
    Some(chart(&format!("capacity-{at}"), title, caption, 340, &figure, table))
}

/// Latency through an overload, one chart for each such load point with a time line.
pub fn overloads(run: &Run, summary: &Summary) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points
        .filter(|(_, point)| matches!(point.model, Model::Overload { .. }))
        .filter_map(|(at, point)| overload(run, summary, &point.name, at))
        .collect()
}

fn overload(run: &Run, summary: &Summary, point: &str, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let lines = plan.arms.iter().filter_map(|arm| line(run, plan, point, &arm.name));
    let data: Vec<_> = lines.collect();
    let found = summary.points.iter().find(|it| it.point == point)?;
    let mut table = Table::new(&["Server", "Goodput", "Kept share", "Recovery"]);
    for arm in found.arms.iter().filter(|arm| !arm.twin && arm.absent.is_none()) {
        table.row(outcome(arm));
    }
    if data.is_empty() {
        return None;
    }
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "x", "legend": legend(),
        "xaxis": {"title": {"text": "ms"}, "gridcolor": "$grid", "zeroline": false},
        "yaxis": time_axis("median response time"),
    }});
    let caption = "Median response time, slice by slice, medians over the blocks: how high it \
        climbs while too much is asked, and how soon it is back.";
    Some(chart(&format!("overload-{at}"), point.to_string(), caption, 320, &figure, table))
}

fn outcome(arm: &ArmSummary) -> Vec<String> {
    vec![
        arm.arm.clone(),
        words::or_none(arm.median(Metric::Throughput), |it| format!("{}/s", words::grouped(it))),
        words::or_none(arm.kept_share, |it| format!("{:.0} %", it * 100.0)),
        words::or_none(arm.median(Metric::Recovery), |it| words::time(it * 1e6)),
    ]
}

/// The median over trials of each slice's median latency: a line through time for one arm.
fn line(run: &Run, plan: &Plan, point: &str, arm: &str) -> Option<Value> {
    let trials = run.trials.iter().filter(|trial| trial.arm == arm && trial.point == point);
    let loads: Vec<_> = trials.filter_map(|trial| trial.result()).collect();
    let longest = loads.iter().max_by_key(|load| load.timeline.len())?;
    let (x, y): (Vec<f64>, Vec<Value>) = longest
        .timeline
        .iter()
        .enumerate()
        .map(|(at, slice)| {
            let here = loads.iter().filter_map(|load| load.timeline.get(at)?.p50_ns);
            (slice.at_ms, micros(median(&here.collect::<Vec<_>>())))
        })
        .unzip();
    let look = look(plan, arm);
    Some(json!({"type": "scatter", "mode": "lines", "name": arm, "x": x, "y": y,
                "line": {"color": look.colour, "width": 2}, "connectgaps": false,
                "hovertemplate": "%{fullData.name}, %{x:.0f} ms: %{y:,.1f} µs<extra></extra>"}))
}
