//! The committer of a market that several nodes serve: brings the orders of all workers into the
//! common log, executes those of all nodes, and says which are answered.
//!
//! One committer per machine runs as an extra worker. A turn takes the waiting orders of all
//! workers from the `OrderQueue`, appends them to the store as one batch, applies every batch that
//! is new, sets the resulting amounts in the shared market, and reports an outcome for each of its
//! own orders; only then do sessions reply. The order of the log decides, so amounts in shared
//! memory are a copy that only this committer changes. If the store is silent, orders wait; if the
//! log is damaged, orders are refused and `show` continues. Threads of the committer watch the
//! store for batches of other nodes, list its members, and write snapshots, so that none of these
//! delays a batch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cluster::{
    BatchStore, ClusterNode, Etcd, OrderOutcome, PlacedOrder, Replica, Settlement, StoreAccess,
    StoreAddress, StoreFault,
};
use engines::{ExtraFault, ExtraWorker, ExtraWorkerEntry};
use language::{eprintln, info};
use memory::{Phase, Placement, Region};
use seam::WorkerId;
use stock::queue::Unplaced;
use stock::replicated::{NodeView, TicketOutcome, since};
use stock::{Lock, Market, Refusal};

use crate::cluster_view::{ClusterView, SharedView};
use crate::order_log::{LOOK, Rest, begin, end};

/// How long a server that starts asks for its store.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause after a fault of the store.
const PAUSE: Duration = Duration::from_millis(50);
/// The time without news after which the log is looked at.
const CONFIRM: Duration = Duration::from_millis(250);
const BEAT: Duration = Duration::from_secs(1);
/// Orders and batches of a segment: what `--log-keep` counts.
const SEGMENT: [u64; 2] = [170_000, 5_000];

/// The log of a market that several nodes serve.
pub struct CommonLog<'a> {
    address: StoreAddress,
    access: Arc<StoreAccess>,
    market: &'a Market,
    view: Arc<Region<ClusterView>>,
    lock: Lock,
    /// Orders and batches between two snapshots.
    snapshots: [u64; 2],
    /// This node's name for the log, and the one for people.
    id: u64,
    name: String,
}

/// A committer's part that lasts as long as its process.
struct Committer<'a, 'env> {
    log: &'env CommonLog<'a>,
    store: Etcd,
    node: ClusterNode,
    me: WorkerId,
    beaten: Option<Instant>,
    /// Since when the store has been silent.
    silent: Option<Instant>,
    complaint: Complaint,
}

/// When to complain of a silent store again: at once, after a second, two, four, and so on up to a
/// minute.
#[derive(Default)]
struct Complaint {
    next: Option<Instant>,
    pause: Duration,
}

impl Complaint {
    fn repeat(&mut self, fault: &StoreFault) {
        let now = Instant::now();
        if self.next.is_none_or(|next| next <= now) {
            eprintln!("the store does not answer ({fault}): orders wait");
            self.pause = (self.pause * 2).clamp(Duration::from_secs(1), Duration::from_mins(1));
            self.next = Some(now + self.pause);
        }
    }
}

