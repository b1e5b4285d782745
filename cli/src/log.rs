//! `roundhouse log`: reads the log of a market, which may be in use.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use ledger::OrderRecord;
use market::history::{self, HistoryEnd};

/// The ways of reading a log.
#[derive(Subcommand)]
pub enum Command {
    /// List orders, a line each: NUMBER buy|sell STOCK N left LEFT [#REQUEST]
    Show(ListArgs),
    /// Check every order: numbers, checksums, amounts, and no request twice
    Verify(Args),
    /// Print the book as it was after an order
    Replay(Args),
    /// Print orders as JSON, a line each
    Export(ListArgs),
}

/// A log and a part of it.
#[derive(clap::Args)]
pub struct Args {
    /// The folder of the log, FILE.log next to the book FILE, or the address of --replicate
    #[arg(value_name = "FOLDER|ADDRESS")]
    folder: PathBuf,
    /// The last order
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "NUMBER")]
    to: u64,
}

/// The arguments of a list.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    log: Args,
    /// The first order to print
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    from: u64,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    match command {
        Command::Show(args) => drop(args.log.read(args.from, |order| {
            let OrderRecord { seq, stock, change, left, request, .. } = order;
            let side = if *change < 0 { "buy" } else { "sell" };
            let request = if *request > 0 { format!(" #{request}") } else { String::new() };
            let count = change.unsigned_abs();
            writeln!(out, "{seq} {side} {stock} {count} left {left}{request}")
        })?),
        Command::Export(args) => drop(args.log.read(args.from, |order| {
            let OrderRecord { seq, request, stock, change, left } = order;
            let line = serde_json::json!({
                "seq": seq, "request": request, "stock": stock, "change": change, "left": left,
            });
            writeln!(out, "{line}")
        })?),
        Command::Replay(args) => {
            let end = args.read(0, |_| Ok(()))?;
            end.lefts.iter().try_for_each(|(stock, left)| writeln!(out, "{stock} {left}"))?;
        }
        Command::Verify(args) => {
            let (mut orders, mut gained) = (0_u64, BTreeMap::<u32, i64>::new());
            let end = args.read(0, |order| {
                orders += 1;
                *gained.entry(order.stock).or_default() += i64::from(order.change);
                Ok(())
            })?;
            let torn = if end.is_torn { ", then the torn end of a crash" } else { "" };
            writeln!(out, "{orders} orders after the snapshot, up to {}{torn}", end.last)?;
            for (stock, gained) in gained {
                let left = end.lefts[&stock];
                writeln!(out, "stock {stock}: {left} left, {gained:+} by these orders")?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Prints the orders from number `from` on; returns the market after the last one.
    fn read(
        &self,
        from: u64,
        mut print: impl FnMut(&OrderRecord) -> io::Result<()>,
    ) -> Result<HistoryEnd> {
        let mut printed = Ok(());
        let end = history::read(&self.folder, self.to, |order| {
            if order.seq >= from && printed.is_ok() {
                printed = print(order);
            }
        })?;
        printed?;
        Ok(end)
    }
}
