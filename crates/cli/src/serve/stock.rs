//! `roundhouse serve stock`: the market, its file, and when the file is written.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engines::status::Gauge;
use engines::{Assets, Handover, Refused, StateStore};
use seam::{SHARDS_MAX, WorkerId};
use services::stock::{Index, Lock, Market, Options, Order, Stock};
use wire::conf::span;
use wire::framing::Framing;

use server::{ServerArgs, ServiceInstance};

/// The default port.
const PORT: u16 = 6000;
/// The default file, if it exists.
const FILE: &str = "data/stock.txt";

/// The flags of the stock service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6000")))]
pub struct Args {
    /// The file of stocks, a line `ID LEFT PRICE` each [default: data/stock.txt, else a built-in
    /// list that is not saved]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How replies end: line, fixed:8192 (what the course's clients read), eof
    #[arg(long, default_value = "line")]
    framing: Framing,
    /// The index that finds a stock by its ID: hash, level-order (the course's tree, scanned), bst,
    /// red-black, sorted; all give the same replies
    #[arg(long, alias = "book", default_value_t)]
    index: Index,
    /// How `show` is ordered: file, sorted, pre-order (of the index's tree, or the file's)
    #[arg(long, default_value_t)]
    order: Order,
    /// How orders are locked: snapshot (not at all), per-stock, global
    #[arg(long, default_value_t)]
    lock: Lock,
    /// Save this often, as well as after the last disconnect and at the end
    #[arg(long, value_parser = span, value_name = "TIME")]
    save_every: Option<Duration>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Serves the market until it is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape()?;
    if shape.container.is_processes()
        && let Some(reason) = args.lock.refused_between_processes()
    {
        return Err(Refused(reason.to_owned()).into());
    }
    if let Some(note) = args.lock.note() {
        engines::say!("{note}");
    }
    let handover = Handover::receive()?;
    let (text, file) = read(args.data.as_deref(), handover.is_some())?;
    let mut market = args.server.state::<Market>(&shape, handover.as_ref(), "market")?;
    if handover.is_none() {
        let name = file.as_deref().map_or("the built-in stock".into(), Path::to_string_lossy);
        let seed = Market::seed(args.index, &text);
        market.init(&seed).map_err(|bad| anyhow!("{name}:{bad}"))?;
    }
    if let Some(note) = note(&market, args.index) {
        engines::say!("{note}");
    }
    let service = Stock::new(Options {
        framing: args.framing,
        order: args.order,
        lock: args.lock,
        ..Options::default()
    });
    if let Err(narrow) = service.fits(&market) {
        return Err(Refused(narrow.to_string()).into());
    }
    // It is unknown what the predecessor saved, so nothing counts as saved.
    let saved = handover.is_none().then(|| market.version());
    let mut ledger = Ledger { file, saved, digest: None, every: args.save_every, text: Vec::new() };
    if handover.is_none() {
        ledger.render(&market);
        ledger.digest = Some(digest(&ledger.text));
    }
    let instance = ServiceInstance {
        name: "stock",
        port: PORT,
        service: &service,
        state: &market,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
    };
    args.server.run(&shape, &instance, &mut ledger)
}

/// A note to the operator if the index differs from the requested one or is slow.
fn note(market: &Market, wanted: Index) -> Option<String> {
    let index = market.index();
    if index != wanted {
        return Some(format!(
            "index {index}: the market keeps the index of the server that handed it over; restart \
             without a hand-over to use {wanted}"
        ));
    }
    // Random insertion makes a tree about three times as deep as a balanced one.
    let least = market.len().max(1).ilog2() + 1;
    let depth = market.shape().map_or(0, |shape| shape.depth);
    (depth > 8 * least).then(|| {
        format!(
            "index {index}: the tree is {depth} deep where {least} would do, because the file's \
             ids are nearly sorted; red-black stays shallow"
        )
    })
}

/// The text of the stock file, and the file to save to. A market that is handed over needs no text.
fn read(data: Option<&Path>, taken_over: bool) -> Result<(Vec<u8>, Option<PathBuf>)> {
    let file = match data {
        Some(file) => file,
        None if Path::new(FILE).exists() => Path::new(FILE),
        None => {
            engines::say!("there is no {FILE}: serving the built-in stocks, which are not saved");
            return Ok((services::stock::book::DEFAULT.as_bytes().to_vec(), None));
        }
    };
    if taken_over {
        return Ok((Vec::new(), Some(file.to_path_buf())));
    }
    let text = std::fs::read(file).with_context(|| {
        format!("cannot read {}: expected a file of lines `ID LEFT PRICE`", file.display())
    })?;
    Ok((text, Some(file.to_path_buf())))
}

/// Writes the stocks back to their file.
struct Ledger {
    file: Option<PathBuf>,
    /// The version of the market that the file holds, if that is known.
    saved: Option<u64>,
    /// A digest of the rows in the file, if known: a new version may have the same rows, because
    /// refused orders count as changes too.
    digest: Option<u64>,
    every: Option<Duration>,
    text: Vec<u8>,
}

impl Ledger {
    /// Renders the market into `text` as its file, and returns its version.
    fn render(&mut self, market: &Market) -> u64 {
        self.text.clear();
        // The supervisor holds the last slot of the board; no worker ever does.
        market.render_file(WorkerId::new(SHARDS_MAX - 1, 1), &mut self.text)
    }
}

/// A hash that two different texts do not share by chance.
fn digest(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

impl StateStore<Market> for Ledger {
    fn is_changed(&mut self, market: &Market) -> bool {
        self.file.is_some() && self.saved.is_none_or(|saved| market.changed_since(saved))
    }

    fn save(&mut self, market: &Market) -> Result<(), String> {
        let version = self.render(market);
        let Some(file) = &self.file else { return Ok(()) };
        let digest = Some(digest(&self.text));
        if self.digest != digest {
            sys::file::replace(file, &self.text).map_err(|error| {
                format!(
                    "cannot save {}: {error}; the file is unchanged, and saving will be retried",
                    file.display()
                )
            })?;
            self.digest = digest;
        }
        self.saved = Some(version);
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        self.every
    }

    fn gauges(&self, market: &Market) -> Vec<Gauge> {
        vec![Gauge::now("stock_rows", "Stocks of the market", market.len() as f64)]
    }
}
