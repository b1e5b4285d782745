//! The common parts of every page: the templates, the style sheet, the chart script.
//!
//! All values are computed in Rust; a template only places words and escapes them all. Only parts
//! that this crate makes are marked safe: style sheet, scripts, packed plotly.js, SVG strips and
//! chart figures.

use crate::charts::translated;
use crate::glossary::{TERMS, Term};
use crate::script;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context, escape_formatter};
use serde::Serialize;

/// The reason why there is no page: a template and its data do not fit, a mistake in this crate.
pub use minijinja::Error as PageError;

/// The files that templates are made of, by the names that they include each other by.
const TEMPLATES: &[(&str, &str)] = &[
    ("frame.html", include_str!("assets/frame.html")),
    ("macros.html", include_str!("assets/macros.html")),
    ("report.html", include_str!("assets/report.html")),
    ("exhibit.html", include_str!("assets/exhibit.html")),
    ("account.html", include_str!("assets/account.html")),
    ("checkup.html", include_str!("assets/checkup.html")),
    ("results.html", include_str!("assets/results.html")),
    ("results.md", include_str!("assets/results.md")),
    ("exhibit.md", include_str!("assets/exhibit.md")),
    ("motion.html", include_str!("assets/motion.html")),
];

/// The pages that are drawn in the chosen language.
const TRANSLATED: [&str; 4] = ["report.html", "exhibit.html", "account.html", "checkup.html"];

/// The page's own mark, so that no browser asks a server for one.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='6.5' fill='none' stroke='%23607080' \
    stroke-width='2'/%3E%3Cpath d='M8 2v12' stroke='%23c8641b' stroke-width='2'/%3E%3C/svg%3E";

/// The permissions of a page that is a file: only its own script, and no requests.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    img-src data: blob:; base-uri 'none'; form-action 'none'";

/// Whether a page carries the chart script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charts {
    /// The page carries it, two megabytes.
    Packed,
    /// The page draws nothing, or without a script.
    None,
}

impl Charts {
    /// The script, where there is something to draw.
    pub(crate) fn needed(is_drawn: bool) -> Charts {
        if is_drawn { Charts::Packed } else { Charts::None }
    }
}

/// Whether each column holds words: they stand at the left, numbers at the right.
fn text_columns(rows: Vec<Vec<String>>) -> Vec<bool> {
    let is_text = |cell: &String| {
        let first = cell.chars().next().unwrap_or('0');
        !first.is_ascii_digit() && !"+-−–[<>≤≥~±".contains(first)
    };
    let texts = |at: usize| rows.iter().filter(|row| is_text(&row[at])).count();
    (0..rows.first().map_or(0, Vec::len)).map(|at| texts(at) * 2 > rows.len()).collect()
}

/// Fills the template `name` with `view`.
pub(crate) fn render(
    name: &str,
    charts: Charts,
    view: &impl Serialize,
) -> Result<String, PageError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    // A template that shows or walks through what the page does not have is a mistake.
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    let is_translated = TRANSLATED.contains(&name) && language::chosen().is_some();
    for (name, text) in TEMPLATES {
        match is_translated {
            true => environment.add_template_owned(*name, language::template(text).into_owned())?,
            false => environment.add_template(name, text)?,
        }
    }
    if is_translated {
        environment.set_formatter(|out, state, value| match value.as_str() {
            Some(text) if !value.is_safe() => {
                escape_formatter(out, state, &Value::from(language::tr(text).as_ref()))
            }
            _ => escape_formatter(out, state, value),
        });
    }
    environment.add_filter("figure", move |figure: String| match is_translated {
        true => translated(&figure),
        false => figure,
    });
    environment.add_filter("text_columns", text_columns);
    let plotly = match charts {
        Charts::Packed => Some(script::packed()),
        Charts::None => None,
    };
    let terms: &[Term] = &TERMS;
    let shell = context! {
        style => include_str!("assets/frame.css"),
        code => include_str!("assets/charts.js"),
        icon => ICON,
        policy => POLICY,
        lang => if is_translated { language::code() } else { "en" },
        terms => Value::from(Serde(terms)),
        plotly,
    };
    let all = context! { ..Value::from(Serde(view)), ..shell };
    environment.get_template(name)?.render(all)
}
