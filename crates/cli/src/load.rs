//! `roundhouse load`: asks a server questions, times and checks every reply; with `--duet` two
//! servers in turns.
//!
//! This file turns flags into a plan of the crate `load` and prints its report. Exit code 0 means
//! that everything asked was answered, and rightly; 1 that it was not; 2 that the flags make no
//! sense.

use std::process::ExitCode;
use std::time::Duration;

use ::load::drive::Settings;
use ::load::duet::Part;
use ::load::parse::{self, Scheme, span};
use ::load::run::{Talk, Window};
use ::load::script::{LineOptions, StockOptions};
use ::load::{Duet, DuetPlan, Failure, Mix, Plan, Target, Usage};
use anyhow::{Context, Result};
use serde::Serialize;
use wire::framing::Framing;

/// The arguments of `load`.
#[derive(clap::Args)]
pub struct Args {
    /// The server: stock://HOST[:PORT], or line://HOST:PORT for any protocol of lines
    target: Target,
    /// Connections; each waits for its replies before it asks again (closed loop)
    #[arg(long, short = 'c', default_value_t = 64, value_name = "N")]
    closed: usize,
    /// Requests that a connection sends in one write
    #[arg(long, default_value_t = 1, value_name = "N")]
    depth: u32,
    /// How long to measure
    #[arg(long = "for", short = 'd', default_value = "1s", value_parser = span)]
    #[arg(value_name = "TIME")]
    span: Duration,
    /// Measure exactly this many requests instead
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "span")]
    count: Option<u64>,
    /// Load before the measurement [default: 300ms; with --count none]
    #[arg(long, value_parser = span, value_name = "TIME")]
    warmup: Option<Duration>,
    /// Threads of the generator: 1
    #[arg(long, short = 't', default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Close each connection after so many requests and make it anew
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_per_connection: Option<u64>,
    /// Give a connection up when its replies stand still for this long
    #[arg(long, default_value = "30s", value_parser = span, value_name = "TIME")]
    timeout: Duration,
    /// How long to wait for the last replies
    #[arg(long, default_value = "5s", value_parser = span, value_name = "TIME")]
    drain: Duration,
    /// What requests are drawn from
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Run on this processor only
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Root of the server's process tree: report its CPU time, context switches and memory
    #[arg(long, value_name = "PID")]
    watch: Option<u32>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stock: StockArgs,
    #[command(flatten)]
    line: LineArgs,
    #[command(flatten)]
    duet: DuetArgs,
}

/// What is traded; for `stock://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets stock://")]
struct StockArgs {
    /// How often each command is asked, as weights
    #[arg(long, default_value = "show=5,buy=50,sell=45", value_name = "MIX")]
    mix: Mix,
    /// The stocks to trade, with commas between their ids [default: all that the server shows]
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    ids: Vec<String>,
    /// Orders are for 1 to this many pieces
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    amount_max: u32,
    /// How replies end: line, fixed:8192 or eof
    #[arg(long, default_value = "line", value_name = "FRAMING")]
    framing: Framing,
}

/// What is said; for `line://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets line://")]
struct LineArgs {
    /// The constant request; knows \r \n \t \0 \xHH, and gets a newline if it ends without one
    #[arg(long, value_name = "TEXT")]
    request: Option<String>,
    /// What a reply ends with
    #[arg(long, default_value = "\\n", value_name = "TEXT")]
    terminator: String,
    /// What a right reply begins with [default: anything]
    #[arg(long, value_name = "TEXT")]
    expect_prefix: Option<String>,
}

/// Two servers in turns.
#[derive(clap::Args)]
#[command(next_help_heading = "Duets")]
struct DuetArgs {
    /// A second server: alternate short windows between both and compare their CPU per request
    #[arg(long, value_name = "TARGET", requires_all = ["watch", "watch_b"])]
    duet: Option<Target>,
    /// Root of the second server's process tree
    #[arg(long, value_name = "PID", requires = "duet")]
    watch_b: Option<u32>,
    /// Windows on each server
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    windows: u32,
    /// Length of a window
    #[arg(long, default_value = "40ms", value_parser = span, value_name = "TIME")]
    window: Duration,
    /// The second server's constant request [default: the first's]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    request_b: Option<String>,
    /// What the second server's replies end with [default: as the first's]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    terminator_b: Option<String>,
    /// What the second server's right replies begin with [default: as the first's, or anything if
    /// it has a request of its own]
    #[arg(long, value_name = "TEXT", requires = "duet")]
    expect_prefix_b: Option<String>,
}

