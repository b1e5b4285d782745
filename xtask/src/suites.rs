//! The test step of `cargo xtask ci`: every test binary once, and failed tests once more.
//!
//! Tests that start processes depend on the machine: a neighbour may keep a server from running for
//! seconds. A failure that does not repeat is worth a note but need not block a change, so a few
//! failed tests get a second try, alone. This hides no failure: the first one stays in the output,
//! and the last lines name each test that needed a second try. The unit tests of the pure crates
//! do not depend on the machine and get no second try.
//!
//! Tests that compare times or costs run alone: whole suites, and modules of others. Then several
//! suites run at a time, the longest first, because most of their tests wait.
//!
//! A suite that does not end is killed with its servers. Its tests that still ran count as failed,
//! and the list of processes at that moment shows what they waited for.

use crate::steps::{self, PROFILE};
use anyhow::{Context, anyhow, bail};
use cargo_metadata::{Message, TargetKind};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most this many tests get a second try in one run; more failures are no accident.
const SECOND_TRIES: usize = 3;

/// Suites that compare times or costs, so alongside another one they would measure it: all of a
/// suite, or its tests of one module.
const CALM: &[(&str, &str)] = &[
    ("checkup::faults", ""),
    ("cli::experiments", "quiet::"),
    ("cli::load", "quiet::"),
    ("cli::web", "generators::"),
    ("load::models", ""),
    ("pacing::it", "stalls::"),
];

/// The longest suites, in the order in which they start.
const LONG: &[&str] =
    &["cli::it", "cli::experiments", "cli::pages", "cli::media", "cli::web", "grade::servers"];

/// The number of suites that run at once.
const AT_ONCE: usize = 3;

/// The number of tests a core that a suite runs at once, if it is not one. These suites mostly wait
/// for servers and players: four tests of `cli::it` a core keep it busy for half of the time.
fn tests_a_core(suite: &str) -> Option<usize> {
    match suite {
        "cli::it" => Some(4),
        "cli::course" | "cli::experiments" | "cli::pages" | "cli::stream" => Some(2),
        _ => None,
    }
}

/// A suite that runs longer hangs: twice the time of the longest one on two cores.
const LIMIT: Duration = Duration::from_secs(12 * 60);

/// The pause between two looks at a running suite.
const LOOK: Duration = Duration::from_millis(20);

/// Crates whose unit tests compute and do nothing else.
const PURE: &[&str] = &[
    "cluster", "document", "echo", "game", "grid", "index", "layers", "ledger", "media", "seam",
    "sim", "stats", "stock", "web", "wire",
];

/// At most this many lines of a failed suite are printed.
const LINES: usize = 200;

/// Modules of tests that `cargo xtask soak` runs and `cargo xtask ci` leaves out.
const RARE: &str = "::soak::";

/// A test binary as cargo has built it.
#[derive(Clone, Debug)]
struct Suite {
    /// `package::target`.
    name: String,
    binary: PathBuf,
    /// The directory of its package, in which cargo would run it.
    home: PathBuf,
    /// Arguments that choose some of its tests.
    chosen: Vec<&'static str>,
    /// Whether its tests depend on the machine: it lies in a `tests/` directory, or its crate opens
    /// sockets, files or processes.
    on_machine: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    ok: bool,
    /// The number of passed tests.
    passed: u64,
    failed: Vec<String>,
    /// The part of a failed suite's output that is about its failures.
    excerpt: String,
}

type Ran = (Suite, Outcome);

