//! `multiclient HOST PORT N`: N client processes that trade at random.
//!
//! stdout gets the output of the course's program: `child PID` for each client, then the text of
//! each reply. stderr gets a summary at the end: the time from before the first fork to the end of
//! the last client, the time until all clients were connected, and the throughput. With `--json`
//! the summary is the only line on stdout.
//!
//! Orders come from the C library's `rand`, seeded by each client's process id. So the printed
//! lines determine every order that was sent, and `final = initial + sold - bought`, which
//! `check` compares. The parent is a single thread, because it forks, and it ends its children
//! when it ends.

mod check;
mod child;
mod tally;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use load::Mix;
use load::Usage;
use memory::{Placement, Region};
use sys::poll::{PollFd, poll};
use sys::process::{self, Exit, Fork, Pid};
use sys::signal::{self, Signal, SignalFd, SignalSet};
use wire::conf::span;
use wire::framing::Framing;

use self::check::{Book, BookVerdict};
use self::tally::{Tally, read};
use super::orders::Menu;
use crate::course::link;

/// Below the number of ports that one client machine has for one server (ip_local_port_range,
/// ip(7)).
const CLIENTS_MAX: i64 = 20_000;

/// The arguments of `multiclient`.
#[derive(clap::Parser)]
#[command(
    name = "multiclient",
    version,
    max_term_width = 100,
    about = "Start N client processes that trade at random, like the course's load generator"
)]
pub struct Args {
    /// The server's name or address
    host: String,
    /// The server's port
    port: u16,
    /// Number of client processes
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX))]
    clients: u32,
    /// Orders of each client
    #[arg(long, default_value_t = 10, value_name = "N")]
    orders: usize,
    /// Pause after each order, also the last [default: 1s]
    #[arg(long, value_parser = span, value_name = "TIME", conflicts_with = "no_pause")]
    pause: Option<Duration>,
    /// Send the next order as soon as a reply arrives
    #[arg(long)]
    no_pause: bool,
    /// Trade stocks 1 to N
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    stocks: u32,
    /// Trade 1 to N shares at a time
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    shares: u32,
    /// The orders, with optional weights: show,buy,sell or show=1,buy=9
    #[arg(long, default_value = "show,buy,sell", value_name = "MIX", value_parser = mix)]
    mix: Mix,
    /// The first client's seed; each further client adds one [default: the client's process id]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// How replies end: fixed:8192 (the course's), line, eof, length
    #[arg(long, default_value = "fixed:8192")]
    framing: Framing,
    /// Compare the book before and afterwards with the replies (the default)
    #[arg(long, overrides_with = "no_check")]
    check: bool,
    /// Ask for no book and judge nothing
    #[arg(long)]
    no_check: bool,
    /// Print no replies
    #[arg(long, short)]
    quiet: bool,
    /// Print the summary as one line of JSON on stdout, and no replies
    #[arg(long)]
    json: bool,
}

/// Reads a mix such as `show`, `buy,sell` or `show=1,buy=9`; a weight that is left out is 1.
fn mix(text: &str) -> Result<Mix, Usage> {
    let weighted = |part: &str| match part.contains('=') {
        true => part.to_owned(),
        false => format!("{part}=1"),
    };
    text.split(',').map(weighted).collect::<Vec<_>>().join(",").parse()
}

/// The work of each client.
pub struct Plan {
    at: SocketAddr,
    framing: Framing,
    orders: usize,
    pause: Duration,
    menu: Menu,
    seed: Option<u32>,
    is_silent: bool,
    /// The book before the run, if it is checked.
    before: Option<Book>,
}