/// Loads the server, or both. Exit code 1 if anything was unanswered or wrong, 2 for flags that
/// make no sense.
pub fn run(args: Args) -> Result<ExitCode> {
    let outcome = match &args.duet.duet {
        None => one(&args),
        Some(other) => two(&args, other),
    };
    match outcome {
        Err(Failure::Usage(usage)) => {
            eprintln!("roundhouse load: {usage}");
            Ok(ExitCode::from(2))
        }
        other => other.context("load")?,
    }
}

fn one(args: &Args) -> Result<Result<ExitCode>, Failure> {
    let plan = args.plan()?;
    let report = ::load::run(&plan)?;
    Ok(print(args.json, &report, report.is_right()))
}

fn two(args: &Args, other: &Target) -> Result<Result<ExitCode>, Failure> {
    let plan = args.duet_plan(other)?;
    let report = Duet::new(&plan)?.play()?;
    Ok(print(args.json, &report, report.is_right()))
}

fn print<T: Serialize + std::fmt::Display>(
    json: bool,
    report: &T,
    right: bool,
) -> Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{report}");
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn plan(&self) -> Result<Plan, Usage> {
        let warmup = match self.count {
            Some(_) => Duration::ZERO,
            None => Duration::from_millis(300),
        };
        Ok(Plan {
            talk: self.talk(&self.target, &self.line.spoken()?)?,
            target: self.target.clone(),
            settings: self.settings()?,
            depth: self.depth()?,
            seed: self.seed,
            warmup: self.warmup.unwrap_or(warmup),
            window: self.count.map_or(Window::For(self.span), Window::Count),
            cpu: self.cpu,
            watch: self.watch,
        })
    }

    fn duet_plan(&self, other: &Target) -> Result<DuetPlan, Usage> {
        let spoken = self.line.spoken()?;
        let answer = self.duet.spoken(&spoken)?;
        let part = |target: &Target, spoken: &Spoken, watch: Option<u32>| {
            let bare = || Usage("expected --watch and --watch-b for a duet".to_owned());
            Ok::<_, Usage>(Part {
                talk: self.talk(target, spoken)?,
                target: target.clone(),
                watch: watch.ok_or_else(bare)?,
            })
        };
        Ok(DuetPlan {
            parts: [
                part(&self.target, &spoken, self.watch)?,
                part(other, &answer, self.duet.watch_b)?,
            ],
            settings: self.settings()?,
            depth: self.depth()?,
            seed: self.seed,
            warmup: self.warmup.unwrap_or(Duration::from_millis(300)),
            windows: self.duet.windows,
            window: self.duet.window,
            cpu: self.cpu,
        })
    }

    fn settings(&self) -> Result<Settings, Usage> {
        if self.threads != 1 {
            return Err(Usage(format!(
                "expected -t 1, found -t {}: the generator has one thread; start several processes \
                 with --cpu for more",
                self.threads
            )));
        }
        if self.closed == 0 {
            return Err(Usage("expected at least one connection, found --closed 0".to_owned()));
        }
        Ok(Settings {
            connections: self.closed,
            requests_per_connection: self.requests_per_connection,
            timeout: self.timeout,
            drain: self.drain,
        })
    }

    fn depth(&self) -> Result<u32, Usage> {
        match self.depth {
            1..=100_000 => Ok(self.depth),
            other => Err(Usage(format!("expected a depth of 1 to 100000, found {other}"))),
        }
    }

    fn talk(&self, target: &Target, spoken: &Spoken) -> Result<Talk, Usage> {
        Ok(match target.scheme {
            Scheme::Stock => Talk::Stock(StockOptions {
                mix: self.stock.mix,
                ids: self.stock.ids.clone(),
                amount_max: self.stock.amount_max,
                framing: self.stock.framing,
                seed: self.seed,
            }),
            Scheme::Line => Talk::Line(spoken.options(target)?),
        })
    }
}

/// What is said on a line, with the escapes resolved.
#[derive(Clone)]
struct Spoken {
    request: Option<Vec<u8>>,
    terminator: Vec<u8>,
    prefix: Vec<u8>,
}

impl LineArgs {
    fn spoken(&self) -> Result<Spoken, Usage> {
        Ok(Spoken {
            request: self.request.as_deref().map(parse::bytes).transpose()?,
            terminator: parse::bytes(&self.terminator)?,
            prefix: parse::bytes(self.expect_prefix.as_deref().unwrap_or_default())?,
        })
    }
}

