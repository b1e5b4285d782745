//! `cargo xtask golden`: instructions per request of each core loop, compared with a kept figure.
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
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Requests before the counts, of the phase with many and of the one with few.
const WARM_UP: u32 = 500;
const REQUESTS: [u32; 2] = [4_000, 400];

/// The allowed change of a figure, as a share of it. Within the bound it stays, so that many small
/// rises add up to one that is noticed.
const BOUND: f64 = 0.05;

/// Each loop of the core: its name, the instructions that a request takes, and the server's flags.
/// The commit that changes a figure says why.
const LOOPS: &[(&str, f64, &[&str])] = &[
    ("blocking", 1_810.0, &["--engine", "iterative"]),
    ("thread", 1_810.0, &["--engine", "thread"]),
    ("pool", 1_810.0, &["--engine", "pool", "--workers", "2"]),
    ("select", 3_241.2, &["--engine", "select"]),
    ("poll", 2_909.7, &["--engine", "poll"]),
    ("epoll", 2_805.0, &["--engine", "epoll"]),
    ("epoll-edge", 2_796.8, &["--engine", "epoll", "--edge"]),
    ("reactor", 2_805.0, &["--engine", "reactor", "--workers", "1"]),
    ("coroutine", 3_003.1, &["--engine", "coroutine", "--workers", "1"]),
    ("tokio-local", 6_594.6, &["--engine", "tokio-local", "--workers", "1"]),
    ("tokio-steal", 7_967.3, &["--engine", "tokio-steal", "--workers", "1"]),
    ("leader", 4_446.0, &["--engine", "leader", "--workers", "2"]),
    ("staged", 7_206.1, &["--engine", "staged", "--workers", "1"]),
    // Requests under callgrind wait for long, and none may be refused.
    ("epoll-governed", 3_003.4, &["--engine", "epoll", "--governor", "on", "--deadline", "60s"]),
];
/// A loop with a governor, the same loop without one, and the most instructions that it may add to
/// a request: about a hundredth of the 9 us that a request takes with the kernel's part.
const GOVERNED: (&str, &str, f64) = ("epoll-governed", "epoll", 250.0);

/// Checks every loop.
///
/// # Errors
/// If a loop cannot be counted, or takes more instructions than its bound allows.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return lacks_valgrind();
    }
    // As CI builds it: other packages in one build, other features, other counts.
    let build = ["build", "--quiet", "--workspace", "--all-targets", "--profile", PROFILE];
    steps::run(&mut steps::cargo(build), "cargo")?;
    check(&steps::binary("roundhouse", PROFILE)?)
}

/// Without valgrind there is no count; this is an error only in CI.
fn lacks_valgrind() -> anyhow::Result<()> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("CI must have valgrind (Debian: `apt install valgrind`), and it is missing");
    }
    eprintln!("skipped: callgrind");
    Ok(())
}

/// Counts every loop and compares.
fn check(binary: &Path) -> anyhow::Result<()> {
    let (mut counted, mut faults) = (Vec::new(), Vec::new());
    let folder = tempfile::tempdir().context("a temporary directory")?;
    for (name, kept, count) in count_all(&stripped(binary, folder.path())) {
        let count = count.with_context(|| format!("count the loop `{name}`"))?;
        let change = count / kept - 1.0;
        let mark = match change {
            _ if change > BOUND => ": TOO MANY",
            _ if change < -BOUND => ": keep the gain in xtask/src/golden.rs",
            _ => "",
        };
        println!("{name:<14} {count:>9.1} instructions a request, {:+.1} %{mark}", change * 100.0);
        if change > BOUND {
            faults.push(name);
        }
        counted.push((name, count));
    }
    let count = |name| counted.iter().find(|it| it.0 == name).map_or(f64::NAN, |it| it.1);
    let (with, without, most) = GOVERNED;
    let added = count(with) - count(without);
    println!("{with:<14} {added:>9.1} instructions more than {without}, of at most {most:.0}");
    if added > most {
        bail!("expected a governor to add at most {most:.0} instructions, found {added:.1}");
    }
    if !faults.is_empty() {
        bail!(
            "expected instructions per request within {:.0} % of xtask/src/golden.rs, found more \
             in {faults:?}; if they are worth it, write them there",
            BOUND * 100.0
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

/// Counts all loops, as many at a time as there are cores.
fn count_all(binary: &Path) -> Vec<(&'static str, f64, anyhow::Result<f64>)> {
    let queue = Mutex::new(LOOPS.iter().enumerate());
    let counts = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((at, (name, kept, flags))) = next() {
                    let count = per_request(binary, flags);
                    if let Ok(mut counts) = counts.lock() {
                        counts.push((at, (*name, *kept, count)));
                    }
                }
            });
        }
    });
    let mut counts = counts.into_inner().unwrap_or_default();
    counts.sort_by_key(|(at, _)| *at);
    counts.into_iter().map(|(_, counted)| counted).collect()
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

    #[test]
    fn a_profile_of_several_parts_is_summed() {
        assert_eq!(total("events: Ir\n\ntotals: 12\n"), Some(12));
        assert_eq!(total("summary: 5\nfn=a\nsummary: 6\n"), Some(11));
        assert_eq!(total("fn=a\n"), None);
    }
}
