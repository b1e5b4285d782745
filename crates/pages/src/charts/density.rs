//! Latency over time: the distribution of each moment's latencies, one picture for each arm.
//!
//! A percentile is one number. A server with a fast and a slow path has two humps, and only a
//! picture of all latencies shows them (Gregg, *Visualizing System Latency*, CACM 2010). The colour
//! is the logarithm of the share, because one request in ten thousand matters too.

use super::{Chart, chart, short};
use crate::words;
use document::Table;
use lab::plan::{Arm, LoadPoint};
use lab::record::Run;
use lab::slice::{Slice, half_octave, sum};
use lab::trial::Trial;
use serde_json::{Value, json};

/// Height of one arm's picture in pixels, and of its name.
const PICTURE: f64 = 120.0;
const HEAD: f64 = 26.0;
/// Columns of the table.
const PARTS: usize = 6;

/// One chart for each load point whose trials recorded the latencies of each slice of time.
pub fn densities(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| density(run, point, at)).collect()
}

/// The latencies of all trials of an arm in each slice of time.
struct Picture<'a> {
    arm: &'a str,
    slices: Vec<Slice>,
}

fn density(run: &Run, point: &LoadPoint, at: usize) -> Option<Chart> {
    // An overload's slices are its phases, which are not equally long.
    if point.is_overload() {
        return None;
    }
    let arms = run.manifest.plan.arms.iter();
    let pictures: Vec<Picture<'_>> =
        arms.filter_map(|arm| picture(run, &point.name, arm)).collect();
    if pictures.is_empty() {
        return None;
    }
    let count = pictures.len() as f64;
    let inner = count * (PICTURE + HEAD);
    let rows = pictures.iter().flat_map(|it| &it.slices).flat_map(|it| &it.buckets);
    let rows: Vec<u64> = rows.map(|it| it.0).collect();
    let (low, high) = (*rows.iter().min()?, *rows.iter().max()?);
    let edges = edges(low, high);
    let mut layout = json!({
        "margin": {"l": 8, "r": 8, "t": 6, "b": 44}, "annotations": [],
        "coloraxis": {"colorscale": [[0, "$heat0"], [0.5, "$heat1"], [1, "$heat2"]],
                      "cmin": -4.5, "cmax": 0, "colorbar": colourbar()},
        "xaxis": {"title": {"text": "ms since the window began"}, "gridcolor": "$grid",
                  "zeroline": false, "anchor": format!("y{}", axis_of(pictures.len() - 1))},
    });
    let mut data = Vec::new();
    for (index, picture) in pictures.iter().enumerate() {
        let top = 1.0 - index as f64 * (PICTURE + HEAD) / inner;
        let axis = axis_of(index);
        layout[format!("yaxis{axis}")] = json!({
            "domain": [(top - (PICTURE + HEAD) / inner).max(0.0), top - HEAD / inner],
            "tickvals": ticks(low, high).iter().map(|&ns| place(ns)).collect::<Vec<_>>(),
            "ticktext": ticks(low, high).iter().map(|&ns| whole(ns)).collect::<Vec<_>>(),
            "gridcolor": "$grid", "zeroline": false, "automargin": true,
        });
        layout["annotations"].as_array_mut()?.push(json!({
            "text": picture.arm, "xref": "paper", "yref": "paper", "x": 0, "y": top,
            "xanchor": "left", "yanchor": "top", "showarrow": false, "font": {"size": 12},
        }));
        data.push(map(picture, &edges, &axis));
    }
    let figure = json!({"data": data, "layout": layout});
    let caption = "From left to right time, upwards latency, colour the share of that moment's \
        requests (all trials together), logarithmic: the palest cells are single requests in tens \
        of thousands. Two bands are two ways through the server.";
    let title = format!("{}: all latencies", point.name);
    let height = inner as usize + 70;
    Some(chart(&format!("density-{at}"), title, caption, height, &figure, table(&pictures)))
}

fn axis_of(index: usize) -> String {
    if index == 0 { String::new() } else { (index + 1).to_string() }
}

fn picture<'a>(run: &Run, point: &str, arm: &'a Arm) -> Option<Picture<'a>> {
    let mut slices: Vec<Slice> = Vec::new();
    let trials = run.trials.iter().filter(|it| it.arm == arm.name && it.point == point);
    let trials = alike(trials.filter(|it| it.result().is_some()).collect());
    for load in trials.iter().filter_map(|trial| trial.result()) {
        for (at, slice) in load.timeline.iter().enumerate() {
            match slices.get_mut(at) {
                None => slices.push(slice.clone()),
                Some(known) => {
                    let both = known.buckets.iter().chain(&slice.buckets).copied();
                    known.buckets = sum(both);
                    known.requests = known.requests.saturating_add(slice.requests);
                }
            }
        }
    }
    let told = slices.iter().any(|slice| !slice.buckets.is_empty());
    told.then_some(Picture { arm: &arm.name, slices })
}

/// The trials with the most common length and number of slices. A window that the machine stretched
/// has slices of another length, which overlap those of the others.
fn alike(trials: Vec<&Trial>) -> Vec<&Trial> {
    let shape = |trial: &Trial| {
        let slices = trial.result().map(|load| load.timeline.as_slice()).unwrap_or_default();
        (slices.len(), slices.first().map_or(0, |slice| (slice.for_ms * 1e3) as u64))
    };
    let most = trials.iter().map(|it| shape(it)).max_by_key(|one| {
        (trials.iter().filter(|it| shape(it) == *one).count(), std::cmp::Reverse(*one))
    });
    trials.into_iter().filter(|it| Some(shape(it)) == most).collect()
}

