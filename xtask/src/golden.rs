//! `cargo xtask golden`: instructions per request of each core loop, compared with a stored figure.
//!
//! A clock on a busy machine shows a slowdown of a third at best. Instructions do not depend on
//! neighbours, so a change of a few percent shows in the CI run that introduces it. The server runs
//! under callgrind, and one client sends many requests, then few, one at a time on one connection.
//! Callgrind writes its count after each phase, so that neither start nor stop is part of it. The
//! few requests take as long as the many: the difference of the two counts excludes the work that
//! the clock starts (a governor decides twenty times a second), which a slow machine does more
//! often for each request. The count covers the whole program, but neither kernel nor client.
//!
//! It counts the build that CI makes anyway (profile `ci`, opt-level 1). That build is slower than
//! a release, but a request passes through the same functions, and another build would cost more
//! than all counts together. The figures hold for one toolchain, which `rust-toolchain.toml` pins.
//!
//! Exceptions: `uring` and `port`, because valgrind does not see the kernel's writes to a ring's
//! memory and the server never gets ready; and containers of processes, because valgrind 3.19 does
//! not know pidfd_open(2). Their loops are those of the counted thread variants.

use crate::steps::{self, PROFILE, Server};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The file of the figures.
const KEPT: &str = "tests/golden.toml";
/// Requests before the counts, of the phase with many and of the one with few.
const WARM_UP: u32 = 500;
const REQUESTS: [u32; 2] = [4_000, 400];

/// Each loop of the core: its name, and the server's flags.
const LOOPS: &[(&str, &[&str])] = &[
    ("blocking", &["--engine", "iterative"]),
    ("thread", &["--engine", "thread"]),
    ("pool", &["--engine", "pool", "--workers", "2"]),
    ("select", &["--engine", "select"]),
    ("poll", &["--engine", "poll"]),
    ("epoll", &["--engine", "epoll"]),
    ("epoll-edge", &["--engine", "epoll", "--edge"]),
    ("reactor", &["--engine", "reactor", "--workers", "1"]),
    ("coroutine", &["--engine", "coroutine", "--workers", "1"]),
    ("tokio-local", &["--engine", "tokio-local", "--workers", "1"]),
    ("tokio-steal", &["--engine", "tokio-steal", "--workers", "1"]),
    ("leader", &["--engine", "leader", "--workers", "2"]),
    ("staged", &["--engine", "staged", "--workers", "1"]),
    // Requests under callgrind wait for long, and none may be refused.
    ("epoll-governed", &["--engine", "epoll", "--governor", "on", "--deadline", "60s"]),
];
/// A loop with a governor, the same loop without one, and the most instructions that it may add to
/// a request: about a hundredth of the 9 us that a request takes with the kernel's part.
const GOVERNED: (&str, &str, f64) = ("epoll-governed", "epoll", 250.0);

/// Checks every loop, or stores the counts: `--write REASON`.
///
/// # Errors
/// If a loop cannot be counted, or takes more instructions than its bound allows.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let reason = match args {
        [] => None,
        [flag, reason] if flag == "--write" => Some(reason.as_str()),
        _ => bail!("expected nothing or `--write REASON`, found {args:?}"),
    };
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return lacks_valgrind();
    }
    // As CI builds it: other packages in one build, other features, other counts.
    let build = ["build", "--quiet", "--workspace", "--all-targets", "--profile", PROFILE];
    steps::run(&mut steps::cargo(build), "cargo")?;
    check(&steps::binary("roundhouse", PROFILE)?, reason)
}

/// Without valgrind there is no count; this is an error only in CI.
fn lacks_valgrind() -> anyhow::Result<()> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("CI must have valgrind (Debian: `apt install valgrind`), and it is missing");
    }
    eprintln!("skipped: callgrind");
    Ok(())
}

