//! `roundhouse tune`: chooses an engine and its settings for a workload and an objective.
//!
//! Each heat is a line of `tune.jsonl` before the next begins, so Ctrl-C loses nothing and the same
//! command goes on. The choice is `tuned.toml`, with which every server starts; `tune.html` shows
//! the way to it.

use crate::museum::progress::bar;
use crate::race::plan;
use ::tune::account::{self, About};
use ::tune::{
    Advice, Candidate, Facts, Found, Machine, Recipe, Record, SearchTerms, Space, search,
};
use anyhow::{Context, Result, anyhow};
use engines::Refused;
use lab::draft::TunedLoad;
use lab::file::ArmSpec;
use lab::machine::{Host, Placement, date_now};
use lab::plan::{Arm, fnv1a};
use lab::service::Service;
use language::{debug, info, println, tr};
use load::Slo;
use pages::terminal;
use stats::objective::{Limit, Objective};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tools::interrupt::watch;
use tools::race::room;
use wire::conf::span;

/// The usual time of a search.
const BUDGET: Duration = Duration::from_secs(600);
/// The time of a quick one.
const QUICK: Duration = Duration::from_secs(165);
/// Load before the window of a heat, and the window, milliseconds; the same of a quick search.
const SPANS: (u64, u64) = (300, 1_000);
const QUICK_SPANS: (u64, u64) = (150, 500);
/// A heat has this many requests if it can: of fewer, five late ones decide a p99.
const REQUESTS_MIN: u32 = 500;
/// Above this noise of a heat's cost, as a log-ratio, and where other activity disturbs more than
/// this share of the last heats, the machine is too busy for an answer.
const NOISE_MAX: f64 = 0.15;
const DISTURBED_MAX: f64 = 0.75;

/// The arguments of `tune`.
#[derive(clap::Args)]
pub struct Args {
    /// The workload: cpu, page, stock, downstream, idle or media; a plan with one load point
    /// (FILE.toml); a browser's recording (FILE.har); or a URL, whose path is asked for
    #[arg(default_value = "page", value_name = "WORKLOAD")]
    what: String,
    /// The objective, such as 'p99 < 20ms' [default: the workload's]
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Option<Slo>,
    /// Requests a second [default: the workload's, which may be a share of the default server's
    /// capacity]
    #[arg(long, value_name = "PER-SECOND")]
    rate: Option<f64>,
    /// Choose by the highest rate that keeps the objective, in place of CPU time at the workload's
    #[arg(long)]
    capacity: bool,
    /// The time of the search [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "quick")]
    budget: Option<Duration>,
    /// An answer within three minutes, five with --capacity, from shorter heats and fewer blocks
    #[arg(long)]
    quick: bool,
    /// Length of the measured load of a heat [default: 1s; --quick: 500ms; twice that at low rates]
    #[arg(long, value_name = "TIME", value_parser = span)]
    window: Option<Duration>,
    /// Engines to choose from [default: all that fit the load]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", conflicts_with = "preset")]
    servers: Vec<String>,
    /// Tune the directives of a foreign server: nginx, apache-worker, apache-event, apache-prefork,
    /// redis
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Further flags of every server, such as '--compress'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, conflicts_with = "preset")]
    args: Option<String>,
    /// The folder that the web servers serve, for a recording or a URL
    #[arg(long, value_name = "DIR", conflicts_with = "preset")]
    root: Option<PathBuf>,
    /// Where tuned.toml, tune.html and tune.jsonl are written
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
    /// Start over, even if tune.jsonl holds this search
    #[arg(long)]
    fresh: bool,
    /// Say what would be tried and how long it would take, and try nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that decides a heat.
struct Task {
    workload: TunedLoad,
    slo: Slo,
    terms: SearchTerms,
    /// The time of the objective, nanoseconds.
    limit_ns: u64,
    /// Requests for which a heat may be longer; 0 if a window was asked for.
    requests_min: u32,
    budget: Duration,
    placement: Option<Placement>,
    exe: PathBuf,
    args: Vec<String>,
    root: Option<PathBuf>,
}

