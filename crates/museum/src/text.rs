//! The texts of an exhibit: one file each in `exhibits/`, with placeholders for measurements.
//!
//! Every string of a file is a template. A sentence that depends on a result has both versions
//! there, so no prose contradicts its numbers; `met` lists the expectations that came out. A name
//! in a template that the exhibit does not set is an error, and a test checks every name of every
//! file. White space is folded, so lines may break anywhere.

use crate::exhibit::Fault;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter};
use serde::Deserialize;
use std::collections::BTreeMap;

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../exhibits/", $name, ".toml")))),*]
    };
}

/// The files, by the exhibits' names.
const FILES: &[(&str, &str)] = files![
    "think-time" "staircase" "accept-queue" "workload" "stock-lock" "rounded-sleep"
    "pool-heap" "pool-layout" "false-sharing" "remote-free" "path-ladder" "server-factors"
    "id-schemes" "ordered-index" "three-servers" "concurrent-clients" "computing-time"
    "directives" "mixes" "spare-band"
];

/// The texts of an exhibit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Text {
    /// Its heading.
    pub title: String,
    /// Its subject, in one line of the list.
    pub about: String,
    pub(crate) headline: String,
    pub(crate) lesson: String,
    pub(crate) why: Vec<String>,
    pub(crate) doubts: Vec<String>,
    pub(crate) facts: Vec<[String; 2]>,
    pub(crate) published: FigureText,
    pub(crate) flawed: SectionText,
    pub(crate) corrected: SectionText,
    pub(crate) together: Option<PlotText>,
    pub(crate) rooms: BTreeMap<String, SectionText>,
    pub(crate) findings: BTreeMap<String, Expectation>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FigureText {
    pub claim: String,
    pub source: String,
    pub head: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SectionText {
    pub title: String,
    pub setup: String,
    pub finding: String,
    pub head: Vec<String>,
    pub plot: Option<PlotText>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotText {
    pub title: String,
    pub caption: String,
    pub x: AxisText,
    pub y: AxisText,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AxisText {
    pub title: String,
    #[serde(default)]
    pub log: bool,
}

/// An expectation about a number, written before the measurement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expectation {
    pub says: String,
    least: Option<f64>,
    most: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    /// The whole interval must lie within the bounds; without an interval the expectation is not
    /// met.
    whole: bool,
}

impl Expectation {
    /// Whether a number with its interval meets the bounds.
    pub fn is_met(&self, value: f64, range: Option<(f64, f64)>) -> bool {
        let (low, high) = match (self.whole, range) {
            (false, _) => (value, value),
            (true, Some(range)) => range,
            (true, None) => return false,
        };
        self.least.is_none_or(|it| low >= it)
            && self.above.is_none_or(|it| low > it)
            && self.most.is_none_or(|it| high <= it)
            && self.below.is_none_or(|it| high < it)
    }
}

/// The values that templates may use.
pub(crate) type Values = BTreeMap<&'static str, Value>;

/// Fills templates.
pub(crate) struct Filler {
    environment: Environment<'static>,
    values: Value,
}

impl Filler {
    pub fn new(values: &Values) -> Filler {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(|out, state, value| match value.is_none() {
            true => Err(Error::new(ErrorKind::UndefinedError, "a value that was not measured")),
            false => escape_formatter(out, state, value),
        });
        Filler { environment, values: Value::from_pairs(values.clone()) }
    }

    /// Fills a template with its values, on one line.
    ///
    /// # Errors
    /// If the template names a value that is not set.
    pub fn fill(&self, template: &str) -> Result<String, Fault> {
        let filled = self.environment.render_str(template, self.values.clone());
        let text = filled.map_err(|why| Fault::Text(format!("{why:#}: {template}")))?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Fills all of them, and leaves out the empty ones.
    pub fn fill_all(&self, templates: &[String]) -> Result<Vec<String>, Fault> {
        let filled = templates.iter().map(|it| self.fill(it));
        let kept = filled.filter(|it| it.as_ref().map_or(true, |text| !text.is_empty()));
        kept.collect()
    }
}

impl Text {
    /// The words of an exhibit; `None` if there is no such file.
    pub fn of(name: &str) -> Option<Text> {
        let (_, text) = FILES.iter().find(|it| it.0 == name)?;
        Some(toml::from_str(text).unwrap_or_else(|why| panic!("exhibits/{name}.toml: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EXHIBITS, Settings};
    use std::collections::BTreeSet;

    /// Every string of a value.
    fn strings(value: &toml::Value, all: &mut Vec<String>) {
        match value {
            toml::Value::String(text) => all.push(text.clone()),
            toml::Value::Array(values) => values.iter().for_each(|it| strings(it, all)),
            toml::Value::Table(table) => table.values().for_each(|it| strings(it, all)),
            _ => {}
        }
    }

    #[test]
    fn every_exhibit_has_its_file_and_every_placeholder_is_filled() {
        assert_eq!(FILES.len(), EXHIBITS.len());
        for exhibit in EXHIBITS {
            let name = exhibit.name();
            let text = Text::of(name).unwrap_or_else(|| panic!("expected exhibits/{name}.toml"));
            assert!(!text.title.is_empty() && !text.about.is_empty(), "{name}");
            let draft = exhibit.nothing(&Settings::sample(0.1));
            let set: BTreeSet<String> = draft.values.keys().map(ToString::to_string).collect();
            let (_, file) = FILES.iter().find(|it| it.0 == name).expect("it was found above");
            let mut all = Vec::new();
            strings(&toml::Value::Table(file.parse().expect("it was read above")), &mut all);
            let mut named = BTreeSet::new();
            let environment = Environment::new();
            for template in &all {
                let parsed = environment.template_from_str(template);
                let parsed = parsed.unwrap_or_else(|why| panic!("{name}: {why}: {template}"));
                named.extend(parsed.undeclared_variables(false));
            }
            named.remove("met");
            let difference: Vec<&String> = named.symmetric_difference(&set).collect();
            assert!(difference.is_empty(), "{name}: named or set, not both: {difference:?}");
            let document = draft.document(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!document.headline.is_empty() && !document.lesson.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_expectation_of_a_whole_interval_needs_one() {
        fn check(expectation: &str, value: f64, range: Option<(f64, f64)>, want: bool) {
            let it: Expectation = toml::from_str(expectation).expect("an expectation");
            assert_eq!(it.is_met(value, range), want, "{expectation} {value} {range:?}");
        }
        check("least = 1.5", 1.5, Some((1.0, 2.0)), true);
        check("above = 1.5", 1.5, None, false);
        check("below = 1.0\nwhole = true", 0.9, Some((0.8, 0.95)), true);
        check("below = 1.0\nwhole = true", 0.9, Some((0.8, 1.01)), false);
        check("below = 1.0\nwhole = true", 0.9, None, false);
        check("least = 0.8\nmost = 1.25", 1.3, None, false);
    }

    #[test]
    fn what_is_not_set_or_not_measured_is_refused() {
        let values = Values::from([("here", Value::from(1)), ("none", Value::from(()))]);
        let filler = Filler::new(&values);
        assert_eq!(filler.fill("a\n  {{ here }}").ok().as_deref(), Some("a 1"));
        assert!(filler.fill("{{ there }}").is_err() && filler.fill("{{ none }}").is_err());
    }
}
