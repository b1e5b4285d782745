//! `cargo xtask bench load`: our generator against common generators.
//!
//! All load one server in turns, `roundhouse load --serve-null http` on a core of its own. The
//! measure is the generator's own CPU time per request, user and system, from `/proc` after its
//! end. Ours records every latency from the moment at which the request was due; the others follow
//! their own rules. The kernel's part is nearly the same for all, so the user's part is counted
//! too, in instructions, by callgrind: twice with different numbers of requests, because the
//! difference excludes the work that a program does only once.
//!
//! The surprising thing: instructions do not depend on other activity of the machine, and a row of
//! them needs no repetition.

use super::goals::{self, Figure, Values};
use super::{Ask, at_least, program, record};
use crate::steps;
use anyhow::{Context, bail, ensure};
use stats::words::short;
use stats::{VALUES_MIN, median};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Connections of every generator.
const CONNECTIONS: &str = "64";
/// The duration of one run (seconds), and its time limit.
const SECONDS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(120);
/// A clock tick of `/proc/PID/stat` (ns): a hundred a second on every Linux since 2.6.
const TICK_NS: f64 = 1e7;
/// Requests of the two runs under callgrind.
const COUNTED: [u64; 2] = [4_000, 40_000];
/// The open loop's rate, and the most that the 99th percentile of its lateness should be (ns).
const RATE: &str = "50000";
const LATENESS_MAX: f64 = 50_000.0;

/// Pairs of runs.
const PAIRS: u32 = 8;

const NOTE: &str = "CPU time (user and system) of the generator per request of keep-alive HTTP \
    over 64 connections, one core for it and one for the server; 2 s a run, in turns. Instructions \
    are the user's part alone, by callgrind. A ratio above 1 says that the other needs more.";

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Ours,
    Wrk,
    H2load,
}

/// Another generator against ours.
struct Match {
    other: Tool,
    depth: u32,
    /// The least that the other's CPU per request divided by ours should be, and the same of
    /// instructions, where they are counted.
    cpu: f64,
    instructions: Option<f64>,
}

/// The goals: at most 0.95, 0.8 and 0.75 of the other's CPU, 0.6 of wrk's instructions.
const MATCHES: [Match; 3] = [
    Match { other: Tool::Wrk, depth: 1, cpu: 1.0 / 0.95, instructions: Some(1.0 / 0.6) },
    Match { other: Tool::Wrk, depth: 16, cpu: 1.0 / 0.8, instructions: None },
    Match { other: Tool::H2load, depth: 1, cpu: 1.0 / 0.75, instructions: None },
];

