//! The texts of an exhibit: one file each in `exhibits/`, with placeholders for measurements.
//!
//! Every string of a file is a template. A sentence that depends on a result has both versions
//! there, so no prose contradicts its numbers; `met` lists the expectations that came out. A reason
//! that rests on findings names them, and is replaced where they did not come out
//! ([`crate::conclusion`]). A name in a template that the exhibit does not set is an error, and a
//! test checks every name of every file. White space is folded, so lines may break anywhere.
//!
//! `exhibits/ko/` has the same files in Korean. They need no heading, title or head of a table,
//! which pages translate by the catalogue of `language`; a test demands all the rest.

use crate::exhibit::{Exhibit, Fault};
use crate::plan::Plan;
use document::{CameOut, Conclusion};
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, escape_formatter};
use serde::Deserialize;
use std::collections::BTreeMap;

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
    /// Its sizes, measurements and numbers.
    pub(crate) plan: Plan,
    /// It is in Korean, and so must the values be that it is filled with.
    #[serde(skip)]
    pub(crate) is_korean: bool,
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

/// The bearing of a finding on the published result.
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

/// The reason why a template has no text.
pub(crate) const NOT_MEASURED: &str = "not measured";

/// An environment in which unknown names and values that were not measured are errors.
pub(crate) fn environment(is_korean: bool) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(move |out, state, value| match value.as_str() {
        _ if value.is_none() => Err(Error::new(ErrorKind::UndefinedError, NOT_MEASURED)),
        Some(text) if is_korean => {
            escape_formatter(out, state, &Value::from(language::tr(text).as_ref()))
        }
        _ => escape_formatter(out, state, value),
    });
    environment
}

pub(crate) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) struct Filler {
    environment: Environment<'static>,
    values: Value,
    is_korean: bool,
}

impl Filler {
    pub fn new(values: &Values, is_korean: bool) -> Filler {
        let mut environment = environment(is_korean);
        if is_korean {
            environment.add_filter("join", |items: Vec<Value>, joint: &str| {
                let items = items.iter().map(|it| language::tr(&it.to_string()).into_owned());
                items.collect::<Vec<_>>().join(joint)
            });
        }
        Filler { environment, values: Value::from(Serde(values.clone())), is_korean }
    }

