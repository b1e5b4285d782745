//! `roundhouse race`: engines against each other on the stock market, with verdicts.

mod interrupt;
mod progress;
mod room;
mod stock;
mod table;
mod words;

pub use interrupt::watch;
pub use room::Room;
pub use stock::{FILE, book};
pub use words::Named;

use crate::live;
use anyhow::{Context, Result};
use lab::doubts::{Weight, doubts};
use lab::machine::Placement;
use lab::plan::Plan;
use lab::record::{Manifest, Recorder};
use lab::floor::Floor;
use lab::live::Live;
use lab::verdict::{Summary, analyse};
use load::parse::span;
use progress::Progress;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Which service is raced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Service {
    /// The stock market.
    Stock,
}

/// The arguments of `race`.
#[derive(clap::Args)]
pub struct Args {
    /// The service
    #[arg(value_enum, default_value = "stock")]
    service: Service,
    /// Engines to race
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "iterative,epoll,prefork,uring"
    )]
    arms: Vec<String>,
    /// A further server, `NAME=COMMAND`: `{port}` in the command is replaced by a free port,
    /// `{dir}` by the directory that holds stock.txt; without `{port}` it must print
    /// `{"listening": "HOST:PORT"}` first
    #[arg(long, value_name = "NAME=COMMAND")]
    arm: Vec<Named>,
    /// The arm that the others are divided by
    #[arg(long, default_value = "epoll", value_name = "NAME")]
    vs: String,
    /// Blocks: each runs every arm once at every depth; an interval needs 6, a claim 10
    #[arg(long, default_value_t = 6, value_name = "N")]
    blocks: u32,
    /// Requests in flight on each connection, one load point each
    #[arg(long, value_delimiter = ',', default_value = "1,16", value_name = "N,…")]
    depths: Vec<u32>,
    /// Connections at one time
    #[arg(long, default_value_t = 8, value_name = "N")]
    connections: u32,
    /// The mix of requests, such as show=5,buy=50,sell=45
    #[arg(long, default_value = "show=5,buy=50,sell=45", value_name = "MIX")]
    mix: load::Mix,
    /// The book of stocks; every trial gets its own copy, with plenty of each stock
    /// [default: data/stock.txt, else a built-in one]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Load before each window
    #[arg(long, default_value = "150ms", value_parser = span, value_name = "TIME")]
    warmup: Duration,
    /// Length of the window that is measured in each trial
    #[arg(long, default_value = "600ms", value_parser = span, value_name = "TIME")]
    window: Duration,
    /// Arms closer together than this are equivalent, in percent
    #[arg(long, default_value_t = 3.0, value_name = "PERCENT")]
    margin: f64,
    /// Orders and requests come from it
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Run without the baseline's twin
    #[arg(long)]
    no_twin: bool,
    /// Where report.html and report.jsonl are written
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    live: live::Flag,
    /// Print the conclusions as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the race and writes the report. Exit code 1 if a reply or a balance was wrong or nothing
