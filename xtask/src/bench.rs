//! `cargo xtask bench NAME`: compares our engines with the bare loops, under idle connections and
//! under connection churn.
//!
//! Every row is a duet: both servers run on one core, the generator alternates short windows
//! between them, and the row compares their CPU time per request. A bench is a table of such
//! comparisons in a file of its own, listed in [`BENCHES`]; `roundhouse duet` plays them. The
//! surprising thing: against a bare loop, 1.00 is the best possible ratio, and a better one means
//! that the bare loop is a straw man.

mod arm;
mod churn;
mod duet;
mod echo;
mod engines;
mod goals;
mod idle;
mod load;
mod media;
mod record;
mod senders;
mod toil;
mod uring;
mod web;

use crate::steps;
use anyhow::{Context, bail};
use duet::{Duet, Length};
use stats::{Goal, Interval};
use std::path::PathBuf;

/// A table of comparisons.
struct Bench {
    /// The name on the command line and of the files in `runs/`.
    name: &'static str,
    /// The heading of its file.
    title: &'static str,
    /// The note that the reader needs beside the rows.
    note: &'static str,
    /// The heading of the first column.
    left_right: &'static str,
    duets: fn() -> Vec<Duet>,
    full: Length,
}

/// The quantity that duets compare.
const CPU: &str = "CPU per request, left / right";

