//! The test step of `cargo xtask ci`: every test binary once, and what failed once more.
//!
//! Tests that start processes are at the mercy of the machine: a neighbour may keep a server from
//! running for seconds. A failure there that does not come back is still worth knowing, but it
//! need not hold up a change; so a few failed tests of the `tests/` directories are run once more,
//! alone. The surprising thing: nothing is hidden by that. The first failure stays in the output
//! with all it said, the last lines name each test that needed a second try, and a unit test,
//! which has no machine to blame, gets none.

use crate::steps::{self, PROFILE};
use anyhow::{Context, bail};
use cargo_metadata::{Message, TargetKind};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tests that may need a second try in one run; more is no accident.
const SECOND_TRIES: usize = 3;

/// The suite whose tests wait for servers most of their time: with as many at once as there are
/// cores these were busy for less than a third of it. It runs twice as many.
const WAITING: &str = "cli::it";

/// A test binary as cargo has built it.
#[derive(Clone, Debug)]
struct Suite {
    /// `package::target`.
    name: String,
    binary: PathBuf,
    /// Where its package lies, which is where cargo would run it.
    home: PathBuf,
    /// Whether it is one of a `tests/` directory.
    outside: bool,
}

/// Builds and runs all tests of the workspace, doc tests too.
///
/// # Errors
/// Names the suites and tests that failed.
pub fn run() -> anyhow::Result<()> {
    let (mut failed, mut shaky) = (Vec::new(), Vec::new());
    for suite in suites()? {
        let (ok, names) = once(&suite, &mut std::io::stdout())?;
        if ok {
            continue;
        }
        if names.is_empty() || !suite.outside || shaky.len() + names.len() > SECOND_TRIES {
            failed.push(if names.is_empty() { suite.name } else { of(&suite, &names) });
            continue;
        }
        for name in names {
            eprintln!("ci: `{name}` of {} failed; it is tried once more, alone", suite.name);
            if again(&suite, &name)? {
                shaky.push(format!("{} {name}", suite.name));
            } else {
                failed.push(of(&suite, &[name]));
            }
        }
    }
    let doc = ["test", "--doc", "--workspace", "--no-fail-fast", "--profile", PROFILE];
    if let Err(error) = steps::run(&mut steps::cargo(doc), "cargo") {
        failed.push(format!("doc tests: {error}"));
    }
    for name in &shaky {
        eprintln!("ci: SHAKY: {name}: failed, then passed alone; find out why");
    }
    if !failed.is_empty() {
        bail!("these failed:\n  {}", failed.join("\n  "));
    }
    Ok(())
}

fn of(suite: &Suite, names: &[String]) -> String {
    format!("{}: {}", suite.name, names.join(", "))
}

/// Builds every test and says where the binaries are.
fn suites() -> anyhow::Result<Vec<Suite>> {
    let what = ["test", "--workspace", "--no-run", "--profile", PROFILE];
    let mut build = steps::cargo(what);
    build.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = build.spawn().context("start cargo")?;
    let output = child.stdout.take().context("its output is piped")?;
    let mut suites = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(made) = message.context("cargo's messages")? else {
            continue;
        };
        let (true, Some(binary)) = (made.profile.test, made.executable) else { continue };
        let home = made.manifest_path.parent().context("a manifest lies in a directory")?;
        suites.push(Suite {
            name: format!("{}::{}", home.file_name().unwrap_or("?"), made.target.name),
            binary: binary.into_std_path_buf(),
            home: home.to_path_buf().into_std_path_buf(),
            outside: made.target.kind.contains(&TargetKind::Test),
        });
    }
    if !child.wait()?.success() {
        bail!("the tests could not be built");
    }
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(suites)
}

fn command(suite: &Suite) -> Command {
    let mut command = Command::new(&suite.binary);
    command.current_dir(&suite.home).env("CARGO_MANIFEST_DIR", &suite.home).stdin(Stdio::null());
    command
}

/// Runs a suite, passes on what it prints, and says which of its tests failed.
fn once(suite: &Suite, out: &mut dyn Write) -> anyhow::Result<(bool, Vec<String>)> {
    eprintln!("     Running {}", suite.name);
    let mut command = command(suite);
    if suite.name == WAITING {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.arg(format!("--test-threads={}", 2 * cores));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("start a test")?;
    let output = child.stdout.take().context("its output is piped")?;
    let mut names = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(out, "{line}").context("standard output")?;
        names.extend(failure(&line).map(str::to_owned));
    }
    Ok((child.wait()?.success(), names))
}

/// The test that a line of a test binary tells the failure of.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::trim)
}

/// Whether a test passes when nothing else runs.
fn again(suite: &Suite, name: &str) -> anyhow::Result<bool> {
    let status = command(suite).args([name, "--exact"]).status().context("start a test")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_from_its_line() {
        assert_eq!(failure("test uring::reset ... FAILED"), Some("uring::reset"));
        assert_eq!(failure("test uring::reset ... ok"), None);
        assert_eq!(failure("test result: FAILED. 1 passed; 1 failed"), None);
        assert_eq!(failure("    a_name_in_the_list"), None);
    }

    /// A test binary made of a shell script.
    fn script(scratch: &steps::Scratch, body: &str) -> Suite {
        let binary = scratch.path().join("suite");
        std::fs::write(&binary, format!("#!/bin/sh\n{body}\n")).unwrap();
        let mut mode = std::fs::metadata(&binary).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&binary, mode).unwrap();
        Suite { name: "x::y".into(), binary, home: scratch.path().to_owned(), outside: true }
    }

    #[test]
    fn what_failed_is_named_and_tried_alone() {
        let scratch = steps::Scratch::new("second-try").unwrap();
        let alone = "[ \"$1\" = b ] && exit 0\n[ $# = 0 ] || exit 1";
        let all = "echo 'test a ... ok'; echo 'test b ... FAILED'; exit 1";
        let suite = script(&scratch, &format!("{alone}\n{all}"));
        let mut said = Vec::new();
        assert_eq!(once(&suite, &mut said).unwrap(), (false, vec!["b".to_owned()]));
        assert_eq!(said, b"test a ... ok\ntest b ... FAILED\n");
        assert!(again(&suite, "b").unwrap(), "alone it passes");
        assert!(!again(&suite, "a").unwrap(), "this one does not");
    }
}
