//! `roundhouse demo`: a race on the terminal, and a game in a browser: the world of `serve game`,
//! with players that walk by themselves.
//!
//! The race is the command `race` with few engines, so `cli` gives it to [`run`].

mod game;

use std::io::{IsTerminal, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use language::{eprintln, info};
use serde_json::json;
use server::Keys;
use wire::conf::span;

/// The interval at which keys, Ctrl-C and the end are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The arguments of `demo`.
#[derive(Parser)]
#[command(name = "demo", disable_help_subcommand = true)]
pub struct Args {
    /// The demonstration; a menu without one
    #[command(subcommand)]
    demo: Option<Demo>,
}

/// The demonstrations.
#[derive(clap::Subcommand)]
enum Demo {
    /// Race four engines and watch how the answer becomes certain
    Race(RaceArgs),
    /// Walk in the world of a game server, among players that walk by themselves
    Game(game::Args),
}

/// The arguments of `demo race`.
#[derive(clap::Args)]
pub struct RaceArgs {
    /// The time after which no block begins, once there are six
    #[arg(long = "for", default_value = "20s", value_name = "TIME", value_parser = span)]
    pub time: Duration,
}

/// Where the page is, and how long it is served.
#[derive(clap::Args)]
struct Serving {
    /// The port of the page; 0 picks one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    time: Option<Duration>,
}

impl Serving {
    /// The address of the page.
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Prints the address, and waits for the end or for a fault of `check`.
    fn wait(
        &self,
        name: &str,
        listening: SocketAddr,
        stop: &AtomicBool,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<ExitCode> {
        let (text, pid) = (listening.to_string(), std::process::id());
        println!("{}", json!({ "listening": text, "service": name, "pid": pid }));
        eprintln!("open http://{listening}/ in a browser; Ctrl-C ends it");
        let end = self.time.map(|time| Instant::now() + time);
        while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            check()?;
            std::thread::sleep(LOOK);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows a demonstration, or the menu; `race` is the command that races.
///
/// # Errors
/// The port is taken, a file cannot be read, or a process that the demonstration needs has ended.
pub fn run(args: Args, race: impl FnOnce(&RaceArgs) -> Result<ExitCode>) -> Result<ExitCode> {
    let Some(demo) = args.demo.or_else(choose) else { return Ok(ExitCode::SUCCESS) };
    match demo {
        Demo::Race(args) => race(&args),
        Demo::Game(args) => game::run(&args),
    }
}

/// Prints the demonstrations; on a terminal, the one that a key chooses.
fn choose() -> Option<Demo> {
    let grammar = Args::command();
    let names: Vec<&str> = grammar.get_subcommands().map(clap::Command::get_name).collect();
    for (at, it) in grammar.get_subcommands().enumerate() {
        let about = it.get_about().map(ToString::to_string).unwrap_or_default();
        println!("{}  roundhouse demo {:<7}{about}", at + 1, it.get_name());
    }
    if !stdout().is_terminal() {
        return None;
    }
    let keys = Keys::take(true)?;
    info!("press 1 to {}, or the first letter; q ends", names.len());
    loop {
        for key in keys.pressed() {
            let is_chosen = |(at, name): &(usize, &&str)| {
                usize::from(key) == usize::from(b'1') + at || name.as_bytes()[0] == key
            };
            if let Some((_, name)) = names.iter().enumerate().find(is_chosen) {
                return Args::parse_from(["demo", name]).demo;
            }
            if matches!(key, b'q' | b'\x1b' | b'\x04') {
                return None;
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// The reason why a page cannot be served there.
fn cannot_serve<T>(served: Result<T, roundhouse::Fault>, address: SocketAddr) -> Result<T> {
    served.with_context(|| format!("cannot serve at {address}"))
}
