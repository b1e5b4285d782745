//! A plain chart from plain numbers, for pages that are not about a race.

use super::{COLOURS, Chart, SYMBOLS, Table, chart, legend, short};
use crate::words;
use serde_json::{Value, json};

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drawn {
    /// Marks joined by a line.
    #[default]
    Line,
    /// Bars.
    Bar,
    /// Marks alone.
    Marks,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub title: String,
    /// Equal distances are equal factors.
    pub log: bool,
    /// Names of the places 1, 2, 3 and so on, where the axis has names instead of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// What stands at a place.
    fn told(&self, at: f64) -> String {
        let name = self.names.get((at.max(1.0) as usize) - 1);
        name.cloned().unwrap_or_else(|| number(at))
    }
}

/// One place of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct At {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// Ends of its interval, if it has one.
    pub range: Option<(f64, f64)>,
}

impl From<(f64, f64)> for At {
    fn from((x, y): (f64, f64)) -> At {
        At { x, y, range: None }
    }
}

/// Numbers that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub drawn: Drawn,
    /// A figure that somebody else published: drawn in grey and dashed.
    pub published: bool,
    /// Its places, in order.
    pub places: Vec<At>,
}

/// A chart of lines or bars over two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How to read it, in one or two sentences.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub lines: Vec<Line>,
}

/// Draws a plot; `id` is unique in its page.
pub fn plot(id: &str, plot: &Plot) -> Chart {
    let mut table = Table::new(&["Series", &plot.x.title, &plot.y.title, "Interval"]);
    let mut colours = 0..;
    let mut data = Vec::new();
    for line in &plot.lines {
        let (colour, symbol) = match line.published {
            true => ("$muted".to_string(), "circle-open"),
            false => {
                let index = colours.next().unwrap_or(0);
                (format!("$arm{}", index % COLOURS), SYMBOLS[index % SYMBOLS.len()])
            }
        };
        data.push(series(line, &colour, symbol));
        for it in &line.places {
            let range = it.range.map(|(low, high)| format!("[{}, {}]", number(low), number(high)));
            table.row(vec![
                line.name.clone(),
                plot.x.told(it.x),
                number(it.y),
                range.unwrap_or_else(|| words::NONE.to_string()),
            ]);
        }
    }
    let axis = |it: &Axis, pick: fn(&At) -> f64| {
        let kind = if it.log { "log" } else { "linear" };
        let mode = if it.log { "normal" } else { "tozero" };
        let mut axis = json!({"title": {"text": it.title}, "type": kind, "rangemode": mode,
                              "gridcolor": "$grid", "zeroline": false, "automargin": true});
        if it.log {
            let all = plot.lines.iter().flat_map(|line| line.places.iter().map(pick));
            let above = all.clone().filter(|value| *value > 0.0);
            let low = above.clone().min_by(f64::total_cmp).unwrap_or(1.0);
            let high = above.max_by(f64::total_cmp).unwrap_or(1.0);
            // Powers of ten alone where there are several, else 1, 2 and 5 between them.
            axis["dtick"] = if high / low >= 50.0 { json!(1) } else { json!("D2") };
            axis["tickformat"] = json!("~s");
        }
        axis
    };
    let mut x = axis(&plot.x, |it| it.x);
    if plot.x.log {
        let mut ticks: Vec<f64> =
            plot.lines.iter().flat_map(|line| line.places.iter().map(|it| it.x)).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        if ticks.len() <= 12 {
            x["ticktext"] = json!(ticks.iter().map(|it| number(*it)).collect::<Vec<_>>());
            x["tickvals"] = json!(ticks);
        }
    }
    if !plot.x.names.is_empty() {
        x["tickvals"] = json!((1..=plot.x.names.len()).collect::<Vec<_>>());
        x["ticktext"] = json!(plot.x.names);
        x["range"] = json!([0.5, plot.x.names.len() as f64 + 0.5]);
        x["showgrid"] = json!(false);
    }
    // Names under an axis may stand aslant and need the legend's place.
    let legend = match plot.x.names.is_empty() {
        true => legend(),
        false => json!({"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}),
    };
    let figure = json!({"data": data, "layout": {
        "margin": {"l": 8, "r": 16, "t": 4, "b": 48}, "hovermode": "closest", "legend": legend,
        "showlegend": plot.lines.len() > 1, "barmode": "group",
        "xaxis": x, "yaxis": axis(&plot.y, |it| it.y),
    }});
    chart(id, plot.title.clone(), &plot.caption, 360, &figure, table)
}

fn series(line: &Line, colour: &str, symbol: &str) -> Value {
    let x: Vec<f64> = line.places.iter().map(|it| short(it.x)).collect();
    let y: Vec<f64> = line.places.iter().map(|it| short(it.y)).collect();
    let end = |pick: fn(At, (f64, f64)) -> f64| -> Vec<f64> {
        line.places.iter().map(|it| it.range.map_or(0.0, |range| short(pick(*it, range)))).collect()
    };
    let mut trace = json!({
        "name": line.name, "x": x, "y": y,
        "hovertemplate": "%{fullData.name}: %{x:,.4~g}, %{y:,.4~g}<extra></extra>",
        "marker": {"color": colour, "symbol": symbol, "size": 8},
    });
    if line.places.iter().any(|it| it.range.is_some()) {
        trace["error_y"] = json!({
            "type": "data", "symmetric": false, "array": end(|it, range| range.1 - it.y),
            "arrayminus": end(|it, range| it.y - range.0), "color": colour, "thickness": 1.5,
            "width": 3,
        });
    }
    match line.drawn {
        Drawn::Bar => {
            trace["type"] = json!("bar");
            trace["marker"] = json!({"color": colour});
        }
        Drawn::Line | Drawn::Marks => {
            let dash = if line.published { "dash" } else { "solid" };
            trace["type"] = json!("scatter");
            trace["cliponaxis"] = json!(false);
            trace["mode"] =
                json!(if line.drawn == Drawn::Line { "lines+markers" } else { "markers" });
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
    fn a_plot_has_its_numbers_in_a_table_too() {
        let line = Line {
            name: "honest <run>".to_string(),
            places: vec![(1.0, 0.999).into(), At { x: 1_000.0, y: 761.0, range: Some((7.5, 8e3)) }],
            ..Line::default()
        };
        let drawn = plot("p", &Plot { lines: vec![line], ..Plot::default() });
        assert_eq!(drawn.table.rows[1], ["honest <run>", "1,000", "761", "[7.5, 8,000]"]);
        assert!(drawn.figure.contains("\"error_y\"") && !drawn.figure.contains('<'));
    }
}