/// Searches, and writes the choice. Exit code 99 if no server keeps the objective, 98 if the
/// machine was too busy, 130 if it was stopped.
pub fn run(args: &Args) -> Result<ExitCode> {
    let room = room("roundhouse-tune")?;
    let task = task(args, room.path()).map_err(tools::usage)?;
    let facts = task.facts();
    if args.dry_run {
        return dry_run(&task, &task.space(args, &facts)?, &facts);
    }
    let stop = watch()?;
    let raw = args.out.join("tune.jsonl");
    let record = known(args, &task, &raw)?;
    let bar = bar(1_000, "{bar:24} {elapsed} {wide_msg}");
    let mut show = |text: &str, spent: f64| {
        bar.set_position((1_000.0 * spent.min(1.0)) as u64);
        bar.set_message(text.to_string());
        debug!("{text}");
    };
    let arm = |candidate: &Candidate| task.arm(candidate);
    let default = task.space(args, &facts)?.default;
    // A thread for each connection: no request waits for another.
    let thread = Candidate::usual("thread");
    let has_threads = args.preset.is_none() && Space::engines(&facts).has(&thread);
    let calm = if has_threads { thread } else { default.clone() };
    let recipe = Recipe {
        plan: task.workload.plan.clone(),
        arm: &arm,
        default,
        calm,
        exe: &task.exe,
        requests_min: task.requests_min,
        room: room.path(),
        placement: task.placement,
        capacity: args.capacity.then_some((task.terms.objective, task.limit_ns)),
        stop: Arc::clone(&stop),
    };
    let mut live = Machine::new(recipe, record, task.budget, &mut show);
    info!("{}: {}", tr(&task.workload.plan.question), task.slo);
    let Some(load) = live.calibrate() else { return Ok(stopped()) };
    let (rate, in_flight) = load.map_err(|why| anyhow!(why))?;
    info!("{rate:.0} requests a second, {in_flight:.1} in flight; the record is {}", raw.display());
    let facts = Facts { in_flight, ..facts };
    let space = task.space(args, &facts)?;
    let mut about = About {
        workload: task.workload.plan.question.clone(),
        objective: task.slo.to_string(),
        rate,
        in_flight,
        facts: provenance()?,
        reasons: Vec::new(),
        space: space.size(),
    };
    let Some(found) = search(&space, &facts, &task.terms, &mut live) else { return Ok(stopped()) };
    let chosen = found.finalists.iter().find(|it| it.candidate == found.choice);
    about.rate = chosen.and_then(|it| it.rate).unwrap_or(rate);
    about.reasons = reasons(&live, &space, &found, in_flight);
    let fault = live.fault.take();
    drop(live);
    drop(bar);
    fault.iter().for_each(|why| info!("doubt: {why}"));
    concluded(args, &found, &about)
}

/// The heats of this search that are known.
fn known(args: &Args, task: &Task, raw: &Path) -> Result<Record> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let record = Record::open(raw, &task.key(args)?, args.fresh)?;
    if record.known() > 0 {
        info!("going on: {} heats are there", record.known());
    }
    Ok(record)
}

/// Prints the candidates of a search.
fn dry_run(task: &Task, space: &Space, facts: &Facts) -> Result<ExitCode> {
    let (seeds, all) = (space.seeds(facts).len(), space.size());
    println!("{}: {}", tr(&task.workload.plan.question), task.slo);
    println!(
        "{seeds} candidates of {all} to begin with, at most {} of search",
        stats::words::span(task.budget)
    );
    space.seeds(facts).iter().for_each(|it| println!("  {it}"));
    Ok(ExitCode::SUCCESS)
}

fn stopped() -> ExitCode {
    info!("stopped; the same command goes on");
    ExitCode::from(tools::INTERRUPTED)
}

/// Why choice and default differ: the room for requests, and the causes of more CPU time where that
/// differs beyond doubt.
fn reasons(live: &Machine<'_>, space: &Space, found: &Found, in_flight: f64) -> Vec<String> {
    let mut all = Vec::new();
    if found.choice == found.default {
        return all;
    }
    let [mine, theirs] = [&found.choice, &found.default].map(|it| space.crowd(it));
    if let Some(theirs) = theirs.filter(|it| (*it as f64) < in_flight) {
        let mine = mine.map_or("any number".to_string(), |it| it.to_string());
        all.push(format!(
            "{in_flight:.1} requests are in the server at once (their rate times the time of \
             one that waits for no other): {} works on {theirs}, {} on {mine}.",
            found.default, found.choice
        ));
    }
    let of = |candidate: &Candidate| found.finalists.iter().find(|it| it.candidate == *candidate);
    let (Some(mine), Some(theirs)) = (of(&found.choice), of(&found.default)) else { return all };
    let differs = mine.over_default.is_some_and(|(_, low, high)| high < 1.0 || low > 1.0);
    if let (Some(mine_ns), Some(theirs_ns), true) = (mine.cpu_ns, theirs.cpu_ns, differs) {
        let costs = [(&mine.candidate, mine_ns), (&theirs.candidate, theirs_ns)];
        all.extend(live.reasons(costs, in_flight.ceil() as u32));
    }
    all
}

