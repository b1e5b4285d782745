//! A document of measurements as plain values: tables, plots, sections, findings.
//!
//! The museum writes documents, `pages` draws them as HTML, the command prints them as text,
//! Markdown or JSON. None of them needs to know the others: they share these values, which are
//! serialised as they stand.

mod checkup;
mod plot;
mod table;

pub use checkup::{CHECKUP_SCHEMA, Checkup, CheckupRow, Judgement};
pub use plot::{Axis, Mark, Plot, Point, Series};
pub use table::Table;

use derive_more::Display;
use serde::{Deserialize, Serialize};

/// A published measurement, repeated with its flaw and without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Name and version of this format.
    pub schema: String,
    /// The exhibit's name on the command line.
    pub exhibit: String,
    /// Its heading.
    pub title: String,
    /// The flaw and its effect, in half a sentence.
    pub about: String,
    /// The factor by which waits were shortened.
    pub scale: f64,
    /// The same in words, shown next to every figure; empty if nothing was shortened.
    pub scale_words: String,
    /// The run was stopped before its end.
    pub interrupted: bool,
    /// The duration, seconds.
    pub took_s: f64,
    /// The result, in one sentence that a newcomer understands.
    pub headline: String,
    /// The published figure.
    pub published: Figure,
    /// The experiment with its flaw.
    pub flawed: Section,
    /// The experiment without it.
    pub corrected: Section,
    /// The reasons for the difference, paragraph by paragraph.
    pub why: Vec<String>,
    /// The lesson, in one sentence.
    pub lesson: String,
    /// Both runs and the published figure in one plot, if that helps.
    pub together: Option<Plot>,
    /// The expectations written down beforehand, and whether each came out.
    pub findings: Vec<Finding>,
    /// Their verdict on the published result.
    pub conclusion: Conclusion,
    /// The reason for it, in a sentence.
    pub concluded: String,
    /// Parameters that a reader needs to judge the runs.
    pub facts: Vec<(String, String)>,
    /// Reasons for distrust.
    pub doubts: Vec<String>,
    /// Further runs on the same subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<Section>,
}

/// A result with the way to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Its heading.
    pub title: String,
    /// The result, in one sentence.
    pub headline: String,
    /// Reasons for it, a paragraph each.
    pub sentences: Vec<String>,
    /// The steps that led to it.
    pub sections: Vec<Section>,
    /// Names and values that a reader needs to judge or repeat it.
    pub facts: Vec<(String, String)>,
    /// Reasons for distrust.
    pub doubts: Vec<String>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the document that published it, by which exhibits are grouped.
    pub document: String,
    /// The authors' conclusion, close to their words.
    pub claim: String,
    /// Author, title, year, table or figure.
    pub source: String,
    /// The address of the source, if it has one.
    pub address: String,
    /// Its numbers.
    pub numbers: Table,
}

/// One run of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// The setup.
    pub setup: String,
    /// The result, in a sentence or two.
    pub finding: String,
    /// A plot of it.
    pub plot: Option<Plot>,
    /// Its numbers.
    pub numbers: Table,
}

/// An expectation that was stated before the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its name, stable for programs.
    pub name: String,
    /// Whether it came out.
    pub came_out: CameOut,
    /// The number that decides.
    pub value: f64,
    /// The ends of its interval, if it has one.
    pub range: Option<(f64, f64)>,
    /// The expected value, in words.
    pub expected: String,
}

impl Finding {
    /// The number that decides in the words of `form`, with its interval.
    pub fn found(&self, form: impl Fn(f64) -> String) -> String {
        let value = form(self.value);
        match self.range.map(|(low, high)| (form(low), form(high))) {
            Some((low, high)) => format!("{value} [{low}, {high}]"),
            None => value,
        }
    }
}

/// Whether an expectation came out.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "snake_case")]
pub enum CameOut {
    /// The value lies outside the expectation, with its whole interval.
    #[display("NO")]
    No,
    /// The interval reaches over a bound, or there is none where one is needed.
    #[default]
    #[display("open")]
    Open,
    /// The value lies within the expectation, with its whole interval.
    #[display("yes")]
    Yes,
}

impl From<bool> for CameOut {
    fn from(holds: bool) -> CameOut {
        if holds { CameOut::Yes } else { CameOut::No }
    }
}

/// The verdict of a repetition on a published result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// The published conclusion holds here, also where the experiment is corrected.
    #[display("reproduced")]
    Reproduced,
    /// The published figure returns with the flaw, and the flaw is shown to be its cause.
    #[display("artefact explained")]
    Explained,
    /// The published figure or conclusion does not come out here.
    #[display("refuted")]
    Refuted,
    /// The data cannot decide.
    #[default]
    #[display("unresolved")]
    Unresolved,
}