    /// Fills a template with its values, on one line.
    ///
    /// # Errors
    /// If the template names a value that is not set.
    pub fn fill(&self, template: &str) -> Result<String, Fault> {
        let filled = self.environment.render_str(template, self.values.clone());
        let text = filled.map_err(|why| Fault::Text(format!("{why:#}: {template}")))?;
        let text = folded(&text);
        Ok(if self.is_korean { language::with_particles(text) } else { text })
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
    /// The words of an exhibit in English.
    pub fn of(exhibit: &Exhibit) -> Text {
        let name = exhibit.name();
        toml::from_str(exhibit.files[0]).unwrap_or_else(|why| panic!("exhibits/{name}.toml: {why}"))
    }

    /// The same in Korean, with English where pages translate by themselves.
    pub fn korean(exhibit: &Exhibit) -> Text {
        let name = exhibit.name();
        let read = |text: &str| text.parse().map(toml::Value::Table);
        let [text, korean] = exhibit.files;
        let both = read(text).and_then(|text| Ok((text, read(korean)?)));
        let merged = both.and_then(|(mut text, korean)| {
            lay(&mut text, korean);
            Ok(Text { is_korean: true, ..text.try_into()? })
        });
        merged.unwrap_or_else(|why| panic!("exhibits/ko/{name}.toml: {why}"))
    }
}

/// Lays the values of `over` over those of `text`: tables by key, lists of one length by place. A
/// text replaces that of a paragraph, whose conditions stay.
fn lay(text: &mut toml::Value, over: toml::Value) {
    match (text, over) {
        (toml::Value::Table(text), toml::Value::Table(over)) => {
            for (key, value) in over {
                match text.get_mut(&key) {
                    Some(old) => lay(old, value),
                    None => drop(text.insert(key, value)),
                }
            }
        }
        (toml::Value::Array(text), toml::Value::Array(over)) if text.len() == over.len() => {
            text.iter_mut().zip(over).for_each(|(text, over)| lay(text, over));
        }
        (toml::Value::Table(text), over) => drop(text.insert("text".to_string(), over)),
        (text, over) => *text = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EXHIBITS, Settings};
    use std::collections::BTreeSet;

    fn strings(place: &str, value: &toml::Value, all: &mut Vec<(String, String)>) {
        match value {
            toml::Value::String(text) => all.push((place.to_string(), text.clone())),
            toml::Value::Array(values) => values
                .iter()
                .enumerate()
                .for_each(|(at, it)| strings(&format!("{place}.{at}"), it, all)),
            // A paragraph with its conditions.
            toml::Value::Table(table) if table.contains_key("if") => {
                strings(place, &table["text"], all);
            }
            toml::Value::Table(table) => {
                table.iter().for_each(|(key, it)| strings(&format!("{place}.{key}"), it, all));
            }
            _ => {}
        }
    }

    /// The strings of a file, without its plan.
    fn read(file: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut table: toml::Table = file.parse().expect("a test reads it whole");
        // Its strings are expressions.
        table.remove("plan");
        strings("", &toml::Value::Table(table), &mut all);
        all
    }

    /// The values that templates name.
    fn named(all: &[(String, String)]) -> BTreeSet<String> {
        let environment = Environment::new();
        let mut named = BTreeSet::new();
        for (place, template) in all {
            let parsed = environment.template_from_str(template);
            let parsed = parsed.unwrap_or_else(|why| panic!("{place}: {why}: {template}"));
            named.extend(parsed.undeclared_variables(false));
        }
        named.remove("met");
        named
    }

    #[test]
    fn every_exhibit_has_its_file_and_every_placeholder_is_filled() {
        for exhibit in EXHIBITS {
            let name = exhibit.name();
            let text = exhibit.text();
            let published = &text.published;
            let all = [&text.title, &text.about, &published.document, &published.claim];
            assert!(all.iter().all(|it| !it.is_empty()), "{name}");
            let draft = exhibit.nothing(&Settings::sample(0.1));
            let draft = draft.unwrap_or_else(|why| panic!("{name}: {why}"));
            let set: BTreeSet<String> = draft.values.keys().map(ToString::to_string).collect();
            let [english, korean] = exhibit.files.map(read);
            let difference: Vec<String> =
                named(&english).symmetric_difference(&set).cloned().collect();
            assert!(difference.is_empty(), "{name}: named or set, not both: {difference:?}");
            let document = draft.document(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!document.headline.is_empty() && !document.lesson.is_empty(), "{name}");
            is_translated(name, &english, &korean, &set);
            let text = Text::korean(exhibit);
            draft.document(&text).unwrap_or_else(|why| panic!("{name}, in Korean: {why}"));
        }
    }

    /// Checks that all words of an exhibit have a Korean text, here or in the catalogue, and that
    /// nothing is translated that is not there.
    #[track_caller]
    fn is_translated(
        name: &str,
        english: &[(String, String)],
        korean: &[(String, String)],
        set: &BTreeSet<String>,
    ) {
        let catalogue = language::korean();
        let is_word = |word: &str| word.bytes().filter(u8::is_ascii_lowercase).count() > 2;
        let names = ["select", "pool", "epoll", "epoll / select", "pool / select"];
        let of_programs = |place: &str| {
            ["expects", "shows", "address"].iter().any(|key| place.split('.').any(|it| it == *key))
        };
        let lacks = |(place, text): &&(String, String)| {
            let found = korean.iter().any(|it| it.0 == *place) || catalogue.exact(text).is_some();
            let needed = text.split(' ').any(is_word) && !names.contains(&text.as_str());
            !found && needed && !of_programs(place)
        };
        let lacking: Vec<_> = english.iter().filter(lacks).collect();
        assert!(lacking.is_empty(), "{name}: no Korean for {lacking:#?}");
        for (place, _) in korean {
            assert!(english.iter().any(|it| it.0 == *place), "{name}: no English for {place}");
        }
        let unknown: Vec<String> = named(korean).difference(set).cloned().collect();
        assert!(unknown.is_empty(), "{name}: not set: {unknown:?}");
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
        let filler = Filler::new(&values, false);
        assert_eq!(filler.fill("a\n  {{ here }}").ok().as_deref(), Some("a 1"));
        assert!(filler.fill("{{ there }}").is_err() && filler.fill("{{ none }}").is_err());
    }
}
