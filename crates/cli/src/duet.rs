//! `roundhouse duet`: CPU per request of two servers, to a few percent; or a table of such
//! comparisons, with goals, from a plan file.

mod show;
mod table;

use crate::race::INTERRUPTED;
use anyhow::{Context, Result, bail};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{ContentArrangement, Table};
use lab::command::Named;
use lab::duet::{Fresh, Outcome, Pairing, Part, Plan, Stage};
use lab::machine::Placement;
use lab::plan::{Arm, LoadPoint};
use load::parse::span;
use pages::words;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tools::interrupt::watch;
use tools::race::{BOOK, TempDir, book, room};

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

/// Plays all pairs. Exit code 1 if a reply was wrong or a comparison has no ratio, 130 after
/// Ctrl-C, 99 if a plan's goal is missed beyond doubt.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(path) = &args.plan {
        return table::run(&args, path);
    }
    let plan = plan(&args)?;
    if let Err(bad) = plan.check() {
        eprintln!("roundhouse duet: {bad}");
        return Ok(ExitCode::from(2));
    }
    let stage = Backstage::new()?;
    let outcome = stage.play(&plan);
    if outcome.interrupted {
        eprintln!("stopped; here is what is known");
    }
    if args.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        println!("{}", by_hand(&outcome));
    }
    for text in outcome.pairings.iter().flat_map(|it| &it.broken) {
        eprintln!("WRONG: {text}");
    }
    let is_broken = outcome.pairings.iter().any(|it| !it.broken.is_empty());
    Ok(match outcome.is_right() {
        true => ExitCode::SUCCESS,
        false if outcome.interrupted && !is_broken => ExitCode::from(INTERRUPTED),
        false => ExitCode::FAILURE,
    })
}

/// The program, the files and the cores that all duets of one command share.
struct Backstage {
    exe: PathBuf,
    stop: Arc<AtomicBool>,
    room: TempDir,
    placement: Option<Placement>,
}

impl Backstage {
    fn new() -> Result<Backstage> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let stop = watch()?;
        let room = room("roundhouse-duet")?;
        let placement = Placement::choose();
        if placement.is_none() {
            eprintln!("doubt: only one core may be used, so nothing is pinned");
        }
        Ok(Backstage { exe, stop, room, placement })
    }

    fn play(&self, plan: &Plan) -> Outcome {
        let mut stage = Stage::new(plan, &self.exe, self.room.path(), self.placement, &self.stop);
        lab::duet::run(plan, &mut stage, &self.stop, heard)
    }
}

/// A line on stderr for every fresh pair.
fn heard(a: &str, b: &str, number: u32, result: &Result<Fresh, String>) {
    match result {
        Ok(fresh) => {
            eprintln!("pair {}: {a} / {b} = {:.3}", number + 1, fresh.ratio);
            for doubt in &fresh.doubts {
                eprintln!("doubt: {doubt}");
            }
        }
        Err(reason) => eprintln!("pair {}: {a} / {b}: {reason}", number + 1),
    }
}

/// Reads `NAME=N`.
fn silent(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=').and_then(|(name, n)| Some((name, n.parse::<u32>().ok()?)));
    let (name, count) = parts.ok_or(format!("expected NAME=N, found `{text}`"))?;
    Ok((name.to_string(), count))
}

fn plan(args: &Args) -> Result<Plan> {
    let hand = &args.hand;
    let names: Vec<&str> = hand.arm.iter().map(|arm| arm.name.as_str()).collect();
    if let Some((stranger, _)) = hand.idle.iter().find(|it| !names.contains(&it.0.as_str())) {
        bail!("expected --idle with one of {}, found `{stranger}`", names.join(", "));
    }
    let millis = |span: Option<Duration>, usual| span.map_or(usual, |it| it.as_millis() as u64);
    Ok(Plan {
        parts: hand.arm.iter().map(|named| part(hand, &names, named)).collect(),
        twin: hand.twin,
        point: LoadPoint {
            connections: hand.connections,
            depth: hand.depth,
            requests_per_connection: hand.requests_per_connection,
            mix: hand.mix.clone(),
            ..LoadPoint::default()
        },
        fresh_pairs: args.pairs.unwrap_or(8),
        windows: args.windows.unwrap_or(20),
        window_ms: millis(args.window, 40),
        warmup_ms: millis(args.warmup, 200),
        seed: args.seed.unwrap_or(1),
        files: vec![book(args.data.as_deref()).with_context(|| {
            format!("every arm gets a book of stocks ({BOOK} by default), used or not")
        })?],
    })
}

fn part(hand: &ByHand, names: &[&str], named: &Named) -> Part {
    let of = |values| chosen(values, names, &named.name);
    let scheme = of(&hand.scheme).unwrap_or("stock");
    let (request, expect) = (of(&hand.request), of(&hand.expect));
    let path = request.filter(|_| scheme == "http").unwrap_or_default();
    let flags = [("--request", request.filter(|_| scheme != "http")), ("--expect-prefix", expect)];
    let load =
        flags.iter().filter_map(|(flag, text)| Some([flag.to_string(), (*text)?.to_string()]));
    let arm = Arm {
        name: named.name.clone(),
        command: named.command.clone(),
        target: format!("{scheme}://{{address}}{path}"),
        load: load.flatten().collect(),
        ..Arm::default()
    };
    Part { arm, idle: hand.idle.iter().rev().find(|it| it.0 == named.name).map_or(0, |it| it.1) }
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

fn by_hand(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let mut head = vec!["A / B", "CPU per request A / B", "interval", "A", "B", "fresh pairs"];
    let is_idle = outcome.plan.parts.iter().any(|part| part.idle > 0);
    if is_idle {
        head.push("memory for a silent connection");
    }
    table.set_header(head);
    for it in &outcome.pairings {
        let mut cells = row(it);
        if is_idle {
            let bytes = it.b_idle_bytes.or(it.a_idle_bytes).map(|it| it.middle);
            cells.push(words::or_none(bytes, |bytes| format!("{bytes:.0} B")));
        }
        table.add_row(cells);
    }
    table
}

fn row(it: &Pairing) -> Vec<String> {
    let total = it.fresh.len() + it.failures.len();
    let reason = it.failures.first().map(|reason| format!(": {reason}")).unwrap_or_default();
    vec![
        format!("{} / {}", it.a, it.b),
        words::or_none(it.ratio, |ratio| format!("{ratio:.3}")),
        it.interval.as_ref().map_or_else(
            || words::NONE.to_string(),
            |it| format!("[{:.3}, {:.3}] {:.1} %", it.low, it.high, it.cover * 100.0),
        ),
        words::or_none(it.a_cpu_ns, words::time),
        words::or_none(it.b_cpu_ns, words::time),
        format!("{} of {total}{reason}", it.fresh.len()),
    ]
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
