//! `roundhouse duet`: CPU per request of two servers, to a few percent; or a table of such
//! comparisons, with goals, from a plan file.

mod show;

use crate::race::{self, INTERRUPTED};
use anyhow::{Context, Result, anyhow, bail};
use lab::command::Named;
use lab::duet::{DuetTable, Findings, Row};
use lab::file::PlanFile;
use lab::machine::Placement;
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Plan};
use lab::runner::Runner;
use lab::trial::Trial;
use load::parse::span;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tools::interrupt::watch;
use tools::race::{BOOK, book, room};

/// Fresh starts, and windows on each server at the most, that show that a plan works.
const QUICK: (u32, u32) = (2, 5);
/// Exit code if a goal is missed.
const MISSED: u8 = 99;

/// The arguments of `duet`.
#[derive(clap::Args)]
pub struct Args {
    /// A plan with rows of two servers each (FILE.toml); without one, --arm names the servers
    #[arg(value_name = "PLAN", required_unless_present = "arm", conflicts_with = "by_hand")]
    plan: Option<PathBuf>,
    /// Play only the plan's rows in which one of these arms takes part
    #[arg(long, value_delimiter = ',', value_name = "ARM,…", conflicts_with = "by_hand")]
    only: Vec<String>,
    /// Play two fresh pairs of five windows: shows that the plan works, resolves nothing
    #[arg(long, conflicts_with_all = ["pairs", "windows", "by_hand"])]
    quick: bool,
    /// Also write NAME.md and NAME.json into this folder, for the plan NAME.toml
    #[arg(long, value_name = "DIR", conflicts_with = "by_hand")]
    out: Option<PathBuf>,
    /// Keep this text with the results, such as a commit
    #[arg(long, default_value = "", value_name = "TEXT", conflicts_with = "by_hand")]
    label: String,
    #[command(flatten)]
    hand: ByHand,
    /// How often each pair is started afresh; an interval needs 6 [default: 8]
    #[arg(long, alias = "fresh-pairs", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Windows on each server of a pair [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Length of one window [default: 40ms]
    #[arg(long, value_parser = span, value_name = "TIME")]
    window: Option<Duration>,
    /// Load on each server before its first window [default: 200ms]
    #[arg(long, value_parser = span, value_name = "TIME")]
    warmup: Option<Duration>,
    /// The service's data that each server finds in its directory, such as the book of stocks
    /// [default: data/stock.txt, else a built-in one]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Orders and requests come from it [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print everything as one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Servers and load of a duet without a plan.
#[derive(clap::Args)]
#[command(next_help_heading = "Without a plan")]
#[group(id = "by_hand", multiple = true)]
struct ByHand {
    /// A server, `NAME=COMMAND`; the first is compared with each of the others. `{port}` in the
    /// command is replaced by a free port, `{dir}` by a directory of its own that holds stock.txt;
    /// without `{port}` it must print `{"listening": "HOST:PORT"}` first
    #[arg(long, value_name = "NAME=COMMAND")]
    arm: Vec<Named>,
    /// The protocol, such as `stock`, `http`, `echo` or `line`, of all arms or, as NAME=SCHEME, of
    /// one
    #[arg(long, value_name = "[NAME=]SCHEME", default_value = "stock")]
    scheme: Vec<String>,
    /// The constant request of all `line` arms or, as NAME=TEXT, of one; knows \r \n \t \0 \xHH; of
    /// `http` arms the path
    #[arg(long, value_name = "[NAME=]TEXT")]
    request: Vec<String>,
    /// Beginning of correct replies of all `line` arms or, as NAME=TEXT, of one
    #[arg(long, value_name = "[NAME=]TEXT")]
    expect: Vec<String>,
    /// Also compare the first with itself
    #[arg(long)]
    twin: bool,
    /// Connections to each server
    #[arg(long, default_value_t = 64, value_name = "N")]
    connections: u32,
    /// Connections beside these, to one arm, that ask once and then stay silent; the table then
    /// shows the server's memory for each
    #[arg(long, value_name = "NAME=N", value_parser = silent)]
    idle: Vec<(String, u32)>,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1, value_name = "N")]
    depth: u32,
    /// Replies after which a connection is replaced; 0 keeps it
    #[arg(long, default_value_t = 0, value_name = "N")]
    requests_per_connection: u64,
    /// The mix of requests for `stock` arms, such as buy=1
    #[arg(long, default_value = "", value_name = "MIX")]
    mix: String,
}

