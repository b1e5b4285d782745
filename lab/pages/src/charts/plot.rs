//! A plain chart from plain numbers.
//!
//! Races, exhibits and the tuner describe a plot as titles, axes and series of points; this file
//! turns it into a figure and its table. Colours follow the names of the arms, so that an arm looks
//! the same in every plot of a page. The drawing library labels a logarithmic axis badly when its
//! ends are close, so `factor_ticks` places at least three readable numbers.

use super::{COLOURS, Chart, Look, SYMBOLS, rounded, short};
use crate::words;
use document::{Axis, Mark, Plot, Point, Series, Table};
use serde_json::{Value, json};

fn label(axis: &Axis, at: f64) -> String {
    let name = axis.names.get((at.max(1.0) as usize) - 1);
    name.cloned().unwrap_or_else(|| number(at))
}

/// The colour of a series is that of its place in `names`, unless another series of the plot has
/// that one.
pub fn by_names<'n>(names: &'n [&str]) -> impl FnMut(&Series) -> Look + 'n {
    let mut used = Vec::new();
    move |line| {
        let mut index = names.iter().position(|name| *name == line.name).unwrap_or(0);
        while used.len() < COLOURS && used.contains(&(index % COLOURS)) {
            index += 1;
        }
        used.push(index % COLOURS);
        let colour = format!("$arm{}", index % COLOURS);
        Look { colour, symbol: SYMBOLS[index % SYMBOLS.len()] }
    }
}

/// Draws a plot; `id` is unique in its page, `look` the look of each measured series.
pub fn plot(id: &str, plot: &Plot, look: &mut dyn FnMut(&Series) -> Look) -> Chart {
    let mut table = Table::new(&["Series", &plot.x.title, &plot.y.title, "Interval"]);
    let mut data = Vec::new();
    for line in &plot.series {
        let look = match line.published {
            true => Look { colour: "$muted".to_string(), symbol: "circle-open" },
            false => look(line),
        };
        data.push(series(line, &look));
        for it in &line.points {
            let range = it.range.map(|(low, high)| format!("[{}, {}]", number(low), number(high)));
            table.row(vec![
                line.name.clone(),
                label(&plot.x, it.x),
                number(it.y),
                range.unwrap_or_else(|| words::NONE.to_string()),
            ]);
        }
    }
    let places = || plot.series.iter().flat_map(|line| &line.points);
    let ys: Vec<f64> = places().flat_map(ends).collect();
    let y = axis(&plot.y, &wrapped(&plot.y.title), &ys);
    let xs: Vec<f64> = places().map(|it| it.x).collect();
    let mut x = axis(&plot.x, &plot.x.title, &xs);
    if plot.x.log
        && let Some(ticks) = measured_ticks(xs)
    {
        x["ticktext"] = json!(ticks.iter().map(|it| number(*it)).collect::<Vec<_>>());
        x["tickvals"] = json!(ticks);
    }
    if !plot.x.names.is_empty() {
        x["tickvals"] = json!((1..=plot.x.names.len()).collect::<Vec<_>>());
        x["ticktext"] = json!(plot.x.names);
        x["range"] = json!([0.5, plot.x.names.len() as f64 + 0.5]);
        x["showgrid"] = json!(false);
    }
    let is_stacked = plot.series.iter().any(|it| it.mark == Mark::Part);
    // Slanted names under an axis need the legend's place.
    let (place, anchor) = if plot.x.names.is_empty() { (-0.25, "top") } else { (1.02, "bottom") };
    let legend = json!({"orientation": "h", "y": place, "yanchor": anchor, "x": 0,
                        "traceorder": "normal"});
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend,
        "showlegend": plot.series.len() > 1, "barmode": if is_stacked { "stack" } else { "group" },
        "xaxis": x, "yaxis": y,
    }});
    let figure = figure.to_string().replace('<', "\\u003c");
    let (title, caption) = (plot.title.clone(), plot.caption.clone());
    Chart { id: id.to_string(), title, caption, height: 360, figure, table }
}

