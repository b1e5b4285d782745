//! `roundhouse doctor`: the measurements that the machine permits, their precision, and
//! recommended changes.
//!
//! The command checks cores, clocks, limits, io_uring, counters and tools, observes the machine for
//! a second, and then races one engine against itself. The last part matters most: the distance of
//! two identical servers determines the smallest visible difference and the number of blocks for
//! it. The other checks hardly predict that distance, so the command measures it.

mod checks;
mod spread;

use anyhow::Result;
use checks::{Check, Mark};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color};
use language::{println, tr};
use pages::terminal;
use serde::Serialize;
use spread::Spread;
use std::process::ExitCode;

/// The arguments of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Look only; do not race an engine against itself
    #[arg(long)]
    quick: bool,
    /// Blocks of that race
    #[arg(long, default_value_t = 10, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100))]
    blocks: u32,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Findings {
    schema: &'static str,
    checks: Vec<Check>,
    spread: Vec<Spread>,
    advice: Vec<String>,
}

/// Examines the machine. Exit code 1 if it permits no measurement.
pub fn run(args: &Args) -> Result<ExitCode> {
    let colour = crate::screen::has_colours();
    let checks = checks::all();
    if !args.json {
        print_checks(&checks, colour);
    }
    let spread = if args.quick { Vec::new() } else { spread::measure(args.blocks)? };
    let advice = advice(&checks, &spread);
    let hopeless = checks.iter().any(|check| check.mark == Mark::Bad);
    if args.json {
        let schema = "roundhouse.doctor/1";
        println!("{}", serde_json::to_string(&Findings { schema, checks, spread, advice })?);
    } else {
        print_spread(&spread);
        print_advice(&advice);
    }
    Ok(if hopeless { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Recommended changes, the most important first.
fn advice(checks: &[Check], spread: &[Spread]) -> Vec<String> {
    let mut found: Vec<(Mark, String)> = checks
        .iter()
        .filter(|check| !check.advice.is_empty())
        .map(|check| (check.mark, check.advice.clone()))
        .collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.0));
    let mut found: Vec<String> = found.into_iter().map(|it| it.1).collect();
    found.extend(spread.iter().filter_map(Spread::advice));
    found
}

fn print_checks(checks: &[Check], colour: bool) {
    let mut part = "";
    let mut table = terminal::table(NOTHING, colour);
    for check in checks {
        if check.part != part {
            part = check.part;
            table.add_row([Cell::new(tr(part)), Cell::new(""), Cell::new("")]);
        }
        let (sign, shade) = match check.mark {
            Mark::Good => ("ok", Color::Green),
            Mark::Note => ("note", Color::Yellow),
            Mark::Bad => ("BAD", Color::Red),
        };
        let sign = Cell::new(format!("  {}", tr(sign)));
        let sign = if colour { sign.fg(shade) } else { sign };
        table.add_row([sign, Cell::new(tr(check.what)), Cell::new(tr(&check.found))]);
    }
    table.lines().for_each(|line| std::println!("{}", line.trim_end()));
}

fn print_spread(spread: &[Spread]) {
    if spread.is_empty() {
        return;
    }
    println!("\none engine against itself");
    for it in spread {
        println!("  {}", it.words());
    }
}

fn print_advice(advice: &[String]) {
    if advice.is_empty() {
        println!("\nnothing to change");
        return;
    }
    println!("\nwhat to change");
    for text in advice {
        std::println!("{}", terminal::folded(&tr(&format!("  - {text}")), 4));
    }
}
