//! `roundhouse peer`: a small server on another runtime, for races against ours.

use anyhow::{Context, Result};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wire::conf::span;

/// The servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The stock market on tokio
    Tokio,
    /// A page on hyper
    Hyper,
    /// The echo of `serve echo` on tokio
    Echo,
    /// A proxy that delays bytes
    Delay,
}

/// The arguments of `peer`.
#[derive(clap::Args)]
pub struct Args {
    /// The server
    #[arg(value_enum)]
    which: Which,
    /// The address to listen at
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: IpAddr,
    /// The port to listen on
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// The file of stocks, or the page
    #[arg(long, default_value = "data/stock.txt", value_name = "FILE")]
    data: PathBuf,
    /// The server behind the proxy (delay)
    #[arg(long, value_name = "ADDRESS", required_if_eq("which", "delay"))]
    to: Option<SocketAddr>,
    /// The delay in each direction (delay)
    #[arg(long, default_value = "10ms", value_parser = span, value_name = "TIME")]
    delay: Duration,
    /// Use all cores instead of one thread
    #[arg(long)]
    threads: bool,
    /// Burn this much CPU at each request, in nanoseconds: a slowdown of known size (tokio)
    #[arg(long, default_value_t = 0, value_name = "NS")]
    burn: u64,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let at = SocketAddr::new(args.host, args.port);
    let burn = Duration::from_nanos(args.burn);
    match args.which {
        Which::Tokio => peers::runtime::market(at, &args.data, args.threads, burn)?,
        Which::Echo => peers::runtime::echo(at, args.threads)?,
        Which::Delay => {
            let to = args.to.context("expected --to ADDRESS, the server behind the proxy")?;
            peers::runtime::delay(at, to, args.delay, args.threads)?;
        }
        Which::Hyper => peers::runtime::page(at, &args.data, args.threads)?,
    }
    Ok(ExitCode::SUCCESS)
}
