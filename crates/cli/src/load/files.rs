//! The files of a run: `--hlog`, `--hgrm` and `--csv`.
//!
//! All are created before the first request, so that a wrong path does not cost a run.

use super::flags::OutputArgs;
use ::load::run::{Onlooker, Recorded};
use ::load::scribe::{Scribe, comments};
use ::load::{Plan, Report, Usage, csv};
use anyhow::{Context, Result};
use meter::hgrm;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Open files.
pub struct Files {
    scribe: Option<(PathBuf, Scribe)>,
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
        let scribe = match make("--hlog", &args.hlog)? {
            None => None,
            Some((path, file)) => {
                let scribe = Scribe::begin(file, plan)
                    .map_err(|e| Usage(format!("cannot start the thread of --hlog: {e}")))?;
                Some((path, scribe))
            }
        };
        let (hgrm, csv) = (make("--hgrm", &args.hgrm)?, make("--csv", &args.csv)?);
        Ok(Self { scribe, hgrm, csv })
    }

    /// The observer of the run that `--hlog` needs.
    pub fn onlooker(&self, plan: &Plan) -> Option<Onlooker> {
        self.scribe.as_ref().map(|(_, scribe)| scribe.onlooker(plan))
    }

    /// Writes the results.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(self, plan: &Plan, report: &Report, recorded: &Recorded) -> Result<()> {
        let named = |path: &Path| format!("write {}", path.display());
        if let Some((path, scribe)) = self.scribe {
            scribe.end().with_context(|| named(&path))?;
        }
        if let Some((path, file)) = self.hgrm {
            let times = match plan.model.is_scheduled() {
                true => &recorded.response,
                false => &recorded.service,
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
