//! A check-up of a server: one row for each trial, with its judgement, evidence and reason.

use std::collections::BTreeMap;

use derive_more::Display;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};

/// The name and version of [`Checkup`].
pub const CHECKUP_SCHEMA: &str = "roundhouse.checkup/1";

/// A check-up, as `roundhouse checkup --json` prints it. Fields may be added, none is renamed,
/// removed or given another unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "roundhouse.checkup/1", extend("$id" = "urn:roundhouse:checkup:1"))]
pub struct Checkup {
    /// The name and version of this document.
    #[schemars(extend("const" = CHECKUP_SCHEMA))]
    pub schema: String,
    /// The server as given: a command, an address or a URL.
    pub target: String,
    /// The protocol that it speaks.
    pub protocol: String,
    /// The name by which the server calls itself, or its program's; empty if unknown.
    pub program: String,
    /// Beginning of the check-up.
    pub date: String,
    /// Version of this program.
    pub version: String,
    /// Processor, cores and kernel.
    pub machine: String,
    /// Duration, seconds.
    pub seconds: f64,
    /// The check-up was stopped before its end.
    pub interrupted: bool,
    /// Each trial, in the order in which they were made.
    pub rows: Vec<CheckupRow>,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckupRow {
    /// The part of the check-up that it belongs to.
    pub section: String,
    /// Its name for `--only`.
    pub name: String,
    /// The question that it answers, or the act.
    pub about: String,
    /// The judgement.
    pub judgement: Judgement,
    /// Observations, with numbers.
    pub evidence: String,
    /// The rule that a fault breaks, the cause of a doubt, or why the trial was not made.
    pub reason: String,
    /// Words that may help, for this server if it is known; empty without.
    pub remedy: String,
    /// The command that repeats this trial alone.
    pub repeat: String,
    /// Duration, seconds.
    pub seconds: f64,
    /// Numbers by name; those that end in `_ns` are nanoseconds.
    pub measured: BTreeMap<String, f64>,
}

/// A judgement on one trial; the better ones come first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Nothing was found.
    #[display("good")]
    Good,
    /// The trial was not made.
    #[default]
    #[display("not tried")]
    NotTried,
    /// No rule is broken, but an operator should know.
    #[display("attention")]
    Attention,
    /// A rule is broken: an RFC, a lost answer, a starved client, a leak.
    #[display("fault")]
    Fault,
}

impl Judgement {
    /// All, the worst first.
    pub const ALL: [Judgement; 4] =
        [Judgement::Fault, Judgement::Attention, Judgement::NotTried, Judgement::Good];
}

impl Checkup {
    /// The rows with a judgement.
    pub fn judged(&self, judgement: Judgement) -> impl Iterator<Item = &CheckupRow> {
        self.rows.iter().filter(move |row| row.judgement == judgement)
    }

    /// The sections with their rows, in order of first appearance.
    pub fn sections(&self) -> Vec<(&str, Vec<&CheckupRow>)> {
        let mut found: Vec<(&str, Vec<&CheckupRow>)> = Vec::new();
        for row in &self.rows {
            match found.iter_mut().find(|(name, _)| *name == row.section) {
                Some((_, rows)) => rows.push(row),
                None => found.push((&row.section, vec![row])),
            }
        }
        found
    }

    /// The result in a sentence.
    pub fn headline(&self) -> String {
        let [faults, attention, untried, good] =
            Judgement::ALL.map(|judgement| self.judged(judgement).count());
        let plural = if faults == 1 { "" } else { "s" };
        let found = format!("{faults} fault{plural}, {attention} for attention");
        format!("{found}, {good} good, {untried} not tried")
    }

    /// Number of a row that was measured under a name.
    pub fn number(&self, row: &str, name: &str) -> Option<f64> {
        self.rows.iter().find(|it| it.name == row)?.measured.get(name).copied()
    }

    /// The JSON Schema (draft 2020-12) of this document, as text.
    ///
    /// # Errors
    /// Never: a schema is text, numbers and lists.
    pub fn json_schema() -> Result<String, serde_json::Error> {
        let rules = SchemaSettings::draft2020_12().for_serialize();
        let schema = rules.into_generator().into_root_schema_for::<Checkup>();
        Ok(serde_json::to_string_pretty(&schema)? + "\n")
    }
}