/// A place's value and the ends of its interval.
fn ends(it: &Point) -> impl Iterator<Item = f64> {
    [it.y].into_iter().chain(it.range.into_iter().flat_map(|(low, high)| [low, high]))
}

/// An axis that covers `values`.
fn axis(it: &Axis, title: &str, values: &[f64]) -> Value {
    let kind = if it.log { "log" } else { "linear" };
    let mode = if it.log { "normal" } else { "tozero" };
    let mut axis = json!({"title": {"text": title}, "type": kind, "rangemode": mode,
                          "gridcolor": "$grid", "zeroline": false, "automargin": true});
    if it.log {
        let above = || values.iter().copied().filter(|value| *value > 0.0);
        let low = above().min_by(f64::total_cmp).unwrap_or(1.0);
        let high = above().max_by(f64::total_cmp).unwrap_or(1.0);
        let ticks = factor_ticks(low, high);
        axis["ticktext"] = json!(ticks.iter().map(|it| brief(*it)).collect::<Vec<_>>());
        axis["tickvals"] = json!(ticks);
    }
    axis
}

/// Ticks of an axis of factors: six numbers at equal factors from `low` to `high`, with as few
/// digits as leave three of them between its ends. The drawing library's own ticks left one when
/// all values lay between 1 and 2, and wrote `500m` for a half.
fn factor_ticks(low: f64, high: f64) -> Vec<f64> {
    let cut = |digits: i32| {
        let at = |step: i32| low * (high / low).powf(f64::from(step) / 5.0);
        let mut all: Vec<f64> = (0..=5).map(|step| rounded(at(step), digits)).collect();
        all.dedup();
        all
    };
    let inside = |all: &[f64]| all.iter().filter(|it| (low..=high).contains(*it)).count();
    (1..5).map(cut).find(|it| inside(it) >= 3).unwrap_or_else(|| cut(5))
}

/// The places that were measured, as ticks, unless they are too many; of two that would overlap
/// the first.
fn measured_ticks(mut places: Vec<f64>) -> Option<Vec<f64>> {
    /// Of the axis, so that five digits fit at 500 pixels.
    const APART: f64 = 0.07;
    places.retain(|it| *it > 0.0);
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() > 12 {
        return None;
    }
    let width = (places.last()? / places.first()?).ln();
    let mut kept: Vec<f64> = Vec::new();
    for it in places {
        if kept.last().is_none_or(|last| (it / last).ln() >= APART * width) {
            kept.push(it);
        }
    }
    Some(kept)
}

/// Breaks a title in two if it is longer than the axis.
fn wrapped(title: &str) -> String {
    /// Letters next to a plot of usual height.
    const FITS: usize = 32;
    if title.chars().count() <= FITS {
        return title.to_string();
    }
    let middle = title.len() / 2;
    let spaces = title.match_indices(' ').map(|(at, _)| at);
    match spaces.min_by_key(|at| at.abs_diff(middle)) {
        Some(at) => format!("{}<br>{}", &title[..at], &title[at + 1..]),
        None => title.to_string(),
    }
}

/// A number on an axis: `0.05`, `200`, `10k`, `2M`.
fn brief(value: f64) -> String {
    match value {
        it if it >= 1e6 => format!("{}M", short(it / 1e6)),
        it if it >= 1e4 => format!("{}k", short(it / 1e3)),
        _ => number(value),
    }
}

