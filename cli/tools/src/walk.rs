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

use crate::client::link::TrustArgs;
use ::game::packet::{Ask, Role, VERSION};
use anyhow::{Context, Result, bail};
use engines::Refused;
pub(crate) use link::Link;
use load::{Target, Usage};
pub(crate) use scene::Scene;
use std::io::{IsTerminal, stdin, stdout};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::ExitCode;
use wire::websocket::MessageKind;

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
    /// The server; the default port is 6002; ws:// or wss:// before it speaks WebSocket
    #[arg(default_value = "127.0.0.1", value_name = "[ws[s]://]HOST[:PORT]")]
    place: String,
    #[command(flatten)]
    trust: TrustArgs,
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
    let (scheme, bare) = place.split_once("://").unwrap_or(("", place));
    if !["", "ws", "wss"].contains(&scheme) {
        let why = format!("expected ws:// or wss:// or none before the host, found `{scheme}://`");
        return Err(Refused(why).into());
    }
    let ports = [bare.to_owned(), format!("{bare}:{PORT}"), format!("[{bare}]:{PORT}")];
    let place = ports.into_iter().find(|place| place.to_socket_addrs().is_ok());
    let place = place.with_context(|| format!("expected HOST or HOST:PORT, found `{bare}`"))?;
    // A WebSocket begins as HTTP.
    let server = format!("{}://{place}", if scheme == "wss" { "https" } else { "http" });
    let server = server.parse().map_err(|usage: Usage| Refused(usage.0))?;
    let mut server = args.trust.apply(server).map_err(Refused)?;
    server.websocket = (!scheme.is_empty()).then_some(MessageKind::Binary);
    let role = if args.watch { Role::Spectator } else { Role::Player };
    let (mut link, mut scene) = join(&server, role, &args.name)?;
    match &args.script {
        Some(file) => script::run(&mut link, &mut scene, file),
        None if stdin().is_terminal() && stdout().is_terminal() => {
            stage::run(&mut link, &mut scene)
        }
        None => bail!("expected a terminal to draw on, found none; use --script FILE"),
    }
}

/// Connects and joins; returns when the whole map has come.
pub(crate) fn join(server: &Target, role: Role, name: &str) -> Result<(Link, Scene)> {
    let mut link = Link::open(server).with_context(|| {
        let address = server.address;
        format!("cannot connect to {address}: start a server with `roundhouse serve game`")
    })?;
    let mut scene = Scene::default();
    link.ask(&Ask::Join { version: VERSION, role, name: name.to_owned() })?;
    scene.meet(&mut link).context("cannot join")?;
    Ok((link, scene))
}
