//! `roundhouse explain`: why some servers of a race cost more than others.

use super::{report, show, spent};
use crate::far::veth;
use anyhow::{Context, Result};
use engines::{PRESETS, Preset};
use lab::cause::questioned;
use lab::machine::date_now;
use lab::race::RaceEvent;
use lab::record::{Recorder, Sitting};
use lab::runner::Runner;
use lab::verdict::analyse;
use language::{eprintln, info, println};
use pages::motion::Recording;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tools::interrupt::watch;
use tools::motion::{own_figures, record};
use tools::race::{Lines, room};
use tools::{usage, write};

/// The arguments of `explain`.
#[derive(clap::Args)]
pub struct Args {
    /// The raw data of a race; its last run is explained, and the counts are appended to it. Or
    /// one engine or two: where the CPU time of a request goes, over a pair of veth devices (root).
    /// With --page: one engine or two, or a recording of them (.json) [default: report.jsonl]
    #[arg(value_name = "FILE|ENGINE", num_args = 0..=2)]
    what: Vec<PathBuf>,
    /// Record each engine call by call under strace, and write a page that plays it, or in a file
    /// *.json the recording
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "json"])]
    page: Option<PathBuf>,
    /// The report to write [default: report.html next to the raw data]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the conclusions as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Starts the cheapest server and the expensive ones once more, counts their system calls, and
/// writes the report with the reasons.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(page) = &args.page {
        return play(&args.what, page);
    }
    let engine = |it: &PathBuf| PRESETS.iter().find(|preset| it.as_os_str() == preset.name);
    let engines: Vec<&Preset> = args.what.iter().filter_map(engine).collect();
    if !engines.is_empty() && engines.len() == args.what.len() {
        if args.html.is_some() || args.json {
            let why = "expected a race for --html and --json, found an engine: leave them out";
            return Err(usage(why));
        }
        return spent::run(&engines);
    }
    let last = PathBuf::from("report.jsonl");
    let file = match &args.what[..] {
        [] => &last,
        [file] => file,
        _ => return Err(usage("expected one file of a race; two engines need --page FILE")),
    };
    let mut run = report::pick(file, None)?;
    let answer = analyse(&run).answer;
    let plan = run.manifest.plan.clone();
    let page = args.html.clone().unwrap_or_else(|| file.with_extension("html"));
    if plan.points.iter().all(|point| questioned(&answer, &point.name).is_empty()) {
        eprintln!("nothing to explain: no server costs more than the cheapest beyond doubt");
        return Ok(ExitCode::SUCCESS);
    }
    let room = room("roundhouse-explain")?;
    let is_cable = run.manifest.network.as_ref().is_some_and(|network| network.is_cable);
    let far = is_cable.then(|| veth::reach(room.path())).transpose()?.map(Arc::new);
    let stop = watch()?;
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let placement = run.manifest.placement;
    let runner = Runner::new(&plan, &exe, room.path(), placement, Arc::clone(&stop));
    let mut runner = runner.far(far).own(own_figures);
    let number = run.resumed.len() as u32 + 1;
    let program = run.manifest.program.clone();
    let sitting = Sitting { number, date: date_now(), program };
    let mut recorder = Recorder::resume(file, &sitting)?;
    let mut lines = Lines::default();
    let mut observer = |event: RaceEvent<'_>| lines.hear(event);
    lab::race::explain(&mut run, &mut runner, &mut recorder, &mut observer, &stop)?;
    let shown = show::conclude(&run, Some(&page), &[], args.json)?;
    info!("the report is {}", page.display());
    Ok(if shown.right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Records engines, or reads a recording, and writes the page that plays them side by side.
fn play(what: &[PathBuf], page: &Path) -> Result<ExitCode> {
    let recordings: Vec<Recording> = match what {
        [] => {
            let why = "expected one engine or two with --page, found none; `roundhouse engines` \
                       lists them";
            return Err(usage(why));
        }
        [file] if is_json(file) => {
            let text = sys::input::read_text(file, sys::input::SMALL);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            serde_json::from_str(&text).with_context(|| {
                format!("{}: expected a recording that --page FILE.json wrote", file.display())
            })?
        }
        engines => {
            let exe = std::env::current_exe().context("cannot find this program's own file")?;
            let room = room("roundhouse-motion")?;
            let record = |name: &PathBuf| record(&name.to_string_lossy(), &exe, room.path());
            engines.iter().map(record).collect::<Result<_>>()?
        }
    };
    let text = match is_json(page) {
        true => serde_json::to_string(&recordings)?,
        false => pages::motion::motion(&recordings)?,
    };
    write(page, text)?;
    for it in &recordings {
        let (calls, tasks) = (it.calls.len(), it.tasks.len());
        println!("{}: {calls} system calls of {tasks} processes and threads", it.engine);
        it.queues.iter().for_each(|queue| println!("{queue}"));
    }
    info!("the page is {}", page.display());
    Ok(ExitCode::SUCCESS)
}

fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "json")
}
