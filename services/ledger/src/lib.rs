//! The log of orders on a disk: what a market can be rebuilt from after a crash.
//!
//! ```text
//!   disk      files and names as the log needs them; a folder   record   one order as 48 bytes
//!   log       batches: append, sync, rotate                     state    replay, snapshot, folding
//!   history   the receipts of clients, and the proof that they fit together
//! ```
//!
//! A ledger is a folder with one `snapshot` and segments, `NUMBER.log`, each named after its first
//! order. Orders are numbered without gaps. Each record carries the checksum of its predecessor, so
//! the log is a chain, and the number up to which the log was on the disk when it was written, so
//! damage to acknowledged orders differs from the torn end of a crash: the end is cut, damage is
//! refused.
//!
//! A failed write or sync is final ([`Log::commit`]): the kernel may have dropped the pages
//! and marked them clean (Rebello et al., "Can Applications Recover from fsync Failures?", ATC
//! 2020).

mod disk;
mod history;
mod log;
mod record;
mod state;

use std::io;

pub use disk::{Disk, DiskFile, Folder};
pub use history::{HistoryProof, prove};
pub use log::{Log, LogOptions, SEGMENT_BYTES, prepare_spare};
pub use record::OrderRecord;
pub use state::{LedgerState, REQUESTS_KEPT, Tail, exists, fold, found, recover, replay};

/// Why a ledger cannot be read or written.
#[derive(Debug, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum LedgerFault {
    #[display("cannot {act} {name}: {error}; mend the disk, then restart")]
    Disk { act: &'static str, name: String, error: io::Error },
    /// The files contradict themselves, and no crash explains it.
    #[display("{name} is damaged: {found}; restore the folder from a copy")]
    Damaged { name: String, found: String },
    /// An earlier fault has ended this log.
    #[display("the log has stopped: {_0}")]
    Stopped(String),
}

impl LedgerFault {
    fn damaged(name: &str, found: impl Into<String>) -> LedgerFault {
        LedgerFault::Damaged { name: name.to_owned(), found: found.into() }
    }
}

impl std::error::Error for LedgerFault {}

/// Names the act and the file of a disk's error.
pub(crate) fn on<T>(act: &'static str, name: &str, done: io::Result<T>) -> Result<T, LedgerFault> {
    done.map_err(|error| LedgerFault::Disk { act, name: name.to_owned(), error })
}
