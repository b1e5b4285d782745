//! `cargo xtask bench NAME`: builds our program and the bare loops, and plays a plan of
//! `experiments/duets/` by `roundhouse duet`: the product's own intervals, goals and doubts.

use crate::steps;
use anyhow::{Context, anyhow, bail};
use std::path::PathBuf;
use std::process::Command;

const PLANS: &str = "experiments/duets";
/// The exit code of `roundhouse duet` if a goal is missed (docs/exit-codes.md).
const MISSED: i32 = 99;

fn plan(name: &str) -> anyhow::Result<PathBuf> {
    let folder = crate::root().join(PLANS);
    let files = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let plans = paths.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut names: Vec<String> = plans.map(|path| stem(&path)).collect();
    names.sort();
    if !names.iter().any(|known| known == name) {
        bail!("expected one of the benches {}, found `{name}`", names.join(", "));
    }
    Ok(PathBuf::from(PLANS).join(name).with_extension("toml"))
}

/// Builds everything and runs the bench; flags are those of `roundhouse duet`.
///
/// # Errors
/// If a build fails, there is no such bench, or it fails.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let plan = plan(args.first().map_or("", String::as_str))?;
    crate::bare::build(&crate::root().join("bare/build"))?;
    let build = ["build", "--release", "-p", "roundhouse-cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let mut duet = Command::new(steps::binary("roundhouse", "release")?);
    duet.arg("duet").arg(plan).args(&args[1..]).current_dir(crate::root());
    let status = duet.status().context("start the program")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(MISSED) => Err(anyhow!("a goal is missed beyond doubt; all figures are above")),
        _ => Err(anyhow!("`{}` failed: {status}", steps::line(&duet))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_is_a_plan_and_an_unknown_one_names_what_there_is() {
        assert_eq!(plan("churn").unwrap(), PathBuf::from("experiments/duets/churn.toml"));
        let why = plan("enjines").unwrap_err().to_string();
        assert!(why.contains("churn, echo, engines, http-json, http2, idle, tasks"), "{why}");
    }
}