/// Runs the clients. Exit code 1 if a client could not finish, or the book or a reply was wrong.
pub fn run(args: &Args) -> Result<ExitCode> {
    let at = link::address_of(&args.host, args.port).map_err(crate::usage)?;
    let Args { orders, mix, stocks, shares, seed, framing, .. } = *args;
    let pause = if args.no_pause { Duration::ZERO } else { args.pause.unwrap_or(child::PAUSE) };
    let menu = Menu { mix, stocks, shares };
    let is_silent = args.quiet || args.json;
    let before = if args.no_check { None } else { Some(check::book(at, framing)) };
    let (before, unknown) = match before.transpose() {
        Ok(before) => (before, None),
        Err(error) => (None, Some(error)),
    };
    let plan = Plan { at, framing, orders, pause, menu, seed, is_silent, before };
    let mut tally: Region<Tally> =
        Region::place(Placement::Shared).context("cannot share memory with the clients")?;
    tally.init(&[]).expect("a tally needs no seed");
    let begin = Instant::now();
    let mut crowd = Crowd::start(&plan, args.clients, &tally, begin)?;
    crowd.wait()?;
    let elapsed = begin.elapsed();
    let verdict = match (unknown, crowd.stopped) {
        (Some(error), _) => Some(BookVerdict::none(&error)),
        (None, Some(_)) => {
            plan.before.as_ref().map(|_| BookVerdict::none(&anyhow!("it was stopped")))
        }
        (None, None) => verdict(&plan, args.clients, &tally),
    };
    let end = End { clients: args.clients, elapsed, crowd: &crowd, verdict: verdict.as_ref() };
    if args.json {
        println!("{}", end.json(&plan, &tally));
    } else {
        end.print(&plan, &tally);
    }
    let is_right = crowd.all_well && verdict.is_none_or(|verdict| verdict.is_right);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict of a run whose book was known before; `None` if none is wanted.
fn verdict(plan: &Plan, clients: u32, tally: &Tally) -> Option<BookVerdict> {
    let before = plan.before.as_ref()?;
    let wanted = plan.orders as u64 * u64::from(clients);
    Some(match check::book(plan.at, plan.framing) {
        Ok(after) => {
            let unanswered = wanted - tally.replies().min(wanted);
            check::verdict(before, &after, &tally.effects, unanswered)
        }
        Err(error) => BookVerdict::none(&error),
    })
}

/// The clients that were started.
struct Crowd {
    pids: Vec<Pid>,
    signals: SignalFd,
    /// Whether all clients that have ended succeeded.
    all_well: bool,
    /// The signal that ended the run early.
    stopped: Option<Signal>,
    /// The signals that were blocked before.
    former: SignalSet,
}

/// The signals that a child has ended, and that the user wants to stop.
const SIGNALS: &[Signal] = &[Signal::CHLD, Signal::INT, Signal::TERM];

impl Crowd {
    fn start(plan: &Plan, clients: u32, tally: &Region<Tally>, begin: Instant) -> Result<Crowd> {
        let former = signal::block(SIGNALS).context("cannot block signals")?;
        let signals = SignalFd::new(SIGNALS).context("cannot read signals")?;
        let lock = tally.fd().expect("a shared region has a descriptor");
        let parent = process::this();
        let mut crowd = Crowd { pids: Vec::new(), signals, all_well: true, stopped: None, former };
        for index in 0..clients {
            match process::fork() {
                Ok(Fork::Child) => {
                    process::exit_now(live(plan, index, tally, lock, begin, &crowd.former, parent))
                }
                Ok(Fork::Parent(pid)) => crowd.pids.push(pid),
                Err(error) => {
                    crowd.end(Signal::TERM);
                    let started = crowd.pids.len();
                    bail!(
                        "cannot start more than {started} of {clients} clients: {error}; raise the \
                         limit of processes (ulimit -u, or the container's), or start fewer"
                    );
                }
            }
        }
        Ok(crowd)
    }

    /// Waits for all. An interruption ends the remaining clients; the summary is still printed.
    fn wait(&mut self) -> Result<()> {
        let mut ended = 0;
        while ended < self.pids.len() {
            let mut list = [PollFd::new(self.signals.as_fd(), true, false)];
            poll(&mut list, None).context("cannot wait for the clients")?;
            while let Some(signal) = self.signals.read().context("cannot read signals")? {
                if signal != Signal::CHLD {
                    self.stopped = Some(signal);
                    self.end(Signal::TERM);
                }
            }
            // Children are reaped in the order of their start: a client that ends before an earlier
            // one is reaped with it, so that a thousand ends cost a thousand calls and not a
            // million.
            while let Some(&pid) = self.pids.get(ended) {
                let Some(exit) = process::reap(pid).context("a client is not our child")? else {
                    break;
                };
                self.all_well &= exit == Exit::Code(0);
                ended += 1;
            }
        }
        // A server that does not answer the last `show` must not keep the program from ending.
        signal::restore(&self.former).context("cannot unblock signals")
    }

    /// Sends a signal to all children. An ended child keeps its process id until it is reaped, so
    /// the signal reaches no other process.
    fn end(&self, signal: Signal) {
        for &pid in &self.pids {
            let _ = process::kill(pid, signal);
        }
    }
}

/// Runs a child from the fork to its exit code; no panic leaves this function.
fn live(
    plan: &Plan,
    index: u32,
    tally: &Tally,
    lock: BorrowedFd<'_>,
    begin: Instant,
    former: &SignalSet,
    parent: Pid,
) -> i32 {
    let body = || {
        // A child whose parent's death goes unnoticed sends its remaining orders and then ends.
        let _ = process::set_parent_death_signal(Signal::TERM);
        let _ = signal::restore(former);
        if process::parent() != Some(parent) {
            return 1;
        }
        child::run(plan, index, tally, lock, begin)
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101)
}

/// The result of the run.
struct End<'a> {
    clients: u32,
    elapsed: Duration,
    crowd: &'a Crowd,
    verdict: Option<&'a BookVerdict>,
}

