//! `roundhouse grade SERVER...`: tries students' stock servers.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use grade::{Grade, GradeOptions, GradedTrial, Weights, summary};
use language::{eprintln, info};
use sys::signal::Signal;

/// Exit code if a server has fewer points than `--fail-under`.
const MISSED: u8 = 99;

/// The arguments of `grade`.
#[derive(clap::Args)]
pub struct Args {
    /// Programs, or folders with a program `stockserver`; with several, prints lines of JSON
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<PathBuf>,
    /// Run only these trials
    #[arg(long, value_delimiter = ',', value_name = "TRIAL,…")]
    only: Vec<String>,
    /// Take the points of trials from a file of lines `TRIAL = POINTS`; 0 leaves one out
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    options: GradeOptions,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    /// Exit with 99 if a server has fewer points than this percentage
    #[arg(long, value_name = "PERCENT")]
    fail_under: Option<f64>,
}

/// Tries the servers, one after the other.
pub fn run(args: &Args) -> Result<ExitCode> {
    let weights = match &args.weights {
        Some(path) => sys::input::read_text(path, sys::input::SMALL)
            .with_context(|| path.display().to_string())?,
        None => String::new(),
    };
    let mut options = args.options.clone();
    match Weights::read(&weights, &args.only) {
        Ok(weights) => options.weights = weights,
        Err(usage) => {
            eprintln!("roundhouse grade: {usage}");
            return Ok(ExitCode::from(2));
        }
    }
    // A shell ignores it for its background processes, and servers would inherit that.
    sys::signal::set_default(Signal::INT).context("cannot undo what a shell has arranged")?;
    sys::limits::raise_open_files(8192).context("cannot open a thousand connections")?;
    if let Err(error) = sys::netlink::isolate() {
        options.not_isolated = error.to_string();
    }
    let is_class = args.servers.len() > 1;
    let mut grades: Vec<Grade> = Vec::new();
    for server in &args.servers {
        let mut told = |row: &GradedTrial| info!("{}: {}", row.name, row.verdict);
        let graded = grade::grade(server, &options, &mut told);
        match is_class || args.json {
            true => println!("{}", serde_json::to_string(&graded)?),
            false => print!("{}", graded.text()),
        }
        grades.push(graded);
    }
    if is_class {
        println!("{}", summary(&grades));
    }
    if grades.iter().all(|grade| !grade.obstacle.is_empty()) {
        bail!("no server could be tried: {}", grades[0].obstacle);
    }
    let missed = args.fail_under.is_some_and(|least| grades.iter().any(|it| it.percent() < least));
    Ok(if missed { ExitCode::from(MISSED) } else { ExitCode::SUCCESS })
}
