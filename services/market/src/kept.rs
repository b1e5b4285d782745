//! A market with its file and its log, ready to be served.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use engines::{Assets, ExtraWorker, Handover, Refused};
use memory::{Placement, Region};
use server::{Beside, ServerArgs, ServiceInstance};
use stock::{Durability, Index, Market, Options, Stock, book};
use wire::websocket::MessageKind;

use crate::book_file::BookFile;
use crate::common_log::CommonLog;
use crate::order_log::OrderLog;
use crate::{ClusterView, MarketOptions, MarketStore, PORT, TRIES};

/// Serves the market of `options`, by the flags in `server`, until it is stopped. `grammar` is the
/// command line of the program, which a reload parses again.
///
/// # Errors
/// A choice that cannot be, with [`Refused`] as its cause; the file's faults, and the server's.
pub fn serve(
    server: &ServerArgs,
    options: &MarketOptions,
    grammar: fn() -> clap::Command,
) -> Result<ExitCode> {
    let shape = server.shape()?;
    options.check_lock(&shape)?;
    if let Some(note) = options.service.lock.note() {
        language::info!("{note}");
    }
    let handover = Handover::receive()?;
    options.check_log(handover.is_some())?;
    let mut state = server.state::<Market>(&shape, handover.as_ref(), "market")?;
    let (name, place) = (node_name(server), server.placement(&shape));
    let kept = KeptMarket::open(options, &mut state, name, place, handover.as_ref())?;
    kept.notes.iter().for_each(|note| language::info!("{note}"));
    let KeptMarket { state, service, committer, lock, mut store, .. } = kept;
    let replication = if options.replicate.is_some() { "etcd" } else { "none" };
    let instance = ServiceInstance {
        name: "stock",
        port: PORT,
        tries: TRIES,
        service: &service,
        state,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar,
        facts: &[("durability", options.durability().name()), ("replication", replication)],
    };
    let passed: Vec<_> = lock.iter().map(AsFd::as_fd).collect();
    let beside = Beside { extra: committer.as_deref(), others: &passed, ..Beside::default() };
    let websocket = server.websocket(MessageKind::Text);
    server.run_layered(&shape, &instance, websocket, beside, &mut store)
}

/// The name of this node for people.
fn node_name(server: &ServerArgs) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match server.port {
        Some(0) => format!("{} pid {}", host.trim(), std::process::id()),
        port => format!("{}:{}", host.trim(), port.unwrap_or(PORT)),
    }
}

/// The parts of a market for an engine.
pub struct KeptMarket<'a> {
    /// The market, brought to the state of its file and its log.
    pub state: &'a Region<Market>,
    /// The service.
    pub service: Arc<Stock>,
    /// The worker that writes the log; it must run next to the service.
    pub committer: Option<Box<dyn ExtraWorker + 'a>>,
    /// Saves the book.
    pub store: MarketStore,
    /// The lock of the file, for a successor.
    pub lock: Option<OwnedFd>,
    /// A line for the operator.
    pub notes: Vec<String>,
}

impl<'a> KeptMarket<'a> {
    /// Opens the file and the log of `options` and fills `state`, which was placed and not founded,
    /// or was taken over with `handover`. `node` is this node's name for people; `place` is where
    /// the state lies.
    ///
    /// # Errors
    /// Faults of the file, the log or the store; replies that do not fit into the framing.
    pub fn open(
        options: &MarketOptions,
        state: &'a mut Region<Market>,
        node: String,
        place: Placement,
        handover: Option<&Handover>,
    ) -> Result<KeptMarket<'a>> {
        let file = options.data.as_deref().map(|data| BookFile::open(data, handover));
        let mut file = file.transpose()?;
        if handover.is_none() {
            let text = file.as_ref().map_or(book::DEFAULT.into(), BookFile::bytes);
            let seed = Market::seed(options.index, &text);
            state.init(&seed).map_err(|bad| anyhow!("{bad}"))?;
        }
        let state: &'a Region<Market> = state;
        if let Some(file) = &mut file {
            file.bind(state, handover);
        }
        let durability = options.durability();
        let service = Stock::new(Options { durability, ..options.service });
        let Logged { service, committer, view } = logged(options, state, service, &node, place)?;
        service.fits(state).map_err(Refused)?;
        // It is unknown what the predecessor saved, and a log may be newer than the file.
        let is_saved = handover.is_none() && committer.is_none();
        let lock = file.as_ref().and_then(BookFile::lock).map(|fd| fd.try_clone_to_owned());
        let outgrown = service.outgrown(state);
        let notes = [note(state, options.index), outgrown, Some(options.risk())];
        Ok(KeptMarket {
            state,
            service: Arc::new(service),
            committer,
            store: MarketStore {
                file,
                saved: is_saved.then(|| state.version()),
                every: options.every(),
                durability,
                node: view.map(|view| (node, view)),
            },
            lock: lock.transpose()?,
            notes: notes.into_iter().flatten().collect(),
        })
    }
}

/// A service, and the committer of the log that its market has.
struct Logged<'a> {
    service: Stock,
    committer: Option<Box<dyn ExtraWorker + 'a>>,
    view: Option<Arc<Region<ClusterView>>>,
}

/// Brings the market to the state of its log.
fn logged<'a>(
    options: &MarketOptions,
    market: &'a Market,
    service: Stock,
    node: &str,
    place: Placement,
) -> Result<Logged<'a>> {
    let durability = options.durability();
    if let Some(address) = options.replicate.clone() {
        let (keep, lock) = (options.log_keep.unwrap_or(4), options.service.lock);
        let log = CommonLog::open(address, market, lock, node.to_owned(), keep, place)?;
        let view = log.view();
        let service = service.with_nodes(options.read.unwrap_or_default(), log.node_view());
        return Ok(Logged { service, committer: Some(Box::new(log)), view: Some(view) });
    }
    let Some(data) = options.data.as_deref().filter(|_| durability != Durability::None) else {
        return Ok(Logged { service, committer: None, view: None });
    };
    let log = OrderLog::open(data, market, durability, options.log_keep.unwrap_or(64))?;
    let service = service.with_file(log.words()?);
    Ok(Logged { service, committer: Some(Box::new(log)), view: None })
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
