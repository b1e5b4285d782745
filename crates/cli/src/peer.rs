//! `roundhouse peer`: a small server on another runtime, to be raced against ours.

use anyhow::{Context, Result};
use load::parse::span;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The stock market on tokio
    Tokio,
    /// A page on hyper
    Hyper,
    /// The echo of a game server's library on tokio
    Echo,
    /// A proxy that passes bytes on later
    Delay,
}

/// The arguments of `peer`.
#[derive(clap::Args)]
pub struct Args {
    /// The server
    #[arg(value_enum)]
    which: Which,
    /// Where it listens on 127.0.0.1
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// The book of stocks, or the page
    #[arg(long, default_value = "data/stock.txt", value_name = "FILE")]
    data: PathBuf,
    /// Where the proxy passes everything on to (delay)
    #[arg(long, value_name = "ADDRESS", required_if_eq("which", "delay"))]
    to: Option<SocketAddr>,
    /// How much later, each way (delay)
    #[arg(long, default_value = "10ms", value_parser = span, value_name = "TIME")]
    delay: Duration,
    /// On all cores instead of one thread
    #[arg(long)]
    threads: bool,
    /// Work for nothing at each request, for so many nanoseconds: a slowdown of known size (tokio)
    #[arg(long, default_value_t = 0, value_name = "NS")]
    burn: u64,
}

/// Serves until TERM or INT comes.
pub fn run(args: &Args) -> Result<ExitCode> {
    let burn = Duration::from_nanos(args.burn);
    match args.which {
        Which::Tokio => peers::runtime::market(args.port, &args.data, args.threads, burn)?,
        Which::Echo => peers::runtime::echo(args.port, args.threads)?,
        Which::Delay => {
            let to = args.to.context("expected --to ADDRESS, the server behind the proxy")?;
            peers::runtime::delay(args.port, to, args.delay, args.threads)?;
        }
        Which::Hyper => peers::runtime::page(args.port, &args.data, args.threads)?,
    }
    Ok(ExitCode::SUCCESS)
}