/// Builds and runs all tests of the workspace, doc tests too.
///
/// # Errors
/// Names the suites and tests that failed.
pub fn run() -> anyhow::Result<()> {
    let folder = steps::target_dir()?.join("ci-output");
    std::fs::create_dir_all(&folder).context("a directory for the output of tests")?;
    let (calm, others) = in_order(suites()?);
    let mut ran = at_once(1, calm, &folder)?;
    let start = Instant::now();
    let (docs, others) = std::thread::scope(|scope| {
        let docs = scope.spawn(|| {
            let doc = ["test", "--doc", "--workspace", "--no-fail-fast", "--profile", PROFILE];
            let passed = steps::run(steps::cargo(doc).arg("--quiet"), "cargo");
            eprintln!("   doc tests: {}", steps::elapsed(start.elapsed()));
            passed
        });
        let others = at_once(AT_ONCE, others, &folder);
        (docs.join(), others)
    });
    ran.extend(others?);
    let (mut failed, mut shaky) = (Vec::new(), Vec::new());
    for (suite, outcome) in ran {
        judge(&suite, &outcome, &mut failed, &mut shaky)?;
    }
    if let Err(error) = docs.map_err(|_| anyhow!("the thread of the doc tests panicked"))? {
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

/// The calm suites and all others, the longest first.
fn in_order(suites: Vec<Suite>) -> (Vec<Suite>, Vec<Suite>) {
    let (mut calm, mut others) = (Vec::new(), Vec::new());
    for suite in suites {
        match CALM.iter().find(|(name, _)| *name == suite.name) {
            None => others.push(suite),
            Some((_, "")) => calm.push(suite),
            Some((_, module)) => {
                let name = format!("{}::{}", suite.name, module.trim_end_matches(':'));
                calm.push(Suite { name, chosen: vec![module], ..suite.clone() });
                others.push(Suite { chosen: vec!["--skip", module], ..suite });
            }
        }
    }
    others.sort_by_key(|it| LONG.iter().position(|name| *name == it.name).unwrap_or(LONG.len()));
    (calm, others)
}

/// Runs suites in `streams` side by side, each with its output in `folder`.
fn at_once(streams: usize, suites: Vec<Suite>, folder: &Path) -> anyhow::Result<Vec<Ran>> {
    let run = |suite: Suite| {
        let start = Instant::now();
        let path = folder.join(format!("{}.txt", suite.name.replace("::", "-")));
        let outcome = once(&suite, &path, LIMIT)?;
        let mark = if outcome.ok { "ok" } else { "FAILED" };
        let took = steps::elapsed(start.elapsed());
        eprintln!("   {:<28} {mark:<6} {:>5} tests {took:>12}", suite.name, outcome.passed);
        if !outcome.ok {
            eprintln!("{}\nci: all of it is in {}", outcome.excerpt, path.display());
        }
        anyhow::Ok((suite, outcome))
    };
    let queue = Mutex::new(suites.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let stream = || std::iter::from_fn(next).map(run).collect::<anyhow::Result<Vec<_>>>();
        let streams: Vec<_> = (0..streams).map(|_| scope.spawn(stream)).collect();
        let ran = streams.into_iter().map(|stream| {
            stream.join().unwrap_or_else(|_| bail!("the thread of a suite panicked"))
        });
        Ok(ran.collect::<anyhow::Result<Vec<_>>>()?.concat())
    })
}

/// Runs the second try of failed tests, where they have one, and sorts them.
fn judge(
    suite: &Suite,
    outcome: &Outcome,
    failed: &mut Vec<String>,
    shaky: &mut Vec<String>,
) -> anyhow::Result<()> {
    let names = &outcome.failed;
    if outcome.ok {
        return Ok(());
    }
    if names.is_empty() || !suite.on_machine || shaky.len() + names.len() > SECOND_TRIES {
        failed.push(format!("{}: {}", suite.name, names.join(", ")));
        return Ok(());
    }
    for name in names {
        eprintln!("ci: `{name}` of {} failed; it is tried once more, alone", suite.name);
        let list = if again(suite, name)? { &mut *shaky } else { &mut *failed };
        list.push(format!("{}: {name}", suite.name));
    }
    Ok(())
}

/// Builds every test and returns the binaries.
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
            chosen: Vec::new(),
            on_machine: made.target.kind.contains(&TargetKind::Test)
                || !home.file_name().is_some_and(|it| PURE.contains(&it)),
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

/// Runs a suite for at most `limit`, with its output in `path`.
fn once(suite: &Suite, path: &Path, limit: Duration) -> anyhow::Result<Outcome> {
    let mut command = command(suite);
    command.args(["--skip", RARE]).args(&suite.chosen);
    if let Some(each) = tests_a_core(&suite.name) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.arg(format!("--test-threads={}", each * cores));
    }
    let file = File::create(path).context("a file for the output of a test")?;
    let both = file.try_clone().context("a file for the output of a test")?;
    let mut child = command.stdout(file).stderr(both).spawn().context("start a test")?;
    let (status, processes) = end_within(limit, &mut child)?;
    let output = std::fs::read(path).context("the output of a test")?;
    let output = String::from_utf8_lossy(&output);
    let mut outcome = Outcome {
        ok: status.success(),
        passed: output.lines().filter_map(passed).sum(),
        failed: output.lines().filter_map(failure).map(str::to_owned).collect(),
        excerpt: if status.success() { String::new() } else { excerpt(&output) },
    };
    if let Some(processes) = processes {
        outcome.failed.extend(running(&output).map(str::to_owned));
        let limit = steps::elapsed(limit);
        outcome.excerpt += &format!("\nci: hung after {limit}; all processes:\n{processes}");
    }
    Ok(outcome)
}