/// Counts every loop and compares; with a reason, keeps the figures.
fn check(binary: &Path, reason: Option<&str>) -> anyhow::Result<()> {
    let path = crate::root().join(KEPT);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let kept = Golden::read(&text)?;
    let mut counted = Vec::new();
    let folder = tempfile::tempdir().context("a temporary directory")?;
    for (name, count) in count_all(&stripped(binary, folder.path())) {
        counted.push((name, count.with_context(|| format!("count the loop `{name}`"))?));
    }
    let count = |name| counted.iter().find(|it| it.0 == name).map_or(f64::NAN, |it| it.1);
    let (with, without, most) = GOVERNED;
    let added = count(with) - count(without);
    println!("{:<14} {added:>9.1} instructions more than {without}, of at most {most:.0}", with);
    if added > most {
        bail!("expected a governor to add at most {most:.0} instructions, found {added:.1}");
    }
    if let Some(reason) = reason {
        std::fs::write(&path, kept.with(&counted, reason).text()?)?;
        eprintln!("golden: kept as {}", path.display());
        return Ok(());
    }
    let mut raised = Vec::new();
    for (name, count) in counted {
        if kept.rows.is_empty() {
            println!("{name:<14} {count:>9.1} instructions a request");
            continue;
        }
        let judgement = kept.judge(name, count);
        println!("{name:<14} {count:>9.1} instructions a request, {}", judgement.words());
        if judgement.is_fault() {
            raised.push(name);
        }
    }
    if kept.rows.is_empty() {
        eprintln!("golden: no figures are kept yet: `cargo xtask golden --write WHY` keeps these");
    }
    if !raised.is_empty() {
        bail!(
            "expected instructions per request within {:.0} % of {KEPT}, found more in {raised:?}; \
             if they are worth it: cargo xtask golden --write \"WHY\"",
            kept.bound * 100.0
        );
    }
    Ok(())
}

/// The binary without debug information, which callgrind would read for seconds at each start. If
/// strip(1) is missing, the binary itself.
fn stripped(binary: &Path, folder: &Path) -> PathBuf {
    let path = folder.join("roundhouse");
    let status = Command::new("strip").arg("-o").arg(&path).arg(binary).status();
    if status.is_ok_and(|status| status.success()) { path } else { binary.to_owned() }
}

/// A kept figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    instructions: f64,
    /// The reason for its value.
    reason: String,
}

/// The kept figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Golden {
    /// The allowed rise of a figure, as a share of it.
    #[serde(default = "bound")]
    bound: f64,
    #[serde(default, rename = "loop")]
    rows: Vec<Row>,
}

fn bound() -> f64 {
    0.05
}

/// The beginning of the file of the figures.
const HEAD: &str =
    "# Instructions per request of each loop of the core, under callgrind, in the profile
# `ci`: one client that asks `buy` and `sell` in turn and waits for each reply.
# `cargo xtask golden` checks them; `--write WHY` changes those that have left
# the bound, and `reason` says why.
";

/// The relation of a count to its stored figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judgement {
    Within(f64),
    Raised(f64),
    Lowered(f64),
    Unknown,
}

impl Judgement {
    fn is_fault(self) -> bool {
        matches!(self, Judgement::Raised(_) | Judgement::Unknown)
    }

    fn words(self) -> String {
        match self {
            Judgement::Within(change) => format!("{:+.1} %", change * 100.0),
            Judgement::Raised(change) => format!("{:+.1} %: TOO MANY", change * 100.0),
            Judgement::Lowered(change) => {
                format!("{:+.1} %: keep the gain by `cargo xtask golden --write`", change * 100.0)
            }
            Judgement::Unknown => "which has no kept figure".to_owned(),
        }
    }
}

impl Golden {
    fn read(text: &str) -> anyhow::Result<Golden> {
        toml::from_str(text).context(KEPT)
    }

    fn judge(&self, name: &str, count: f64) -> Judgement {
        let Some(row) = self.rows.iter().find(|row| row.name == name) else {
            return Judgement::Unknown;
        };
        let change = count / row.instructions - 1.0;
        match change {
            _ if change > self.bound => Judgement::Raised(change),
            _ if change < -self.bound => Judgement::Lowered(change),
            _ => Judgement::Within(change),
        }
    }

    /// The same with the new counts. A count within the bound keeps its old figure, so that many
    /// small rises add up to one that is noticed.
    fn with(mut self, counted: &[(&str, f64)], reason: &str) -> Golden {
        for &(name, count) in counted {
            if let Judgement::Within(_) = self.judge(name, count) {
                continue;
            }
            self.rows.retain(|row| row.name != name);
            let (name, reason) = (name.to_owned(), reason.to_owned());
            self.rows.push(Row { name, instructions: (count * 10.0).round() / 10.0, reason });
        }
        let place = |row: &Row| LOOPS.iter().position(|(name, _)| *name == row.name);
        self.rows.sort_by_key(place);
        self
    }

    fn text(&self) -> anyhow::Result<String> {
        Ok(format!("{HEAD}{}", toml::to_string(self)?))
    }
}

/// Counts all loops, as many at a time as there are cores.
fn count_all(binary: &Path) -> Vec<(&'static str, anyhow::Result<f64>)> {
    let queue = Mutex::new(LOOPS.iter().enumerate());
    let counts = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((at, (name, flags))) = next() {
                    let count = per_request(binary, flags);
                    if let Ok(mut counts) = counts.lock() {
                        counts.push((at, *name, count));
                    }
                }
            });
        }
    });
    let mut counts = counts.into_inner().unwrap_or_default();
    counts.sort_by_key(|(at, ..)| *at);
    counts.into_iter().map(|(_, name, count)| (name, count)).collect()
}

