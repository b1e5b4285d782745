//! A market that several machines serve: its orders in one log, in a store that keeps them on most
//! of its own machines before it answers.
//!
//! ```text
//!   batch     orders of one node on their way, as bytes      replica   the market after a batch
//!   node      appends, reads, applies, reports outcomes      history   what the store remembers
//!   etcd      the store, by the JSON gateway of its API      address   its members, and a name
//!   access    TLS, certificates, users
//! ```
//!
//! Each node is a replicated state machine (Schneider, "Implementing Fault-Tolerant Services Using
//! the State Machine Approach", 1990). The log holds orders as clients sent them. Every node
//! applies every batch in the log's order, so all decide alike which orders succeed, and which were
//! sent before. The store is the only place where nodes meet; consensus is its business.
//!
//! **The fence.** A batch has a number, one more than that of the last one. The store appends it
//! only if the last one is the one that its sender has applied. Of two nodes, or of a request that
//! is under way for long and its repetition, one wins; the other one learns the batches that it
//! lacks.

use std::sync::atomic::AtomicBool;

mod access;
mod address;
mod batch;
mod etcd;
mod history;
mod node;
mod replica;

pub use access::StoreAccess;
pub use address::StoreAddress;
pub use batch::PlacedOrder;
pub use etcd::Etcd;
pub use history::{StoredHistory, stored_history};
pub use node::{ClusterNode, Settlement};
pub use replica::{OrderOutcome, REQUESTS_REMEMBERED, Replica};

/// The batches that [`BatchStore::read`] and [`Appended::Behind`] return at most.
pub const BATCHES_READ: usize = 256;

/// Batches with their numbers, ascending.
pub type Batches = Vec<(u64, Vec<u8>)>;

/// The fate of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is the next one, on most machines of the store.
    Done,
    /// Another batch is the next one; these follow the number that was named, at most
    /// [`BATCHES_READ`].
    Behind(Batches),
}

/// The state of a machine of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It does not answer in time.
    Silent,
    /// It answers, but knows no leader, lags, or has an alarm.
    Ailing,
    /// It follows a leader.
    Follows,
    /// It leads.
    Leads,
}

/// A log of batches and its snapshots, on several machines.
///
/// A fault leaves it unknown whether the call takes effect, now or later.
pub trait BatchStore {
    /// Appends `batch` as number `after + 1`, if `after` is the last number.
    fn append(&mut self, after: u64, batch: &[u8]) -> Result<Appended, StoreFault>;

    /// The last number, as of some moment during the call, and the batches after number `after`, at
    /// most [`BATCHES_READ`]. The first one has a larger number than `after + 1` if earlier ones
    /// were compacted.
    fn read(&mut self, after: u64) -> Result<(u64, Batches), StoreFault>;

    /// The newest snapshot, or the oldest one that is kept: the number of the last batch in it, and
    /// its bytes. `None`: the log is not founded.
    fn snapshot(&mut self, newest: bool) -> Result<Option<(u64, Vec<u8>)>, StoreFault>;

    /// Adds a snapshot after batch `number`, unless there is a newer one. Keeps the snapshot before
    /// it and all batches since that one, and drops what is older. With number 0 it founds the log,
    /// unless there is one.
    fn save(&mut self, number: u64, snapshot: &[u8]) -> Result<(), StoreFault>;

    /// Says that node `id` lives, in separate words; returns the words of all that live.
    fn beat(&mut self, id: u64, words: &str) -> Result<Vec<String>, StoreFault>;

    /// The machines of the store, each asked for its state now.
    fn members(&mut self) -> Vec<(String, MemberState)>;

    /// Calls `news` after each new batch, and now and then without one, until `ends` is set; it
    /// returns a second after that at the latest.
    fn watch(&mut self, ends: &AtomicBool, news: &dyn Fn());
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum StoreFault {
    /// No answer, or one that says that it cannot now. Trying again is right.
    #[display("{address}: {why}")]
    Silent { address: String, why: String },
    /// Its data contradict themselves or the caller.
    #[display(
        "the log in the store is damaged: {_0}; restore the store, or begin under another name"
    )]
    Damaged(String),
}

impl std::error::Error for StoreFault {}
