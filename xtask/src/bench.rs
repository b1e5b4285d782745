//! `cargo xtask bench NAME`: builds what a bench needs and plays it.
//!
//! A bench of servers is a plan in `experiments/duets/`, and `roundhouse duet` plays it: the
//! product's own intervals, goals and doubts. A bench of programs that run to their end
//! (generators, ways to send, the packet rates of `echo`, whose server and generator share all
//! cores) is a plan in `experiments/programs/`, played here ([`programs`]). If a measurement takes
//! more than one command, its program is a script next to the plan (`media`, `durable`). `gates`
//! counts the false alarms of `roundhouse ab` ([`gates`]).

mod gates;
mod goals;
mod programs;
mod record;

use crate::steps;
use anyhow::{Context, anyhow, bail};
use std::path::PathBuf;

/// The folder of the plans of servers.
const PLANS: &str = "experiments/duets";
/// The exit code of `roundhouse duet` if a goal is missed (docs/exit-codes.md).
const MISSED: i32 = 99;
/// The packet rates of the bench `echo`.
const RATES: &str = "echo-rates";

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
            names.push(gates::NAME.to_owned());
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
    if let Some((name, rest)) = args.split_first()
        && name == gates::NAME
    {
        return gates::run(rest);
    }
    if let Some((name, rest)) = args.split_first()
        && programs::names()?.contains(name)
    {
        return programs::run(name, rest);
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
    let status = command.status().with_context(|| format!("start {}", roundhouse.display()))?;
    let played = match status.code() {
        Some(0) => Ok(()),
        Some(MISSED) => Err(anyhow!("a goal is missed beyond doubt; all figures are above")),
        _ => Err(anyhow!("`{}` failed: {status}", steps::line(&command))),
    };
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
    let build = ["build", "--release", "-p", "roundhouse-cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    steps::binary("roundhouse", "release")
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
            why.contains(
                "churn, echo, engines, http-json, http2, idle, tasks, uring, web, durable"
            ),
            "{why}"
        );
        assert!(request(&[]).is_err());
    }
}
