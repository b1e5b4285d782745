//! `roundhouse peer`: a small server on another runtime, to be raced against ours.

use anyhow::Result;
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
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
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
        Which::Hyper => peers::runtime::page(args.port, &args.data, args.threads)?,
    }
    Ok(ExitCode::SUCCESS)
}
