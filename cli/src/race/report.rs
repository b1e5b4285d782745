//! `roundhouse report`: draws the report of a race again from its raw data.

use super::show;
use anyhow::{Result, bail};
use lab::condition::Condition;
use lab::doubts::doubts;
use lab::record::{Run, read};
use lab::verdict::analyse;
use language::info;
use pages::export;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `report`.
#[derive(clap::Args)]
pub struct Args {
    /// The raw data of a race, packed by gzip or not
    #[arg(default_value = "report.jsonl", value_name = "FILE")]
    file: PathBuf,
    /// Which of its runs, counted from 1 [default: the last]
    #[arg(long, value_name = "N")]
    run: Option<usize>,
    /// Exit with 99 if this is so beyond doubt, such as 'uring p99 > 1.10x epoll'; with 98 if there
    /// is no result
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Print the conclusions as JSON instead of a table
    #[arg(long)]
    print_json: bool,
    #[command(flatten)]
    files: Files,
}

/// Files that a run can be written to.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Files")]
pub struct Files {
    /// The report as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The verdicts as Markdown
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
    /// Conclusions and medians as one JSON document
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Comparisons and conditions as JUnit tests
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// The schema of --json (JSON Schema, draft 2020-12)
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

/// Draws the report. Exit code 1 if replies were wrong or nothing was measured, 99 if a condition
/// is met, 98 if one has no result, 2 if it is about an arm that the run does not have.
pub fn run(args: &Args) -> Result<ExitCode> {
    let run = pick(&args.file, args.run)?;
    let shown = show::conclude(&run, None, &[], args.print_json)?;
    args.files.write(&run, &args.fail_if)?;
    let demanded = show::conditions(&run, &args.fail_if).map_err(tools::usage)?;
    Ok(match shown.right {
        false => ExitCode::FAILURE,
        true => demanded.code.unwrap_or(ExitCode::SUCCESS),
    })
}

/// One run of a raw file.
pub fn pick(file: &Path, number: Option<usize>) -> Result<Run> {
    if !file.exists() {
        bail!(
            "expected the record of a race in {}, found no such file; `roundhouse race` and \
             `roundhouse ab` write report.jsonl",
            file.display()
        );
    }
    let mut runs = read(file)?;
    let count = runs.len();
    let number = number.unwrap_or(count);
    if number == 0 || number > count {
        bail!("{}: expected a run from 1 to {count}, found {number}", file.display());
    }
    Ok(runs.swap_remove(number - 1))
}

impl Files {
    /// Writes the requested files.
    pub fn write(&self, run: &Run, conditions: &[Condition]) -> Result<()> {
        let summary = analyse(run);
        let doubts = doubts(run, &summary);
        let put = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String>| -> Result<()> {
            let Some(path) = path else { return Ok(()) };
            tools::write(path, text()?)?;
            info!("wrote {}", path.display());
            Ok(())
        };
        put(&self.html, &|| Ok(pages::report(run, &summary, &doubts, &[])?))?;
        put(&self.md, &|| Ok(export::markdown(run, &summary, &doubts)))?;
        put(&self.json, &|| Ok(export::json(run, &summary, &doubts)?))?;
        put(&self.junit, &|| Ok(export::junit(run, &summary, conditions)))?;
        put(&self.schema, &|| Ok(export::SCHEMA_TEXT.to_string()))
    }
}
