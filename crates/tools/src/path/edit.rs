//! `path edit`: serves the page on an engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engines::{Assets, Control, NoStateStore, Ready, Server, Shape};
use grid::{Cell, Corners};

use super::page::{self, Given};
use super::service::Editor;
use super::{corners, read_map};

/// The time limit for the last answers.
const DRAIN: Duration = Duration::from_secs(1);

/// The arguments of `path edit`.
#[derive(clap::Args)]
pub struct Args {
    /// The first map, in the format of the MovingAI sets; at most 256 columns and rows
    map: Option<PathBuf>,
    /// The cell where paths begin
    #[arg(long, value_name = "X,Y")]
    from: Option<Cell>,
    /// The cell where they end
    #[arg(long, value_name = "X,Y")]
    to: Option<Cell>,
    /// When a diagonal step may pass corners: always, one-obstacle, no-obstacle or four (never)
    #[arg(long, value_parser = corners, default_value = "one-obstacle", value_name = "RULE")]
    rule: Corners,
    /// Where to serve the page; port 0 picks one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

/// Serves the page until it is interrupted. The address is printed as one line of JSON (stdout).
pub fn run(args: &Args) -> Result<ExitCode> {
    let map = args.map.as_deref().map(read_map).transpose()?;
    let given = Given { map, from: args.from, to: args.to, corners: args.rule };
    let editor = Editor::new(page::live(&given)?.into_bytes());
    let mut shape = Shape::preset("epoll", 1).map_err(|refused| anyhow!("{refused}"))?;
    shape.knobs.drain = DRAIN;
    shape.knobs.helpers = Some(1);
    let (assets, control) = (Assets::default(), Control::new()?);
    let server = Server {
        service: &editor,
        state: &(),
        assets: &assets,
        address: args.listen,
        verbose: false,
        timer: false,
        signals: true,
        control: &control,
        state_fd: None,
        others: &[],
        handover: None,
    };
    let mut ready = |ready: &Ready| {
        let line = serde_json::json!({
            "listening": ready.listening.to_string(),
            "service": "path",
            "pid": std::process::id(),
        });
        println!("{line}");
        eprintln!("draw walls at http://{}/", ready.listening);
    };
    engines::run(&server, &shape, &mut NoStateStore, &mut ready)
        .with_context(|| format!("cannot serve at {}", args.listen))?;
    Ok(ExitCode::SUCCESS)
}
