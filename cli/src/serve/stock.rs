//! `roundhouse serve stock`: the flags of the market.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::stock::{Durability, Index, Lock, Options, Order, Reads};
use anyhow::Result;
use engines::Refused;
use market::{MarketOptions, OrderWork, StoreAddress};
use server::ServerArgs;
use wire::conf::span;
use wire::framing::Framing;

/// The flags of the stock service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6000")))]
pub struct Args {
    /// The file of stocks, a line `ID LEFT PRICE` each; orders are saved in it [default: ten
    /// built-in stocks, which are not saved]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How replies end: line, fixed:8192 (what the course's clients read), eof, length
    #[arg(long, default_value = "line")]
    framing: Framing,
    /// The index that finds a stock by its ID: hash, level-order (the course's tree, scanned), bst,
    /// red-black, sorted; all give the same replies
    #[arg(long, alias = "book", default_value_t)]
    index: Index,
    /// How `show` is ordered: file, sorted, pre-order (of the index's tree, or the file's)
    #[arg(long, default_value_t, hide_short_help = true)]
    order: Order,
    /// How orders are locked: snapshot (not at all), per-stock, global
    #[arg(long, default_value_t, hide_short_help = true)]
    lock: Lock,
    /// Compute this much for each order, under its lock: a time, which is turned into steps at the
    /// start, or a number of steps
    #[arg(long, default_value_t, value_name = "TIME|STEPS", hide_short_help = true)]
    work: OrderWork,
    /// Save this often, as well as after the last disconnect and at the end; 0: only then
    #[arg(long, value_parser = span, value_name = "TIME")]
    save_every: Option<Duration>,
    /// The events that an answered order survives: none, os (the end of all processes), sync (a
    /// power cut: it is answered when its batch is on the disk); the log is the folder FILE.log
    #[arg(long, default_value_t, value_name = "MODE")]
    durability: Durability,
    /// Full segments of the log, of 170,000 orders each, that stay when older ones are compacted
    /// [default: 64; with --replicate 4]
    #[arg(long, value_name = "N", hide_short_help = true)]
    log_keep: Option<usize>,
    /// Serve one market on several machines: orders go through the store at
    /// etcd://HOST:PORT[,HOST:PORT...]/NAME (etcds:// by TLS), and are answered when most of its
    /// machines have them on disk
    #[arg(long, value_name = "ADDRESS")]
    replicate: Option<String>,
    /// Where `show` reads with --replicate: strict (in the log), local (on this node; the reply
    /// says how old it is) [default: strict]
    #[arg(long, value_name = "WHERE", hide_short_help = true)]
    read: Option<Reads>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Serves the market until it is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let Args { framing, order, lock, durability, .. } = args;
    let limits = Options::default().limits;
    let work = args.work.steps();
    let service = Options { framing, order, lock, durability, work, limits };
    let Args { index, data, save_every, log_keep, replicate, read, .. } = args;
    // Not by clap, which prints the whole text of a value that it refuses, also a password in it.
    let replicate: Option<StoreAddress> =
        replicate.map(|text| text.parse()).transpose().map_err(Refused)?;
    let options = MarketOptions { service, index, data, save_every, log_keep, replicate, read };
    market::serve(&args.server, &options, crate::grammar)
}