/// The files and programs that the runs need.
struct Room {
    roundhouse: PathBuf,
    dir: PathBuf,
    url: String,
    /// Cores of the generator and of the server.
    cores: (usize, usize),
}

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds, measures, prints a table, and with `--save` keeps it in `runs/`.
///
/// # Errors
/// If a build fails or the arguments are invalid. A missing generator is a row with its reason.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let Ask { quick, save, .. } = Ask::parse(args, &["--save", "--quick"], 1)?;
    let pairs = if quick { 2 } else { PAIRS };
    let roundhouse = program()?;
    let dir = std::env::temp_dir().join(format!("roundhouse-bench-load-{}", std::process::id()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let mut room = Room { roundhouse, dir, url: String::new(), cores: (0, last) };
    let server = room.serve()?;
    let doubts: Vec<String> = record::busy().into_iter().collect();
    let mut figures: Vec<Figure> = MATCHES.iter().flat_map(|it| room.compare(it, pairs)).collect();
    figures.push(room.lateness(pairs));
    drop(server);
    fs::remove_dir_all(&room.dir).with_context(|| format!("remove {}", room.dir.display()))?;
    let title = "The generator against other generators";
    goals::show(["load", title, NOTE], &figures, &doubts, save)
}

/// A row of the table.
fn figure(
    name: String,
    what: &'static str,
    load: String,
    bound: f64,
    found: anyhow::Result<Values>,
) -> Figure {
    let found = found.map_err(|error| format!("{error:#}"));
    let (goal, because, wanted) = ("", "", at_least(bound));
    Figure { goal, name, what, load, wanted, because, found }
}

impl Room {
    /// Starts the null server.
    fn serve(&mut self) -> anyhow::Result<Server> {
        let mut command = self.pinned(self.cores.1);
        command.arg(&self.roundhouse).args(["load", "--serve-null", "http"]);
        let mut child = command.stdout(Stdio::piped()).spawn().context("start the null server")?;
        let out = child.stdout.take().context("its output was piped")?;
        let server = Server(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).context("read where it listens")?;
        let ready: serde_json::Value = serde_json::from_str(&line)
            .with_context(|| format!("expected where the null server listens, found `{line}`"))?;
        let address = ready["listening"].as_str().context("expected an address")?;
        self.url = format!("http://{address}/");
        Ok(server)
    }

    /// A command that begins with ours for pinning; the next argument is the program.
    fn pinned(&self, core: usize) -> Command {
        let mut command = Command::new(&self.roundhouse);
        command.args(["pin", &core.to_string(), "--"]).stdin(Stdio::null());
        command
    }

    /// CPU in pairs, instructions once.
    fn compare(&self, it: &Match, pairs: u32) -> Vec<Figure> {
        let name = || format!("{} / load", it.other.name());
        let load = || format!("depth {}", it.depth);
        eprintln!("── {}, {}", name(), load());
        let mut figures =
            vec![figure(name(), "CPU per request", load(), it.cpu, self.pairs(it, pairs))];
        if let Some(bound) = it.instructions {
            eprintln!("── {}, {}, instructions", name(), load());
            figures.push(figure(name(), "instructions", load(), bound, self.instructions(it)));
        }
        figures
    }

    fn pairs(&self, it: &Match, pairs: u32) -> anyhow::Result<Values> {
        let (mut blocks, mut others, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            let order = if pair % 2 == 0 { [it.other, Tool::Ours] } else { [Tool::Ours, it.other] };
            for tool in order {
                let each = self.cpu_ns(tool, it.depth)?;
                if tool == Tool::Ours { &mut ours } else { &mut others }.push(each);
            }
            blocks.push(others[pair as usize] / ours[pair as usize]);
            eprintln!("   {:.0} ns / {:.0} ns", others[pair as usize], ours[pair as usize]);
        }
        let [left, right] = [&others, &ours].map(|it| short(median(it).unwrap_or(f64::NAN)));
        Ok(Values { blocks, from: format!("{left} / {right} ns") })
    }

    /// CPU time per request of one run.
    fn cpu_ns(&self, tool: Tool, depth: u32) -> anyhow::Result<f64> {
        let mut command = self.pinned(self.cores.0);
        self.invoke(&mut command, tool, depth, &Extent::Seconds(SECONDS))?;
        let (text, ticks) = ended(&mut command)?;
        Ok(ticks * TICK_NS / tool.requests(&text)? as f64)
    }

    /// User instructions per request: the slope between two runs.
    fn instructions(&self, it: &Match) -> anyhow::Result<Values> {
        let slope = |tool: Tool| -> anyhow::Result<f64> {
            let mut points = Vec::new();
            for count in COUNTED {
                let file = self.dir.join("callgrind.out");
                let mut command = Command::new("valgrind");
                command.arg("--tool=callgrind").stdin(Stdio::null());
                command.arg(format!("--callgrind-out-file={}", file.display()));
                self.invoke(&mut command, tool, it.depth, &Extent::Count(count))?;
                let (text, _) = ended(&mut command)?;
                points.push((tool.requests(&text)? as f64, collected(&text)?));
            }
            let [(requests, instructions), (more, most)] = points[..] else {
                bail!("expected two runs, found {}", points.len());
            };
            ensure!(more > requests, "expected the second run to be longer, found {points:?}");
            Ok((most - instructions) / (more - requests))
        };
        let (other, ours) = (slope(it.other)?, slope(Tool::Ours)?);
        // The count has no random part: all blocks are the same.
        let blocks = vec![other / ours; VALUES_MIN];
        Ok(Values { blocks, from: format!("{} / {}", short(other), short(ours)) })
    }

    /// Adds the generator and its arguments.
    fn invoke(
        &self,
        command: &mut Command,
        tool: Tool,
        depth: u32,
        length: &Extent,
    ) -> anyhow::Result<()> {
        let url = self.url.as_str();
        match tool {
            Tool::Ours => {
                command.arg(&self.roundhouse).args(["load", url, "--json", "--warmup", "0s"]);
                command.args(["--depth", &depth.to_string()]);
                match length {
                    Extent::Seconds(span) => command.args(["-d", &format!("{span}s")]),
                    Extent::Count(count) => command.args(["-n", &count.to_string()]),
                };
            }
            Tool::Wrk => {
                let seconds = match length {
                    Extent::Seconds(span) => *span,
                    // The generator counts no requests: this duration yields as many under
                    // callgrind.
                    Extent::Count(count) => (count / 4_000) as u32,
                };
                command.args(["wrk", "-t1", &format!("-d{seconds}s"), url]);
                if depth > 1 {
                    command.arg("-s").arg(self.script(depth)?);
                }
            }
            Tool::H2load => {
                command.args(["h2load", "--h1", "-t1", url, "-m", &depth.to_string()]);
                match length {
                    Extent::Seconds(span) => command.args(["-D", &span.to_string()]),
                    Extent::Count(count) => command.args(["-n", &count.to_string()]),
                };
            }
        }
        command.args(["-c", CONNECTIONS]);
        Ok(())
    }

    /// A script that lets wrk send `depth` requests in one write.
    fn script(&self, depth: u32) -> anyhow::Result<PathBuf> {
        let path = self.dir.join("pipeline.lua");
        let text = format!(
            "init = function(args)\n  local all = {{}}\n  for i = 1, {depth} do all[i] = \
             wrk.format() end\n  batch = table.concat(all)\nend\nrequest = function() return batch \
             end\n"
        );
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// The lateness of an open loop.
    fn lateness(&self, pairs: u32) -> Figure {
        eprintln!("── lateness at {RATE}/s");
        let one = || -> anyhow::Result<f64> {
            let mut command = self.pinned(self.cores.0);
            command.arg(&self.roundhouse).args(["load", &self.url, "--json", "-d", "3s"]);
            command.args(["--open", RATE, "-c", CONNECTIONS]);
            let (text, _) = ended(&mut command)?;
            let p99 = report(&text)?["lateness"]["p99_ns"].as_f64();
            p99.with_context(|| format!("expected a 99th percentile in {text}"))
        };
        let found = (0..pairs).map(|_| one()).collect::<anyhow::Result<Vec<f64>>>().map(|all| {
            let from = format!("50 / {} us", short(median(&all).unwrap_or(f64::NAN) / 1e3));
            Values { blocks: all.iter().map(|late| LATENESS_MAX / late).collect(), from }
        });
        let load = format!("open, {RATE}/s");
        figure("50 us / load".to_owned(), "lateness p99", load, 1.0, found)
    }
}

/// The length of a run.
enum Extent {
    Seconds(u32),
    Count(u64),
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "load",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
        }
    }

    /// The number of requests in its output.
    fn requests(self, text: &str) -> anyhow::Result<u64> {
        let number = |line: &str, place: usize| line.split_whitespace().nth(place)?.parse().ok();
        let found = match self {
            Self::Ours => report(text)?["requests_total"].as_u64(),
            Self::Wrk => {
                text.lines().find(|it| it.contains(" requests in ")).and_then(|it| number(it, 0))
            }
            // requests: 9 total, 9 started, 9 done, ...
            Self::H2load => {
                text.lines().find(|it| it.starts_with("requests:")).and_then(|it| number(it, 5))
            }
        };
        let found = found.filter(|&count| count > 0);
        found.with_context(|| format!("expected {} to say its requests: {text}", self.name()))
    }
}

