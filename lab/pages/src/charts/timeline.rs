//! All trials in the order of running, with the machine's noise beneath.

use super::{Chart, chart, legend, look, short};
use crate::words;
use document::Table;
use lab::plan::Plan;
use lab::record::Run;
use lab::trial::Trial;
use lab::verdict::{Metric, Summary};
use serde_json::{Value, json};
use stats::median;

/// The time line, if there was any trial.
pub fn timeline(run: &Run, summary: &Summary) -> Option<Chart> {
    let plan = &run.manifest.plan;
    if run.trials.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    for arm in plan.entrants() {
        for is_quiet in [true, false] {
            let mine = run.trials.iter().filter(|it| it.arm == arm.name);
            let mine = mine.filter(|it| it.objections.is_empty() == is_quiet);
            data.push(dots(plan, summary, &arm.name, is_quiet, mine.collect()));
        }
    }
    data.extend(noise(run));
    let figure = json!({"data": data, "layout": {
        "barmode": "stack", "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest",
        "legend": legend(), "shapes": blocks(run),
        "xaxis": {"title": {"text": "seconds since the race began"}, "showgrid": false,
                  "zeroline": false, "anchor": "y2"},
        "yaxis": {"domain": [0.34, 1], "title": {"text": "% off its median"}, "automargin": true,
                  "gridcolor": "$grid", "zerolinecolor": "$faint"},
        "yaxis2": {"domain": [0, 0.22], "title": {"text": "noise, %"}, "gridcolor": "$grid",
                   "rangemode": "tozero", "zeroline": false, "automargin": true, "nticks": 4},
    }});
    let caption = "Each mark is one trial against the median of its arm and load point: a race \
        that drifts shows here. At crosses a gate of the machine failed. Stripes are blocks. \
        Below: the share of the machine that went elsewhere.";
    let title = "Trials in the order of running".to_string();
    Some(chart("timeline", title, caption, 420, &figure, gates(run)))
}

/// The value of a trial in its point's leading metric, against the median of its kind, in percent.
fn off(summary: &Summary, trial: &Trial) -> Option<f64> {
    let point = summary.points.iter().find(|point| point.point == trial.point)?;
    let arm = point.arms.iter().find(|arm| arm.arm == trial.arm)?;
    let (middle, value) = match (point.lead, &trial.ending) {
        (Metric::Capacity, _) => {
            (arm.median(Metric::Capacity)?, trial.seen.search.as_ref()?.capacity_rps?)
        }
        (lead, lab::trial::Ending::Measured { load }) => {
            let middle = match lead {
                Metric::P99 => arm.median(Metric::P99).or(arm.median(Metric::P50))?,
                _ => arm.median(Metric::Throughput)?,
            };
            let value = match lead {
                Metric::P99 => {
                    if arm.median(Metric::P99).is_some() {
                        load.latency().p99_ns?
                    } else {
                        load.latency().p50_ns?
                    }
                }
                _ => load.throughput_rps,
            };
            (middle, value)
        }
        _ => return None,
    };
    (middle > 0.0).then(|| (value / middle - 1.0) * 100.0)
}

fn seconds(trial: &Trial) -> f64 {
    short((trial.begun_ms + trial.took_ms / 2.0) / 1e3)
}

fn dots(plan: &Plan, summary: &Summary, arm: &str, is_quiet: bool, trials: Vec<&Trial>) -> Value {
    let look = look(plan, arm);
    let (mut x, mut y, mut texts) = (vec![], vec![], vec![]);
    for trial in trials {
        let Some(value) = off(summary, trial) else { continue };
        x.push(seconds(trial));
        y.push(short(value));
        texts.push(format!("{arm}, {}, block {}", trial.point, trial.block + 1));
    }
    let symbol = if is_quiet { look.symbol } else { "x-thin-open" };
    json!({
        "type": "scatter", "mode": "markers", "name": arm, "x": x, "y": y, "text": texts,
        "legendgroup": arm, "showlegend": is_quiet,
        "marker": {"color": look.colour, "symbol": symbol, "size": 8,
                   "line": {"width": if is_quiet { 0 } else { 2 }, "color": look.colour}},
        "hovertemplate": "%{text}<br>%{y:+.1f} %<extra></extra>",
    })
}

