//! The plan of an exhibit: its sizes, what it measures, and how results become a page.
//!
//! A plan is the table `plan` of `exhibits/NAME.toml`. Its strings are expressions
//! ([`crate::query`]), except where they are templates with braces.

use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::{Loops, Scope};
use crate::stage::Settings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Plan {
    /// Its clients can come from another machine.
    pub visitors: bool,
    /// `--clients` changes it, although not how long it takes.
    pub clients: bool,
    /// Names for its sizes, each an expression of those before it.
    pub sizes: toml::Table,
    pub measure: Vec<Spec>,
    /// Further names, of what was measured.
    #[serde(deserialize_with = "named")]
    pub lets: Named<Value>,
    #[serde(deserialize_with = "named")]
    pub values: Named<Value>,
    pub tables: Vec<Rows>,
    /// Further columns, by part.
    #[serde(deserialize_with = "named")]
    pub heads: Named<String>,
    /// Names of the positions on a horizontal axis, by part.
    #[serde(deserialize_with = "named")]
    pub names: Named<Value>,
    /// Lines, bars and marks.
    pub series: Vec<Drawing>,
    #[serde(deserialize_with = "named")]
    pub findings: Named<Value>,
    /// Facts next to those of the text.
    pub facts: Vec<Fact>,
    /// Reasons for distrust: a condition and a template.
    pub doubts: Vec<[String; 2]>,
}

/// A fact, or one for each item of a loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    #[serde(default)]
    pub each: Loops,
    pub name: String,
    /// A template; without its value there is no fact.
    pub text: String,
}

impl Plan {
    /// The names of its expressions: choices, published figures, sizes, what was measured.
    pub fn scope(&self, settings: &Settings, results: &Results) -> Result<Scope, Fault> {
        let mut scope = Scope::new(settings, &Arc::new(results.clone()));
        scope.set_all(&self.sizes)?;
        scope.set_measured(results);
        Ok(scope)
    }
}

/// Entries in the order of the file.
pub(crate) type Named<T> = Vec<(String, T)>;

fn named<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Named<T>, D::Error> {
    let entry = |(name, value): (String, toml::Value)| {
        let read = T::deserialize(value).map_err(|why| format!("{name}: {why}"));
        read.map(|it| (name, it)).map_err(D::Error::custom)
    };
    toml::Table::deserialize(from)?.into_iter().map(entry).collect()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Plain(String),
    /// A template, or a list of them by a loop.
    Text {
        #[serde(default)]
        each: Loops,
        text: String,
    },
    /// A list by a loop; or without a loop a number and whether it is as expected.
    Items {
        #[serde(default)]
        each: Loops,
        take: String,
        /// An expression of `all` items; without a loop, whether the expectation came out.
        then: Option<String>,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    /// The part: `published`, `flawed`, `corrected` or a room.
    pub of: String,
    /// A row for each.
    #[serde(default)]
    pub each: Loops,
    /// Whether there is a row.
    #[serde(default, rename = "if")]
    pub if_: Option<String>,
    /// A template for each cell; a dash where something was not measured.
    pub row: Vec<String>,
    /// A list of further cells.
    #[serde(default)]
    pub more: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drawing {
    pub of: String,
    /// A line for each.
    #[serde(default)]
    pub each: Loops,
    #[serde(default, rename = "if")]
    pub if_: Option<String>,
    pub name: String,
    /// Published, not measured.
    #[serde(default)]
    pub published: bool,
    /// `line`, `bar`, `point`, or `line-or-point`.
    #[serde(default)]
    pub mark: String,
    /// All points: a list of pairs.
    #[serde(default)]
    pub points: Option<String>,
    /// A point for each.
    #[serde(default)]
    pub over: Loops,
    /// Its place; without one the positions are counted.
    #[serde(default)]
    pub x: Option<String>,
    /// Its height: a number, a ratio or a list of blocks.
    #[serde(default)]
    pub y: Option<String>,
}

/// A part of a plan whose fields are read by name, each an expression or a template: a measurement,
/// a server, a load. [`FIELDS`] describes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Spec(toml::Table);

impl Spec {
    /// The field `name` as `read` understands it, if it is there.
    pub fn maybe<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.text(name).map(read).transpose()
    }

    /// The field `name` as `read` understands it.
    pub fn need<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let missing = || Fault::Text(format!("a plan without `{name}`"));
        self.maybe(name, read)?.ok_or_else(missing)
    }

    /// The field `name` as it stands.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Whether the flag `name` is set.
    pub fn is(&self, name: &str) -> bool {
        self.0.get(name).and_then(toml::Value::as_bool).unwrap_or(false)
    }

    /// A list: loops, texts, or further parts; empty where there is none.
    pub fn list<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let fits = |it: &toml::Value| it.clone().try_into().expect("lists of our plans fit");
        self.0.get(name).map(fits).unwrap_or_default()
    }
}

