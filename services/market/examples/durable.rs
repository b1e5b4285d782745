//! A durable market in a separate program: an answered order survives `kill -9` and a power cut,
//! and with `--replicate` the end of this machine.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use market::{MarketOptions, StoreAddress};
use server::{ServerArgs, config};
use stock::{Durability, Options};

/// Serve a market whose answered orders survive
#[derive(Parser)]
struct Flags {
    /// The file of stocks, a line `ID LEFT PRICE` each; the log lies next to it
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Serve the market on several nodes, by this store: etcd://HOST:PORT/NAME
    #[arg(long, value_name = "ADDRESS")]
    replicate: Option<StoreAddress>,
    #[command(flatten)]
    server: ServerArgs,
}

fn main() -> ExitCode {
    let Flags { data, replicate, server } = config::parse();
    let options = MarketOptions {
        service: Options { durability: Durability::Sync, ..Options::default() },
        data: Some(data),
        replicate,
        ..MarketOptions::default()
    };
    market::serve(&server, &options, Flags::command).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}
