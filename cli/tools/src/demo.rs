//! `roundhouse demo`: the world of `serve game`, a page that walks in it, and separate players that
//! walk on the paths that the server finds for them.

mod player;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::game::packet::Ask;
use ::game::{Game, Options, Terrain};
use anyhow::{Context, Result, anyhow};
use grid::movingai::Map;
use language::eprintln;
use load::{Target, Usage};
use roundhouse::{MessageKind, Server, WebSocketOptions};
use serde_json::json;
use stats::Rng;
use wire::conf::span;

use player::Player;

/// Engines of the first years of railways.
const NAMES: [&str; 8] = [
    "Rocket",
    "Adler",
    "Puffing Billy",
    "Saxonia",
    "Novelty",
    "Sans Pareil",
    "Locomotion",
    "Planet",
];
/// The interval at which players, keys and the end are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// The least rest at the end of a path, and the most that is added, in milliseconds.
const REST_MS: (u64, usize) = (400, 2000);

/// The arguments of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// The map, in the format of the MovingAI sets [default: a built-in one of 80 x 40 cells]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Players that walk by themselves
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    bots: u16,
    /// The port of the page; 0 picks one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    time: Option<Duration>,
}

/// Serves the world and its page until the end.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = crate::interrupt::watch()?;
    let map = match &args.map {
        Some(file) => crate::path::read_map(file)?,
        None => Map::parse(grid::PORTFOLIO_MAPS[1])?,
    };
    let options = Options { tick: Duration::from_millis(80), ..Options::default() };
    let page = crate::page::page("a world to walk in", HTML, SCRIPT);
    let page = WebSocketOptions { page, ..MessageKind::Binary.into() };
    let game = Server::new(Game::new(Terrain::new(map.grid()?)?, options)).pushes();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let served = game.websocket(page).listen(address).spawn();
    let server = served.with_context(|| format!("cannot serve at {address}"))?;
    let listening = server.address();
    let place = format!("http://{listening}").parse();
    let mut place: Target = place.map_err(|usage: Usage| anyhow!(usage.0))?;
    place.websocket = Some(MessageKind::Binary);
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let walk = |number| {
            let (place, over) = (&place, &over);
            threads.spawn(move || bot(place, number, over))
        };
        let mut bots: Vec<_> = (0..args.bots).map(walk).collect();
        let (text, pid) = (listening.to_string(), std::process::id());
        println!("{}", json!({ "listening": text, "service": "demo-game", "pid": pid }));
        eprintln!("open http://{listening}/ in a browser; Ctrl-C ends it");
        let end = args.time.map(|time| Instant::now() + time);
        let mut ended = Ok(());
        while ended.is_ok()
            && !stop.load(Ordering::Relaxed)
            && end.is_none_or(|end| Instant::now() < end)
        {
            if let Some(at) = bots.iter().position(|bot| bot.is_finished()) {
                let bot = bots.swap_remove(at).join();
                ended = bot.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            std::thread::sleep(LOOK);
        }
        over.store(true, Ordering::Relaxed);
        ended.map(|()| ExitCode::SUCCESS)
    })
}

const HTML: &str = include_str!("demo/game.html");
const SCRIPT: &str = include_str!("demo/game.js");

/// Walks from place to place until the demonstration is over.
fn bot(server: &Target, number: u16, over: &AtomicBool) -> Result<()> {
    let known = NAMES[usize::from(number) % NAMES.len()];
    let name = match usize::from(number) / NAMES.len() {
        0 => known.to_owned(),
        more => format!("{known} {}", more + 1),
    };
    let mut player = Player::join(server, &name)?;
    let mut rng = Rng::new(u64::from(number) + 1);
    let mut rested = Instant::now();
    while !over.load(Ordering::Relaxed) {
        player.follow(LOOK).with_context(|| format!("{name} cannot walk"))?;
        let rest = REST_MS.0 + rng.below(REST_MS.1) as u64;
        if !player.has_arrived() {
            rested = Instant::now() + Duration::from_millis(rest);
        } else if Instant::now() >= rested {
            // The server leads to the nearest place that can be reached.
            let (width, height) = player.size;
            let mut any = |most: u16| rng.below(usize::from(most.max(1))) as u16;
            player.ask(&Ask::Go((any(width), any(height))))?;
            rested = Instant::now() + Duration::from_millis(rest);
        }
    }
    Ok(())
}
