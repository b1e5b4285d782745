//! A stock market that outlives its server: its book in a file, its orders in a log on the disk or
//! in the log of several nodes.
//!
//! ```text
//!   options       what a market is made of, and which choices exclude each other
//!   kept          a market with its file and its log, ready to be served
//!   book_file     `stock.txt`: its lock, its text, what a person changes in it meanwhile
//!   order_log     the log on the disk, and the committer that writes it
//!   common_log    the log of several nodes, and the committer of this one
//!   cluster_view  the other nodes and the store, in memory that all workers share
//!   market_store  saves the book, and reports on the market
//!   history       the orders of a log, which may be in use
//!   order_work    computation that an order costs besides the market
//! ```
//!
//! `stock` has neither files nor threads; this crate brings them to it. [`serve`] runs a
//! market by the flags of a program; [`KeptMarket`] has its parts, for a program that runs an
//! engine by itself.

mod book_file;
mod cluster_view;
mod common_log;
pub mod history;
mod kept;
mod market_store;
mod options;
mod order_log;
mod order_work;

pub use cluster::StoreAddress;
pub use cluster_view::{ClusterView, NamedNumbers};
pub use kept::{KeptMarket, serve};
pub use market_store::MarketStore;
pub use options::MarketOptions;
pub use order_work::OrderWork;

/// The port without `--port`.
pub const PORT: u16 = 6000;
/// Commands that a person on a terminal may try.
const TRIES: &[&str] = &["nc {ip} {port}", "roundhouse load stock://{at} --for 2s"];
