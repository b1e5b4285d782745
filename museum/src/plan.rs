//! The plan of an exhibit: its sizes, what it measures, and how results become a page.
//!
//! A plan is the table `plan` of `exhibits/NAME.toml`. Its strings are expressions
//! ([`crate::query`]), except where they are templates with braces.

use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::{Loops, Scope};
use crate::stage::Settings;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

/// The plan of an exhibit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Plan {
    /// Its clients can come from another machine.
    pub visitors: bool,
    /// `--clients` changes it, although not how long it takes.
    pub clients: bool,
    /// Names for its sizes, each an expression of those before it.
    pub sizes: toml::Table,
    /// Its measurements, one after another.
    pub measure: Vec<Measure>,
    /// Further names, of what was measured.
    #[serde(deserialize_with = "named")]
    pub lets: Named<Value>,
    /// Values for the words.
    #[serde(deserialize_with = "named")]
    pub values: Named<Value>,
    /// Rows.
    pub tables: Vec<Rows>,
    /// Further columns, by part.
    #[serde(deserialize_with = "named")]
    pub heads: Named<String>,
    /// Names of the positions on a horizontal axis, by part.
    #[serde(deserialize_with = "named")]
    pub names: Named<Value>,
    /// Lines, bars and marks.
    pub series: Vec<Drawing>,
    /// The numbers of the expectations.
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
    /// The loop.
    #[serde(default)]
    pub each: Loops,
    /// Its name, a template.
    pub name: String,
    /// A template; without its value there is no fact.
    pub text: String,
}

impl Plan {
    /// The names of its expressions: choices, published figures, sizes, what was measured.
    ///
    /// # Errors
    /// If a size is wrong.
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

/// A value of the plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// An expression.
    Plain(String),
    /// A list of texts, a loop.
    Texts {
        /// The loop.
        each: Loops,
        /// A template.
        text: String,
    },
    /// A template.
    Text {
        /// The template.
        text: String,
    },
    /// A list, a loop; or without a loop a number and whether it is as expected.
    Items {
        /// The loop.
        #[serde(default)]
        each: Loops,
        /// An expression.
        take: String,
        /// An expression of `all` items; without a loop, whether the expectation came out.
        then: Option<String>,
    },
}

/// Rows of a table.
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

/// Lines of a plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drawing {
    /// The part.
    pub of: String,
    /// A line for each.
    #[serde(default)]
    pub each: Loops,
    /// Whether there is one.
    #[serde(default, rename = "if")]
    pub if_: Option<String>,
    /// Its name, a template.
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

/// One way to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// Crowds of the course's clients, one after another.
    Crowds(Crowds),
    /// Web servers and their clients, in blocks.
    Web(Web),
    /// A race of the laboratory.
    Race(Race),
    /// Senders of packets.
    Senders(Senders),
    /// Code, because no plan can express it.
    Code(Code),
}

/// Crowds: in each block one for each combination of the loops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crowds {
    /// How often.
    pub blocks: String,
    /// The loops.
    pub each: Loops,
    /// Their order turns round from block to block.
    #[serde(default)]
    pub alternate: bool,
    /// The names of its cell, templates.
    pub arm: String,
    /// The point's.
    pub point: String,
    /// The name of a crowd; without one that of the arm.
    #[serde(default)]
    pub name: Option<String>,
    /// The server's flags, a template.
    pub server: String,
    /// The number of clients.
    pub clients: String,
    /// The mix of orders, a template.
    pub mix: String,
    /// The time for which the server is stopped while they connect, seconds.
    #[serde(default)]
    pub hold: Option<String>,
    /// The duration of a crowd, seconds.
    pub seconds: String,
}

/// Servers, each under all loads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Web {
    /// How often.
    pub blocks: String,
    /// The servers.
    pub servers: Vec<Servers>,
    /// Their loads.
    pub loads: Vec<Load>,
    /// The servers go through all loads one after another without a stop; a load is a phase.
    #[serde(default)]
    pub phases: bool,
}

