//! `roundhouse race`: servers against each other, with verdicts.
//!
//! The plan comes from flags, from a TOML file or from an earlier record. The race appends each
//! record to `report.jsonl` as a line, and all output is drawn from there. So Ctrl-C loses nothing,
//! a second call continues, and `roundhouse report` can draw the report of a race again.

pub mod ab;
mod checkout;
mod flags;
mod own;
pub mod plan;
mod preflight;
mod show;
mod spent;

pub mod explain;
pub mod report;

use crate::far::Machines;
use anyhow::{Context, Result};
use lab::command::Named;
use lab::condition::Condition;
use lab::live::Live;
use lab::machine::{Placement, date_now};
use lab::plan::{Arm, Plan};
use lab::race::{Outcome, RaceEvent};
use lab::record::{Manifest, Recorder, Run, Sitting};
use lab::runner::Runner;
use language::info;
use preflight::Preflight;
use stats::words;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tools::interrupt::watch;
use tools::race::{Lines, Screen, room};
use tools::{INTERRUPTED, usage};
use wire::conf::span;

/// The arguments of `race`.
#[derive(clap::Args)]
pub struct Args {
    /// Service to race on: stock, web, echo, a plan (FILE.toml), or the record of a race to repeat
    /// (FILE.jsonl)
    #[arg(default_value = "stock", value_name = "PLAN|SERVICE")]
    what: String,
    /// Engines of ours or known foreign servers [default: all engines, and the usual foreign
    /// servers that are installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    arms: Option<Vec<String>>,
    /// A further server, `NAME=COMMAND`: `{port}` in the command is replaced by a free port,
    /// `{host}` by the address, `{dir}` by the trial's directory (with stock.txt, or www/); without
    /// `{port}` it must print `{"listening": "HOST:PORT"}` first. `NAME=@epoll --edge` is an engine
    /// of ours with flags, `NAME=@nginx worker_processes=4` a known server with directives
    #[arg(long, value_name = "NAME=COMMAND")]
    arm: Vec<Named>,
    /// How the market's replies end, of all arms that are engines or commands or, as NAME=FRAMING,
    /// of one: line, fixed:8192 (the course's servers), eof; engines get the flag too
    #[arg(long, value_name = "[NAME=]FRAMING", hide_short_help = true)]
    framing: Vec<String>,
    /// The arm that the others are divided by [default: epoll, else the first]
    #[arg(long, value_name = "NAME")]
    vs: Option<String>,
    /// Also measure speed and, at half the load of the slowest arm, response times, in longer
    /// windows. --dry-run says how long that takes
    #[arg(long)]
    full: bool,
    /// Blocks: each restarts every arm; an interval needs 6 [default: until the answer is
    /// known or the budget is used up; with more than the cost 10]
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    blocks: Option<u32>,
    /// The time after which no block begins, once there are six [default: 78s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    // A heading goes on to the flags that follow, so those without one stand first.
    #[command(flatten)]
    conduct: Conduct,
    #[command(flatten)]
    own: own::Own,
    #[command(flatten)]
    points: flags::Points,
    #[command(flatten)]
    sizes: flags::Sizes,
}

/// How a race is run and what becomes of it, whatever its plan.
#[derive(clap::Args)]
pub struct Conduct {
    /// Where report.html and report.jsonl are written
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
    /// Start over, even if report.jsonl holds a race of this plan that was stopped
    #[arg(long)]
    fresh: bool,
    /// Say what would be raced and how long it would take, and race nothing
    #[arg(long)]
    dry_run: bool,
    /// Then explain why some servers cost more: further runs count system calls. `roundhouse
    /// explain` does that after the race
    #[arg(long)]
    explain: bool,
    /// Exit with 99 if this is so beyond doubt, such as 'uring p99 > 1.10x epoll' or, of every
    /// other arm, 'cpu > 1.05x old'; with 98 if there is no result
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Write a summary for a pull request as Markdown; `github` adds it to the page of the job in
    /// GitHub Actions
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Add the figures of this race to FILE as a line of JSON; the page shows the last 30 races
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Print the conclusions as JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machines: Machines,
}

/// Servers that the generator may be unable to talk to; then the race ends after their first trial
/// and gives this advice.
#[derive(Default)]
struct Foreign {
    arms: BTreeSet<String>,
    advice: &'static str,
}

/// Runs the race of the arguments. Exit codes of [`conduct`].
pub fn run(args: &Args) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let plan = plan::plan(args, &exe).map_err(usage)?;
    let program = exe.display().to_string();
    // An engine that refuses the service is a row, but the baseline must be measured.
    let counts = |arm: &&Arm| args.own.service.is_none() || arm.name == plan.baseline;
    let foreign = plan.arms.iter().filter(|arm| arm.command.first() != Some(&program));
    let foreign = Foreign {
        arms: foreign.filter(counts).map(|arm| arm.name.clone()).collect(),
        advice: "A race asks over the market's protocol (`race stock`) or over HTTP (`race web`); \
                 --framing NAME=fixed:8192 names the framing of the market's replies",
    };
    conduct(&plan, &args.conduct, &exe, foreign)
}

