//! `roundhouse check`: places orders with receipts, or reads receipts, and proves their history.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::load::drive::Settings;
use ::load::run::{Window, Workload};
use ::load::script::StockOptions;
use ::load::work::Think;
use ::load::{Mix, Model, Plan, Target};
use anyhow::{Context, Result, anyhow};
use wire::conf::span;
use wire::receipt::Receipt;

/// A node answers or refuses an order within 5 s; after this time it is dead or cut off.
const NODE_SILENT: Duration = Duration::from_secs(8);

/// The flags of a check.
#[derive(clap::Args)]
pub struct Args {
    /// Files of receipts, of all clients, or stock://HOST:PORT to place orders on a server with
    /// --durability os or sync; several nodes of one market as stock://HOST:PORT,HOST:PORT
    #[arg(value_name = "FILE|ADDRESS", required = true)]
    sources: Vec<String>,
    /// Compare with the log in this folder, or at this address of --replicate
    #[arg(long, value_name = "FOLDER|ADDRESS")]
    log: Option<PathBuf>,
    /// Orders to place [default: 10000]
    #[arg(long, value_name = "N")]
    orders: Option<u64>,
    /// Clients that place them
    #[arg(long, default_value_t = 16, value_name = "N")]
    clients: usize,
    /// Orders that a client sends before it waits for replies
    #[arg(long, default_value_t = 4, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    depth: u32,
    /// How long clients connect again and send unanswered orders again
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    patience: Duration,
    /// Keep the receipts in this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let placed = match &args.sources[..] {
        [source] if source.contains("://") => {
            let file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
            let path = args.save.as_deref().unwrap_or(file.path());
            args.place(source, path)?;
            read(path)?
        }
        files if args.orders.is_some() || args.save.is_some() => {
            return Err(tools::usage(format_args!(
                "expected stock://HOST:PORT for --orders and --save, found {}: leave them out",
                files.join(" ")
            )));
        }
        files => {
            let lists = files.iter().map(|file| read(Path::new(file)));
            lists.collect::<Result<Vec<_>>>()?.concat()
        }
    };
    let log = args.log.as_deref().map(market::history::orders).transpose()?;
    let log = log.as_ref().map(|(after, orders)| (*after, &orders[..]));
    match ledger::prove(placed, log) {
        Ok(proof) => {
            let against = if log.is_some() { "each once in the log" } else { "each once" };
            println!(
                "{} orders were acknowledged, {against}, in an order that fits all receipts; {} \
                 were refused; of those without an answer the log has {} and lacks {}",
                proof.placed, proof.refused, proof.unknown_placed, proof.unknown_absent
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(found) => Err(anyhow!("the history is impossible: {found}")),
    }
}

impl Args {
    /// Places orders with `roundhouse load`, which writes their receipts to `file`.
    fn place(&self, source: &str, file: &Path) -> Result<()> {
        let target = source.parse::<Target>().map_err(tools::usage)?;
        let options = StockOptions {
            mix: Mix { show: 0, buy: 1, sell: 1 },
            seed: u64::from(std::process::id()),
            ..StockOptions::default()
        };
        let settings = Settings {
            connections: self.clients,
            timeout: NODE_SILENT,
            drain: self.patience,
            ..Settings::default()
        };
        let report = ::load::run(&Plan {
            model: Model::Closed { depth: self.depth, think: Think::None, ramp: None },
            settings,
            warmup: Duration::ZERO,
            window: Window::Count(self.orders.unwrap_or(10_000)),
            ..Plan::new(target, Workload::Receipts(options, file.to_owned()))
        })?;
        match report.errors.list.first() {
            Some(fault) => Err(anyhow!("{} {}: {}", fault.count, fault.kind, fault.example)),
            None => Ok(()),
        }
    }
}

fn read(path: &Path) -> Result<Vec<Receipt>> {
    let text = sys::input::read_text(path, sys::input::LARGE)
        .with_context(|| format!("cannot read the receipts {}", path.display()))?;
    let receipts = text.lines().map(str::parse).collect::<Result<_, String>>();
    receipts.map_err(|why| anyhow!("{}: {why}", path.display()))
}
