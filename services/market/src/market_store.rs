//! Saves the book of a market, and reports on the market.

use std::sync::Arc;
use std::time::Duration;

use engines::StateStore;
use engines::status::Gauge;
use memory::Region;
use stock::{Durability, Market};

use crate::ClusterView;
use crate::book_file::BookFile;

/// Writes the stocks back to their file.
pub struct MarketStore {
    pub(crate) file: Option<BookFile>,
    /// The version of the market that the file holds, if that is known.
    pub(crate) saved: Option<u64>,
    pub(crate) every: Option<Duration>,
    pub(crate) durability: Durability,
    /// The name of this node and its view of the others, if the market is replicated.
    pub(crate) node: Option<(String, Arc<Region<ClusterView>>)>,
}

impl StateStore<Market> for MarketStore {
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
        let logged = self.node.as_ref().map_or(durable, |(_, view)| view.ends().1) as f64;
        let mut gauges = vec![
            rows,
            durability,
            Gauge::total("orders_logged", "The last order in the log", logged),
            Gauge::total("log_batches", "Batches of orders written to the log", batches as f64),
            Gauge::now("orders_waiting", "Orders that wait for the log", waiting),
            Gauge::now("log_stopped", "1 after a fault of the disk", is_stopped.into()),
        ];
        if let Some((name, view)) = &self.node {
            gauges.extend(cluster_gauges(name, view));
        }
        gauges
    }
}

/// A node of a replicated market in its figures: itself, the other nodes, the members of the store.
fn cluster_gauges(name: &str, view: &ClusterView) -> Vec<Gauge> {
    let nodes = view.nodes.list();
    let head = nodes.iter().map(|(_, last)| *last).max().unwrap_or(0);
    let age = view.age_ms(seam::Instant::from_ns(sys::clock::now_ns())) as f64 / 1e3;
    let help = "Time since nothing in the log was missing here";
    let itself = Gauge::now("cluster_node_info", "This node and its store", 1.0);
    let mut gauges = vec![
        itself.with("node", name).with("store", "etcd"),
        Gauge::now("cluster_nodes", "Nodes that serve the market", nodes.len() as f64),
        Gauge::total("cluster_batch", "The last batch executed here", view.ends().0 as f64),
        Gauge::now("cluster_age_seconds", help, age),
    ];
    let help = "Orders that a node is behind the first one, by what both said within a second";
    gauges.extend(nodes.iter().map(|(name, last)| {
        Gauge::now("cluster_lag_orders", help, (head - last) as f64).with("node", name)
    }));
    let help = "Machines of the store: 0 silent, 1 ailing, 2 follows, 3 leads";
    gauges.extend(view.members.list().iter().map(|(name, state)| {
        Gauge::now("cluster_member_state", help, *state as f64).with("member", name)
    }));
    gauges
}
