//! `roundhouse explain`: why the dearer servers of a race are dearer.

use super::{report, show};
use anyhow::{Context, Result};
use engines::Refused;
use lab::cause::questioned;
use lab::machine::date_now;
use lab::record::{Recorder, Sitting};
use lab::runner::Runner;
use lab::verdict::analyse;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tools::interrupt::watch;
use tools::race::{Lines, room};

/// The arguments of `explain`.
#[derive(clap::Args)]
pub struct Args {
    /// The raw data of a race; its last run is explained, and the counts are appended to it
    #[arg(default_value = "report.jsonl", value_name = "FILE")]
    file: PathBuf,
    /// The report to write [default: report.html beside the raw data]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the conclusions as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Starts the cheapest server and the dearer ones once more, counts their system calls, and writes
/// the report with the reasons. Exit code 2 if the race has no answer.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut run = report::pick(&args.file, None)?;
    let Some(answer) = analyse(&run).answer else {
        let why = format!(
            "{}: expected a race whose servers took turns, found one trial after another; race \
             without --full, or with --explain, which counts system calls",
            args.file.display()
        );
        return Err(Refused(why).into());
    };
    let plan = run.manifest.plan.clone();
    let page = args.html.clone().unwrap_or_else(|| args.file.with_extension("html"));
    if plan.points.iter().all(|point| questioned(&answer, &point.name).is_empty()) {
        eprintln!("nothing to explain: no server is dearer than the cheapest beyond doubt");
        return Ok(ExitCode::SUCCESS);
    }
    let stop = watch()?;
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let room = room("roundhouse-explain")?;
    let placement = run.manifest.placement;
    let mut runner = Runner::new(&plan, &exe, room.path(), placement, Arc::clone(&stop));
    let number = run.resumed.len() as u32 + 1;
    let program = run.manifest.program.clone();
    let sitting = Sitting { number, date: date_now(), program };
    let mut recorder = Recorder::resume(&args.file, &sitting)?;
    let mut lines = Lines::default();
    lab::race::explain(&mut run, &mut runner, &mut recorder, &mut lines, &stop)?;
    let shown = show::conclude(&run, Some(&page), args.json)?;
    eprintln!("the report is {}", page.display());
    Ok(if shown.right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
