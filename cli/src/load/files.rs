//! The files of a run: `--hlog`, `--hgrm` and `--csv`.
//!
//! All are created before the first request, so that a wrong path does not cost a run.

use super::flags::OutputArgs;
use ::load::histogram_log::{HistogramLog, comments};
use ::load::run::{Histograms, ThreadObserver};
use ::load::{Plan, Report, Usage, csv};
use anyhow::{Context, Result};
use meter::hgrm;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Open files.
pub struct Files {
    histogram_log: Option<(PathBuf, HistogramLog)>,
    hgrm: Option<(PathBuf, File)>,
    csv: Option<(PathBuf, File)>,
}

impl Files {
    /// Creates the files that the flags name.
    ///
    /// # Errors
    /// A file cannot be created, with its flag and name.
    pub fn create(args: &OutputArgs, plan: &Plan) -> Result<Self, Usage> {
        let make = |flag: &str, path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Some((path.clone(), file))),
                Err(e) => Err(Usage(format!(
                    "expected a file that can be written for {flag}, found {}: {e}",
                    path.display()
                ))),
            },
        };
        let histogram_log = match make("--hlog", &args.hlog)? {
            None => None,
            Some((path, file)) => {
                let histogram_log = HistogramLog::begin(file, plan)
                    .map_err(|e| Usage(format!("cannot start the thread of --hlog: {e}")))?;
                Some((path, histogram_log))
            }
        };
        let (hgrm, csv) = (make("--hgrm", &args.hgrm)?, make("--csv", &args.csv)?);
        Ok(Self { histogram_log, hgrm, csv })
    }

    /// The observer to pass to the run.
    pub fn observer(&self, plan: &Plan) -> Option<ThreadObserver> {
        self.histogram_log.as_ref().map(|(_, histogram_log)| histogram_log.observer(plan))
    }

    /// Writes the final contents.
    ///
    /// # Errors
    /// Those of the files.
    pub fn finish(self, plan: &Plan, report: &Report, histograms: &Histograms) -> Result<()> {
        let named = |path: &Path| format!("write {}", path.display());
        if let Some((path, histogram_log)) = self.histogram_log {
            histogram_log.end().with_context(|| named(&path))?;
        }
        if let Some((path, file)) = self.hgrm {
            let times = match plan.model.is_scheduled() {
                true => &histograms.response,
                false => &histograms.service,
            };
            let mut comments = comments(plan);
            let without = report.failed + report.censored;
            if without > 0 {
                comments.push(format!("{without} requests have no time and are not in the table"));
            }
            hgrm::write(BufWriter::new(file), times, &comments).with_context(|| named(&path))?;
        }
        if let Some((path, file)) = self.csv {
            csv::write(BufWriter::new(file), report).with_context(|| named(&path))?;
        }
        Ok(())
    }
}
