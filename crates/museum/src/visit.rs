//! One visit: an exhibit run with given settings, and the data about that run.

use crate::exhibit::{Exhibit, Fault};
use crate::stage::{Listener, SCHEMA, Settings, Stage};
use document::Document;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Runs an exhibit; arguments as in [`Stage::new`].
///
/// # Errors
/// See [`Fault`].
pub fn visit(
    exhibit: &dyn Exhibit,
    settings: &Settings,
    room: &Path,
    raw: &Path,
    stop: Arc<AtomicBool>,
    listener: &mut dyn Listener,
) -> Result<Document, Fault> {
    let begun = Instant::now();
    let mut stage = Stage::new(exhibit.name(), settings, room, raw, stop, listener)?;
    let draft = exhibit.show(&mut stage)?;
    let mut document = draft.document(&exhibit.text())?;
    document.facts.extend(stage.facts());
    document.doubts.splice(0..0, stage.doubts());
    document.schema = SCHEMA.to_string();
    document.exhibit = exhibit.name().to_string();
    document.scale = settings.scale.factor();
    document.scale_words = settings.scale.words();
    document.interrupted = stage.stopped();
    document.took_s = begun.elapsed().as_secs_f64();
    Ok(document)
}