/// Runs the race and writes the report. Exit code 1 if a reply or a balance was wrong or nothing
/// could be measured, 2 if the plan, a condition or a foreign server cannot be used, 130 if the
/// race was stopped, 99 if a condition is met, 98 if one has no result.
fn conduct(plan: &Plan, args: &Conduct, exe: &Path, foreign: Foreign) -> Result<ExitCode> {
    plan.check().map_err(usage)?;
    // A condition about a missing arm would never fail.
    let asked =
        Run { manifest: Manifest { plan: plan.clone(), ..Manifest::default() }, ..Run::default() };
    if let Some(Err(why)) = args.fail_if.iter().map(|it| it.ask(&asked)).find(Result::is_err) {
        return Err(usage(why));
    }
    args.summary.as_deref().map(show::summary_file).transpose().map_err(usage)?;
    show::warn(plan);
    if args.dry_run {
        show::plan(plan, plan.expected_ms());
        return Ok(ExitCode::SUCCESS);
    }
    let stop = watch()?;
    let begun = Instant::now();
    let outcome = race(args, plan, exe, foreign, &stop)?;
    if outcome.interrupted {
        let done = outcome.run.trials.len();
        info!(
            "stopped after {done} of {} trials; here is what is known. The same command goes on.",
            plan.trials()
        );
    }
    let page = args.out.join("report.html");
    let history = args.history.as_ref().map(|file| show::history(&outcome.run, file));
    let history = history.transpose()?.unwrap_or_default();
    let shown = show::conclude(&outcome.run, Some(&page), &history, args.json)?;
    if args.machines.veth {
        crate::far::veth::show(&outcome.run);
    }
    let raw = args.out.join("report.jsonl");
    info!(
        "{:.0} s; the report is {}, the raw data {}",
        begun.elapsed().as_secs_f64(),
        page.display(),
        raw.display()
    );
    let demanded = show::conditions(&outcome.run, &args.fail_if)?;
    if let Some(file) = &args.summary {
        show::summary(&outcome.run, file, &page, &demanded)?;
    }
    Ok(match demanded.code {
        _ if shown.broken || (!shown.right && !outcome.interrupted) => ExitCode::FAILURE,
        _ if outcome.interrupted => ExitCode::from(INTERRUPTED),
        Some(code) => code,
        None => ExitCode::SUCCESS,
    })
}

/// Runs the plan, or the rest of it.
fn race(
    args: &Conduct,
    plan: &Plan,
    exe: &Path,
    foreign: Foreign,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome> {
    let room = room("roundhouse-race")?;
    let placement = Placement::choose();
    let (version, commit) = (env!("CARGO_PKG_VERSION"), option_env!("ROUNDHOUSE_COMMIT"));
    let far = args.machines.far()?;
    let network = far.as_ref().map(|far| far.network.clone());
    let manifest = Manifest::describe(plan, exe, version, commit, placement)?;
    let manifest = Manifest { network, ..manifest };
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let raw = args.out.join("report.jsonl");
    let (known, mut recorder) = record(args, &raw, manifest)?;
    announce(&known, placement);
    let runner = Runner::new(plan, exe, room.path(), placement, Arc::clone(stop));
    let mut runner = runner.far(far).own(tools::motion::own_figures);
    let live = Live::new(&known.manifest);
    let (screen, mut lines) = (Screen::open(&live), Lines::default());
    let mut preflight = Preflight::new(foreign, stop);
    let mut observer = |event: RaceEvent<'_>| {
        // The screen draws the events of `live`.
        if screen.is_none() {
            lines.hear(event);
        }
        live.hear(event);
        preflight.hear(event);
    };
    let mut outcome = lab::race::run(known, &mut runner, &mut recorder, &mut observer, stop)?;
    if args.explain && !outcome.interrupted {
        lab::race::explain(&mut outcome.run, &mut runner, &mut recorder, &mut observer, stop)?;
    }
    if let Some(why) = preflight.refused {
        return Err(usage(why));
    }
    drop(screen);
    Ok(outcome)
}

/// Opens the raw file: at the end of a stopped race of this plan and program, or with a new race.
fn record(args: &Conduct, raw: &Path, manifest: Manifest) -> Result<(Run, Recorder)> {
    let last = if raw.exists() && !args.fresh { lab::record::read(raw)?.pop() } else { None };
    let same = |run: &Run| {
        let before = &run.manifest;
        (&before.plan_hash, &before.program) == (&manifest.plan_hash, &manifest.program)
    };
    if let Some(mut run) = last.filter(|run| !run.finished && same(run)) {
        let number = run.resumed.len() as u32 + 1;
        let sitting = Sitting { number, date: date_now(), program: manifest.program };
        let recorder = Recorder::resume(raw, &sitting)?;
        run.resumed.push(sitting);
        return Ok((run, recorder));
    }
    let recorder = Recorder::begin(raw, &manifest)?;
    Ok((Run { manifest, ..Run::default() }, recorder))
}

fn announce(known: &Run, placement: Option<Placement>) {
    let plan = &known.manifest.plan;
    let done = known.trials.len() as u64;
    let all = u64::from(plan.trials());
    let seconds = plan.expected_ms() * (all - done.min(all)) / all.max(1) / 1_000;
    let twin = if plan.twin { " and a twin" } else { "" };
    let (arms, points) = (plan.arms.len(), plan.points.len());
    let length = match plan.turns.budget_ms {
        Some(_) => format!("in about {seconds} s"),
        None => format!("{} blocks, about {seconds} s", plan.blocks),
    };
    let points = words::counted(points as u64, "load point");
    info!("{arms} servers{twin} take turns at {points}, {length}");
    if !known.resumed.is_empty() {
        info!("going on with the race of {}: {done} trials are there", known.manifest.date);
    }
    if placement.is_none() {
        info!("doubt: only one core may be used, so nothing is pinned");
    }
}