/// Servers of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Servers {
    /// A server for each.
    #[serde(default)]
    pub each: Loops,
    /// Whether there is one.
    #[serde(default, rename = "if")]
    pub if_: Option<String>,
    /// Its name, a template.
    pub arm: String,
    /// `ours`, `apache` or `python`.
    pub server: String,
    /// Flags of ours and of Python's, a template; the module of Apache.
    pub flags: String,
    /// Apache's directives: a list of pairs.
    #[serde(default)]
    pub directives: Option<String>,
    /// A file of ours: its name and the expression of its text.
    #[serde(default)]
    pub file: Option<[String; 2]>,
}

/// Clients of the servers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    /// A load for each.
    pub each: Loops,
    /// Whether a server has this load.
    #[serde(rename = "if")]
    pub if_: Option<String>,
    /// Its name, a template.
    pub point: String,
    /// The path that they request, a template; without one the server computes.
    pub path: Option<String>,
    /// How long it computes, seconds.
    pub work: Option<String>,
    /// Several paths with weights, a template.
    pub mix: Option<String>,
    /// Clients that stay.
    pub clients: String,
    /// Clients that come and go.
    pub guests: Option<String>,
    /// How long they stay, seconds.
    pub stay: Option<String>,
    /// Clients that come a second, until the first failure.
    pub ramp: Option<String>,
    /// The duration, seconds.
    pub span: String,
    /// Of which this does not count.
    pub warmup: Option<String>,
    /// The limit on a stalled reply.
    pub timeout: Option<String>,
    /// Descriptors of the client program.
    pub descriptors: Option<String>,
    /// The time for which the server is watched after the clients have left.
    pub linger: Option<String>,
}

/// A race: arms and load points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Race {
    /// The question.
    pub question: String,
    /// How often.
    pub blocks: String,
    /// The arms: pairs of a name and flags of `serve stock`.
    pub arms: String,
    /// Further arguments of the generator, a template.
    #[serde(default)]
    pub load: String,
    /// A load point for each.
    pub each: Loops,
    /// Its name, a template.
    pub point: String,
    /// Connections.
    pub connections: String,
    /// Requests in flight on each.
    pub depth: String,
    /// The mix of requests, a template.
    pub mix: String,
    /// Load before the windows, seconds.
    pub warmup: String,
    /// The length of a window, seconds.
    pub window: String,
    /// Windows on each server.
    pub windows: String,
    /// The compared metrics, by their keys.
    pub metrics: Vec<String>,
}

/// Senders: in each block one trial for each combination of the loops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Senders {
    /// How often.
    pub blocks: String,
    /// The loops; `senders` has the names of those that work here.
    pub each: Loops,
    /// Their order in a block is random.
    #[serde(default)]
    pub shuffled: bool,
    /// The names of its cell, templates.
    pub arm: String,
    /// The point's.
    pub point: String,
    /// The arm whose twin is among them.
    #[serde(default)]
    pub base: Option<String>,
    /// The sender, a template.
    pub sender: String,
    /// Streams.
    pub streams: String,
    /// Seconds of packets every 30 ms; or else packets as fast as possible.
    #[serde(default)]
    pub time: Option<String>,
    /// Packets of a stream.
    #[serde(default)]
    pub packets: Option<String>,
    /// Bytes of a packet.
    pub payload: String,
    /// `heard`, or `freed` where such a device can be made.
    pub sink: String,
    /// A nice value, or `fifo`.
    #[serde(default)]
    pub rank: Option<String>,
    /// The published programs run next to it.
    #[serde(default)]
    pub crowded: bool,
    /// The cost of the whole core is measured too.
    #[serde(default)]
    pub soak: bool,
    /// The duration of a trial, seconds.
    pub seconds: String,
}

/// Code.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Code {
    /// Its name in [`crate::code`].
    pub name: String,
    /// Steps.
    pub steps: String,
    /// The duration of a step, seconds.
    pub seconds: String,
}