/// Writes the page, and the settings of an answer that counts.
fn written(args: &Args, found: &Found, about: &About, is_busy: bool) -> Result<()> {
    let write = |name: &str, text: String| tools::write(&args.out.join(name), text);
    write("tune.html", pages::account(&account::page(found, about))?)?;
    match args.preset {
        _ if is_busy => Ok(()),
        Some(_) => write("tuned.toml", account::plan(found, about)),
        None => write("tuned.toml", account::settings(found, about)),
    }
}

/// Writes and prints the result.
fn concluded(args: &Args, found: &Found, about: &About) -> Result<ExitCode> {
    // Where the choice answers more requests in time, their cost decided nothing.
    let is_noisy = found.noise > NOISE_MAX && found.verdict != Advice::Timelier;
    let is_busy = is_noisy || found.disturbed > DISTURBED_MAX;
    written(args, found, about, is_busy)?;
    if is_busy {
        language::eprintln!(
            "the machine is too busy for an answer, so there is no tuned.toml: the cost of a heat \
             varies by {:.0} %, and other activity disturbed {:.0} % of the last heats",
            100.0 * found.noise,
            100.0 * found.disturbed
        );
        return Ok(ExitCode::from(tools::UNKNOWN));
    }
    if args.json {
        println!("{}", serde_json::to_string(found)?);
    } else {
        let (heads, rows) = account::rows(found);
        let heads = heads.each_ref().map(|head| tr(head));
        println!("{}", terminal::annotated(heads.each_ref().map(AsRef::as_ref), rows));
        for text in std::iter::once(&found.sentence).chain(&about.reasons) {
            println!("{}", terminal::folded(&tr(text), 0));
        }
    }
    let [settings, page] = ["tuned.toml", "tune.html"].map(|name| args.out.join(name));
    let start = if args.preset.is_some() {
        "an arm for a plan of `roundhouse race`".to_string()
    } else {
        format!("`roundhouse serve SERVICE --config {}` starts it", settings.display())
    };
    info!("the settings are {}: {start}; the page is {}", settings.display(), page.display());
    Ok(if found.is_kept { ExitCode::SUCCESS } else { ExitCode::from(tools::MISSED) })
}

/// Machine, date, program and command.
fn provenance() -> Result<Vec<(String, String)>> {
    let machine = Host::identify().context("cannot identify this machine")?.machine;
    let cores = "server and generator on a core each, if there are two";
    let commit = option_env!("ROUNDHOUSE_COMMIT").map_or(String::new(), |it| format!(", {it}"));
    let pairs = [
        (
            "Machine",
            format!("{}, {} cores, Linux {}; {cores}", machine.cpu, machine.cores, machine.kernel),
        ),
        ("Date", date_now()),
        ("Program", format!("roundhouse {}{commit}", env!("CARGO_PKG_VERSION"))),
        (
            "Command",
            std::env::args().skip(1).fold("roundhouse".to_string(), |all, it| all + " " + &it),
        ),
    ];
    Ok(pairs.map(|(name, value)| (name.to_string(), value)).to_vec())
}

fn task(args: &Args, room: &Path) -> Result<Task> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let mut workload =
        plan::resolving(&exe, |resolver| ::tune::workload::read(&args.what, room, resolver))?;
    if let Some(rate) = args.rate {
        ::tune::workload::set_rate(&mut workload.plan.points[0], rate)?;
    }
    let slo = match (&args.slo, &workload.slo) {
        (Some(slo), _) => slo.clone(),
        (None, Some(text)) => text.parse().map_err(|load::parse::Usage(why)| anyhow!(why))?,
        (None, None) => anyhow::bail!("expected --slo, such as --slo 'p99 < 20ms'"),
    };
    let (share, limit_ns) = share(&slo)?;
    let spans = if args.quick { QUICK_SPANS } else { SPANS };
    let window_ms = args.window.map_or(spans.1, |window| window.as_millis() as u64);
    (workload.plan.warmup_ms, workload.plan.window_ms) = (spans.0, window_ms);
    workload.plan.points[0].load.extend(["--slo".to_string(), slo.to_string()]);
    let terms = if args.quick { SearchTerms::quick(share) } else { SearchTerms::usual(share) };
    let terms = if args.capacity { terms.for_capacity() } else { terms };
    let requests_min = if args.window.is_some() { 0 } else { REQUESTS_MIN };
    let budget = args.budget.unwrap_or(if args.quick { QUICK } else { BUDGET });
    let mut all = workload.args.clone();
    let more = lab::command::split(args.args.as_deref().unwrap_or_default());
    all.extend(more.map_err(anyhow::Error::msg)?);
    let root = args.root.as_ref().map(std::path::absolute).transpose()?;
    if root.is_some() && workload.service != Service::Web {
        anyhow::bail!("--root is the folder of web servers, and this workload is none of the web");
    }
    let placement = Placement::choose();
    let args = all;
    Ok(Task { workload, slo, terms, limit_ns, requests_min, budget, placement, exe, args, root })
}