/// Waits for the end of a suite, which `limit` brings about: then with [`end_hung`]'s list.
fn end_within(limit: Duration, child: &mut Child) -> anyhow::Result<(ExitStatus, Option<String>)> {
    let start = Instant::now();
    let mut processes = None;
    loop {
        if let Some(status) = child.try_wait().context("wait for a test")? {
            return Ok((status, processes));
        }
        if start.elapsed() > limit && processes.is_none() {
            processes = Some(end_hung(child.id())?);
        }
        std::thread::sleep(LOOK);
    }
}

/// Kills a suite and its descendants. Returns a list of all processes as they were before.
fn end_hung(suite: u32) -> anyhow::Result<String> {
    let columns = "pid,ppid,stat,wchan:24,etimes,rss,args";
    let list = Command::new("ps").args(["-ww", "-eo", columns]).output().context("start ps(1)")?;
    let mut pids = vec![suite.to_string()];
    for at in 0.. {
        let Some(pid) = pids.get(at) else { break };
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("children")));
        let children: Vec<String> =
            children.flat_map(|it| it.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
        pids.extend(children.into_iter().filter(|it| !it.is_empty()));
    }
    // Some may have ended meanwhile.
    let _ = Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status();
    Ok(String::from_utf8_lossy(&list.stdout).into_owned())
}

/// The tests that ran for more than a minute and did not end, by the test binary's own notice.
fn running(output: &str) -> impl Iterator<Item = &str> {
    let slow = output.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("test ")?.split_once(" has been running for over")?;
        Some(name)
    });
    slow.filter(|name| {
        let end = format!("test {name} ... ");
        !output.lines().any(|line| line.starts_with(&end))
    })
}

/// The last lines of `output`, from the list of failures on if there is one.
fn excerpt(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let first = lines.iter().position(|line| *line == "failures:").unwrap_or(0);
    lines[first.max(lines.len().saturating_sub(LINES))..].join("\n")
}

/// The name of the failed test in a line of a test binary.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::trim)
}

/// The number of passed tests, from the closing line of a test binary.
fn passed(line: &str) -> Option<u64> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split(' ').next()?.parse().ok()
}

