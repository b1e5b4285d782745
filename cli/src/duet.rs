//! `roundhouse duet`: a table of comparisons of two servers each, with goals, from a plan file.

mod show;

use crate::far::Machines;
use crate::race;
use anyhow::{Context, Result, anyhow};
use lab::duet::{DuetTable, Findings, Row};
use lab::far::Far;
use lab::machine::Placement;
use lab::runner::Runner;
use lab::trial::Trial;
use language::{eprintln, info};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tools::interrupt::watch;
use tools::race::room;
use tools::{INTERRUPTED, MISSED, usage, write};
use wire::conf::span;

/// Fresh starts, and windows on each server at the most, that show that a plan works.
const QUICK: (u32, u32) = (2, 5);

/// The arguments of `duet`.
#[derive(clap::Args)]
pub struct Args {
    /// A plan with rows of two servers each (FILE.toml)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Play only the plan's rows in which one of these arms takes part
    #[arg(long, value_delimiter = ',', value_name = "ARM,…")]
    only: Vec<String>,
    /// Play two fresh pairs of five windows: shows that the plan works, resolves nothing
    #[arg(long, conflicts_with_all = ["pairs", "windows"])]
    quick: bool,
    /// Also write NAME.md and NAME.json into this folder, for the plan NAME.toml
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep this text with the results, such as a commit
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    label: String,
    /// How often each pair is restarted; an interval needs 6 [default: 8]
    #[arg(long, alias = "fresh-pairs", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Windows on each server of a pair [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Length of one window [default: 40ms]
    #[arg(long, value_parser = span, value_name = "TIME")]
    window: Option<Duration>,
    /// Load on each server before its first window [default: 200ms]
    #[arg(long, value_parser = span, value_name = "TIME")]
    warmup: Option<Duration>,
    /// The service's data that each server finds in its directory, such as the book of stocks
    /// [default: data/stock.txt, else a built-in one]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Orders and requests come from it [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print everything as one JSON document instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machines: Machines,
}

/// Plays all rows. Exit code 2 if the plan is none, 1 if replies were wrong or a row
/// brought no figure (but for a program that a plan names and that is not installed), 130 after
/// Ctrl-C, 99 if a plan's goal is missed beyond doubt.
pub fn run(args: Args) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let table = prepared(&args, &exe).map_err(usage)?;
    let findings =
        Findings { label: args.label.clone(), ..played(&table, &exe, args.machines.far()?)? };
    if args.json {
        println!("{}", serde_json::to_string(&findings)?);
    } else {
        print!("{}", show::text(&findings));
    }
    for text in &findings.broken {
        eprintln!("WRONG: {text}");
    }
    if let Some(folder) = &args.out {
        keep(&findings, folder, &args.plan.file_stem().unwrap_or_default().to_string_lossy())?;
    }
    if findings.interrupted && findings.broken.is_empty() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(match (findings.is_right(), findings.misses()) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(MISSED),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The table of the plan or of the arms, with the flags applied.
fn prepared(args: &Args, exe: &Path) -> Result<DuetTable> {
    let mut table = race::plan::duets(&args.plan, exe, args.data.as_deref())?;
    if !args.only.is_empty() {
        table.only(&args.only).map_err(|why| anyhow!(why))?;
    }
    let millis = |span: Duration| span.as_millis() as u64;
    for plan in table.rows.iter_mut().map(|row| &mut row.plan) {
        if args.quick {
            plan.blocks = QUICK.0;
            plan.turns.windows = plan.turns.windows.min(QUICK.1);
        }
        plan.turns.windows = args.windows.unwrap_or(plan.turns.windows);
        plan.blocks = args.pairs.unwrap_or(plan.blocks);
        plan.window_ms = args.window.map_or(plan.window_ms, millis);
        plan.warmup_ms = args.warmup.map_or(plan.warmup_ms, millis);
        plan.seed = args.seed.unwrap_or(plan.seed);
        plan.check()?;
    }
    Ok(table)
}

fn played(table: &DuetTable, exe: &Path, far: Option<Arc<Far>>) -> Result<Findings> {
    let (stop, room, placement) = (watch()?, room("roundhouse-duet")?, Placement::choose());
    if placement.is_none() {
        info!("doubt: only one core may be used, so nothing is pinned");
    }
    let mut findings = Findings::new(table).context("cannot identify this machine")?;
    findings.note.extend(far.iter().map(|far| format!(" {}", far.network.words())));
    let all = table.rows.len();
    for (row, number) in table.rows.iter().zip(1..) {
        info!("row {number} of {all}: {}, {}", row.name(), row.point());
        if let Some(why) = row.skip() {
            findings.skip(row, &why);
            continue;
        }
        let mut runner =
            Runner::new(&row.plan, exe, room.path(), placement, Arc::clone(&stop)).far(far.clone());
        let (trials, interrupted) = row.play(&mut runner, &stop, |trials| heard(row, trials));
        findings.take(row, &trials);
        if interrupted {
            findings.interrupted = true;
            info!("stopped; here is what is known");
            break;
        }
    }
    findings.conclude();
    Ok(findings)
}

/// A line on stderr for every figure of a fresh start of all servers.
fn heard(row: &Row, trials: &[Trial]) {
    let number = trials.first().map_or(0, |trial| trial.block + 1);
    for it in row.figures(trials) {
        let found = it.absent.clone().unwrap_or_else(|| show::found(&it));
        info!("pair {number}: {}, {}: {found}", it.name(), it.metric().name());
    }
}

fn keep(findings: &Findings, folder: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = serde_json::to_string(findings)? + "\n";
    for (ending, text) in [("md", show::markdown(findings)), ("json", json)] {
        let path = folder.join(name).with_extension(ending);
        write(&path, text)?;
        info!("wrote {}", path.display());
    }
    Ok(())
}