/// The share of the requests that an objective wants in time, and that time, nanoseconds.
///
/// # Errors
/// It is not one percentile: a heat is judged by the share of requests within one time.
fn share(slo: &Slo) -> Result<(f64, u64)> {
    let one = match &slo.0[..] {
        [goal @ Objective { limit: Limit::Value(limit), .. }] => {
            goal.share().map(|share| (share, *limit as u64))
        }
        _ => None,
    };
    one.ok_or_else(|| anyhow!("expected one percentile such as 'p99 < 20ms', found `{slo}`"))
}

impl Task {
    /// The bounds that are known before anything is measured.
    fn facts(&self) -> Facts {
        let point = &self.workload.plan.points[0];
        // Where server and generator have a core each, the server has one.
        let cores = match self.placement {
            Some(_) => 1,
            None => sys::cpu::affinity().map_or(1, |cores| cores.len()),
        };
        Facts {
            cores,
            connections: point.connections as usize,
            silent: point.idle as usize,
            in_flight: 0.0,
            churns: point.requests_per_connection > 0,
        }
    }

    fn space(&self, args: &Args, facts: &Facts) -> Result<Space> {
        let Some(preset) = &args.preset else {
            let mut space = Space::engines(facts);
            if !args.servers.is_empty() {
                space.only(&args.servers).map_err(Refused)?;
            }
            return Ok(space);
        };
        let known = "nginx, apache-worker, apache-event, apache-prefork or redis";
        let none = || Refused(format!("expected {known} as --preset, found `{preset}`"));
        Ok(Space::foreign(preset, facts).ok_or_else(none)?)
    }

    fn arm(&self, candidate: &Candidate) -> Result<Arm, String> {
        let service = self.workload.service;
        let is_foreign = peers::NAMES.contains(&candidate.server.as_str());
        let mut arm = if is_foreign {
            let preset = Some(candidate.server.clone());
            let mut spec = ArmSpec { preset, ..ArmSpec::default() };
            for (name, value) in &candidate.settings {
                spec.directives.insert(name.clone(), value.clone().into());
            }
            peers::resolve(service, &self.exe, &spec).map_err(|why| format!("{why:#}"))?
        } else {
            let mut arm = service.engine(&self.exe, &candidate.server);
            arm.command.extend(self.args.iter().cloned());
            for (name, value) in &candidate.settings {
                arm.command.push(format!("--{name}"));
                if value != "true" {
                    arm.command.push(value.clone());
                }
            }
            arm
        };
        if let Some(root) = &self.root {
            let root = root.display().to_string();
            arm.command.iter_mut().for_each(|word| *word = word.replace("{dir}/www", &root));
        }
        arm.name = candidate.to_string();
        Ok(arm)
    }

    /// Everything that the heats depend on, as a fingerprint.
    fn key(&self, args: &Args) -> Result<String> {
        let program = std::fs::read(&self.exe).context("cannot read this program")?;
        let all = (&self.workload.plan, &self.args, &self.terms, &args.servers, &args.preset);
        let mut bytes = serde_json::to_vec(&all)?;
        bytes.extend(format!("{:?}", self.root).bytes());
        bytes.extend(fnv1a(&program).to_le_bytes());
        Ok(format!("{:016x}", fnv1a(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_one_percentile() {
        let found = |text: &str| share(&text.parse().expect("an objective"));
        assert_eq!(found("p99 < 20ms").expect("a percentile"), (0.99, 20_000_000));
        assert!(found("mean < 5ms").is_err() && found("p99 < 5ms, p50 < 1ms").is_err());
    }
}