/// Whether a test passes when it runs alone.
fn again(suite: &Suite, name: &str) -> anyhow::Result<bool> {
    let mut child = command(suite).args([name, "--exact"]).spawn().context("start a test")?;
    let (status, processes) = end_within(LIMIT, &mut child)?;
    if let Some(list) = processes {
        eprintln!("ci: `{name}` hung; all processes:\n{list}");
    }
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

    #[test]
    fn the_closing_line_counts_what_passed() {
        assert_eq!(passed("test result: ok. 12 passed; 0 failed; 0 ignored"), Some(12));
        assert_eq!(passed("test result: FAILED. 1 passed; 1 failed"), Some(1));
        assert_eq!(passed("test a ... ok"), None);
    }

    /// A test binary made of a shell script.
    fn script(folder: &tempfile::TempDir, body: &str) -> Suite {
        let binary = folder.path().join("suite");
        std::fs::write(&binary, format!("#!/bin/sh\n{body}\n")).unwrap();
        let mut mode = std::fs::metadata(&binary).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&binary, mode).unwrap();
        let home = folder.path().to_owned();
        Suite { name: "x::y".into(), binary, home, chosen: Vec::new(), on_machine: true }
    }

    #[test]
    fn a_failed_test_is_named_and_tried_alone() {
        let folder = tempfile::tempdir().unwrap();
        let alone = "[ \"$1\" = b ] && exit 0\n[ \"$1\" = --skip ] || exit 1";
        let all = "echo 'test a ... ok'; echo 'test b ... FAILED'\n\
                   echo failures:; echo 'b panicked' >&2; exit 1";
        let suite = script(&folder, &format!("{alone}\n{all}"));
        let path = folder.path().join("output");
        let outcome = once(&suite, &path, LIMIT).unwrap();
        let excerpt = "failures:\nb panicked".to_owned();
        let failed = vec!["b".to_owned()];
        assert_eq!(outcome, Outcome { ok: false, passed: 0, failed, excerpt });
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with("test a ... ok\ntest b ... FAILED\n"), "{kept}");
        assert!(again(&suite, "b").unwrap(), "alone it passes");
        assert!(!again(&suite, "a").unwrap(), "this one does not");
    }

    #[test]
    fn a_suite_that_hangs_is_killed_with_its_children_and_its_test_named() {
        let folder = tempfile::tempdir().unwrap();
        let notice = |name: &str| format!("test {name} has been running for over 60 seconds");
        let suite = script(
            &folder,
            &format!(
                "echo '{}'; echo '{}'; echo 'test b ... ok'\nsleep 1234.5 & sleep 1234.5",
                notice("a"),
                notice("b")
            ),
        );
        let limit = Duration::from_millis(500);
        let outcome = once(&suite, &folder.path().join("output"), limit).unwrap();
        assert_eq!((outcome.ok, outcome.failed), (false, vec!["a".to_owned()]));
        assert_eq!(outcome.excerpt.matches("sleep 1234.5").count(), 2, "{}", outcome.excerpt);
        let list = Command::new("ps").args(["-eo", "stat,args"]).output().unwrap().stdout;
        let list = String::from_utf8_lossy(&list).into_owned();
        let mut alive = list.lines().filter(|line| !line.starts_with('Z'));
        assert!(!alive.any(|line| line.contains("sleep 1234.5")), "{list}");
    }

    #[test]
    fn what_is_calm_comes_first_and_the_longest_begins_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let suite = |name: &str| Suite { name: name.into(), ..script(&folder, "exit 0") };
        let all = ["a::b", "cli::experiments", "cli::it", "checkup::faults"].map(suite).to_vec();
        let (calm, others) = in_order(all);
        let parts = |suites: &[Suite]| -> Vec<String> {
            suites.iter().map(|it| format!("{} {}", it.name, it.chosen.join(" "))).collect()
        };
        assert_eq!(parts(&calm), ["cli::experiments::quiet quiet::", "checkup::faults "]);
        assert_eq!(parts(&others), ["cli::it ", "cli::experiments --skip quiet::", "a::b "]);
        let ran = at_once(2, others, folder.path()).unwrap();
        assert_eq!(ran.len(), 3, "each once");
    }

    #[test]
    fn second_tries_are_few_and_not_for_unit_tests() {
        let folder = tempfile::tempdir().unwrap();
        let suite = script(&folder, "exit 0");
        let outcome = |count: usize| Outcome {
            ok: false,
            passed: 0,
            failed: (0..count).map(|at| at.to_string()).collect(),
            excerpt: String::new(),
        };
        let check = |suite: &Suite, count: usize, wanted: (usize, usize)| {
            let (mut failed, mut shaky) = (Vec::new(), Vec::new());
            judge(suite, &outcome(count), &mut failed, &mut shaky).unwrap();
            assert_eq!((failed.len(), shaky.len()), wanted, "{count}");
        };
        check(&suite, 2, (0, 2));
        check(&suite, SECOND_TRIES + 1, (1, 0));
        check(&suite, 0, (1, 0));
        check(&Suite { on_machine: false, ..suite }, 1, (1, 0));
    }
}
