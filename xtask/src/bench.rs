//! `cargo xtask bench NAME`: builds what a bench needs and plays it.
//!
//! A bench of servers is a plan in `experiments/duets/`, and `roundhouse duet` plays it: the
//! product's own intervals, goals and doubts. A bench of programs that run to their end
//! (generators, ways to send, the packet rates of `echo`, whose server and generator share all
//! cores) is a plan in `experiments/programs/`, played here ([`programs`]). Media servers (`media`)
//! and an overload that a governor holds (`governor`) are neither.

mod goals;
mod governor;
mod media;
mod programs;
mod record;

use crate::steps;
use anyhow::{Context, bail};
use stats::Goal;
use std::path::PathBuf;

/// The folder of the plans of servers.
const PLANS: &str = "experiments/duets";
/// The packet rates of the bench `echo`.
const RATES: &str = "echo-rates";

/// A goal of at least this value.
const fn at_least(bound: f64) -> Option<Goal> {
    Some(Goal::AtLeast(bound))
}

/// A goal of at most this value.
const fn at_most(bound: f64) -> Option<Goal> {
    Some(Goal::AtMost(bound))
}

/// The request for a bench of servers.
#[derive(Debug, PartialEq)]
struct Request {
    /// The plan, and for `roundhouse duet` the flags.
    plan: PathBuf,
    flags: Vec<String>,
    name: String,
    save: bool,
}

impl Request {
    fn parse(args: &[String]) -> anyhow::Result<Request> {
        let wanted = args.first().map_or("", String::as_str);
        let mut names = plans(PLANS)?;
        if !names.iter().any(|name| name == wanted) {
            names.extend(programs::names()?);
            names.extend(["governor", "media"].map(String::from));
            bail!("expected one of the benches {}, found `{wanted}`", names.join(", "));
        }
        let (save, flags): (Vec<&String>, Vec<&String>) =
            args[1..].iter().partition(|flag| *flag == "--save");
        Ok(Request {
            plan: PathBuf::from(PLANS).join(wanted).with_extension("toml"),
            flags: flags.into_iter().cloned().collect(),
            name: wanted.to_owned(),
            save: !save.is_empty(),
        })
    }

    /// Whether the whole bench is wanted: then `echo` has its packet rates too.
    fn is_whole(&self) -> bool {
        !self.flags.iter().any(|flag| flag.starts_with("--only"))
    }
}

/// The names of the plans in a folder, in order.
fn plans(folder: &str) -> anyhow::Result<Vec<String>> {
    let folder = crate::root().join(folder);
    let files = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let is_plan = path.extension()? == "toml";
            is_plan.then(|| path.file_stem().map(|name| name.to_string_lossy().into_owned()))?
        })
        .collect();
    names.sort();
    Ok(names)
}

/// Builds everything and runs the bench. Flags but `--save` are those of `roundhouse duet`; with
/// `--save` the result is kept in `runs/`.
///
/// # Errors
/// If a build fails, the arguments are invalid, the bench fails, or the result cannot be saved.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    match args.split_first() {
        Some((name, rest)) if name == "governor" => return governor::run(rest),
        Some((name, rest)) if name == "media" => return media::run(rest),
        Some((name, rest)) if programs::names()?.contains(name) => {
            return programs::run(name, rest);
        }
        _ => {}
    }
    let request = Request::parse(args)?;
    let roundhouse = prepare()?;
    let mut command = std::process::Command::new(&roundhouse);
    command.arg("duet").arg(&request.plan).args(&request.flags).current_dir(crate::root());
    if request.save {
        let manifest = record::Manifest::read()?;
        let label = format!("Commit {}.", manifest.commit);
        command.arg("--out").arg(manifest.folder()).args(["--label", &label]);
    }
    let start = std::time::Instant::now();
    let played = steps::run(&mut command, "cargo");
    eprintln!("bench: {} in {}", request.name, steps::elapsed(start.elapsed()));
    if request.name == "echo" && request.is_whole() {
        let mut flags = request.flags;
        flags.retain(|flag| flag == "--quick");
        flags.extend(request.save.then(|| "--save".to_owned()));
        programs::run(RATES, &flags)?;
    }
    played
}

/// Builds the release binary and the bare loops; returns the binary.
fn prepare() -> anyhow::Result<PathBuf> {
    crate::bare::build(&crate::root().join("bare/build"))?;
    program()
}

/// Builds the release binary, and returns it.
fn program() -> anyhow::Result<PathBuf> {
    let build = ["build", "--release", "-p", "roundhouse-cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    steps::binary("roundhouse", "release")
}

/// The request for a bench that is no plan.
struct Ask {
    blocks: usize,
    quick: bool,
    save: bool,
    only: Vec<String>,
}

impl Ask {
    /// Reads those of the flags that the bench has, as its usage lists them; `blocks` if none are
    /// asked for.
    fn parse(args: &[String], usage: &[&str], blocks: usize) -> anyhow::Result<Ask> {
        let mut ask = Ask { blocks, quick: false, save: false, only: Vec::new() };
        let mut flags = args.iter();
        while let Some(flag) = flags.next() {
            if !usage.iter().any(|known| known.split(' ').next() == Some(flag)) {
                bail!("expected {}, found `{flag}`", usage.join(", "));
            }
            match flag.as_str() {
                "--save" => ask.save = true,
                "--quick" => (ask.quick, ask.blocks) = (true, 1),
                "--blocks" => {
                    let number = flags.next().and_then(|it| it.parse().ok());
                    ask.blocks =
                        number.filter(|it| *it > 0).context("--blocks expects a number")?;
                }
                _ => {
                    let names =
                        flags.next().context("--only expects groups, such as audio,hogs")?;
                    ask.only = names.split(',').map(str::to_owned).collect();
                }
            }
        }
        Ok(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> anyhow::Result<Request> {
        Request::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_bench_is_a_plan_and_the_flags_of_duet() {
        let found = request(&["churn", "--quick", "--save", "--only", "fork"]).unwrap();
        assert_eq!(found.plan, PathBuf::from("experiments/duets/churn.toml"));
        assert_eq!(found.flags, ["--quick", "--only", "fork"]);
        assert!(found.save && !found.is_whole());
        assert!(request(&["echo"]).unwrap().is_whole());
    }

    #[test]
    fn what_is_not_understood_names_what_there_is() {
        let why = request(&["enjines"]).unwrap_err().to_string();
        assert!(
            why.contains("churn, echo, engines, http-json, idle, uring, web, echo-rates"),
            "{why}"
        );
        assert!(request(&[]).is_err());
    }
}
