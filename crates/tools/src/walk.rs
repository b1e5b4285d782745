//! `roundhouse walk`: a client of `roundhouse serve game`, by hand or by script.
//!
//! | file | what |
//! |---|---|
//! | `link.rs` | the connection: packets out, packets in, with a timeout for each wait |
//! | `scene.rs` | the world, as packets describe it |
//! | `draw.rs` | the scene as a screen |
//! | `stage.rs` | the terminal: keys and the mouse become packets |
//! | `script.rs` | commands from a file, and their results as lines |

mod draw;
mod link;
mod scene;
mod script;
mod stage;

use anyhow::{Context, Result, bail};
pub(crate) use link::Link;
pub(crate) use scene::Scene;
use services::game::packet::{Ask, Role, VERSION};
use std::io::{IsTerminal, stdin, stdout};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

/// The default port.
const PORT: u16 = 6002;

/// The arguments of `walk`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: the arrows or hjkl move the mark, Enter or a click walks there, w a s d take one step, space \
stops, t sends a message to all, q quits.

Commands of a script, one a line: go X,Y | arrive | stop | say TEXT | tell ID TEXT | who | watch \
TIME | map | ping. Results and events are printed as lines.")]
pub struct Args {
    /// The server; the default port is 6002; ws:// before it speaks WebSocket
    #[arg(default_value = "127.0.0.1", value_name = "[ws://]HOST[:PORT]")]
    place: String,
    /// The name that the others see
    #[arg(long, default_value = "walker", value_name = "NAME")]
    name: String,
    /// Join as a spectator, without a place on the map
    #[arg(long)]
    watch: bool,
    /// Run the commands of this file instead; - is standard input
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

/// Walks until the user quits.
pub fn run(args: &Args) -> Result<ExitCode> {
    let place = args.place.trim_end_matches('/');
    let bare = place.strip_prefix("ws://").unwrap_or(place);
    let address = address(bare)?;
    let role = if args.watch { Role::Spectator } else { Role::Player };
    let (mut link, mut scene) = join(address, bare != place, role, &args.name)?;
    match &args.script {
        Some(file) => script::run(&mut link, &mut scene, file),
        None if stdin().is_terminal() && stdout().is_terminal() => {
            stage::run(&mut link, &mut scene)
        }
        None => bail!("expected a terminal to draw on, found none; use --script FILE"),
    }
}

/// Connects and joins; returns when the whole map has come.
pub(crate) fn join(
    address: SocketAddr,
    is_websocket: bool,
    role: Role,
    name: &str,
) -> Result<(Link, Scene)> {
    let mut link = Link::open(address, is_websocket).with_context(|| {
        format!("cannot connect to {address}: start a server with `roundhouse serve game`")
    })?;
    let mut scene = Scene::default();
    link.ask(&Ask::Join { version: VERSION, role, name: name.to_owned() })?;
    scene.meet(&mut link).context("cannot join")?;
    Ok((link, scene))
}

fn address(place: &str) -> Result<SocketAddr> {
    let named = match place.to_socket_addrs() {
        Ok(mut found) => found.next(),
        Err(_) => (place, PORT).to_socket_addrs().ok().and_then(|mut found| found.next()),
    };
    named.with_context(|| format!("expected HOST or HOST:PORT, found `{place}`"))
}
