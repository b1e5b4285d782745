//! One visit: an exhibit run with given settings, the data about that run, and its record.
//!
//! The last row of a raw file is the record: the draft with every number, and whatever is needed to
//! write the document again. So a kept run can be judged by the expectations of a later version.

use crate::draft::Draft;
use crate::exhibit::{Exhibit, Fault};
use crate::stage::{Listener, SCHEMA, Settings, Stage};
use crate::text::Text;
use document::{Conclusion, Document};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A run of an exhibit, without its words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The exhibit's name.
    pub exhibit: String,
    /// The command that repeats it.
    pub command: String,
    /// When it began, RFC 3339.
    pub date: String,
    draft: Draft,
    facts: Vec<(String, String)>,
    doubts: Vec<String>,
    scale: f64,
    scale_words: String,
    /// It was stopped before its end.
    pub interrupted: bool,
    took_s: f64,
    /// The reason why this run supports no claim, if there is one.
    excuse: Option<String>,
}

impl Kept {
    /// The document: the numbers with the words and expectations of this version.
    ///
    /// # Errors
    /// If there is no such exhibit, or its words need numbers that the run does not have.
    pub fn document(&self) -> Result<Document, Fault> {
        let unknown = || Fault::Text(format!("expected an exhibit, found `{}`", self.exhibit));
        let exhibit = crate::by_name(&self.exhibit).ok_or_else(unknown)?;
        self.written(&exhibit.text())
    }

    /// The same in the language of the process.
    ///
    /// # Errors
    /// As [`Kept::document`].
    pub fn shown(&self) -> Result<Document, Fault> {
        match (language::chosen(), crate::by_name(&self.exhibit)) {
            (Some(_), Some(exhibit)) => self.written(&Text::korean(exhibit)),
            _ => self.document(),
        }
    }

    fn written(&self, text: &Text) -> Result<Document, Fault> {
        let mut document = self.draft.document(text)?;
        document.facts.extend(self.facts.iter().cloned());
        document.doubts.splice(0..0, self.doubts.iter().cloned());
        document.schema = SCHEMA.to_string();
        document.exhibit.clone_from(&self.exhibit);
        document.scale = self.scale;
        document.scale_words.clone_from(&self.scale_words);
        document.interrupted = self.interrupted;
        document.took_s = self.took_s;
        if let Some(excuse) = &self.excuse {
            document.conclusion = Conclusion::Unresolved;
            document.concluded.clone_from(excuse);
        }
        Ok(document)
    }

    /// Reads the last record of a raw file, packed or not.
    ///
    /// # Errors
    /// If the file cannot be read, or has no record.
    pub fn read(path: &Path) -> Result<Kept, Fault> {
        let cannot = |why: &dyn std::fmt::Display| {
            Fault::File(format!("cannot read {}: {why}", path.display()))
        };
        let text = read(path).map_err(|why| cannot(&why))?;
        let last = text.lines().rev().find(|line| line.starts_with(KEPT));
        let none = "expected the record of an exhibit in its last row, found none: the run was \
                    stopped, or an older version made it";
        let row: Row =
            serde_json::from_str(last.ok_or_else(|| cannot(&none))?).map_err(|why| cannot(&why))?;
        Ok(row.kept)
    }
}

/// The longest raw file, unpacked.
const BYTES_MAX: u64 = 1 << 30;
/// The beginning of a record.
const KEPT: &str = r#"{"kept":"#;

/// The text of a raw file, which gzip(1) may have packed.
fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let packed = path.extension().is_some_and(|ending| ending == "gz");
    let bytes: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = String::new();
    bytes.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The last row of a raw file; its own key stands first.
#[derive(Serialize, Deserialize)]
struct Row {
    kept: Kept,
    row: String,
}

/// Runs an exhibit, or continues one that was stopped; arguments as in [`Stage::new`].
///
/// # Errors
/// See [`Fault`].
pub fn visit(
    exhibit: &Exhibit,
    settings: &Settings,
    room: &Path,
    raw: &Path,
    stop: Arc<AtomicBool>,
    listener: &mut dyn Listener,
) -> Result<Kept, Fault> {
    let begun = Instant::now();
    let mut stage = Stage::new(exhibit.name(), settings, room, raw, stop, listener)?;
    let draft = exhibit.show(&mut stage)?;
    let kept = Kept {
        exhibit: exhibit.name().to_string(),
        command: settings.command(exhibit.name()),
        date: stage.date().to_string(),
        draft,
        facts: stage.facts(),
        doubts: stage.doubts(),
        scale: settings.scale.factor(),
        scale_words: settings.scale.words(),
        interrupted: stage.stopped(),
        took_s: begun.elapsed().as_secs_f64(),
        excuse: stage.excuse(),
    };
    if !kept.interrupted {
        stage.record(&Row { kept: kept.clone(), row: "exhibit".to_string() })?;
    }
    Ok(kept)
}