/// Every bench; a new one is a row here and a file beside this one.
const BENCHES: &[Bench] = &[
    Bench {
        name: "engines",
        title: "Engines against bare loops",
        note: engines::NOTE,
        left_right: CPU,
        duets: engines::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
    Bench {
        name: "echo",
        title: "The echo of a game server's library",
        note: echo::NOTE,
        left_right: CPU,
        duets: echo::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
    Bench {
        name: "idle",
        title: "64 busy connections beside many idle ones",
        note: idle::NOTE,
        left_right: CPU,
        duets: idle::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
    Bench {
        name: "churn",
        title: "Connections that come and go",
        note: churn::NOTE,
        left_right: CPU,
        duets: churn::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
    Bench {
        name: "uring",
        title: "The switches of io_uring",
        note: uring::NOTE,
        left_right: CPU,
        duets: uring::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
    Bench {
        name: "web",
        title: "The web server beside nginx, Apache and a bare loop",
        note: web::NOTE,
        left_right: CPU,
        duets: web::duets,
        full: Length { fresh_pairs: 8, windows: 20 },
    },
];

/// Enough to see that a bench works.
const QUICK: Length = Length { fresh_pairs: 2, windows: 5 };

/// The finished binaries.
struct Tools {
    roundhouse: PathBuf,
    bare: PathBuf,
    /// The files that the web servers of a run need: their site and the foreign servers'
    /// configuration.
    room: PathBuf,
    /// The speed of Apache's loop; measured on demand.
    toil: toil::Toil,
}

/// The value of a comparison or a reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The median over fresh pairs: CPU per request of the left arm divided by that of the right,
    /// or bytes.
    pub value: f64,
    /// The interval of that median; fewer than six fresh pairs have none.
    pub interval: Option<Interval>,
    /// CPU per request of both arms in nanoseconds, where that was compared.
    pub each_ns: Option<(f64, f64)>,
}

/// A goal of at least this value.
const fn at_least(bound: f64) -> Option<Goal> {
    Some(Goal::AtLeast(bound))
}

/// A goal of at most this value.
const fn at_most(bound: f64) -> Option<Goal> {
    Some(Goal::AtMost(bound))
}

/// The median of paired ratios, or of other values, with its interval.
fn reading(values: &[f64], each_ns: Option<(f64, f64)>) -> anyhow::Result<Reading> {
    let value = stats::median(values).context("expected a value, found none")?;
    Ok(Reading { value, interval: stats::median_interval(values), each_ns })
}

/// A row of the result.
#[derive(Clone, Debug)]
pub struct Row {
    /// `left / right`, or the server whose memory it is.
    pub name: String,
    /// The load: `depth 16`.
    pub load: String,
    /// The goal; a row without one is shown for comparison.
    pub wanted: Option<Goal>,
    /// The measurement, or the reason why there is none.
    pub found: Result<Reading, String>,
}

impl Row {
    /// `reached`, `missed`, `unresolved`; empty without a goal or a measurement.
    pub fn verdict(&self) -> &'static str {
        match (&self.found, self.wanted) {
            (Ok(found), Some(goal)) => goal.verdict(found.interval.as_ref()).word(),
            _ => "",
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The rows, in the order of the table.
    pub rows: Vec<Row>,
    /// Reasons to read them with care, each once.
    pub doubts: Vec<String>,
}

impl Outcome {
    fn doubt(&mut self, text: String) {
        if !self.doubts.contains(&text) {
            self.doubts.push(text);
        }
    }
}

/// The request on the command line.
struct Request<'a> {
    bench: &'static Bench,
    length: Length,
    save: bool,
    only: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn parse(args: &'a [String]) -> anyhow::Result<Self> {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        let names = names.join(", ");
        let wanted = args.first().map_or("", String::as_str);
        let Some(bench) = BENCHES.iter().find(|bench| bench.name == wanted) else {
            bail!("expected one of the benches {names}, load, media, senders, found `{wanted}`");
        };
        let mut request = Self { bench, length: bench.full, save: false, only: None };
        let mut flags = args[1..].iter();
        while let Some(flag) = flags.next() {
            match flag.as_str() {
                "--save" => request.save = true,
                "--quick" => request.length = QUICK,
                "--only" => {
                    request.only = Some(flags.next().context("--only expects the name of an arm")?);
                }
                other => bail!("expected --save, --quick or --only ARM, found `{other}`"),
            }
        }
        Ok(request)
    }

    /// The requested comparisons.
    fn duets(&self) -> anyhow::Result<Vec<Duet>> {
        let all = (self.bench.duets)();
        let Some(arm) = self.only else { return Ok(all) };
        let sings = |duet: &Duet| [duet.left.name(), duet.right.name()].iter().any(|it| it == arm);
        let (chosen, others): (Vec<Duet>, Vec<Duet>) = all.into_iter().partition(sings);
        if chosen.is_empty() {
            let mut names: Vec<String> =
                others.iter().flat_map(|it| [it.left.name(), it.right.name()]).collect();
            names.sort();
            names.dedup();
            bail!("expected --only with one of {}, found `{arm}`", names.join(", "));
        }
        Ok(chosen)
    }
}

/// Builds everything, runs the duets (all, or with `--only ARM` those with that arm), prints the
/// table and, with `--save`, keeps it in `runs/`.
///
/// # Errors
/// If a build fails, the arguments are invalid, or the result cannot be saved. A duet that fails is
/// a row with its reason.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    if let Some((_, rest)) = args.split_first().filter(|(name, _)| *name == "load") {
        // Its arms are generators, so it is no table of duets.
        return load::run(rest);
    }
    if let Some((_, rest)) = args.split_first().filter(|(name, _)| *name == "senders") {
        return senders::run(rest);
    }
    if let Some((_, rest)) = args.split_first().filter(|(name, _)| *name == "media") {
        return media::run(rest);
    }
    let request = Request::parse(args)?;
    let duets = request.duets()?;
    let tools = prepare()?;
    let start = std::time::Instant::now();
    let mut outcome = Outcome::default();
    record::machine_doubts(&mut outcome, &request.length);
    for (at, duet) in duets.iter().enumerate() {
        eprintln!("── {} of {}: {}, {}", at + 1, duets.len(), duet.name(), duet.load.words());
        duet::sing(duet, &request.length, &tools, &mut outcome);
    }
    if request.bench.name == "echo" && request.only.is_none() {
        echo::rates(&request.length, &tools, &mut outcome);
    }
    let text = record::text(request.bench, &outcome);
    print!("{text}");
    eprintln!("bench: {} duets in {}", duets.len(), steps::elapsed(start.elapsed()));
    if request.save {
        let path = record::save(request.bench, &outcome, &text, request.only)?;
        eprintln!("bench: saved in {}", path.display());
    }
    Ok(())
}

/// Builds the release binary and the bare loops.
fn prepare() -> anyhow::Result<Tools> {
    let build = ["build", "--release", "-p", "cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let bare = crate::root().join("bare/build");
    crate::bare::build(&bare)?;
    let room = steps::target_dir()?.join("bench-web");
    web::furnish(&room)?;
    Ok(Tools {
        roundhouse: steps::binary("roundhouse", "release")?,
        bare,
        room,
        toil: toil::Toil::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_names_what_there_is() {
        let say = |words: &[&str]| {
            let args: Vec<String> = words.iter().map(ToString::to_string).collect();
            let request = Request::parse(&args).and_then(|it| it.duets().map(|it| it.len()));
            request.map_err(|error| error.to_string())
        };
        assert!(say(&["enjines"]).unwrap_err().contains("engines, echo, idle, churn"));
        assert!(say(&["engines", "--fast"]).unwrap_err().contains("--quick"));
        assert!(say(&["engines", "--only", "epol"]).unwrap_err().contains("bare-epoll-work"));
        assert!(say(&["engines", "--only", "epoll"]).unwrap() < say(&["engines"]).unwrap());
    }

    #[test]
    fn no_bench_compares_the_same_twice() {
        for bench in BENCHES {
            let key = |duet: &Duet| (duet.name(), duet.load.words());
            let mut keys: Vec<(String, String)> = (bench.duets)().iter().map(key).collect();
            let all = keys.len();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), all, "{}", bench.name);
        }
    }
}
