//! `roundhouse grade SERVER...`: tries students' stock servers.
//!
//! One server is tried in this process. Of a class, each server is tried by a separate process of
//! this program, `--jobs` at a time, so that a submission can end the trials of no other one. Such
//! a process prints its line of JSON at its end; no other program of the same user can open its
//! output (PR_SET_DUMPABLE, prctl(2)).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use grade::{Grade, GradeOptions, GradedTrial, Weights, read_trials, summary};
use language::info;
use sys::signal::Signal;
use tools::{MISSED, usage, write};

/// The variable with the server of a class that a process tries.
const ONE: &str = "ROUNDHOUSE_GRADE_ONE";

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
    /// Print the points as a line for Autolab
    #[arg(long, conflicts_with = "json")]
    autolab: bool,
    /// Exit with 99 if a server has fewer points than this percentage
    #[arg(long, value_name = "PERCENT")]
    fail_under: Option<f64>,
    /// Servers of a class that are tried at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    /// Add the lines to this file, and leave out the servers whose lines it holds
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Write a report for each server of a class, and the points of all as points.csv, to a folder
    #[arg(long, value_name = "DIR")]
    reports: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let mut options = args.options.clone();
    let text = match args.weights.as_ref().or(options.trials.as_ref()) {
        Some(path) => read(path, sys::input::SMALL)?,
        None => String::new(),
    };
    let read = match &options.trials {
        Some(_) => read_trials(&text, &args.only).map(|given| options.given = given),
        None => Weights::read(&text, &args.only).map(|weights| options.weights = weights),
    };
    read.map_err(usage)?;
    let one = std::env::var_os(ONE).map(PathBuf::from);
    let has_files = args.resume.is_some() || args.reports.is_some();
    let is_class = one.is_none() && (has_files || args.servers.len() > 1);
    if is_class && args.autolab {
        return Err(usage("expected one server with --autolab; leave it out for a class"));
    }
    let grades = if is_class { class(args, &options)? } else { vec![single(args, one, options)?] };
    if grades.iter().all(|grade| !grade.obstacle.is_empty()) {
        bail!("no server could be tried: {}", grades[0].obstacle);
    }
    let missed = args.fail_under.is_some_and(|least| grades.iter().any(|it| it.percent() < least));
    Ok(if missed { ExitCode::from(MISSED) } else { ExitCode::SUCCESS })
}

/// Tries one server: the given one of a class, or the only one.
fn single(args: &Args, one: Option<PathBuf>, mut options: GradeOptions) -> Result<Grade> {
    // A shell ignores it for its background processes, and servers would inherit that.
    sys::signal::set_default(Signal::INT).context("cannot undo what a shell has arranged")?;
    sys::limits::raise_open_files(8192).context("cannot open a thousand connections")?;
    if let Err(error) = sys::netlink::isolate() {
        options.not_isolated = error.to_string();
    }
    sys::process::shut_proc().context("cannot keep other programs from the output")?;
    let mut told = |row: &GradedTrial| info!("{}: {}", row.name, row.verdict);
    let server = one.as_ref().unwrap_or(&args.servers[0]);
    let graded = grade::grade(server, &options, &mut told);
    match args {
        _ if args.json || one.is_some() => println!("{}", serde_json::to_string(&graded)?),
        Args { autolab: true, .. } => println!("{}\n{}", graded.text(), graded.autolab()),
        _ => print!("{}", graded.text()),
    }
    Ok(graded)
}

/// Tries each server in a process, and prints the lines as they come, with a summary at the end.
fn class(args: &Args, options: &GradeOptions) -> Result<Vec<Grade>> {
    let known = match &args.resume {
        Some(path) if path.exists() => read_lines(path)?,
        _ => Vec::new(),
    };
    if let Some(folder) = &args.reports {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let is_known = |server: &Path| {
        let name = server.display().to_string();
        known.iter().any(|grade| grade.server == name)
    };
    let servers: Vec<&PathBuf> = args.servers.iter().filter(|it| !is_known(it)).collect();
    let next = Mutex::new(servers.into_iter());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, |jobs| jobs as usize);
    let all = Mutex::new(known);
    let work = || -> Result<()> {
        loop {
            let Some(server) = next.lock().expect("no panic in there").next() else { break };
            let grade = child(options, server)?;
            let line = serde_json::to_string(&grade)?;
            let mut all = all.lock().expect("no panic in there");
            println!("{line}");
            if let Some(path) = &args.resume {
                append(path, &line).with_context(|| path.display().to_string())?;
            }
            if let Some(folder) = &args.reports {
                write(&folder.join(report_name(server)), grade.text())?;
            }
            all.push(grade);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic in there"))
    })?;
    let grades = all.into_inner().expect("no panic in there");
    if let Some(folder) = &args.reports {
        let names = options.names();
        let lines = grades.iter().map(|grade| grade.csv(&names)).collect::<String>();
        let table = format!("server,points,of,obstacle,{}\n{lines}", names.join(","));
        write(&folder.join("points.csv"), table)?;
    }
    println!("{}", summary(&grades));
    Ok(grades)
}

/// The file of a server's report: its path with `-` between the parts.
fn report_name(server: &Path) -> String {
    let parts = server.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("-") + ".txt"
}

/// The lines of an earlier class; its summary and a torn last line are left out.
fn read_lines(path: &Path) -> Result<Vec<Grade>> {
    let text = read(path, sys::input::LARGE)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn read(path: &Path, most: u64) -> Result<String> {
    sys::input::read_text(path, most).with_context(|| path.display().to_string())
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = fs::File::options().create(true).append(true).open(path)?;
    std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes())
}

/// Tries a server in a process, by the arguments of this one.
fn child(options: &GradeOptions, server: &Path) -> Result<Grade> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(ONE, server);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().context("cannot start a process for a server")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let name = server.display().to_string();
    let lines: Vec<&str> = text.lines().collect();
    let grade = match lines[..] {
        [line] => serde_json::from_str::<Grade>(line).ok(),
        _ => None,
    };
    Ok(grade.filter(|grade| grade.server == name).unwrap_or_else(|| {
        let why = format!(
            "its grader printed {} lines and ended with {}: does the server kill its parent or \
             write to its output?",
            lines.len(),
            output.status
        );
        Grade::obstacle(&name, options.sum(), why)
    }))
}
