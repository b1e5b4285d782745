//! Charts as plotly.js figures: data and layout, without separate colours.
//!
//! Every chart is a plain plot of series; `race` and `history` say which, and `plot` draws them.
//!
//! A colour is a token `$name`; the page's script replaces it by the style sheet's value, so that
//! light, dark and paper each have their own and this module knows none of them. Each figure comes
//! with its [`Table`]: readers who cannot see the chart, or whose browser runs no script, get the
//! same numbers.

mod history;
mod plot;
mod race;

pub use history::{Past, PastFigure, history};
pub(crate) use plot::{by_names, plot};
pub use race::{Curve, capacities, census, costs, overloads, sweeps, tails, timeline};

use document::{Axis, Plot, Series, Table};
use lab::plan::Plan;
use serde::Serialize;
use serde_json::Value;

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

/// A plot of these series, with its title and caption and the axes x and y.
pub(crate) fn described(
    [title, caption]: [&str; 2],
    [x, y]: [Axis; 2],
    series: Vec<Series>,
) -> Plot {
    Plot { title: title.to_string(), caption: caption.to_string(), x, y, series }
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
    rounded(value, 5)
}

/// A value with this many significant digits.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
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
}
