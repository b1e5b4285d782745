//! Heat maps over time: each trial a row, each slice of its window a cell.

use super::{Chart, chart, micros};
use crate::words;
use document::Table;
use lab::plan::{LoadPoint, Plan};
use lab::record::Run;
use lab::trial::Trial;
use serde_json::{Value, json};
use stats::median;

/// Height of one trial's row in pixels.
const ROW: usize = 11;

/// One chart for each load point whose trials kept a time line.
pub fn heats(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| heat(run, point, at)).collect()
}

fn heat(run: &Run, point: &LoadPoint, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let arms: Vec<(&str, Vec<&Trial>)> = plan
        .arms
        .iter()
        .map(|arm| (arm.name.as_str(), sliced(run, &point.name, &arm.name)))
        // An overload's slices are its phases, and it has as many as it needs to recover.
        .map(|(arm, trials)| (arm, if point.is_overload() { trials } else { alike(trials) }))
        .filter(|(_, trials)| !trials.is_empty())
        .collect();
    let all: usize = arms.iter().map(|(_, trials)| trials.len()).sum();
    if all == 0 {
        return None;
    }
    let gap = 34.0;
    let inner = (all * ROW) as f64 + gap * arms.len() as f64;
    let mut layout = json!({
        "margin": {"l": 8, "r": 8, "t": 6, "b": 44}, "annotations": [],
        "coloraxis": {"colorscale": [[0, "$heat0"], [0.5, "$heat1"], [1, "$heat2"]],
                      "colorbar": colourbar(&arms)},
        "xaxis": {"title": {"text": "ms since the window began"}, "gridcolor": "$grid",
                  "zeroline": false,
                  "anchor": format!("y{}", axis_of(arms.len() - 1))},
    });
    let mut data = Vec::new();
    let mut table = Table::new(&["Arm", "Trials", "median slice p99", "worst slice p99"]);
    let mut top = 1.0;
    for (index, (arm, trials)) in arms.iter().enumerate() {
        let axis = axis_of(index);
        let bottom = top - (trials.len() * ROW) as f64 / inner;
        let head = gap * 0.6 / inner;
        layout[format!("yaxis{axis}")] = json!({
            "domain": [(bottom - head).max(0.0), top - head], "autorange": "reversed",
            "showticklabels": false, "showgrid": false, "zeroline": false, "ticks": "",
        });
        layout["annotations"].as_array_mut()?.push(json!({
            "text": arm, "xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left",
            "yanchor": "top", "showarrow": false, "font": {"size": 12},
        }));
        data.push(map(trials, &axis));
        table.row(row(arm, trials));
        top = bottom - gap / inner;
    }
    let figure = json!({"data": data, "layout": layout});
    let caption = "Each row is one trial in the order of blocks, colour is the 99th percentile in \
        that slice of time on one scale for all arms.";
    let height = inner as usize + 60;
    Some(chart(&format!("heat-{at}"), point.name.clone(), caption, height, &figure, table))
}

/// The number after `y` in the axis of the `index`th arm; the first has none.
fn axis_of(index: usize) -> String {
    if index == 0 { String::new() } else { (index + 1).to_string() }
}

/// The counted trials of an arm that have slices.
fn sliced<'a>(run: &'a Run, point: &str, arm: &str) -> Vec<&'a Trial> {
    let mut found: Vec<&Trial> = run
        .trials
        .iter()
        .filter(|trial| trial.arm == arm && trial.point == point)
        .filter(|trial| trial.result().is_some_and(|load| !load.timeline.is_empty()))
        .collect();
    found.sort_by_key(|trial| trial.block);
    found
}

/// The trials with the most common length and number of slices. A window that the machine stretched
/// has slices of another length, which overlap those of the others.
pub(super) fn alike(trials: Vec<&Trial>) -> Vec<&Trial> {
    let shape = |trial: &Trial| {
        let slices = trial.result().map(|load| load.timeline.as_slice()).unwrap_or_default();
        (slices.len(), slices.first().map_or(0, |slice| (slice.for_ms * 1e3) as u64))
    };
    let most = trials.iter().map(|it| shape(it)).max_by_key(|one| {
        (trials.iter().filter(|it| shape(it) == *one).count(), std::cmp::Reverse(*one))
    });
    trials.into_iter().filter(|it| Some(shape(it)) == most).collect()
}