impl End<'_> {
    fn throughput(&self, tally: &Tally) -> f64 {
        tally.replies() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Prints the result as text (stderr).
    fn print(&self, plan: &Plan, tally: &Tally) {
        let (clients, elapsed) = (self.clients, self.elapsed.as_secs_f64());
        let (connected, all_in) = (read(&tally.connected), tally.all_in().as_secs_f64());
        let wanted = plan.orders as u64 * u64::from(clients);
        if let Some(signal) = self.crowd.stopped {
            eprintln!("multiclient: stopped by {signal}; until then:");
        }
        let failed = read(&tally.failed);
        if failed > 0 {
            eprintln!("multiclient: {failed} of {clients} clients could not finish");
        }
        eprintln!("connected: {connected} of {clients} clients after {all_in:.3} s");
        eprintln!(
            "replies: {} of {wanted} ({} show, {} buy, {} sell, {} not enough left, {} other)",
            tally.replies(),
            read(&tally.shown),
            read(&tally.bought),
            read(&tally.sold),
            read(&tally.short_of_stock),
            read(&tally.other),
        );
        eprintln!("elapsed time: {elapsed:.3} s");
        eprintln!("throughput: {:.1} orders/s", self.throughput(tally));
        if let Some(verdict) = self.verdict {
            eprintln!("check: {}", verdict.text);
        }
    }

    fn json(&self, plan: &Plan, tally: &Tally) -> serde_json::Value {
        serde_json::json!({
            "clients": self.clients,
            "orders_per_client": plan.orders,
            "pause_s": plan.pause.as_secs_f64(),
            "seed": plan.seed,
            "connected": read(&tally.connected),
            "connected_after_s": tally.all_in().as_secs_f64(),
            "connect_50ms": tally.connects(),
            "replies": tally.replies(),
            "show": read(&tally.shown),
            "buy": read(&tally.bought),
            "sell": read(&tally.sold),
            "not_enough_left": read(&tally.short_of_stock),
            "other": read(&tally.other),
            "clients_failed": read(&tally.failed),
            "stopped_by": self.crowd.stopped.map(|signal| signal.to_string()),
            "elapsed_s": self.elapsed.as_secs_f64(),
            "orders_per_s": self.throughput(tally),
            "right": self.verdict.map(|verdict| verdict.is_right),
            "check": self.verdict.map(|verdict| &verdict.text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_with_and_without_weights() {
        let check = |text: &str, show, buy, sell| {
            assert_eq!(mix(text), Ok(Mix { show, buy, sell }), "{text}");
        };
        check("show,buy,sell", 1, 1, 1);
        check("show", 1, 0, 0);
        check("buy,sell", 0, 1, 1);
        check("show=1,buy=9", 1, 9, 0);
        check("sell,buy=3", 0, 3, 1);
        for bad in ["", "hold", "buy=0", "buy,,sell", "buy=x"] {
            assert!(mix(bad).is_err(), "{bad}");
        }
    }
}
