//! `roundhouse serve stock`: the market, its file, and when the file is written.

mod book_file;
mod durable;
mod orders;
mod replicated;
mod work;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::stock::{Durability, Index, Lock, Market, MarketKind, Options, Order, Reads, Stock, book};
use anyhow::{Result, anyhow};
use cluster::StoreAddress;
use engines::status::Gauge;
use engines::{Assets, ExtraWorker, Handover, Refused, StateStore};
use wire::conf::span;
use wire::framing::Framing;
use wire::websocket::MessageKind;

use book_file::BookFile;
use durable::{OrderLog, folder_of};
use replicated::ReplicatedLog;
use server::{Beside, ServerArgs, ServiceInstance};
use work::OrderWork;

/// The default port.
const PORT: u16 = 6000;

/// The flags of the stock service.
#[derive(clap::Args)]
#[command(mut_arg("port", |arg| arg.default_value("6000")))]
pub struct Args {
    /// The market: shares (clients trade with the server, `buy ID N`), orders (with each other, by
    /// limit orders, `buy ID N PRICE`; nothing is saved)
    #[arg(long, default_value_t, value_name = "MARKET")]
    market: MarketKind,
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
    #[arg(long, default_value_t)]
    order: Order,
    /// How orders are locked: snapshot (not at all), per-stock, global
    #[arg(long, default_value_t)]
    lock: Lock,
    /// Compute this much for each order, under its lock: a time, which is turned into steps at the
    /// start, or a number of steps
    #[arg(long, default_value_t, value_name = "TIME|STEPS")]
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
    #[arg(long, value_name = "N")]
    log_keep: Option<usize>,
    /// Serve one market on several machines: orders go through the store at
    /// etcd://HOST:PORT[,HOST:PORT...]/NAME, and are answered when most of its machines have them
    /// on disk
    #[arg(long, value_name = "ADDRESS")]
    replicate: Option<StoreAddress>,
    /// Where `show` reads with --replicate: strict (in the log), local (on this node; the reply
    /// says how old it is) [default: strict]
    #[arg(long, value_name = "WHERE")]
    read: Option<Reads>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Serves the market until it is stopped.
pub fn run(args: Args) -> Result<ExitCode> {
    let shape = args.server.shape()?;
    if args.market == MarketKind::Orders {
        return orders::run(&args, &shape);
    }
    if shape.container.is_processes()
        && let Some(reason) = args.lock.refused_between_processes()
    {
        return Err(Refused(reason.to_owned()).into());
    }
    if let Some(note) = args.lock.note() {
        language::info!("{note}");
    }
    let handover = Handover::receive()?;
    refuse_log(&args, handover.is_some())?;
    let mut market = args.server.state::<Market>(&shape, handover.as_ref(), "market")?;
    let file = args.data.as_deref().map(|data| BookFile::open(data, handover.as_ref()));
    let mut file = file.transpose()?;
    if handover.is_none() {
        let text = file.as_ref().map_or(book::DEFAULT.into(), BookFile::bytes);
        let seed = Market::seed(args.index, &text);
        market.init(&seed).map_err(|bad| anyhow!("{bad}"))?;
    }
    if let Some(file) = &mut file {
        file.bind(&market, handover.as_ref());
    }
    let Logged { log, nodes, service } = logged(&args, &market)?;
    if let Err(narrow) = service.fits(&market) {
        return Err(Refused(narrow.to_string()).into());
    }
    let every = args.save_every.filter(|every| !every.is_zero());
    let risk = match &args.replicate {
        None => risk(args.durability, file.is_some(), every),
        Some(address) => format!("orders are answered when most machines of {address} have them"),
    };
    let said = [note(&market, args.index), service.outgrown(&market), Some(risk)];
    said.into_iter().flatten().for_each(|note| language::info!("{note}"));
    // It is unknown what the predecessor saved, and a log may be newer than the file.
    let saved = (handover.is_none() && log.is_none() && nodes.is_none()).then(|| market.version());
    let lock = file.as_ref().and_then(BookFile::lock).map(|fd| fd.try_clone_to_owned());
    let lock = lock.transpose()?;
    let durability = args.kept();
    let node = args.replicate.as_ref().map(|_| args.node_name());
    let mut ledger = Ledger { file, saved, every, durability, node };
    let instance = ServiceInstance {
        name: "stock",
        port: PORT,
        tries: &["roundhouse client {at}", "roundhouse load stock://{at} --for 2s"],
        service: &service,
        state: &market,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
        facts: &[
            ("durability", durability.name()),
            ("replication", args.replicate.as_ref().map_or("none", |_| "etcd")),
        ],
    };
    let passed: Vec<_> = lock.iter().map(AsFd::as_fd).collect();
    let extra = log.as_ref().map(|log| log as &dyn ExtraWorker);
    let extra = extra.or(nodes.as_ref().map(|log| log as &dyn ExtraWorker));
    let beside = Beside { extra, others: &passed, ..Beside::default() };
    let websocket = args.server.websocket(MessageKind::Text);
    args.server.run_layered(&shape, &instance, websocket, beside, &mut ledger)
}

impl Args {
    /// The events that an answered order survives.
    fn kept(&self) -> Durability {
        if self.replicate.is_some() { Durability::Sync } else { self.durability }
    }