/// The report of ours.
fn report(text: &str) -> anyhow::Result<serde_json::Value> {
    let line = text.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.context("expected a line of JSON")?).context("the report")
}

/// Reads callgrind's count: `==1== Collected : 12345`.
fn collected(text: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = line.context("expected callgrind's sum, found none")?;
    count.trim().parse().with_context(|| format!("expected a number, found `{count}`"))
}

/// Runs a command to its end; returns its output on both streams, and the clock ticks that it used.
fn ended(command: &mut Command) -> anyhow::Result<(String, f64)> {
    let words = steps::line(command);
    let file = std::env::temp_dir().join(format!("roundhouse-bench-out-{}", std::process::id()));
    let out = fs::File::create(&file).with_context(|| format!("create {}", file.display()))?;
    command.stdout(out.try_clone()?).stderr(out);
    let mut child = command.spawn().with_context(|| format!("start `{words}`"))?;
    let ticks = ticks(&mut child);
    let status = child.wait().with_context(|| format!("wait for `{words}`"))?;
    let text = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    // Ours exits with 98 if the machine was busy; the table shows that too.
    ensure!(status.success() || status.code() == Some(98), "`{words}`: {status}: {text}");
    Ok((text, ticks?))
}

/// The clock ticks of a process, read after its end and before the wait for it: at that time they
/// include all threads (proc_pid_stat(5), fields 14 and 15).
fn ticks(child: &mut Child) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/stat", child.id());
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let rest = text.rsplit_once(')').context("expected a name in brackets")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            let tick = |at: usize| -> anyhow::Result<f64> { Ok(fields[at].parse()?) };
            return Ok(tick(11)? + tick(12)?);
        }
        if Instant::now() > end {
            child.kill()?;
            bail!("expected an end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_generators_say_is_understood() {
        let wrk = "Running 2s test\n  105996 requests in 2.00s, 9.30MB read\nRequests/sec: 1\n";
        assert_eq!(Tool::Wrk.requests(wrk).unwrap(), 105_996);
        let h2load = "finished in 2.00s\nrequests: 12 total, 12 started, 11 done, 11 succeeded\n";
        assert_eq!(Tool::H2load.requests(h2load).unwrap(), 11);
        let ours = "a doubt\n{\"requests_total\": 7}\n";
        assert_eq!(Tool::Ours.requests(ours).unwrap(), 7);
        for tool in [Tool::Wrk, Tool::H2load, Tool::Ours] {
            assert!(tool.requests("nothing").is_err());
        }
        assert_eq!(collected("==9== Collected : 123\n").unwrap(), 123.0);
    }
}
