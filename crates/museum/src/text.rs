//! The texts of an exhibit: one file each in `exhibits/`, with placeholders for measurements.
//!
//! Every string of a file is a template. A sentence that depends on a result has both versions
//! there, so no prose contradicts its numbers; `met` lists the expectations that came out. A reason
//! that rests on findings names them, and is replaced where they did not come out
//! ([`crate::conclusion`]). A name in a template that the exhibit does not set is an error, and a
//! test checks every name of every file. White space is folded, so lines may break anywhere.

use crate::exhibit::Fault;
use document::{CameOut, Conclusion};
use minijinja::value::Serde;
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
    "directives" "mixes" "spare-band" "automatic-configuration"
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
    /// The conclusions that are expected; which of them may depend on the machine.
    pub expects: Vec<Conclusion>,
    pub(crate) why: Vec<Reason>,
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
    pub document: String,
    pub claim: String,
    pub source: String,
    pub address: String,
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

/// A paragraph of the explanation.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reason {
    /// Arithmetic, or a fact of the source: true whatever was measured.
    Law(String),
    /// It holds if these findings came out.
    Found {
        #[serde(rename = "if")]
        findings: Vec<String>,
        text: String,
    },
}

/// What a finding says about the published result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shows {
    /// The published figure returns under the published conditions.
    Figure,
    /// The opposite: what returns contradicts the published figure.
    Denial,
    /// The named cause makes the difference.
    Cause,
    /// The published conclusion holds without the flaw.
    Claim,
    /// A further result, which decides nothing.
    #[default]
    Detail,
}

/// An expectation about a number, written before the measurement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expectation {
    pub says: String,
    pub shows: Shows,
    /// On some machines it cannot be measured, and then decides nothing.
    pub optional: bool,
    least: Option<f64>,
    most: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
}

impl Expectation {
    /// Whether a number meets the bounds with its whole interval.
    pub fn meets(&self, value: f64, range: Option<(f64, f64)>) -> CameOut {
        let (low, high) = range.unwrap_or((value, value));
        let inside = self.least.is_none_or(|it| low >= it)
            && self.above.is_none_or(|it| low > it)
            && self.most.is_none_or(|it| high <= it)
            && self.below.is_none_or(|it| high < it);
        let outside = self.least.is_some_and(|it| high < it)
            || self.above.is_some_and(|it| high <= it)
            || self.most.is_some_and(|it| low > it)
            || self.below.is_some_and(|it| low >= it);
        match (inside, outside) {
            (true, _) => CameOut::Yes,
            (_, true) => CameOut::No,
            _ => CameOut::Open,
        }
    }
}

/// The values that templates may use.
pub(crate) type Values = BTreeMap<String, serde_json::Value>;

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
        Filler { environment, values: Value::from(Serde(values.clone())) }
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
        let mut filled = Vec::new();
        for template in templates {
            filled.push(self.fill(template)?);
        }
        filled.retain(|text| !text.is_empty());
        Ok(filled)
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
            let published = &text.published;
            let all = [&text.title, &text.about, &published.document, &published.claim];
            assert!(all.iter().all(|it| !it.is_empty()), "{name}");
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
    fn an_interval_that_reaches_over_a_bound_leaves_an_expectation_open() {
        use CameOut::{No, Open, Yes};
        fn check(expectation: &str, value: f64, range: Option<(f64, f64)>, want: CameOut) {
            let it: Expectation = toml::from_str(expectation).expect("an expectation");
            assert_eq!(it.meets(value, range), want, "{expectation} {value} {range:?}");
        }
        check("least = 1.5", 1.5, Some((1.0, 2.0)), Open);
        check("least = 1.5", 1.5, None, Yes);
        check("above = 1.5", 1.5, None, No);
        check("below = 1.0", 0.9, Some((0.8, 0.95)), Yes);
        check("below = 1.0", 0.9, Some((0.8, 1.01)), Open);
        check("below = 1.0", 1.2, Some((1.0, 1.3)), No);
        check("least = 0.8\nmost = 1.25", 1.3, None, No);
        check("least = 0.8\nmost = 1.25", 1.3, Some((1.2, 1.4)), Open);
    }

    #[test]
    fn what_is_not_set_or_not_measured_is_refused() {
        let one = ("here".to_string(), 1.into());
        let values = Values::from([one, ("none".to_string(), serde_json::Value::Null)]);
        let filler = Filler::new(&values);
        assert_eq!(filler.fill("a\n  {{ here }}").ok().as_deref(), Some("a 1"));
        assert!(filler.fill("{{ there }}").is_err() && filler.fill("{{ none }}").is_err());
    }
}
