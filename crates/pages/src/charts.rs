//! Charts as plotly.js figures: data and layout, without colours of their own.
//!
//! A colour is a token `$name`; the page's script replaces it by the style sheet's value, so that
//! light, dark and paper each have their own and this file knows none of them.

use lab::record::Run;
use lab::trial::Trial;
use lab::verdict::{Metric, PointSummary, Summary};
use serde::Serialize;
use serde_json::{Value, json};

/// How many arm colours the style sheet has; further arms begin again.
const COLOURS: usize = 7;

/// One chart and its words.
#[derive(Serialize)]
pub struct Chart {
    /// Its id in the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it, in one or two sentences.
    pub caption: String,
    /// Height in pixels.
    pub height: usize,
    /// `{data, layout}` as JSON that is safe inside a script element.
    pub figure: String,
}

fn chart(id: &str, title: String, caption: &str, height: usize, figure: &Value) -> Chart {
    let figure = figure.to_string().replace('<', "\\u003c");
    Chart { id: id.to_string(), title, caption: caption.to_string(), height, figure }
}

/// The token of the `index`th arm.
fn colour(index: usize) -> String {
    format!("$arm{}", index % COLOURS)
}

/// Forest plots, one for each metric that the plan compares.
pub fn forests(run: &Run, summary: &Summary) -> Vec<Chart> {
    [(Metric::Throughput, "forest-speed"), (Metric::Cpu, "forest-cpu")]
        .into_iter()
        .filter_map(|(metric, id)| forest(run, summary, metric, id))
        .collect()
}

fn forest(run: &Run, summary: &Summary, metric: Metric, id: &str) -> Option<Chart> {
    let (mut data, mut shapes) = (Vec::new(), Vec::new());
    let (mut ticks, mut names): (Vec<f64>, Vec<String>) = (Vec::new(), Vec::new());
    let mut row = 0.0;
    for point in &summary.points {
        let top = row;
        for (index, arm) in point.arms.iter().enumerate() {
            let Some(judged) = arm.judged(metric) else { continue };
            let token = if arm.twin { "$muted".to_string() } else { colour(index) };
            ticks.push(row);
            names.push(format!(
                "{}<br><span style=\"font-size:11px\">{}</span>",
                arm.arm, point.point
            ));
            let ratios: Vec<f64> = judged.comparison.log_ratios.iter().map(|d| d.exp()).collect();
            data.push(json!({
                "type": "scatter", "mode": "markers", "x": ratios,
                "y": vec![row + 0.22; ratios.len()],
                "hovertemplate": "one block: %{x:.3f}×<extra></extra>",
                "marker": {"color": token, "size": 6, "opacity": 0.45}, "cliponaxis": false,
            }));
            data.push(estimate(row, &token, judged.comparison.ratio, judged.comparison.interval));
            row += 1.0;
        }
        let floor = point.floor(metric);
        if floor > 0.0 && row > top {
            shapes.push(json!({
                "type": "rect", "xref": "x", "yref": "y", "layer": "below",
                "x0": (-floor).exp(), "x1": floor.exp(), "y0": top - 0.45, "y1": row - 0.55,
                "fillcolor": "$band", "line": {"width": 0},
            }));
        }
        row += 0.4;
    }
    if ticks.is_empty() {
        return None;
    }
    shapes.push(json!({
        "type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
        "line": {"color": "$muted", "width": 1},
    }));
    let better = if metric == Metric::Throughput { "right is faster" } else { "left is cheaper" };
    let title = format!("{} against {} ({better})", metric.name(), run.manifest.plan.baseline);
    let figure = json!({"data": data, "layout": {
        "showlegend": false, "shapes": shapes, "margin": {"l": 110, "r": 16, "t": 8, "b": 44},
        "xaxis": {"type": "log", "title": {"text": "ratio, logarithmic"}, "nticks": 8,
                  "tickformat": ".3~g", "gridcolor": "$grid", "zeroline": false},
        "yaxis": {"autorange": "reversed", "tickvals": ticks, "ticktext": names,
                  "showgrid": false, "zeroline": false, "range": [row, -0.6]},
    }});
    let height = 90 + (row * 46.0) as usize;
    let caption = "Large dot and bar: median ratio and its interval. Small dots: the single \
        blocks. Grey band: how far the baseline's own twin strayed; inside it nothing can be told \
        apart.";
    Some(chart(id, title, caption, height, &figure))
}

fn estimate(row: f64, token: &str, ratio: f64, interval: Option<lab::stats::Interval>) -> Value {
    let mut trace = json!({
        "type": "scatter", "mode": "markers", "x": [ratio], "y": [row],
        "marker": {"color": token, "size": 12}, "cliponaxis": false,
        "hovertemplate": "median ratio %{x:.3f}×<extra></extra>",
    });
    if let Some(it) = interval {
        trace["error_x"] = json!({
            "type": "data", "symmetric": false, "array": [it.high - ratio],
            "arrayminus": [ratio - it.low], "color": token, "thickness": 3, "width": 6,
        });
    }
    trace
}

/// CPU per request: one chart for each load point.
pub fn costs(run: &Run, summary: &Summary) -> Vec<Chart> {
    summary.points.iter().enumerate().filter_map(|(at, it)| cost(run, it, at)).collect()
}