    /// The name of this node for people.
    fn node_name(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        match self.server.port {
            Some(0) => format!("{} pid {}", host.trim(), std::process::id()),
            port => format!("{}:{}", host.trim(), port.unwrap_or(PORT)),
        }
    }
}

/// Refuses a log where there can be none.
fn refuse_log(args: &Args, is_handed_over: bool) -> Result<(), Refused> {
    let why = match &args.data {
        _ if args.replicate.is_none() && args.read.is_some() => {
            "--read chooses where `show` reads a market of several nodes: say --replicate too"
        }
        Some(data) if args.replicate.is_some() && folder_of(data).is_dir() => {
            "the book has a log, FILE.log: begin the market of several nodes with a book that has \
             none"
        }
        _ if args.replicate.is_some() && args.durability == Durability::Os => {
            "--replicate keeps orders in the store that it names: leave out --durability"
        }
        _ if args.replicate.is_some() && is_handed_over => {
            "a node is not handed over: stop it, then start it; the other nodes go on serving"
        }
        _ if args.replicate.is_some() => return Ok(()),
        Some(data) if args.durability == Durability::None && folder_of(data).is_dir() => {
            "the book has a log, FILE.log, whose orders would be lost: say --durability os or sync, \
             or remove that folder"
        }
        _ if args.durability == Durability::None => return Ok(()),
        None => "--durability needs --data FILE, beside which the log lies",
        Some(_) if is_handed_over => {
            "a market with a log is not handed over: stop the server, then start it; the \
             predecessor goes on serving"
        }
        Some(_) => return Ok(()),
    };
    Err(Refused(why.to_owned()))
}

/// A service, and the log of its market, if there is one: on this machine, or of several nodes.
struct Logged<'a> {
    log: Option<OrderLog<'a>>,
    nodes: Option<ReplicatedLog<'a>>,
    service: Arc<Stock>,
}

fn logged<'a>(args: &Args, market: &'a Market) -> Result<Logged<'a>> {
    let (durability, limits) = (args.kept(), Options::default().limits);
    let reads = args.replicate.as_ref().map(|_| args.read.unwrap_or_default());
    let Args { framing, order, lock, .. } = *args;
    let work = args.work.steps();
    let service = Stock::new(Options { framing, order, lock, durability, work, reads, limits });
    let (mut log, mut nodes, mut words) = (None, None, None);
    if let Some(address) = args.replicate.clone() {
        let keep = args.log_keep.unwrap_or(4);
        nodes = Some(ReplicatedLog::open(address, market, lock, args.node_name(), keep)?);
    } else if let Some(data) = args.data.as_deref().filter(|_| durability != Durability::None) {
        let keep = args.log_keep.unwrap_or(64);
        let opened = OrderLog::open(data, market, durability, keep)?;
        words = opened.words()?;
        log = Some(opened);
    }
    Ok(Logged { log, nodes, service: Arc::new(service.with_file(words)) })
}