fn series(line: &Series, Look { colour, symbol }: &Look) -> Value {
    let x: Vec<f64> = line.points.iter().map(|it| short(it.x)).collect();
    let y: Vec<f64> = line.points.iter().map(|it| short(it.y)).collect();
    let end = |pick: fn(Point, (f64, f64)) -> f64| -> Vec<f64> {
        line.points.iter().map(|it| it.range.map_or(0.0, |range| short(pick(*it, range)))).collect()
    };
    let mut trace = json!({
        "name": line.name, "x": x, "y": y,
        "hovertemplate": "%{fullData.name}: %{x:,.4~g}, %{y:,.4~g}<extra></extra>",
        "marker": {"color": colour, "symbol": symbol, "size": 8},
    });
    if line.points.iter().any(|it| it.range.is_some()) {
        trace["error_y"] = json!({
            "type": "data", "symmetric": false, "array": end(|it, range| range.1 - it.y),
            "arrayminus": end(|it, range| it.y - range.0), "color": colour, "thickness": 1.5,
            "width": 3,
        });
    }
    match line.mark {
        Mark::Bar | Mark::Part => {
            trace["type"] = json!("bar");
            trace["marker"] = json!({"color": colour});
        }
        Mark::Line | Mark::Point => {
            let dash = if line.published { "dash" } else { "solid" };
            trace["type"] = json!("scatter");
            trace["cliponaxis"] = json!(false);
            trace["mode"] =
                json!(if line.mark == Mark::Line { "lines+markers" } else { "markers" });
            trace["line"] = json!({"color": colour, "width": 2, "dash": dash});
        }
    }
    trace
}

/// A number with as many digits as it deserves.
fn number(value: f64) -> String {
    match value.abs() {
        it if it >= 1_000.0 => words::grouped(value),
        it if it >= 100.0 => format!("{value:.0}"),
        _ => format!("{}", short(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_factors_has_numbers_that_can_be_read() {
        fn check(low: f64, high: f64, want: &[&str]) {
            let found: Vec<String> = factor_ticks(low, high).into_iter().map(brief).collect();
            assert_eq!(found, want, "{low} to {high}");
        }
        check(0.05, 1.02, &["0.05", "0.09", "0.2", "0.3", "0.6", "1"]);
        check(1.0, 1.9, &["1", "1.1", "1.3", "1.5", "1.7", "1.9"]);
        check(3.0, 40_000.0, &["3", "20", "100", "900", "6,000", "40k"]);
        check(0.96, 1.0, &["0.96", "0.97", "0.98", "0.99", "1"]);
        for (low, high) in [(0.99, 1.01), (0.03, 0.031), (1e-3, 1.3e-3), (1.0002, 1.0043)] {
            let inside = |it: &&f64| (low..=high).contains(*it);
            let ticks = factor_ticks(low, high);
            assert!(ticks.iter().filter(inside).count() >= 3, "{low} to {high}: {ticks:?}");
        }
        assert_eq!(factor_ticks(2.0, 2.0), [2.0]);
    }

    #[test]
    fn ticks_that_would_overlap_are_left_out() {
        let bytes = vec![8.0, 16.0, 64.0, 128.0, 136.0, 8.0];
        assert_eq!(measured_ticks(bytes), Some(vec![8.0, 16.0, 64.0, 128.0]));
        assert_eq!(measured_ticks((1..20).map(f64::from).collect()), None);
        assert_eq!(wrapped("requests/s"), "requests/s");
        let long = "time / that of a map with one lock";
        assert_eq!(wrapped(long), "time / that of a<br>map with one lock");
    }

    #[test]
    fn a_plot_has_its_numbers_in_a_table_too() {
        let line = Series {
            name: "honest <run>".to_string(),
            points: vec![
                (1.0, 0.999).into(),
                Point { x: 1_000.0, y: 761.0, range: Some((7.5, 8e3)) },
            ],
            ..Series::default()
        };
        let it = Plot { series: vec![line], ..Plot::default() };
        let drawn = plot("p", &it, &mut by_names(&[]));
        assert_eq!(drawn.table.rows[1], ["honest <run>", "1,000", "761", "[7.5, 8,000]"]);
        assert!(drawn.figure.contains("\"error_y\"") && !drawn.figure.contains('<'));
    }
}