fn cost(run: &Run, point: &PointSummary, at: usize) -> Option<Chart> {
    let arms: Vec<_> =
        point.arms.iter().enumerate().filter(|(_, it)| it.cpu_ns.is_some()).collect();
    if arms.is_empty() {
        return None;
    }
    let names: Vec<&str> = arms.iter().map(|(_, arm)| arm.arm.as_str()).collect();
    let colours: Vec<String> = arms
        .iter()
        .map(|(index, arm)| if arm.twin { "$muted".to_string() } else { colour(*index) })
        .collect();
    let medians: Vec<f64> = arms.iter().map(|(_, arm)| arm.cpu_ns.unwrap_or(0.0) / 1e3).collect();
    let single: Vec<(f64, &str)> = run
        .trials
        .iter()
        .filter(|trial| trial.point == point.point)
        .filter_map(|trial| Some((Metric::Cpu.of(trial.result()?)? / 1e3, trial.arm.as_str())))
        .collect();
    let (x, y): (Vec<f64>, Vec<&str>) = single.into_iter().unzip();
    let figure = json!({"data": [
        {"type": "bar", "orientation": "h", "x": medians, "y": names,
         "marker": {"color": colours, "opacity": 0.85},
         "hovertemplate": "%{y}: median %{x:.3f} µs<extra></extra>"},
        {"type": "scatter", "mode": "markers", "x": x, "y": y,
         "marker": {"color": "$text", "size": 5, "opacity": 0.5},
         "hovertemplate": "%{y}, one trial: %{x:.3f} µs<extra></extra>"},
    ], "layout": {
        "showlegend": false, "bargap": 0.35, "margin": {"l": 96, "r": 16, "t": 8, "b": 44},
        "xaxis": {"title": {"text": "µs of server CPU per request"}, "rangemode": "tozero",
                  "gridcolor": "$grid", "zeroline": false},
        "yaxis": {"autorange": "reversed", "automargin": true},
    }});
    let caption = "Bars: medians. Dots: the single trials. User and system time of all the \
        server's processes and threads; shorter is better.";
    let height = 96 + 40 * arms.len();
    Some(chart(&format!("cost-{at}"), point.point.clone(), caption, height, &figure))
}

/// All trials in the order of running, with the machine's noise beneath.
pub fn timeline(run: &Run, summary: &Summary) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let middle = |trial: &Trial| {
        let point = summary.points.iter().find(|point| point.point == trial.point)?;
        point.arms.iter().find(|arm| arm.arm == trial.arm)?.throughput_rps
    };
    let mut data = Vec::new();
    for (index, arm) in plan.entrants().iter().enumerate() {
        let twin = plan.twin && arm.name == plan.twin_name();
        let token = if twin { "$muted".to_string() } else { colour(index) };
        for counted in [true, false] {
            let mine = run.trials.iter().filter(|it| it.arm == arm.name && it.counted == counted);
            data.push(dots(&arm.name, &token, counted, mine.collect(), middle));
        }
    }
    if run.trials.is_empty() {
        return None;
    }
    let share = |pick: fn(&Trial) -> Option<f64>| -> Vec<f64> {
        run.trials.iter().map(|trial| pick(trial).unwrap_or(0.0) * 100.0).collect()
    };
    let seconds: Vec<f64> = run.trials.iter().map(|trial| trial.took_ms / 1e3).collect();
    let times: Vec<f64> =
        run.trials.iter().map(|trial| (trial.begun_ms + trial.took_ms / 2.0) / 1e3).collect();
    for (name, values, token) in [
        ("other processes", share(|trial| trial.conditions.foreign), "$muted"),
        ("stolen by the host", share(|trial| trial.conditions.steal), "$bad"),
    ] {
        data.push(json!({
            "type": "bar", "name": name, "x": times, "y": values, "width": seconds, "yaxis": "y2",
            "marker": {"color": token}, "hovertemplate": "%{y:.1f} % <extra></extra>",
        }));
    }
    let figure = json!({"data": data, "layout": {
        "barmode": "stack", "margin": {"l": 56, "r": 16, "t": 8, "b": 44},
        "legend": {"orientation": "h", "y": -0.22, "traceorder": "normal"},
        "xaxis": {"title": {"text": "seconds since the race began"}, "gridcolor": "$grid",
                  "zeroline": false, "anchor": "y2"},
        "yaxis": {"domain": [0.32, 1], "title": {"text": "% off its own median"},
                  "gridcolor": "$grid", "zerolinecolor": "$muted"},
        "yaxis2": {"domain": [0, 0.22], "title": {"text": "noise, %"}, "gridcolor": "$grid",
                   "rangemode": "tozero", "zeroline": false},
    }});
    let caption = "Each dot is one trial's requests per second against the median of its arm and \
        load point; crosses were repeated. Below: the machine's time that went elsewhere.";
    Some(chart("timeline", "Trials in the order of running".to_string(), caption, 420, &figure))
}

/// The trials of one arm, either those that count or those that were repeated.
fn dots(
    arm: &str,
    token: &str,
    counted: bool,
    trials: Vec<&Trial>,
    middle: impl Fn(&Trial) -> Option<f64>,
) -> Value {
    let (mut x, mut y, mut texts) = (vec![], vec![], vec![]);
    for trial in trials {
        let lab::trial::Ending::Measured { load } = &trial.ending else { continue };
        let Some(middle) = middle(trial).filter(|&it| it > 0.0) else { continue };
        x.push((trial.begun_ms + trial.took_ms / 2.0) / 1e3);
        y.push((load.throughput_rps / middle - 1.0) * 100.0);
        let state = if counted { "" } else { ", repeated" };
        texts.push(format!("{arm}, {}, block {}{state}", trial.point, trial.block + 1));
    }
    json!({
        "type": "scatter", "mode": "markers", "name": arm, "x": x, "y": y, "text": texts,
        "legendgroup": arm, "showlegend": counted,
        "marker": {"color": token, "symbol": if counted { "circle" } else { "x-thin-open" },
                   "size": 8},
        "hovertemplate": "%{text}<br>%{y:+.1f} % of its median<extra></extra>",
    })
}
