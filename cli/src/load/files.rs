//! The file of a run: `--hlog`.
//!
//! It is created before the first request, so that a wrong path does not cost a run.

use super::flags::OutputArgs;
use ::load::histogram_log::HistogramLog;
use ::load::{Plan, Usage};
use std::fs::File;

/// The log that the flags name.
///
/// # Errors
/// The file cannot be created, with its flag and name.
pub fn create(args: &OutputArgs, plan: &Plan) -> Result<Option<HistogramLog>, Usage> {
    let Some(path) = &args.hlog else { return Ok(None) };
    let file = File::create(path).map_err(|error| {
        Usage(format!(
            "expected a file that can be written for --hlog, found {}: {error}",
            path.display()
        ))
    })?;
    let log = HistogramLog::begin(file, plan)
        .map_err(|error| Usage(format!("cannot start the thread of --hlog: {error}")))?;
    Ok(Some(log))
}