/// The CPU shares of other processes and the hypervisor, as bars.
fn noise(run: &Run) -> Vec<Value> {
    // Servers that took turns share their conditions: they are one bar.
    let mut trials: Vec<&Trial> = run.trials.iter().collect();
    trials.dedup_by_key(|trial| (trial.block, trial.conditions));
    let share = |pick: fn(&Trial) -> Option<f64>| -> Vec<f64> {
        trials.iter().map(|trial| short(pick(trial).unwrap_or(0.0) * 100.0)).collect()
    };
    let widths: Vec<f64> = trials.iter().map(|trial| short(trial.took_ms / 1e3)).collect();
    let times: Vec<f64> = trials.iter().map(|trial| seconds(trial)).collect();
    [
        ("other processes", share(|trial| trial.conditions.foreign), "$muted"),
        ("stolen by the host", share(|trial| trial.conditions.steal), "$bad"),
    ]
    .map(|(name, values, colour)| {
        json!({"type": "bar", "name": name, "x": times, "y": values, "width": widths,
               "yaxis": "y2", "marker": {"color": colour},
               "hovertemplate": format!("{name}: %{{y:.1f}} %<extra></extra>")})
    })
    .to_vec()
}

/// Every second block as a stripe in the background.
fn blocks(run: &Run) -> Vec<Value> {
    let last = run.trials.iter().map(|trial| trial.block).max().unwrap_or(0);
    (0..=last)
        .filter(|block| block % 2 == 1)
        .filter_map(|block| {
            let mine = run.trials.iter().filter(|trial| trial.block == block);
            let from = mine.clone().map(|it| it.begun_ms).min_by(f64::total_cmp)?;
            let to = mine.map(|it| it.begun_ms + it.took_ms).max_by(f64::total_cmp)?;
            Some(json!({"type": "rect", "xref": "x", "yref": "paper", "layer": "below",
                        "x0": short(from / 1e3), "x1": short(to / 1e3), "y0": 0.34, "y1": 1,
                        "fillcolor": "$stripe", "line": {"width": 0}}))
        })
        .collect()
}

/// The findings of the gates, gate by gate.
fn gates(run: &Run) -> Table {
    let mut table = Table::new(&["Noise", "median", "worst", "trials that saw it"]);
    let mut line = |name: &str, pick: &dyn Fn(&Trial) -> Option<f64>, say: fn(f64) -> String| {
        let values: Vec<f64> = run.trials.iter().filter_map(pick).collect();
        let worst = values.iter().copied().max_by(f64::total_cmp);
        if values.is_empty() {
            return;
        }
        table.row(vec![
            name.to_string(),
            words::or_none(median(&values), say),
            words::or_none(worst, say),
            format!("{} of {}", values.iter().filter(|&&it| it > 0.0).count(), run.trials.len()),
        ]);
    };
    let percent: fn(f64) -> String = |it| format!("{:.1} %", it * 100.0);
    let millis: fn(f64) -> String = |it| format!("{it:.1} ms");
    line("other processes", &|it| it.conditions.foreign, percent);
    line("stolen by the host", &|it| it.conditions.steal, percent);
    line("latest wake-up", &|it| it.conditions.hiccup_ms, millis);
    line("clock step", &|it| Some(it.conditions.clock_step_ms.abs()), millis);
    line("waiting for a processor", &|it| it.conditions.cpu_pressure, percent);
    line("waiting for memory", &|it| it.conditions.memory_pressure, percent);
    line("waiting for a disk", &|it| it.conditions.io_pressure, percent);
    let count: fn(f64) -> String = words::grouped;
    line("segments sent again", &|it| Some(it.conditions.retransmits? as f64), count);
    line("SYNs sent again", &|it| Some(it.conditions.syn_retransmits? as f64), count);
    line("accept queue full", &|it| Some(it.conditions.listen_overflows? as f64), count);
    table
}
