//! `roundhouse compare`: a comparison of two runs.

use super::report::pick;
use anyhow::Result;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use lab::verdict::Metric;
use lab::versus::{Agreement, Row, Versus, versus};
use language::println;
use pages::{terminal, words};
use stats::Interval;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The raw data of the first run: the last one in the file, or FILE#N
    #[arg(value_name = "A")]
    first: String,
    /// The raw data of the second run
    #[arg(value_name = "B")]
    second: String,
    /// Show every metric, p50, p99.9, mean, max, context switches and memory too; contradictions in
    /// them count
    #[arg(long)]
    all: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Compares. Exit code 1 if two runs contradict each other in a metric that is shown, or cannot be
/// read.
pub fn run(args: &Args) -> Result<ExitCode> {
    let [first, second] = [&args.first, &args.second].map(|text| named(text));
    let found = versus(&pick(&first.0, first.1)?, &pick(&second.0, second.1)?);
    let shown: Vec<&Row> =
        found.rows.iter().filter(|row| args.all || is_main(row.metric)).collect();
    let contradicted = shown.iter().any(|row| row.agreement == Agreement::Contradicted);
    if args.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print(&found, &shown);
    }
    Ok(if contradicted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn is_main(metric: Metric) -> bool {
    use Metric::{Max, Mean, Memory, P50, P999, Switches};
    !matches!(metric, P50 | P999 | Switches | Memory | Mean | Max)
}

/// `FILE#N` is the Nth run of a file.
fn named(text: &str) -> (PathBuf, Option<usize>) {
    match text.rsplit_once('#') {
        Some((file, number)) if number.parse::<usize>().is_ok() => {
            (PathBuf::from(file), number.parse().ok())
        }
        _ => (PathBuf::from(text), None),
    }
}

fn print(found: &Versus, shown: &[&Row]) {
    for difference in &found.differences {
        println!("differs: {difference}");
    }
    let mut table = terminal::table(UTF8_HORIZONTAL_ONLY, false);
    table.set_header([
        "load point",
        "arm",
        "metric",
        "first",
        "second",
        "second / first",
        "together",
    ]);
    for row in shown {
        let side = |ratio: f64, interval: Option<Interval>| match row.baseline {
            true => "baseline".to_string(),
            false => with(ratio, interval),
        };
        table.add_row([
            row.point.clone(),
            row.arm.clone(),
            row.metric.name().to_string(),
            side(row.before, row.before_interval),
            side(row.after, row.after_interval),
            row.change.map_or_else(|| words::NONE.to_string(), words::ratio),
            row.agreement.word().to_string(),
        ]);
    }
    println!("{table}\n\n{}", found.sentence);
    if shown.iter().any(|row| row.baseline) {
        println!(
            "The baseline's own change is that of the whole machine; the other rows are ratios to \
             it, which were each measured against the same disturbances."
        );
    }
}

fn with(ratio: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(interval) => format!("{} {}", words::ratio(ratio), words::interval(&interval)),
        None => words::ratio(ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_number() {
        assert_eq!(named("a/b.jsonl#2"), (PathBuf::from("a/b.jsonl"), Some(2)));
        assert_eq!(named("a#b"), (PathBuf::from("a#b"), None));
        assert_eq!(named("a"), (PathBuf::from("a"), None));
    }
}
