//! The measurements of an exhibit: values for its words, rows, series and findings.

use crate::conclusion;
use crate::exhibit::Fault;
use crate::text::{FigureText, Filler, PlotText, SectionText, Text, Values};
use document::{Axis, CameOut, Document, Figure, Finding, Plot, Section, Series, Table};
use serde::{Deserialize, Serialize};

/// The numbers of an exhibit, without a word; [`Text`] has those.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Draft {
    pub(crate) values: Values,
    pub(crate) published: Part,
    pub(crate) flawed: Part,
    /// The run without it.
    pub(crate) corrected: Part,
    pub(crate) together: Part,
    pub(crate) rooms: Vec<(String, Part)>,
    pub(crate) findings: Vec<Measured>,
    /// Facts next to those of the text.
    pub(crate) facts: Vec<(String, String)>,
}

/// A number that was expected to be something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub name: String,
    pub value: f64,
    pub range: Option<(f64, f64)>,
    /// Decided by the exhibit, where a bound cannot say it.
    pub came_out: Option<CameOut>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// Columns after those of the text.
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) series: Vec<Series>,
    /// Names of the positions on the horizontal axis.
    pub(crate) names: Vec<String>,
}

impl Part {
    fn table(&self, filler: &Filler, head: &[String]) -> Result<Table, Fault> {
        let mut table = Table::default();
        for name in head {
            table.head.push(filler.fill(name)?);
        }
        table.head.extend(self.head.iter().cloned());
        // Records of an earlier museum have more columns.
        let width = table.head.len();
        self.rows.iter().for_each(|row| table.row(&row[..row.len().min(width)]));
        Ok(table)
    }

    fn plot(&self, filler: &Filler, text: Option<&PlotText>) -> Result<Option<Plot>, Fault> {
        let Some(text) = text.filter(|_| !self.series.is_empty()) else { return Ok(None) };
        let axis = |title: &str, log, names| {
            Ok::<Axis, Fault>(Axis { title: filler.fill(title)?, log, names })
        };
        Ok(Some(Plot {
            title: filler.fill(&text.title)?,
            caption: filler.fill(&text.caption)?,
            x: axis(&text.x.title, text.x.log, self.names.clone())?,
            y: axis(&text.y.title, text.y.log, Vec::new())?,
            series: self.series.clone(),
        }))
    }

    fn section(&self, filler: &Filler, text: &SectionText) -> Result<Section, Fault> {
        Ok(Section {
            title: filler.fill(&text.title)?,
            setup: filler.fill(&text.setup)?,
            finding: filler.fill(&text.finding)?,
            plot: self.plot(filler, text.plot.as_ref())?,
            numbers: self.table(filler, &text.head)?,
        })
    }

    fn figure(&self, filler: &Filler, text: &FigureText) -> Result<Figure, Fault> {
        Ok(Figure {
            document: text.document.clone(),
            claim: filler.fill(&text.claim)?,
            source: filler.fill(&text.source)?,
            address: text.address.clone(),
            numbers: self.table(filler, &text.head)?,
        })
    }
}

impl Draft {
    /// Gives the templates a value; `None` is a value too, by which they choose a sentence.
    pub fn set(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("values are strings and numbers");
        self.values.insert(name.to_string(), value);
    }

    fn findings(&self, filler: &Filler, text: &Text) -> Result<Vec<Finding>, Fault> {
        let mut findings = Vec::new();
        for Measured { name, value, range, came_out } in &self.findings {
            // A record of an earlier version may have more than this one expects.
            let Some(wanted) = text.findings.get(name) else { continue };
            let came_out = came_out.unwrap_or_else(|| wanted.meets(*value, *range));
            let (name, expected) = (name.clone(), filler.fill(&wanted.says)?);
            findings.push(Finding { name, came_out, value: *value, range: *range, expected });
        }
        Ok(findings)
    }

    /// Combines the words and the numbers.
    ///
    /// # Errors
    /// [`Fault::Text`] if they do not match.
    pub fn document(&self, text: &Text) -> Result<Document, Fault> {
        let findings = self.findings(&Filler::new(&self.values, text.is_korean), text)?;
        let met = findings.iter().filter(|it| it.came_out == CameOut::Yes);
        let mut values = self.values.clone();
        values.insert("met".to_string(), met.map(|it| it.name.as_str()).collect());
        let filler = Filler::new(&values, text.is_korean);
        let mut facts = Vec::new();
        for [name, value] in &text.facts {
            facts.push((filler.fill(name)?, filler.fill(value)?));
        }
        facts.retain(|(_, value)| !value.is_empty());
        facts.extend(self.facts.iter().cloned());
        let (conclusion, concluded) = conclusion::of(&findings, text);
        let mut rooms = Vec::new();
        for (name, part) in &self.rooms {
            let Some(text) = text.rooms.get(name) else { continue };
            rooms.push(part.section(&filler, text)?);
        }
        Ok(Document {
            title: text.title.clone(),
            headline: filler.fill(&text.headline)?,
            published: self.published.figure(&filler, &text.published)?,
            flawed: self.flawed.section(&filler, &text.flawed)?,
            corrected: self.corrected.section(&filler, &text.corrected)?,
            rooms,
            why: filler.fill_all(&conclusion::reasons(&findings, text))?,
            conclusion,
            concluded,
            about: text.about.clone(),
            lesson: filler.fill(&text.lesson)?,
            together: self.together.plot(&filler, text.together.as_ref())?,
            findings,
            facts,
            doubts: filler.fill_all(&text.doubts)?,
            ..Document::default()
        })
    }
}
