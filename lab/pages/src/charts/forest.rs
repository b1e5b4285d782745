//! Forest plots: each comparison as a dot with its interval, over the band of the twin.

use super::{Chart, chart, look, short};
use crate::words;
use document::Table;
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmVerdict, Metric, PointSummary, Summary};
use serde_json::{Value, json};
use stats::Interval;

/// Height of one comparison in pixels.
const ROW: f64 = 40.0;

/// Forest plots, one for each metric that leads somewhere or that the plan registered, CPU per
/// request always among them.
pub fn forests(run: &Run, summary: &Summary) -> Vec<Chart> {
    let plan = &run.manifest.plan;
    let shown = |metric: &Metric| summary.points.iter().any(|it| shows(plan, it, *metric));
    Metric::EVERY
        .into_iter()
        .filter(shown)
        .filter_map(|metric| forest(plan, summary, metric))
        .collect()
}

/// Whether a metric is shown at a point: where it leads, where the plan named it, and CPU.
fn shows(plan: &Plan, point: &PointSummary, metric: Metric) -> bool {
    metric == Metric::Cpu || metric == point.lead || plan.metrics.contains(&metric)
}

/// Rows from top to bottom, and their marks.
#[derive(Default)]
struct Rows {
    at: f64,
    data: Vec<Value>,
    shapes: Vec<Value>,
    ticks: Vec<f64>,
    names: Vec<String>,
}

