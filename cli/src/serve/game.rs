//! `roundhouse serve game`: a world with a map in which clients walk and see each other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::game::packet::Bye;
use ::game::{Game, Options, Terrain, World};
use anyhow::{Context, Result, anyhow, bail};
use engines::status::Gauge;
use engines::{Assets, Handover, Refused};
use grid::movingai::Map;
use wire::conf::span;

use server::{ConsoleArgs, ServerArgs, ServiceInstance};
use tools::serve::tally::CloseTally;

/// The port without --port.
const PORT: u16 = 6002;

/// The flags of the game service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6002")))]
pub struct Args {
    /// The map, in the format of the MovingAI sets [default: a built-in one of 80 x 40 cells]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Time between two ticks of the world; each walker takes one step a tick
    #[arg(long, default_value = "50ms", value_parser = span, value_name = "TIME")]
    tick: Duration,
    /// Cells that all path searches together may expand in a tick
    #[arg(long, default_value_t = Options::default().budget, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    budget: u32,
    /// Searches at once; each takes 16 bytes of memory for each cell of the map
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    #[arg(hide_short_help = true)]
    searchers: u16,
    #[command(flatten)]
    console: ConsoleArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape()?;
    args.console.check(&shape)?;
    if !shape.carries() {
        return Err(Refused(format!(
            "expected an engine that can carry bytes from one session to another, found {shape} \
             with {} workers: each client is told of all steps, so one worker must have all \
             sessions and wait for all of them at once; say --engine epoll, select or poll, or \
             --engine uring --workers 1",
            shape.workers
        ))
        .into());
    }
    if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&args.tick) {
        let found = args.tick;
        return Err(Refused(format!("expected a --tick from 1ms to 60s, found {found:?}")).into());
    }
    if Handover::receive()?.is_some() {
        bail!("a world cannot be handed over: its worker has all sessions; start a fresh server");
    }
    let terrain = terrain(args.map.as_deref())?;
    let mut world = args.server.state::<World>(&shape, None, "world")?;
    world.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    let (budget, searchers) = (args.budget, usize::from(args.searchers));
    let options = Options { tick: args.tick, budget, searchers, ..Options::default() };
    let service = Arc::new(Game::new(terrain, options));
    let instance = ServiceInstance {
        name: "game",
        port: PORT,
        tries: &[],
        service: &service,
        state: &world,
        assets: &Assets::default(),
        handover: None,
        grammar: crate::grammar,
        facts: &[],
    };
    let mut tally = CloseTally::new(REASONS.map(|(_, words)| words), |it: &World| {
        REASONS.map(|(why, _)| it.refused(why))
    })
    .with_gauges(gauges);
    let dismiss = || world.dismiss_first();
    args.console.run(&args.server, &shape, &instance, dismiss, &mut tally)
}

fn terrain(map: Option<&Path>) -> Result<Terrain> {
    let (bytes, name) = match map {
        Some(file) => {
            let bytes = sys::input::read(file, sys::input::LARGE)
                .with_context(|| format!("cannot read the map {}", file.display()))?;
            (bytes, file.display().to_string())
        }
        None => (grid::PORTFOLIO_MAPS[0].to_vec(), "the built-in map".to_owned()),
    };
    let map = Map::parse(&bytes).with_context(|| name.clone())?;
    Terrain::new(map.grid()?).with_context(|| name)
}

fn gauges(world: &World) -> Vec<Gauge> {
    let used = world.searchers_used() as f64;
    vec![
        Gauge::now("game_sessions", "Sessions that have joined", world.joined() as f64),
        Gauge::now("game_searchers_used", "Searchers that the pool has lent", used),
        Gauge::total(
            "game_cells_searched",
            "Cells that searches expanded",
            world.searched() as f64,
        ),
    ]
}

/// The reasons that are printed, and how.
const REASONS: [(Bye, &str); 4] = [
    (Bye::BadPacket, "closed for a malformed packet"),
    (Bye::NotJoined, "closed for not joining"),
    (Bye::Full, "closed because every seat was taken"),
    (Bye::Operator, "disconnected by the operator"),
];