/// The fields of each kind of measurement, of a server and of a load. All have loops (`each`); an
/// `arm` and a `point` name a cell; times are in seconds.
#[cfg(test)]
const FIELDS: [(&str, &str); 7] = [
    // Crowds of the course's clients, one after another: in each block one for each combination of
    // the loops, whose order turns round (`alternate`). The server, stopped for `hold` while they
    // connect.
    ("crowds", "blocks alternate arm point name server clients mix hold seconds"),
    // Web servers, each under all loads, which are phases of its life with `phases`.
    ("web", "blocks servers loads phases"),
    // `server` is ours, apache or python; `flags` are the module of Apache; a `file` of ours is its
    // name and the expression of its text.
    ("server", "if arm server flags directives file"),
    // Clients that request a `path`, computing for `work`, or a `mix`; guests come and go; with a
    // `ramp` clients come at that rate until the first failure.
    (
        "load",
        "if point path work mix clients guests stay ramp span warmup timeout descriptors linger",
    ),
    // A race of the laboratory: `arms` are pairs of a name and flags of `serve stock`, or of
    // another `command`, which ends with the target of its clients; `load` has further arguments of
    // the generator, `metrics` are keys.
    (
        "race",
        "question command blocks arms load point connections depth mix warmup window windows \
         metrics",
    ),
    // Senders of packets: in each block one trial for each combination of the loops, in random
    // order if `shuffled`. `time` has packets every 30 ms, without it they leave as fast as
    // possible; the `sink` is heard or freed, the `rank` a nice value or `fifo`; `crowded` runs the
    // published programs next to it, `soak` measures the whole core.
    (
        "senders",
        "blocks shuffled arm point base sender streams time packets payload sink rank crowded \
         soak seconds",
    ),
    // Code by its name in `code`, because no plan can express it.
    ("code", "name steps seconds"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXHIBITS;

    #[test]
    fn plans_have_the_fields_that_are_read() {
        fn check(place: &str, kind: &str, Spec(table): &Spec) {
            let known = FIELDS.iter().find(|it| it.0 == kind);
            let (_, known) = known.unwrap_or_else(|| panic!("{place}: no kind `{kind}`"));
            for name in table.keys().filter(|it| !["kind", "each"].contains(&it.as_str())) {
                assert!(known.split(' ').any(|it| it == name), "{place}: {kind} reads no `{name}`");
            }
            // Whatever has another form would count as absent.
            for (name, value) in table {
                let fits = match name.as_str() {
                    "alternate" | "phases" | "shuffled" | "crowded" | "soak" => value.is_bool(),
                    "each" | "servers" | "loads" | "metrics" | "file" => value.is_array(),
                    _ => value.is_str(),
                };
                assert!(fits, "{place}: {kind} has `{name}` in another form: {value}");
            }
        }
        for exhibit in EXHIBITS {
            for measure in &exhibit.text().plan.measure {
                check(exhibit.name(), measure.text("kind").unwrap_or_default(), measure);
                let parts = [("server", measure.list("servers")), ("load", measure.list("loads"))];
                for (kind, parts) in parts {
                    parts.iter().for_each(|it| check(exhibit.name(), kind, it));
                }
            }
        }
    }
}
