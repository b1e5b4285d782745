//! Charts as plotly.js figures: data and layout, without separate colours.
//!
//! A colour is a token `$name`; the page's script replaces it by the style sheet's value, so that
//! light, dark and paper each have their own and this module knows none of them. Each figure comes
//! with its [`Table`]: readers who cannot see the chart, or whose browser runs no script, get the
//! same numbers.

mod cost;
mod curve;
mod history;
mod plot;
mod search;
mod tail;
mod timeline;

pub use cost::{census, costs};
pub use curve::{Series, sweeps};
pub use history::{Past, PastFigure, history};
pub(crate) use plot::plot;
pub use search::{capacities, overloads};
pub use tail::tails;
pub use timeline::timeline;

use document::Table;
use lab::plan::Plan;
use serde::Serialize;
use serde_json::{Value, json};

/// The number of arm colours in the style sheet; further arms begin again with another symbol.
const COLOURS: usize = 7;

/// Marker symbols, for readers who cannot tell the colours apart.
const SYMBOLS: [&str; 7] =
    ["circle", "square", "diamond", "triangle-up", "star", "triangle-down", "hexagon"];

/// One chart and its words.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its id in the page.
    pub id: String,
    /// The title of the chart.
    pub title: String,
    /// A reading aid, in one or two sentences.
    pub caption: String,
    /// Height in pixels.
    pub height: usize,
    /// `{data, layout}` as JSON that is safe inside a script element.
    pub figure: String,
    /// The same numbers.
    pub table: Table,
}

/// Makes a chart of `{data, layout}`; `caption` explains how to read it.
pub(crate) fn chart(
    id: &str,
    title: String,
    caption: &str,
    height: usize,
    figure: &Value,
    table: Table,
) -> Chart {
    let figure = figure.to_string().replace('<', "\\u003c");
    let (id, caption) = (id.to_string(), caption.to_string());
    Chart { id, title, caption, height, figure, table }
}

/// A chart's figure with its words in the chosen language.
pub(crate) fn translated(figure: &str) -> String {
    let Ok(mut value) = serde_json::from_str(figure) else { return figure.to_string() };
    translate(&mut value);
    value.to_string().replace('<', "\\u003c")
}

fn translate(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(translate),
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "text" | "title" | "name" | "hovertemplate" | "ticktext" => words(value),
                    _ => translate(value),
                }
            }
        }
        _ => {}
    }
}

fn words(value: &mut Value) {
    match value {
        Value::String(text) => *text = language::tr(text).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(words),
        other => translate(other),
    }
}

/// The look of an arm in every chart of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub colour: String,
    pub symbol: &'static str,
}

/// The look of the arm `name`: the baseline in the colour of ink, its twin in grey, each other arm
/// in a separate colour.
pub(crate) fn look(plan: &Plan, name: &str) -> Look {
    if plan.twin && name == plan.twin_name() {
        return Look { colour: "$muted".to_string(), symbol: "circle-open" };
    }
    if name == plan.baseline {
        return Look { colour: "$base".to_string(), symbol: "circle" };
    }
    let others = plan.arms.iter().filter(|arm| arm.name != plan.baseline);
    let index = others.clone().position(|arm| arm.name == name).unwrap_or(0);
    Look {
        colour: format!("$arm{}", index % COLOURS),
        symbol: SYMBOLS[(1 + index + index / COLOURS) % SYMBOLS.len()],
    }
}

/// Five significant digits: more would only make the page larger.
pub(crate) fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powf(4.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

/// Nanoseconds as microseconds, or null.
pub(crate) fn micros(ns: Option<f64>) -> Value {
    ns.map_or(Value::Null, |ns| json!(short(ns / 1e3)))
}

/// An axis of times in microseconds, logarithmic, with ticks that read `10 µs`, `1 ms`, `1 s`.
pub(crate) fn time_axis(title: &str) -> Value {
    let ticks: Vec<f64> =
        (0..8).flat_map(|power| [1.0, 3.0].map(|it| it * 10_f64.powi(power))).collect();
    let texts: Vec<String> = ticks
        .iter()
        .map(|&us| match us {
            us if us < 1e3 => format!("{us:.0} µs"),
            us if us < 1e6 => format!("{:.0} ms", us / 1e3),
            us => format!("{:.0} s", us / 1e6),
        })
        .collect();
    json!({"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": texts,
           "gridcolor": "$grid", "zeroline": false, "automargin": true})
}

/// The legend's place: beneath the chart.
pub(crate) fn legend() -> Value {
    json!({"orientation": "h", "y": -0.25, "yanchor": "top", "x": 0, "traceorder": "normal"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cut_to_five_digits() {
        fn check(value: f64, want: f64) {
            assert_eq!(short(value), want);
        }
        check(0.0, 0.0);
        check(123_456.789, 123_460.0);
        check(-0.001_234_567, -0.001_234_6);
        check(f64::INFINITY, f64::INFINITY);
    }

    #[test]
    #[should_panic(expected = "fits its table")]
    fn a_row_that_does_not_fit_is_refused() {
        Table::new(&["arm", "speed"]).row(vec!["epoll".to_string()]);
    }
}
