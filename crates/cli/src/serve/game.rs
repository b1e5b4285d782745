//! `roundhouse serve game`: a world with a map in which clients walk and see each other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use engines::{Assets, Handover, StateStore};
use grid::movingai::Map;
use load::parse::span;
use memory::Region;
use services::game::packet::Bye;
use services::game::{Game, Options, Terrain, World};

use super::console::Console;
use super::library::LibraryArgs;
use super::server::{ServerArgs, ServiceInstance, usage};

/// The default port.
const PORT: u16 = 6002;
/// The default map.
const MAP: &[u8] = include_bytes!("../../../../data/maps/portfolio-open.map");

/// The flags of the game service.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    library: LibraryArgs,
    /// The map, in the format of the MovingAI sets [default: a built-in one of 80 x 40 cells]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// The time between two ticks of the world; every walker takes one step a tick
    #[arg(long, default_value = "50ms", value_parser = span, value_name = "TIME")]
    tick: Duration,
    /// Cells that all path searches together may expand in a tick
    #[arg(long, default_value_t = Options::default().budget, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    budget: u32,
    /// The most concurrent path searches; each takes memory for the whole map
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    searchers: u16,
}

/// Serves until the server is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape().and_then(|shape| args.library.applied(shape));
    let shape = match shape {
        Ok(shape) => shape,
        Err(refused) => return Ok(usage(&refused.to_string())),
    };
    if !shape.carries() {
        return Ok(usage(&format!(
            "expected an engine that can carry bytes from one session to another, found {shape} \
             with {} workers: every client is told every step, so one worker must have all \
             sessions and wait for all of them at once; use --engine epoll, select or poll, or \
             --engine uring --workers 1",
            shape.workers
        )));
    }
    if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&args.tick) {
        return Ok(usage(&format!("expected a --tick from 1ms to 60s, found {:?}", args.tick)));
    }
    if Handover::receive()?.is_some() {
        bail!(
            "a world exists only with its sessions and cannot be handed over; start a new server"
        );
    }
    let operated = args.library.is_operated(&shape);
    let terrain = terrain(args.map.as_deref())?;
    let mut world: Region<World> =
        Region::place(args.server.placement(&shape)).context("cannot place the world in memory")?;
    world.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
    let (budget, searchers) = (args.budget, usize::from(args.searchers));
    let options = Options { tick: args.tick, budget, searchers, ..Options::default() };
    let service = Game::new(terrain, options);
    let instance = ServiceInstance {
        name: "game",
        port: PORT,
        service: &service,
        state: &world,
        assets: &Assets::default(),
        handover: None,
    };
    let dismiss = || match world.dismiss_first() {
        Some(id) => format!("session {id} is being disconnected"),
        None => "no session is left to disconnect".to_owned(),
    };
    thread::scope(|scope| {
        let _console = operated.then(|| Console::open(scope, &dismiss));
        args.server.run(&shape, &instance, &mut Teller::default())
    })
}

fn terrain(map: Option<&Path>) -> Result<Terrain> {
    let (bytes, name) = match map {
        Some(file) => {
            let bytes = std::fs::read(file)
                .with_context(|| format!("cannot read the map {}", file.display()))?;
            (bytes, file.display().to_string())
        }
        None => (MAP.to_vec(), "the built-in map".to_owned()),
    };
    let map = Map::parse(&bytes).with_context(|| name.clone())?;
    Terrain::new(map.grid()?).with_context(|| name)
}

/// Reports why connections were closed, when the last client has left and at the end.
#[derive(Default)]
struct Teller {
    said: [u64; REASONS.len()],
}

/// The reported reasons, as predicates of "N connections".
const REASONS: [(Bye, &str); 4] = [
    (Bye::BadPacket, "closed for a malformed packet"),
    (Bye::NotJoined, "closed for not joining"),
    (Bye::Full, "closed because every seat was taken"),
    (Bye::Operator, "disconnected by the operator"),
];

impl StateStore<World> for Teller {
    fn is_changed(&mut self, world: &World) -> bool {
        self.said != REASONS.map(|(why, _)| world.refused(why))
    }

    fn save(&mut self, world: &World) -> Result<(), String> {
        for ((why, words), said) in REASONS.into_iter().zip(&mut self.said) {
            let count = world.refused(why);
            if count != *said {
                let plural = if count == 1 { "" } else { "s" };
                eprintln!("{count} connection{plural} {words}");
                *said = count;
            }
        }
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        None
    }
}