impl<'a> CommonLog<'a> {
    /// Brings `market` to the state of the log at `address`, which is founded with it if there is
    /// none. Snapshots are `keep` segments apart. `name` is the node's name for people; its view of
    /// the others lies at `place`.
    ///
    /// # Errors
    /// The store's, and a book of other stocks.
    pub fn open(
        address: StoreAddress,
        market: &'a Market,
        lock: Lock,
        name: String,
        keep: usize,
        place: Placement,
    ) -> Result<CommonLog<'a>> {
        let id = stats::Rng::new(sys::clock::now_ns() ^ u64::from(std::process::id()) << 40).roll();
        let keep = keep.max(1) as u64;
        let snapshots = SEGMENT.map(|segment| segment * keep);
        let mut view =
            Region::<ClusterView>::place(place).context("cannot place the view of the nodes")?;
        view.init(&[]).map_err(|bad| anyhow!("{bad}"))?;
        let view = Arc::new(view);
        let access = StoreAccess::of(&address).map_err(|why| anyhow!(why))?;
        let log = CommonLog { address, access, market, view, lock, snapshots, id, name };
        let rows = 0..market.len() as u32;
        let book: BTreeMap<u32, u64> =
            rows.map(|row| market.entry(row)).map(|entry| (entry.id, entry.left)).collect();
        let (begin, mut complaint) = (Instant::now(), Complaint::default());
        let joined = loop {
            match ClusterNode::join(&mut log.store(), id, 0, &book) {
                Err(fault @ StoreFault::Silent { .. }) if begin.elapsed() < PATIENCE => {
                    complaint.repeat(&fault);
                    std::thread::sleep(PAUSE);
                }
                joined => break joined,
            }
        };
        let (node, _) =
            joined.with_context(|| format!("cannot join the market at {}", log.address))?;
        let found = &node.market().lefts;
        if !found.keys().eq(book.keys()) {
            let stocks = |all: &BTreeMap<u32, u64>, other: &BTreeMap<u32, u64>| {
                all.keys().filter(|id| !other.contains_key(id)).count()
            };
            return Err(anyhow!(
                "expected the stocks of the market at {} in the book, found {} others, and {} \
                 missing: give each node the same book",
                log.address,
                stocks(&book, found),
                stocks(found, &book),
            ));
        }
        let differ = book.iter().filter(|(id, left)| found[id] != **left).count();
        if differ > 0 {
            info!("{differ} amounts come from the market at {}", log.address);
        }
        log.take_over(&node);
        market.orders().begin_tickets();
        Ok(log)
    }

    /// The other nodes and the store, as this node knows them.
    pub fn view(&self) -> Arc<Region<ClusterView>> {
        Arc::clone(&self.view)
    }

    /// The same for the service.
    pub fn node_view(&self) -> Arc<dyn NodeView> {
        Arc::new(SharedView(self.view()))
    }

    /// A connection to the store; nothing is asked yet.
    fn store(&self) -> Etcd {
        Etcd::new(self.address.clone(), Arc::clone(&self.access))
    }

    /// Sets all amounts.
    fn take_over(&self, node: &ClusterNode) {
        let market = node.market();
        for (id, left) in &market.lefts {
            if let Some(row) = self.market.find(*id) {
                self.market.set_left(row, *left);
            }
        }
        self.view.advance(market.batch, market.last, market.decided);
    }

    fn serve(&self, entry: &ExtraWorkerEntry<'_>) {
        let (news, ends) = (AtomicBool::new(true), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let watch = || {
                self.store().watch(&ends, &|| {
                    news.store(true, Ordering::Release);
                    self.market.orders().wake();
                });
            };
            // Without these threads news come when the committer asks, and no list of members.
            let started = thread("watch").spawn_scoped(threads, watch).and_then(|_| {
                thread("members").spawn_scoped(threads, || self.look_at_members(&ends))
            });
            if let Err(error) = started {
                eprintln!("the store is not watched: {error}; it is asked at intervals");
            }
            if let Some(mut committer) = self.committer(entry)
                && let Err(fault) = committer.run(entry, threads, &news)
            {
                self.market.orders().stop();
                eprintln!("{fault}; orders are refused from now on, `show` goes on");
            }
            ends.store(true, Ordering::Relaxed);
        });
    }

    /// Lists the machines of the store and their states twice a second, on a separate connection:
    /// a silent one delays no batch.
    fn look_at_members(&self, ends: &AtomicBool) {
        let mut store = self.store();
        while !ends.load(Ordering::Relaxed) {
            let members = store.members().into_iter();
            let members: Vec<_> = members.map(|(name, state)| (name, state as u64)).collect();
            self.view.members.replace(&members);
            std::thread::sleep(BEAT / 2);
        }
    }

    /// Joins again; [`None`]: the server ended meanwhile, or the log is damaged.
    fn committer<'env>(&'env self, entry: &ExtraWorkerEntry<'_>) -> Option<Committer<'a, 'env>> {
        let (mut store, mut complaint) = (self.store(), Complaint::default());
        loop {
            let settled = self.market.orders().ends().1;
            match ClusterNode::join(&mut store, self.id, settled, &BTreeMap::new()) {
                Ok((node, news)) => {
                    let (beaten, silent, complaint) = (None, None, Complaint::default());
                    let me = entry.id;
                    let committer =
                        Committer { log: self, store, node, me, beaten, silent, complaint };
                    committer.publish(&news);
                    return Some(committer);
                }
                Err(fault @ StoreFault::Silent { .. })
                    if entry.board.phase() <= Phase::Draining =>
                {
                    complaint.repeat(&fault);
                    std::thread::sleep(PAUSE);
                }
                Err(StoreFault::Silent { .. }) => return None,
                Err(fault) => {
                    self.market.orders().stop();
                    eprintln!("{fault}; orders are refused from now on, `show` goes on");
                    return None;
                }
            }
        }
    }
}