/// Plays all rows. Exit code 2 if the plan or the arms are none, 1 if replies were wrong or a row
/// brought no figure (but for a program that a plan names and that is not installed), 130 after
/// Ctrl-C, 99 if a plan's goal is missed beyond doubt.
pub fn run(args: Args) -> Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let table = match prepared(&args, &exe) {
        Ok(table) => table,
        Err(why) => {
            eprintln!("roundhouse duet: {why:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let findings = Findings { label: args.label.clone(), ..played(&args, &table, &exe)? };
    if args.json {
        println!("{}", serde_json::to_string(&findings)?);
    } else {
        print!("{}", show::text(&findings));
    }
    for text in &findings.broken {
        eprintln!("WRONG: {text}");
    }
    if let (Some(folder), Some(path)) = (&args.out, &args.plan) {
        write(&findings, folder, &path.file_stem().unwrap_or_default().to_string_lossy())?;
    }
    if findings.interrupted && findings.broken.is_empty() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(match (findings.is_right(), findings.misses()) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(MISSED),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The table of the plan or of the arms, with the flags applied.
fn prepared(args: &Args, exe: &Path) -> Result<DuetTable> {
    let mut table = match &args.plan {
        Some(path) => race::plan::duets(path, exe, args.data.as_deref())?,
        None => by_hand(args)?,
    };
    if !args.only.is_empty() {
        table.only(&args.only).map_err(|why| anyhow!(why))?;
    }
    let millis = |span: Duration| span.as_millis() as u64;
    for plan in table.rows.iter_mut().map(|row| &mut row.plan) {
        if let Some(turns) = &mut plan.turns {
            if args.quick {
                (plan.blocks, turns.windows) = (QUICK.0, turns.windows.min(QUICK.1));
            }
            turns.windows = args.windows.unwrap_or(turns.windows);
        }
        plan.blocks = args.pairs.unwrap_or(plan.blocks);
        plan.window_ms = args.window.map_or(plan.window_ms, millis);
        plan.warmup_ms = args.warmup.map_or(plan.warmup_ms, millis);
        plan.seed = args.seed.unwrap_or(plan.seed);
        plan.check()?;
    }
    Ok(table)
}

fn played(args: &Args, table: &DuetTable, exe: &Path) -> Result<Findings> {
    let (stop, room, placement) = (watch()?, room("roundhouse-duet")?, Placement::choose());
    if placement.is_none() {
        eprintln!("doubt: only one core may be used, so nothing is pinned");
    }
    let mut findings = Findings::new(table).context("cannot identify this machine")?;
    let all = table.rows.len();
    for (row, number) in table.rows.iter().zip(1..) {
        eprintln!("row {number} of {all}: {}, {}", row.name(), row.point());
        // A plan is for many machines; arms by hand are for this one.
        if let Some(why) = row.skip().filter(|_| args.plan.is_some()) {
            findings.skip(row, &why);
            continue;
        }
        let mut runner = Runner::new(&row.plan, exe, room.path(), placement, Arc::clone(&stop));
        let (trials, interrupted) = row.play(&mut runner, &stop, |trials| heard(row, trials));
        findings.take(row, &trials);
        if interrupted {
            findings.interrupted = true;
            eprintln!("stopped; here is what is known");
            break;
        }
    }
    findings.conclude();
    Ok(findings)
}

/// A line on stderr for every figure of a fresh start of all servers.
fn heard(row: &Row, trials: &[Trial]) {
    let number = trials.first().map_or(0, |trial| trial.block + 1);
    for it in row.figures(trials) {
        let found = it.absent.clone().unwrap_or_else(|| show::found(&it));
        eprintln!("pair {number}: {}, {}: {found}", it.name(), it.metric().name());
    }
}

fn write(findings: &Findings, folder: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = serde_json::to_string(findings)? + "\n";
    for (ending, text) in [("md", show::markdown(findings)), ("json", json)] {
        let path = folder.join(name).with_extension(ending);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// Reads `NAME=N`.
fn silent(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=').and_then(|(name, n)| Some((name, n.parse::<u32>().ok()?)));
    let (name, count) = parts.ok_or(format!("expected NAME=N, found `{text}`"))?;
    Ok((name.to_string(), count))
}

/// The row of the arms by hand.
fn by_hand(args: &Args) -> Result<DuetTable> {
    let hand = &args.hand;
    let names: Vec<&str> = hand.arm.iter().map(|arm| arm.name.as_str()).collect();
    if let Some((stranger, _)) = hand.idle.iter().find(|it| !names.contains(&it.0.as_str())) {
        bail!("expected --idle with one of {}, found `{stranger}`", names.join(", "));
    }
    if names.len() + usize::from(hand.twin) < 2 {
        bail!("expected two arms or more, or one with --twin, as --arm NAME=COMMAND");
    }
    let point = LoadPoint {
        name: format!("{} connections, depth {}", hand.connections, hand.depth),
        connections: hand.connections,
        depth: hand.depth,
        requests_per_connection: hand.requests_per_connection,
        mix: hand.mix.clone(),
        ..LoadPoint::default()
    };
    let arms = hand.arm.iter().map(|named| arm(hand, &names, named)).collect();
    let files = vec![book(args.data.as_deref()).with_context(|| {
        format!("every arm gets a book of stocks ({BOOK} by default), used or not")
    })?];
    let plan = Plan { twin: hand.twin, files, ..PlanFile::default().duet(arms, point) };
    let memory = (!hand.idle.is_empty()).then_some((Metric::ConnectionMemory, None));
    Ok(DuetTable {
        question: "What does a request cost?".to_string(),
        note: String::new(),
        margin: plan.margin,
        rows: vec![Row { plan, asked: iter::once((Metric::Cpu, None)).chain(memory).collect() }],
    })
}

fn arm(hand: &ByHand, names: &[&str], named: &Named) -> Arm {
    let of = |values| chosen(values, names, &named.name);
    let scheme = of(&hand.scheme).unwrap_or("stock");
    let (request, expect) = (of(&hand.request), of(&hand.expect));
    let path = request.filter(|_| scheme == "http").unwrap_or_default();
    let flags = [("--request", request.filter(|_| scheme != "http")), ("--expect-prefix", expect)];
    let load =
        flags.iter().filter_map(|(flag, text)| Some([flag.to_string(), (*text)?.to_string()]));
    Arm {
        name: named.name.clone(),
        command: named.command.clone(),
        target: format!("{scheme}://{{address}}{path}"),
        load: load.flatten().collect(),
        idle: hand.idle.iter().rev().find(|it| it.0 == named.name).map_or(0, |it| it.1),
        ..Arm::default()
    }
}

/// The value for the arm `name`: the last one of the form `name=VALUE`, else the last one without
/// an arm's name. A value may contain `=` itself: a prefix counts only if it is an arm's name.
fn chosen<'a>(values: &'a [String], names: &[&str], name: &str) -> Option<&'a str> {
    let owner = |value: &'a str| {
        value
            .split_once('=')
            .filter(|(owner, _)| names.contains(owner))
            .map_or((None, value), |(owner, rest)| (Some(owner), rest))
    };
    let all: Vec<(Option<&str>, &str)> = values.iter().map(|value| owner(value)).collect();
    let of = |arm: Option<&str>| all.iter().rev().find(|(owner, _)| *owner == arm);
    of(Some(name)).or_else(|| of(None)).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_belong_to_an_arm() {
        assert_eq!(silent("a=b=9"), Ok(("a=b".to_string(), 9)));
        assert!(silent("9").is_err() && silent("a=x").unwrap_err().contains("NAME=N"));
    }

    #[test]
    fn values_belong_to_all_arms_or_to_one() {
        fn check(values: &[&str], name: &str, want: Option<&str>) {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            assert_eq!(chosen(&values, &["redis", "epoll"], name), want, "{values:?} {name}");
        }
        check(&[], "redis", None);
        check(&["stock", "redis=line"], "redis", Some("line"));
        check(&["stock", "redis=line"], "epoll", Some("stock"));
        check(&["GET a=b\\r\\n"], "redis", Some("GET a=b\\r\\n"));
        check(&["redis=GET a=b\\r\\n"], "redis", Some("GET a=b\\r\\n"));
        check(&["redis=GET a\\r\\n"], "epoll", None);
    }
}
