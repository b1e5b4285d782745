//! `roundhouse load`: sends requests to a server, times and checks every reply; with `--turns`
//! several servers in turn.
//!
//! This file runs the plan of the flags ([`plan`]) and returns an exit code: 0 all replies were
//! right; 1 replies were wrong or missing; 2 wrong usage; 98 the measurement is invalid; 99 the
//! objective was missed. If several apply, the order is 2, 1 for wrong or missing replies, 98, 99,
//! 1 for dropped arrivals.

mod flags;
mod flow;
mod foreign;
mod grpc;
mod plan;

pub use flags::Args;

use ::load::health::Verdict;
use ::load::run::Hooks;
use ::load::search::{self, Capacity};
use ::load::snapshot::Board;
use ::load::{Failure, Report, Slo, Usage, turns};
use anyhow::{Context, Result};
use language::{debug, info, println};
use serde::Serialize;
use stats::Objective;
use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tools::interrupt::watch;
use tools::progress::{Live, Manner, Wishes};
use tools::scrape::{Otlp, Scrape};
use tools::{MISSED, UNKNOWN, usage};

/// Loads one server or several in turn, or searches for the capacity.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.output.schema {
        print!("{}", ::load::report::json_schema()?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.flow.write_flow {
        return flow::write(&args, file);
    }
    for hint in args.goal.slo.iter().flat_map(|slo| &slo.0).filter_map(Objective::hint) {
        info!("{hint}");
    }
    let outcome = match (&args.turns.turns, &args.goal.slo) {
        (Some(file), _) => in_turns(&args, file),
        (None, Some(slo)) if args.goal.find_capacity => capacity(&args, slo),
        (None, _) => one(&args),
    };
    match outcome {
        Err(Failure::Usage(why)) => Err(usage(why)),
        other => other.context("load")?,
    }
}

fn one(args: &Args) -> Result<Result<ExitCode>, Failure> {
    let plan = args.plan()?;
    foreign::check_flags(&plan.target)?;
    if let Some(folder) = &args.watch_group {
        return Err(Failure::Usage(Usage(format!(
            "expected --watch-group among the arguments of --turns, found {} alone; --watch \
             reports the CPU time of one run",
            folder.display()
        ))));
    }
    debug!(
        "load of {}: {} connections, {} threads, seed {}",
        plan.target.address, plan.settings.connections, plan.threads, plan.seed
    );
    // Without the handler Ctrl-C ends the process, and only the report is lost.
    let stop = watch().ok();
    let listener = args.output.prometheus.map(listen).transpose()?;
    let otlp = args.output.otlp.as_deref().map(Otlp::new).transpose().map_err(Failure::Usage)?;
    let is_counted = listener.is_some() || otlp.is_some();
    // The thread of the counts reads the board of the run, and passes its snapshots on to the view.
    let (board, shown) = (Board::default(), Board::default());
    let hold = plan.settings.tops_up.then(Arc::default);
    let wishes = Wishes { stop: stop.clone(), hold: hold.clone() };
    let seen = if is_counted { &shown } else { &board };
    let live = Live::open(Manner::of(args.output.plain, args.output.json), &plan, seen, wishes);
    let is_seen = live.is_some() || is_counted;
    let view = live.is_some().then_some(shown);
    let start = || Scrape::start((listener, otlp), board.clone(), view, stop.clone());
    let scrape = is_counted.then(start).transpose();
    let doing = "starting a thread";
    let scrape = scrape.map_err(|error| Failure::Machinery { doing, error })?;
    let board = is_seen.then_some(board);
    let measured = ::load::run::run_with(&plan, &Hooks { stop, hold, board });
    // The terminal is restored before anything is printed on it.
    drop(live);
    let report = measured?;
    let printed = print(args.output.json, &report);
    if let Some(scrape) = scrape {
        scrape.end();
    }
    Ok(printed.map(|()| code(&report)))
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    Scrape::listen(address).map_err(|error| {
        Failure::Usage(Usage(format!("--prometheus: cannot listen at {address}: {error}")))
    })
}

fn in_turns(args: &Args, file: &Path) -> Result<Result<ExitCode>, Failure> {
    let report = turns::run(&args.turns_plan(file)?)?;
    let code = if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(print(args.output.json, &report).map(|()| code))
}

fn capacity(args: &Args, slo: &Slo) -> Result<Result<ExitCode>, Failure> {
    let plan = args.plan()?;
    foreign::check_flags(&plan.target)?;
    let found = search::capacity(&plan, slo, |probe| info!("{probe}"))?;
    let Capacity { confirmed, capacity_rps, .. } = found;
    let code = match confirmed {
        true => ExitCode::SUCCESS,
        // No rate passed although the generator kept up.
        false if found.limit.is_none() && capacity_rps == 0.0 => ExitCode::from(MISSED),
        false => ExitCode::from(UNKNOWN),
    };
    Ok(print(args.output.json, &found).map(|()| code))
}

fn print<T: Serialize + Display>(json: bool, report: &T) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn code(report: &Report) -> ExitCode {
    let answered = report.check.ok && report.errors.is_empty() && report.requests_total > 0;
    if !answered {
        ExitCode::FAILURE
    } else if report.health.verdict == Verdict::Invalid {
        ExitCode::from(UNKNOWN)
    } else if !report.meets_slo() {
        ExitCode::from(MISSED)
    } else if !report.is_right() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