/// The orders that a crash would lose, and the option that prevents it.
fn risk(durability: Durability, is_saved: bool, every: Option<Duration>) -> String {
    match every {
        _ if durability == Durability::Sync => {
            "durability sync: orders are answered when they are on the disk".into()
        }
        _ if durability == Durability::Os => {
            "durability os: a killed server loses no answered order, a power cut may".into()
        }
        _ if !is_saved => {
            "the built-in stocks are served and not saved: --data FILE keeps orders".into()
        }
        None => "the file is saved when no client is connected, and at the end; a crash loses the \
                 orders since: --save-every 1s bounds that"
            .into(),
        Some(every) => format!("a crash loses at most the orders of the last {every:?}"),
    }
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

/// Writes the stocks back to their file.
struct Ledger {
    file: Option<BookFile>,
    /// The version of the market that the file holds, if that is known.
    saved: Option<u64>,
    every: Option<Duration>,
    durability: Durability,
    /// The name of this node, if the market is replicated.
    node: Option<String>,
}

impl StateStore<Market> for Ledger {
    fn is_changed(&mut self, market: &Market) -> bool {
        self.file.is_some() && self.saved.is_none_or(|saved| market.changed_since(saved))
    }

    fn save(&mut self, market: &Market) -> Result<(), String> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.saved = Some(file.save(market)?);
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        self.every
    }

    fn gauges(&self, market: &Market) -> Vec<Gauge> {
        let rows = Gauge::now("stock_rows", "Stocks of the market", market.len() as f64);
        let level = Durability::ALL.iter().position(|it| *it == self.durability).unwrap_or(0);
        let help = "Answered orders survive 0 nothing, 1 a kill (os), 2 a power cut (sync)";
        let durability = Gauge::now("durability", help, level as f64);
        if self.durability == Durability::None {
            return vec![rows, durability];
        }
        let orders = market.orders();
        let (placed, durable) = orders.ends();
        let waiting = (placed - durable.min(placed)) as f64;
        let (batches, is_stopped) = orders.commits();
        let logged = if self.node.is_some() { market.cluster().ends().1 } else { durable } as f64;
        let mut gauges = vec![
            rows,
            durability,
            Gauge::total("orders_logged", "The last order in the log", logged),
            Gauge::total("log_batches", "Batches of orders written to the log", batches as f64),
            Gauge::now("orders_waiting", "Orders that wait for the log", waiting),
            Gauge::now("log_stopped", "1 after a fault of the disk", is_stopped.into()),
        ];
        if let Some(node) = &self.node {
            gauges.extend(cluster_gauges(market, node));
        }
        gauges
    }
}

/// A node of a replicated market in its figures: itself, the other nodes, the members of the store.
fn cluster_gauges(market: &Market, name: &str) -> Vec<Gauge> {
    let cluster = market.cluster();
    let nodes = cluster.nodes.list();
    let head = nodes.iter().map(|(_, last)| *last).max().unwrap_or(0);
    let age = cluster.age_ms(seam::Instant::from_ns(sys::clock::now_ns())) as f64 / 1e3;
    let help = "Time since nothing in the log was missing here";
    let itself = Gauge::now("cluster_node_info", "This node and its store", 1.0);
    let mut gauges = vec![
        itself.with("node", name).with("store", "etcd"),
        Gauge::now("cluster_nodes", "Nodes that serve the market", nodes.len() as f64),
        Gauge::total("cluster_batch", "The last batch carried out here", cluster.ends().0 as f64),
        Gauge::now("cluster_age_seconds", help, age),
    ];
    let help = "Orders that a node lacked beside the first one, by what both said within a second";
    gauges.extend(nodes.iter().map(|(name, last)| {
        Gauge::now("cluster_lag_orders", help, (head - last) as f64).with("node", name)
    }));
    let help = "Machines of the store: 0 silent, 1 ailing, 2 follows, 3 leads";
    gauges.extend(cluster.members.list().iter().map(|(name, state)| {
        Gauge::now("cluster_member_state", help, *state as f64).with("member", name)
    }));
    gauges
}