impl Committer<'_, '_> {
    /// Commits batches until the server ends.
    fn run<'scope>(
        &mut self,
        entry: &ExtraWorkerEntry<'_>,
        threads: &'scope Scope<'scope, '_>,
        news: &AtomicBool,
    ) -> Result<(), StoreFault> {
        let orders = self.log.market.orders();
        let (mut rest, mut looked) = (Rest::default(), Instant::now());
        let mut saving: Option<ScopedJoinHandle<'scope, ()>> = None;
        let mut waiting = Vec::new();
        loop {
            waiting.clear();
            orders.next(self.node.settled(), LOOK, false, &mut waiting);
            let command = |it: &ledger::OrderRecord| PlacedOrder {
                request: it.request,
                stock: it.stock,
                change: it.change,
                since: since(it.left),
            };
            let commands: Vec<PlacedOrder> = waiting.iter().map(command).collect();
            self.beat();
            let has_news = news.swap(false, Ordering::Acquire);
            if commands.is_empty() && rest.is_over(entry.board) {
                return Ok(());
            }
            if commands.is_empty() && !has_news && looked.elapsed() < CONFIRM {
                continue;
            }
            looked = Instant::now();
            let before = self.marks();
            let is_writer = self.turn(&commands)?;
            if self.silent.is_some() && entry.board.phase() >= Phase::Forced {
                return Ok(());
            }
            let is_idle = saving.as_ref().is_none_or(ScopedJoinHandle::is_finished);
            if is_writer && self.marks() != before && is_idle {
                saving = self.save(threads);
            }
        }
    }

    /// How many snapshots there should have been.
    fn marks(&self) -> [u64; 2] {
        let market = self.node.market();
        [market.last / self.log.snapshots[0], market.batch / self.log.snapshots[1]]
    }

    /// One turn; whether an own batch is in the log now.
    fn turn(&mut self, commands: &[PlacedOrder]) -> Result<bool, StoreFault> {
        let (now, mut news) = (sys::clock::now_ns(), Settlement::default());
        let done = self.node.turn(&mut self.store, commands, &mut news);
        self.publish(&news);
        if news.is_current {
            self.log.view.refresh(seam::Instant::from_ns(now));
        }
        match done {
            Err(fault @ StoreFault::Silent { .. }) => {
                self.complaint.repeat(&fault);
                self.silent.get_or_insert_with(Instant::now);
                std::thread::sleep(PAUSE);
                Ok(false)
            }
            Err(damage) => Err(damage),
            Ok(()) => {
                self.complaint = Complaint::default();
                if let Some(since) = self.silent.take() {
                    eprintln!("the store answers again, after {:.1?}", since.elapsed());
                }
                Ok(news.is_writer)
            }
        }
    }

    /// Carries out what is new, and answers.
    fn publish(&self, news: &Settlement) {
        let CommonLog { market, lock, .. } = self.log;
        let inside = market.enter(self.me);
        if news.is_reloaded {
            self.log.take_over(&self.node);
        } else {
            for record in &news.records {
                if let Some(row) = market.find(record.stock) {
                    market.locked(*lock, self.me, row, || market.set_left(row, record.left));
                }
            }
            let Replica { batch, last, decided, .. } = self.node.market();
            self.log.view.advance(*batch, *last, *decided);
        }
        drop(inside);
        for (ticket, outcome) in &news.outcomes {
            market.orders().decide(*ticket, decided(*outcome));
        }
        if !news.outcomes.is_empty() {
            market.orders().committed(self.node.settled());
        }
    }

    /// Writes a snapshot next to the batches that follow.
    fn save<'scope>(
        &self,
        threads: &'scope Scope<'scope, '_>,
    ) -> Option<ScopedJoinHandle<'scope, ()>> {
        let (number, bytes) = (self.node.market().batch, self.node.market().encode());
        let mut store = self.log.store();
        let refused = |fault: &dyn fmt::Display| {
            eprintln!("no snapshot of the market: {fault}; a later one takes its place");
        };
        let save = move || {
            if let Err(fault) = store.save(number, &bytes) {
                refused(&fault);
            }
        };
        let started = thread("snapshot").spawn_scoped(threads, save);
        started.inspect_err(|error| refused(error)).ok()
    }

    /// Says that this node lives, and lists those that do.
    fn beat(&mut self) {
        if self.silent.is_some() || self.beaten.is_some_and(|at| at.elapsed() < BEAT) {
            return;
        }
        self.beaten = Some(Instant::now());
        let words = format!("{} {}", self.log.name, self.node.market().last);
        // A fault shows in the next turn.
        if let Ok(nodes) = self.store.beat(self.log.id, &words) {
            let mut nodes: Vec<_> = nodes.iter().filter_map(|words| node_of(words)).collect();
            nodes.sort_unstable();
            self.log.view.nodes.replace(&nodes);
        }
    }
}

fn thread(name: &str) -> Builder {
    Builder::new().name(name.to_owned())
}

/// A node's name and last order, in its report of itself.
fn node_of(words: &str) -> Option<(String, u64)> {
    let (name, last) = words.rsplit_once(' ')?;
    Some((name.to_owned(), last.parse().ok()?))
}

fn decided(outcome: OrderOutcome) -> TicketOutcome {
    match outcome {
        OrderOutcome::Placed(number) => Some(Ok(number)),
        OrderOutcome::Read => Some(Ok(0)),
        OrderOutcome::NotEnough => Some(Err(Unplaced::Market(Refusal::NotEnough))),
        OrderOutcome::TooMany => Some(Err(Unplaced::Market(Refusal::TooMany))),
        OrderOutcome::OtherOrder => Some(Err(Unplaced::OtherOrder(0))),
        OrderOutcome::Lost => None,
    }
}

impl ExtraWorker for CommonLog<'_> {
    fn check(&self) -> Result<(), ExtraFault> {
        Ok(())
    }

    fn run(&self, entry: &ExtraWorkerEntry<'_>) -> Result<(), ExtraFault> {
        begin(entry);
        if !self.market.orders().commits().1 {
            self.serve(entry);
        }
        end(entry, self.market.orders());
        Ok(())
    }
}