/// The edges of all rows from `low` to beyond `high`, half octaves apart.
fn edges(low: u64, high: u64) -> Vec<u64> {
    let mut found = vec![half_octave(low)];
    while let Some(&last) = found.last().filter(|last| **last <= high) {
        // From 2^k to 1.5 times that, and on to the next power.
        let next = if last.is_power_of_two() { last + (last / 2).max(1) } else { last / 3 * 4 };
        found.push(next.max(last + 1));
    }
    found
}

/// The position of a time on the axis.
fn place(ns: u64) -> f64 {
    short((ns.max(1) as f64).log10())
}

/// Powers of ten between two times, one more on each side.
fn ticks(low: u64, high: u64) -> Vec<u64> {
    (0..12).map(|power| 10_u64.pow(power)).filter(|&it| it >= low / 2 && it <= high * 2).collect()
}

/// A power of ten in words: `10 µs`.
fn whole(ns: u64) -> String {
    match ns {
        ns if ns < 1_000 => format!("{ns} ns"),
        ns if ns < 1_000_000 => format!("{} µs", ns / 1_000),
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    }
}

fn map(picture: &Picture<'_>, edges: &[u64], axis: &str) -> Value {
    let slices = &picture.slices;
    let mut x: Vec<f64> = slices.iter().map(|it| it.at_ms).collect();
    x.extend(slices.last().map(|it| it.at_ms + it.for_ms));
    let share = |slice: &Slice, edge: u64| {
        let all: f64 = slice.buckets.iter().map(|it| it.1 as f64).sum();
        let here = slice.buckets.iter().find(|it| it.0 == edge)?.1;
        Some(here as f64 / all)
    };
    let rows = edges.split_last().map(|(_, rows)| rows).unwrap_or_default();
    let cells: Vec<Vec<Option<f64>>> =
        rows.iter().map(|&edge| slices.iter().map(|it| share(it, edge)).collect()).collect();
    let z = |cell: &Option<f64>| cell.map_or(Value::Null, |it| json!(round(it.log10())));
    let z: Vec<Vec<Value>> = cells.iter().map(|row| row.iter().map(z).collect()).collect();
    let texts: Vec<Vec<String>> = cells
        .iter()
        .zip(edges.windows(2))
        .map(|(row, ends)| {
            let (low, high) = (words::time(ends[0] as f64), words::time(ends[1] as f64));
            let text = |it: &f64| format!("{} within {low} to {high}", share_words(*it));
            row.iter().map(|cell| cell.as_ref().map(text).unwrap_or_default()).collect()
        })
        .collect();
    json!({"type": "heatmap", "x": x, "y": edges.iter().map(|&it| place(it)).collect::<Vec<_>>(),
           "z": z, "text": texts, "coloraxis": "coloraxis", "yaxis": format!("y{axis}"),
           "hoverongaps": false, "name": picture.arm,
           "hovertemplate": "%{x:.0f} ms: %{text}<extra></extra>"})
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn share_words(share: f64) -> String {
    match share * 100.0 {
        it if it < 0.001 => "less than 0.001 %".to_string(),
        it if it < 1.0 => format!("{it:.3} %"),
        it => format!("{it:.1} %"),
    }
}

fn colourbar() -> Value {
    json!({"orientation": "h", "thickness": 10, "len": 0.6, "x": 1, "xanchor": "right", "y": 1.0,
           "yanchor": "bottom", "tickvals": [-4, -3, -2, -1, 0], "outlinewidth": 0,
           "ticktext": ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"], "tickfont": {"size": 11}})
}

/// Median and 99th percentile of each arm in a few parts of the window.
fn table(pictures: &[Picture<'_>]) -> Table {
    let longest = pictures.iter().map(|it| it.slices.len()).max().unwrap_or(1);
    let each = longest.div_ceil(PARTS);
    let whole = pictures.iter().max_by_key(|it| it.slices.len());
    let parts: Vec<Slice> =
        whole.map(|it| it.slices.chunks(each).map(Slice::joined).collect()).unwrap_or_default();
    let head = |part: &Slice| format!("{:.0} to {:.0} ms", part.at_ms, part.at_ms + part.for_ms);
    let heads: Vec<String> =
        std::iter::once("Server: p50, p99".to_string()).chain(parts.iter().map(head)).collect();
    let mut table = Table { head: heads, rows: Vec::new() };
    for picture in pictures {
        let mut cells = vec![picture.arm.to_string()];
        cells.extend(picture.slices.chunks(each).map(|part| {
            let buckets = sum(part.iter().flat_map(|it| &it.buckets).copied());
            let at = |share| words::or_none(lab::slice::quantile(&buckets, share), words::time);
            format!("{}, {}", at(0.5), at(0.99))
        }));
        cells.resize(table.head.len(), words::NONE.to_string());
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_tile_the_axis() {
        assert_eq!(edges(1_000, 5_000), [768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144]);
        assert_eq!(edges(1, 3), [1, 2, 3, 4]);
        assert_eq!(ticks(800, 2_000_000), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!((whole(10_000), whole(1_000_000_000)), ("10 µs".into(), "1 s".into()));
    }
}