/// Instructions per request of a server with these flags.
fn per_request(binary: &Path, flags: &[&str]) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    std::fs::write(folder.path().join("stock.txt"), "1 1000 100\n2 1000 200\n")?;
    let out = format!("--callgrind-out-file={}", folder.path().join("out").display());
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet", &out]).arg(binary);
    valgrind.args(["serve", "stock", "--port", "0", "--admin", "none", "--data", "stock.txt"]);
    let server = Server::start(valgrind.args(flags).current_dir(folder.path()))?;
    let mut client = TcpStream::connect(&server.address)?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(Duration::from_secs(60)))?;
    let [many, few] = REQUESTS;
    ask(&mut client, WARM_UP, Duration::ZERO)?;
    order(&server, "zero")?;
    let begin = Instant::now();
    ask(&mut client, many, Duration::ZERO)?;
    let time = begin.elapsed();
    order(&server, "dump")?;
    ask(&mut client, few, time)?;
    order(&server, "dump")?;
    drop(client);
    let status = server.stop()?;
    if !status.success() {
        bail!("expected the server to drain, found {status}");
    }
    let count = |part| {
        let path = folder.path().join(format!("out.{part}"));
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        total(&text).with_context(|| format!("no sum in {}", path.display()))
    };
    Ok((count(1)? as f64 - count(2)? as f64) / f64::from(many - few))
}

/// Has callgrind execute a monitor command, by vgdb(1).
fn order(server: &Server, command: &str) -> anyhow::Result<()> {
    let pid = format!("--pid={}", server.child.id());
    let done = Command::new("vgdb").args([&pid, command]).output().context("start vgdb(1)")?;
    if !done.status.success() {
        bail!("vgdb {command}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// One client that waits for each reply, and spreads its requests over `time`.
fn ask(stream: &mut TcpStream, requests: u32, time: Duration) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut reply = String::new();
    for number in 0..requests {
        std::thread::sleep((time * number / requests).saturating_sub(begin.elapsed()));
        let request: &[u8] = if number % 2 == 0 { b"buy 1 1\n" } else { b"sell 1 1\n" };
        stream.write_all(request)?;
        reply.clear();
        replies.read_line(&mut reply)?;
        if !reply.ends_with("success\n") {
            bail!("expected success, found {reply:?}");
        }
    }
    Ok(())
}

/// The instructions of one profile: the sum of its parts' `totals:` or `summary:`.
fn total(profile: &str) -> Option<u64> {
    let lines = |key: &str| -> Vec<u64> {
        let lines = profile.lines().filter_map(|line| line.strip_prefix(key));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
    };
    let totals = lines("totals:");
    let all = if totals.is_empty() { lines("summary:") } else { totals };
    (!all.is_empty()).then(|| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Golden {
        let text =
            "bound = 0.03\n[[loop]]\nname = \"epoll\"\ninstructions = 1000.0\nreason = \"r\"\n";
        Golden::read(text).unwrap()
    }

    #[test]
    fn a_rise_beyond_the_bound_is_a_fault_and_a_fall_is_not() {
        let is_fault = |count| golden().judge("epoll", count).is_fault();
        assert!(is_fault(1031.0));
        assert!(!is_fault(1029.0) && !is_fault(971.0) && !is_fault(500.0));
        assert!(golden().judge("poll", 1.0).is_fault(), "a loop without a figure");
    }

    #[test]
    fn writing_changes_what_left_the_bound_and_keeps_the_rest() {
        let within = golden().with(&[("epoll", 1020.0)], "why");
        assert_eq!(within, golden());
        let raised = golden().with(&[("epoll", 1100.04), ("poll", 7.0)], "why");
        assert_eq!(raised.judge("epoll", 1100.0), Judgement::Within(0.0));
        assert_eq!(raised.rows[0].name, "poll", "in the order of the loops");
        assert_eq!(raised.rows[1].reason, "why");
        assert_eq!(Golden::read(&raised.text().unwrap()).unwrap(), raised);
    }

    #[test]
    fn a_profile_of_several_parts_is_summed() {
        assert_eq!(total("events: Ir\n\ntotals: 12\n"), Some(12));
        assert_eq!(total("summary: 5\nfn=a\nsummary: 6\n"), Some(11));
        assert_eq!(total("fn=a\n"), None);
    }
}