fn forest(plan: &Plan, summary: &Summary, metric: Metric) -> Option<Chart> {
    let mut rows = Rows::default();
    let mut table = Table::new(&["Server, load point", "Ratio", "Interval", "Verdict"]);
    let (mut low, mut high) = (-0.05_f64, 0.05_f64);
    let alone = summary.points.iter().any(|point| words::is_alone(plan, &point.point));
    let here = summary.points.iter().filter(|it| !alone || words::is_alone(plan, &it.point));
    for point in here.filter(|point| shows(plan, point, metric)) {
        let top = rows.at;
        for arm in &point.arms {
            let Some(judged) = arm.judged(metric) else { continue };
            rows.add(plan, point, &arm.arm, judged);
            let range = judged.comparison.interval.as_ref();
            let ends = range.map_or([judged.comparison.ratio; 2], |it| [it.low, it.high]);
            low = ends.iter().map(|it| it.ln()).fold(low, f64::min);
            high = ends.iter().map(|it| it.ln()).fold(high, f64::max);
            table.row(vec![
                format!("{}, {}", arm.arm, point.point),
                words::ratio(judged.comparison.ratio),
                range.map(words::interval).unwrap_or_else(|| words::NONE.to_string()),
                words::verdict(judged),
            ]);
        }
        rows.band(point.floor(metric), top);
    }
    if rows.ticks.is_empty() {
        return None;
    }
    rows.shapes.push(json!({
        "type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
        "line": {"color": "$faint", "width": 1},
    }));
    let spare = (high - low) * 0.07;
    let (low, high) = (low - spare, high + spare);
    let ticks = ratio_ticks(low, high);
    let texts: Vec<String> = ticks.iter().map(|tick| format!("{tick}×")).collect();
    let ends = [low, high].map(|log| short(log / std::f64::consts::LN_10));
    let (better, worse) = metric.words();
    let (left, right) =
        if metric.better() == stats::Better::More { (worse, better) } else { (better, worse) };
    let figure = json!({"data": rows.data, "layout": {
        "showlegend": false, "shapes": rows.shapes, "margin": {"l": 8, "r": 12, "t": 4, "b": 48},
        "hovermode": "closest",
        "xaxis": {"type": "log", "range": ends, "tickangle": 0,
                  "tickvals": ticks, "ticktext": texts,
                  "title": {"text": format!("← {left} · ratio to {} · {right} →", plan.baseline)},
                  "gridcolor": "$grid", "zeroline": false},
        "yaxis": {"tickvals": rows.ticks, "ticktext": rows.names, "showgrid": false,
                  "zeroline": false, "range": [rows.at - 0.1, -0.7], "automargin": true},
    }});
    let height = 72 + (rows.at * ROW) as usize;
    let title = capitalised(metric.name());
    Some(chart(&format!("forest-{}", metric.key()), title, "", height, &figure, table))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl Rows {
    fn add(&mut self, plan: &Plan, point: &PointSummary, arm: &str, judged: &ArmVerdict) {
        let look = look(plan, arm);
        let at = self.at;
        self.ticks.push(at);
        let muted = "color:$muted;font-size:11px";
        self.names.push(format!("{arm}<br><span style=\"{muted}\">{}</span>", point.point));
        let ratios: Vec<f64> =
            judged.comparison.log_ratios.iter().map(|it| short(it.exp())).collect();
        self.data.push(json!({
            "type": "scatter", "mode": "markers", "x": ratios, "y": vec![at + 0.26; ratios.len()],
            "hovertemplate": "one block: %{x:.3f}×<extra></extra>",
            "marker": {"color": look.colour, "size": 5, "opacity": 0.4},
        }));
        let (ratio, interval) = (judged.comparison.ratio, judged.comparison.interval);
        self.data.push(estimate(at, &look.colour, look.symbol, ratio, interval));
        self.at += 1.0;
    }

    /// The twin's band beneath the rows from `top` on, with a margin after them.
    fn band(&mut self, floor: f64, top: f64) {
        if floor > 0.0 && self.at > top {
            self.shapes.push(json!({
                "type": "rect", "xref": "x", "yref": "y", "layer": "below", "line": {"width": 0},
                "x0": short((-floor).exp()), "x1": short(floor.exp()),
                "y0": top - 0.5, "y1": self.at - 0.5, "fillcolor": "$band",
            }));
        }
        if self.at > top {
            self.at += 0.35;
        }
    }
}

fn estimate(at: f64, colour: &str, symbol: &str, ratio: f64, interval: Option<Interval>) -> Value {
    let mut trace = json!({
        "type": "scatter", "mode": "markers", "x": [short(ratio)], "y": [at],
        "marker": {"color": colour, "size": 11, "symbol": symbol},
        "hovertemplate": "median ratio %{x:.3f}×<extra></extra>",
    });
    if let Some(it) = interval {
        trace["error_x"] = json!({
            "type": "data", "symmetric": false, "array": [short(it.high - ratio)],
            "arrayminus": [short(ratio - it.low)], "color": colour, "thickness": 2.5, "width": 5,
        });
    }
    trace
}

/// Round ratios that may be ticks.
const ROUND: [f64; 25] = [
    0.001, 0.01, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25, 1.5,
    2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0,
];

/// Ticks of an axis from `low` to `high` (log-ratios): 1, and on both sides those whose labels fit.
fn ratio_ticks(low: f64, high: f64) -> Vec<f64> {
    let room = (high - low) / 7.0;
    let mut ticks = vec![1.0];
    for side in [-1.0, 1.0] {
        let mut last = 0.0_f64;
        let mut there: Vec<f64> = ROUND.iter().copied().filter(|it| it.ln() * side > 0.0).collect();
        there.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
        for ratio in there {
            let log = ratio.ln();
            if log >= low && log <= high && (log - last).abs() >= room {
                ticks.push(ratio);
                last = log;
            }
        }
    }
    ticks.sort_by(f64::total_cmp);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_leave_room() {
        assert_eq!(ratio_ticks(-0.12, 0.25), [0.9, 1.0, 1.1, 1.25]);
        assert_eq!(ratio_ticks(-1.6, 0.2), [0.33, 0.5, 0.67, 1.0]);
        assert_eq!(ratio_ticks(-0.04, 0.04), [0.98, 1.0, 1.02]);
        assert_eq!(capitalised("p99 latency"), "P99 latency");
    }
}
