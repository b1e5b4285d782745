//! One JSON document with the conclusions and the manifest; the raw data has the trials.
//!
//! Its schema lies next to this file, and a test validates a real document by it.

use lab::census::Census;
use lab::doubts::Doubt;
use lab::record::{Manifest, Pilot, Run};
use lab::verdict::Summary;
use serde::Serialize;

/// The schema's name.
pub const SCHEMA: &str = "roundhouse.report/1";
/// The schema itself (JSON Schema, draft 2020-12).
pub const SCHEMA_TEXT: &str = include_str!("report.schema.json");

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    manifest: &'a Manifest,
    finished: bool,
    summary: &'a Summary,
    doubts: &'a [Doubt],
    pilots: &'a [Pilot],
    census: &'a [Census],
}

/// The document.
///
/// # Errors
/// None in practice: all fields are strings and numbers.
pub fn json(run: &Run, summary: &Summary, doubts: &[Doubt]) -> Result<String, serde_json::Error> {
    let document = Document {
        schema: SCHEMA,
        manifest: &run.manifest,
        finished: run.finished,
        summary,
        doubts,
        pilots: &run.pilots,
        census: &run.census,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