impl DuetArgs {
    /// What the second server is told, where nothing is said the same as the `first`.
    fn spoken(&self, first: &Spoken) -> Result<Spoken, Usage> {
        let mut spoken = first.clone();
        if let Some(request) = &self.request_b {
            spoken.request = Some(parse::bytes(request)?);
            spoken.prefix.clear();
        }
        if let Some(terminator) = &self.terminator_b {
            spoken.terminator = parse::bytes(terminator)?;
        }
        if let Some(prefix) = &self.expect_prefix_b {
            spoken.prefix = parse::bytes(prefix)?;
        }
        Ok(spoken)
    }
}

impl Spoken {
    fn options(&self, target: &Target) -> Result<LineOptions, Usage> {
        let Some(mut request) = self.request.clone() else {
            return Err(Usage(format!(
                "{target}: expected --request TEXT, such as --request 'INCR x\\r\\n'"
            )));
        };
        if !request.ends_with(b"\n") {
            request.push(b'\n');
        }
        if self.terminator.is_empty() {
            return Err(Usage("expected a --terminator of a byte or more, found none".to_owned()));
        }
        Ok(LineOptions {
            request,
            terminator: self.terminator.clone(),
            prefix: self.prefix.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        let words = std::iter::once("load").chain(line.split(' '));
        Whole::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}")).args
    }

    fn plan(line: &str) -> Plan {
        args(line).plan().unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn check_refused(line: &str, part: &str) {
        let words = std::iter::once("load").chain(line.split(' '));
        let why = match Whole::try_parse_from(words) {
            Err(error) => error.to_string(),
            Ok(whole) => match whole.args.plan() {
                Err(usage) => usage.to_string(),
                Ok(plan) => panic!("{line}: taken as {plan:?}"),
            },
        };
        assert!(why.contains(part), "{line}: expected {part:?} in {why:?}");
    }

    #[test]
    fn short_flags_are_those_of_other_generators() {
        let short = plan("stock://127.0.0.1:1 -c 8 -d 250ms -t 1");
        let long = plan("stock://127.0.0.1:1 --closed 8 --for 250ms");
        assert_eq!(short, long);
        assert_eq!(short.settings.connections, 8);
        assert_eq!(short.window, Window::For(Duration::from_millis(250)));
        let counted = plan("stock://127.0.0.1:1 -n 77");
        assert_eq!((counted.window, counted.warmup), (Window::Count(77), Duration::ZERO));
    }

    #[test]
    fn lines_are_said_with_their_escapes() {
        let plan = plan(r"line://127.0.0.1:1 --request INCR\x20x\r\n --terminator \r\n");
        let Talk::Line(line) = plan.talk else { panic!("a line is spoken") };
        assert_eq!(line.request, b"INCR x\r\n");
        assert_eq!((line.terminator.as_slice(), line.prefix.as_slice()), (&b"\r\n"[..], &b""[..]));
    }

    #[test]
    fn the_second_server_says_the_same_unless_told() {
        let both = "line://127.0.0.1:1 --duet line://127.0.0.1:2 --watch 1 --watch-b 2 --request a \
                    --expect-prefix b";
        let talks = |line: &str| {
            let args = args(line);
            let other = args.duet.duet.clone().expect("a second server");
            args.duet_plan(&other).expect("it makes sense").parts.map(|part| part.talk)
        };
        let [a, b] = talks(both);
        assert_eq!(a, b);
        let [_, Talk::Line(b)] = talks(&format!("{both} --request-b c")) else {
            panic!("a line is spoken")
        };
        assert_eq!((b.request.as_slice(), b.prefix.as_slice()), (&b"c\n"[..], &b""[..]));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        check_refused("stock://127.0.0.1:1 -t 2", "one thread");
        check_refused("stock://127.0.0.1:1 -c 0", "at least one connection");
        check_refused("stock://127.0.0.1:1 --depth 0", "1 to 100000");
        check_refused("stock://127.0.0.1:1 --mix buy=0", "expected a mix");
        check_refused("stock://127.0.0.1:1 --for 5x", "expected a time");
        check_refused("http://127.0.0.1:1", "expected the scheme");
        check_refused("line://127.0.0.1:1", "expected --request");
        check_refused("line://127.0.0.1:1 --request a\\q", "found `\\q`");
        check_refused("stock://127.0.0.1:1 --duet stock://127.0.0.1:2", "--watch");
        check_refused("stock://127.0.0.1:1 --for 1s --count 5", "cannot be used with");
    }
}
