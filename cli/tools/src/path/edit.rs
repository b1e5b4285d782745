//! `path edit`: serves the page on an engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use grid::{Cell, Corners};
use language::eprintln;
use roundhouse::Server;
use serde_json::json;

use super::page::{self, Given};
use super::service::editor;
use super::{corners, read_map};

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
    let editor = editor(page::live(&given)?.into_bytes());
    let server = Server::new(editor).listen(args.listen).on_ready(|listening| {
        let (listening, pid) = (listening.to_string(), std::process::id());
        println!("{}", json!({ "listening": listening, "service": "path", "pid": pid }));
        eprintln!("draw walls at http://{listening}/");
    });
    server.run().with_context(|| format!("cannot serve at {}", args.listen))?;
    Ok(ExitCode::SUCCESS)
}