/// could be measured.
pub fn run(args: Args) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let plan = plan(&args, &exe)?;
    if let Err(bad) = plan.check() {
        eprintln!("roundhouse race: {bad}");
        return Ok(ExitCode::from(2));
    }
    let stop = interrupt::watch()?;
    let room = Room::new("roundhouse-race")?;
    let placement = Placement::choose();
    let (version, commit) = (env!("CARGO_PKG_VERSION"), option_env!("ROUNDHOUSE_COMMIT"));
    let manifest = Manifest::describe(&plan, &exe, version, commit, placement)?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let raw = args.out.join("report.jsonl");
    let mut recorder = Recorder::begin(&raw, &manifest)?;
    announce(&plan, placement);
    let mut floor = Floor::new(&plan, &exe, &room.0, placement, stop.clone());
    let mut progress = Progress::new();
    let live = Live::new(&manifest);
    let shown = args.live.live.map(|address| live::open(address, &live)).transpose()?;
    let mut observer = live::Both(&mut progress, live);
    let begun = Instant::now();
    let outcome = lab::race::run(&manifest, &mut floor, &mut recorder, &mut observer, &stop)?;
    drop(progress);
    if outcome.interrupted {
        let done = outcome.run.trials.iter().filter(|trial| trial.counted).count();
        eprintln!("stopped after {done} of {} trials; here is what is known", plan.trials());
    }
    let summary = analyse(&outcome.run);
    let doubts = doubts(&outcome.run, &summary);
    let page = args.out.join("report.html");
    std::fs::write(&page, pages::report(&outcome.run, &summary, &doubts)?)
        .with_context(|| format!("cannot write {}", page.display()))?;
    if let Some(shown) = shown {
        shown.report(page.clone());
    }
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        show(&plan, &summary);
    }
    for doubt in doubts.iter().filter(|doubt| doubt.weight != Weight::Limit) {
        let mark = if doubt.weight == Weight::Grave { "WRONG" } else { "doubt" };
        eprintln!("{mark}: {}", doubt.text);
    }
    let (page, raw) = (page.display(), raw.display());
    eprintln!("{:.0} s; the report is {page}, the raw data {raw}", begun.elapsed().as_secs_f64());
    let measured =
        summary.points.iter().flat_map(|point| &point.arms).any(|arm| arm.absent.is_none());
    let right = summary.broken.is_empty() && (measured || outcome.interrupted);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(args: &Args, exe: &Path) -> Result<Plan> {
    let Service::Stock = args.service;
    let mix = format!("show={},buy={},sell={}", args.mix.show, args.mix.buy, args.mix.sell);
    let engines = args.arms.iter().filter(|name| !name.is_empty());
    let arms: Vec<_> = engines
        .map(|name| stock::engine(exe, name))
        .chain(args.arm.iter().cloned().map(stock::foreign))
        .collect();
    let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let label = match args.blocks {
        0..10 => "smoke",
        10..12 => "claim",
        _ => "publish",
    };
    Ok(Plan {
        question: format!("Which serves the stock market best: {}?", either(&names)),
        label: label.to_string(),
        baseline: args.vs.clone(),
        twin: !args.no_twin,
        points: args
            .depths
            .iter()
            .map(|&depth| stock::point(args.connections, depth, &mix))
            .collect(),
        blocks: args.blocks,
        seed: args.seed,
        warmup_ms: args.warmup.as_millis() as u64,
        window_ms: args.window.as_millis() as u64,
        margin: args.margin / 100.0,
        files: vec![stock::book(args.data.as_deref())?],
        arms,
        ..Plan::default()
    })
}

/// `a`, `a or b`, `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

fn announce(plan: &Plan, placement: Option<Placement>) {
    let trial_ms = plan.warmup_ms + plan.window_ms + 150;
    let seconds = u64::from(plan.trials()) * trial_ms / 1_000;
    eprintln!(
        "{} race: {} arms{}, {} load points, {} blocks: {} trials, about {seconds} s",
        plan.label,
        plan.arms.len(),
        if plan.twin { " and a twin" } else { "" },
        plan.points.len(),
        plan.blocks,
        plan.trials()
    );
    if placement.is_none() {
        eprintln!("doubt: only one core may be used, so nothing is pinned");
    }
}

fn show(plan: &Plan, summary: &Summary) {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    println!("{}", plan.question);
    println!("{} · plan {} · seed {}\n", plan.label, plan.hash(), plan.seed);
    println!("{}\n", table::tables(summary, &plan.baseline, colour).trim_end());
    println!("{}", summary.sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_every_arm() {
        assert_eq!(either(&["a"]), "a");
        assert_eq!(either(&["a", "b"]), "a or b");
        assert_eq!(either(&["a", "b", "c"]), "a, b or c");
    }
}