/// The tail of each slice: its p99, or its longest where so few requests have no p99.
fn tails(trial: &Trial) -> Vec<Option<f64>> {
    let slices = trial.result().map(|load| load.timeline.as_slice()).unwrap_or_default();
    slices.iter().map(|it| it.p99_ns.or(it.max_ns)).collect()
}

fn map(trials: &[&Trial], axis: &str) -> Value {
    let longest = trials.iter().max_by_key(|trial| tails(trial).len());
    let x: Vec<f64> = longest
        .and_then(|trial| trial.result())
        .map(|load| load.timeline.iter().map(|it| it.at_ms + it.for_ms / 2.0).collect())
        .unwrap_or_default();
    let log = |ns: &Option<f64>| match ns.filter(|&ns| ns > 0.0) {
        Some(ns) => json!(super::short((ns / 1e3).log10())),
        None => Value::Null,
    };
    let z: Vec<Vec<Value>> =
        trials.iter().map(|trial| tails(trial).iter().map(log).collect()).collect();
    let texts: Vec<Vec<String>> = trials
        .iter()
        .map(|trial| tails(trial).iter().map(|ns| words::or_none(*ns, words::time)).collect())
        .collect();
    let blocks: Vec<String> =
        trials.iter().map(|trial| format!("block {}", trial.block + 1)).collect();
    json!({"type": "heatmap", "x": x, "y": blocks, "z": z, "text": texts, "coloraxis": "coloraxis",
           "yaxis": format!("y{axis}"), "xgap": 1, "ygap": 1, "hoverongaps": false,
           "hovertemplate": "%{y}, %{x:.0f} ms: %{text}<extra></extra>"})
}

/// A scale in times rather than in logarithms.
fn colourbar(arms: &[(&str, Vec<&Trial>)]) -> Value {
    let all: Vec<f64> = arms
        .iter()
        .flat_map(|(_, trials)| trials.iter().flat_map(|trial| tails(trial)))
        .flatten()
        .filter(|&ns| ns > 0.0)
        .map(|ns| (ns / 1e3).log10())
        .collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let ticks: Vec<f64> = (0..4).map(|step| low + (high - low) * f64::from(step) / 3.0).collect();
    let texts: Vec<String> = ticks.iter().map(|it| words::time(10_f64.powf(*it) * 1e3)).collect();
    json!({"orientation": "h", "thickness": 10, "len": 0.6, "x": 1, "xanchor": "right", "y": 1.0,
           "yanchor": "bottom", "tickvals": ticks, "ticktext": texts, "outlinewidth": 0,
           "tickfont": {"size": 11}})
}

fn row(arm: &str, trials: &[&Trial]) -> Vec<String> {
    let all: Vec<f64> = trials.iter().flat_map(|trial| tails(trial)).flatten().collect();
    let worst = all.iter().copied().max_by(f64::total_cmp);
    vec![
        arm.to_string(),
        trials.len().to_string(),
        words::or_none(median(&all), words::time),
        words::or_none(worst, words::time),
    ]
}

/// The median over trials of each slice's median latency: a line through time for one arm.
pub(super) fn line(run: &Run, plan: &Plan, point: &str, arm: &str) -> Option<Value> {
    let trials = sliced(run, point, arm);
    let loads: Vec<_> = trials.iter().filter_map(|trial| trial.result()).collect();
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
    let look = super::look(plan, arm);
    Some(json!({"type": "scatter", "mode": "lines", "name": arm, "x": x, "y": y,
                "line": {"color": look.colour, "width": 2}, "connectgaps": false,
                "hovertemplate": "%{fullData.name}, %{x:.0f} ms: %{y:,.1f} µs<extra></extra>"}))
}
