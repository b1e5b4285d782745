//! A table of duets from a plan file.

use super::{Args, Backstage, show};
use crate::race::{self, INTERRUPTED};
use anyhow::{Context, Result, anyhow};
use lab::duet::{DuetTable, Findings};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Fresh pairs, and windows on each server at the most, that show that a plan works.
const QUICK: (u32, u32) = (2, 5);
/// Exit code if a goal is missed.
const MISSED: u8 = 99;

/// Plays the plan at `path`. Exit code 2 if it is no plan, 1 if replies were wrong or a row brought
/// no figure (but for a program that is not installed), 130 after Ctrl-C, 99 if a goal is missed
/// beyond doubt.
pub fn run(args: &Args, path: &Path) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let table = match prepared(args, path, &exe) {
        Ok(table) => table,
        Err(why) => {
            eprintln!("roundhouse duet: {why:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let findings = Findings { label: args.label.clone(), ..played(&table)? };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if args.json {
        println!("{}", serde_json::to_string(&findings)?);
    } else {
        print!("{}", show::text(&findings));
    }
    for text in &findings.broken {
        eprintln!("WRONG: {text}");
    }
    if let Some(folder) = &args.out {
        write(&findings, folder, &name)?;
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

/// The table of the plan with the flags applied.
fn prepared(args: &Args, path: &Path, exe: &Path) -> Result<DuetTable> {
    let mut table = race::plan::duets(path, exe, args.data.as_deref())?;
    if !args.only.is_empty() {
        table.only(&args.only).map_err(|why| anyhow!(why))?;
    }
    let millis = |span: Duration| span.as_millis() as u64;
    for row in &mut table.rows {
        let plan = &mut row.plan;
        if args.quick {
            (plan.fresh_pairs, plan.windows) = (QUICK.0, plan.windows.min(QUICK.1));
        }
        plan.fresh_pairs = args.pairs.unwrap_or(plan.fresh_pairs);
        plan.windows = args.windows.unwrap_or(plan.windows);
        plan.window_ms = args.window.map_or(plan.window_ms, millis);
        plan.warmup_ms = args.warmup.map_or(plan.warmup_ms, millis);
        plan.seed = args.seed.unwrap_or(plan.seed);
        plan.check().map_err(|bad| anyhow!("{bad}"))?;
    }
    Ok(table)
}

fn played(table: &DuetTable) -> Result<Findings> {
    let stage = Backstage::new()?;
    let mut findings = Findings::new(table).context("cannot identify this machine")?;
    let all = table.rows.len();
    for (row, number) in table.rows.iter().zip(1..) {
        let [left, right] = row.names();
        eprintln!("row {number} of {all}: {left} / {right}, {}", row.plan.point.name);
        match row.skip() {
            Some(why) => findings.skip(row, &why),
            None => findings.take(row, &stage.play(&row.plan)),
        }
        if findings.interrupted {
            eprintln!("stopped; here is what is known");
            break;
        }
    }
    findings.conclude();
    Ok(findings)
}

fn write(findings: &Findings, folder: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = serde_json::to_string(findings)? + "\n";
    for (ending, text) in [("md", show::markdown(findings)), ("json", json)] {
        let path = folder.join(name).with_extension(ending);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
