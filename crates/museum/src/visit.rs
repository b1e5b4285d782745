//! One visit: an exhibit run with given settings, and everything that is known about that run.

use crate::exhibit::{Exhibit, Fault};
use crate::showing::{Room, Showing};
use crate::stage::{Listener, SCHEMA, Settings, Stage};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// An exhibit that was run, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Visit {
    /// [`SCHEMA`].
    pub schema: String,
    /// The exhibit's name.
    pub exhibit: String,
    /// Its heading.
    pub title: String,
    /// The factor by which waits were shortened.
    pub scale: f64,
    /// What stands beside every figure; empty if nothing was shortened.
    pub scale_words: String,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// How long it took, seconds.
    pub took_s: f64,
    /// What was shown.
    #[serde(flatten)]
    pub showing: Showing,
    /// Further rooms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<Room>,
}

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
) -> Result<Visit, Fault> {
    let begun = Instant::now();
    let mut stage = Stage::new(exhibit.name(), settings, room, raw, stop, listener)?;
    let mut showing = exhibit.show(&mut stage)?;
    showing.facts.extend(stage.facts());
    showing.doubts.splice(0..0, stage.doubts());
    let rooms = stage.rooms();
    Ok(Visit {
        schema: SCHEMA.to_string(),
        exhibit: exhibit.name().to_string(),
        title: exhibit.title().to_string(),
        scale: settings.scale.factor(),
        scale_words: settings.scale.words(),
        interrupted: stage.stopped(),
        took_s: begun.elapsed().as_secs_f64(),
        showing,
        rooms,
    })
}
