//! `--profile simulator`: the client simulator of a published study.

use super::flags::Args;
use super::print;
use ::load::simulator::{self, Plan};
use ::load::{Failure, Target, Usage};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::Duration;
use tools::interrupt::watch;

/// How long without --for.
const SPAN: Duration = Duration::from_secs(10);

/// Runs it. Exit code 1 if nothing was answered or anything failed.
pub fn run(args: &Args) -> Result<Result<ExitCode>, Failure> {
    let plan = plan(args).map_err(Failure::Usage)?;
    // Created before the run, so that a wrong path does not cost a run.
    let log = match &args.profile.log {
        None => None,
        Some(path) => Some(File::create(path).map_err(|why| {
            Failure::Usage(Usage(format!(
                "expected a file that can be written for --log, found {}: {why}",
                path.display()
            )))
        })?),
    };
    let stop = watch().ok();
    let found = simulator::run(&plan, stop.as_deref()).map_err(Failure::Usage)?;
    let (summary, rows) = found;
    let written = log.map_or(Ok(()), |file| {
        simulator::write_log(BufWriter::new(file), &rows).context("cannot write the --log")
    });
    let code = if summary.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(print(args.output.json, &summary).and(written).map(|()| code))
}

fn plan(args: &Args) -> Result<Plan, Usage> {
    let [place] = &args.places[..] else {
        return Err(Usage(format!("expected one target, found `{}`", args.places.join("` and `"))));
    };
    let target: Target = place.parse()?;
    let clients = args.model.closed.unwrap_or(10).try_into().unwrap_or(u32::MAX);
    let plan = Plan {
        guests: args.profile.guests,
        stay: args.profile.stay,
        ramp: args.model.ramp,
        warmup: args.span.warmup.unwrap_or_default(),
        timeout: args.links.timeout,
        until_failure: args.profile.until_failure,
        ..Plan::new(target, clients, args.span.span.unwrap_or(SPAN))
    };
    plan.check()?;
    Ok(plan)
}
