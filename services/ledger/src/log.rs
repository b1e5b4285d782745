//! The writing half: batches of orders, each on the disk before [`Log::commit`] returns.
//!
//! A segment has its full length, in zeros, before it is used: syncing bytes in place costs a
//! flush, syncing a longer file also a commit of the file system's journal.
//!
//! Every [`Log::open`] begins a segment. The torn end of the one before is never written again, so
//! nothing in it can ever become part of the chain.

use crate::record::{self, LEN, OrderRecord};
use crate::state::{close, segment_name, tail};
use crate::{Disk, DiskFile, LedgerFault, on};

/// The usual length of a segment in bytes: some 170,000 orders.
pub const SEGMENT_BYTES: u64 = 8 << 20;
/// A segment in zeros that waits to be used.
pub(crate) const SPARE: &str = "spare";
const SPARE_NEW: &str = "spare.new";
const SEALED_NEW: &str = "sealed.new";
/// Bytes of zeros in one write.
const ZEROS: usize = 1 << 20;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Sync each batch before it counts as committed.
    pub sync: bool,
    /// The length of a segment, at least two records.
    pub segment_bytes: u64,
}

/// A log that this process alone writes.
#[derive(Debug)]
pub struct Log<D: Disk> {
    disk: D,
    options: LogOptions,
    file: D::File,
    name: String,
    /// Where the next record goes.
    at: u64,
    last: u64,
    crc: u32,
    durable: u64,
    stopped: Option<String>,
    batch: Vec<u8>,
}

impl<D: Disk> Log<D> {
    /// Opens the ledger for orders after the last whole one, which [`Log::last`] tells; a
    /// torn end is left behind. All orders up to there are durable on return.
    ///
    /// # Errors
    /// The disk's, and damage.
    pub fn open(disk: D, options: LogOptions) -> Result<Log<D>, LedgerFault> {
        let found = tail(&disk)?;
        if let Some((name, len)) = &found.segment {
            seal(&disk, name, *len)?;
        }
        on("sync", "the folder of the log", disk.sync_names())?;
        let (file, name) = begin(&disk, options, found.last, found.crc)?;
        Ok(Log {
            disk,
            options,
            file,
            name,
            at: LEN as u64,
            last: found.last,
            crc: found.crc,
            durable: found.last,
            stopped: None,
            batch: Vec::new(),
        })
    }

    /// The number of the last order.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Writes `orders`, which follow the last one.
    ///
    /// # Errors
    /// The disk's. Then it is unknown which of the orders a restart will find, and no more are
    /// accepted: [`LedgerFault::Stopped`].
    ///
    /// # Panics
    /// If the numbers do not follow.
    pub fn commit(&mut self, orders: &[OrderRecord]) -> Result<(), LedgerFault> {
        if let Some(why) = &self.stopped {
            return Err(LedgerFault::Stopped(why.clone()));
        }
        self.write(orders).inspect_err(|fault| self.stopped = Some(fault.to_string()))
    }

    /// Ends the log in good order: its last number is noted next to it, so that a start finds out
    /// if the end is lost.
    ///
    /// # Errors
    /// The disk's. The log is whole, and as after a crash.
    pub fn close(mut self) -> Result<(), LedgerFault> {
        if let Some(why) = self.stopped.take() {
            return Err(LedgerFault::Stopped(why));
        }
        self.sync()?;
        close(&self.disk, self.last)
    }

    fn write(&mut self, mut orders: &[OrderRecord]) -> Result<(), LedgerFault> {
        while !orders.is_empty() {
            let room = (self.options.segment_bytes.saturating_sub(self.at) / LEN as u64) as usize;
            if room == 0 {
                self.rotate()?;
                continue;
            }
            let (now, later) = orders.split_at(room.min(orders.len()));
            self.batch.clear();
            for order in now {
                assert_eq!(order.seq, self.last + 1, "orders are numbered without gaps");
                self.crc = order.encode(self.durable, self.crc, &mut self.batch);
                self.last = order.seq;
            }
            on("write", &self.name, self.file.write_at(&self.batch, self.at))?;
            self.at += self.batch.len() as u64;
            orders = later;
        }
        if self.options.sync { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), LedgerFault> {
        on("sync", &self.name, self.file.sync())?;
        self.durable = self.last;
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), LedgerFault> {
        // Without this a power cut could keep the new segment and lose the end of this one.
        self.sync()?;
        (self.file, self.name) = begin(&self.disk, self.options, self.last, self.crc)?;
        self.at = LEN as u64;
        Ok(())
    }
}

/// Shortens a segment to its whole records, which are durable on return. They are written to a new
/// file, because a sync that failed may have marked pages clean that the disk does not hold.
fn seal<D: Disk>(disk: &D, name: &str, len: usize) -> Result<(), LedgerFault> {
    let bytes = on("read", name, disk.open(name).and_then(|file| file.read()))?;
    let mut file = on("create", SEALED_NEW, disk.create(SEALED_NEW))?;
    on("write", SEALED_NEW, file.write_at(&bytes[..len], 0))?;
    on("sync", SEALED_NEW, file.sync())?;
    on("rename", SEALED_NEW, disk.rename(SEALED_NEW, name))
}

/// Begins the segment after order `last`, whose checksum is `crc`. Its head becomes durable with
/// the first batch.
fn begin<D: Disk>(
    disk: &D,
    options: LogOptions,
    last: u64,
    crc: u32,
) -> Result<(D::File, String), LedgerFault> {
    let name = segment_name(last + 1);
    prepare_spare(disk, options)?;
    on("rename", SPARE, disk.rename(SPARE, &name))?;
    on("sync", "the folder of the log", disk.sync_names())?;
    let mut file = on("open", &name, disk.open(&name))?;
    on("write", &name, file.write_at(&record::head(last + 1, crc), 0))?;
    Ok((file, name))
}

/// Makes the next segment beforehand, so that no batch waits for it.
///
/// # Errors
/// The disk's.
pub fn prepare_spare<D: Disk>(disk: &D, options: LogOptions) -> Result<(), LedgerFault> {
    if on("list", "the folder of the log", disk.names())?.iter().any(|name| name == SPARE) {
        return Ok(());
    }
    let mut file = on("create", SPARE_NEW, disk.create(SPARE_NEW))?;
    let zeros = vec![0; ZEROS.min(options.segment_bytes as usize)];
    let mut at = 0;
    while at < options.segment_bytes {
        let len = zeros.len().min((options.segment_bytes - at) as usize);
        on("write", SPARE_NEW, file.write_at(&zeros[..len], at))?;
        at += len as u64;
    }
    on("sync", SPARE_NEW, file.sync())?;
    on("rename", SPARE_NEW, disk.rename(SPARE_NEW, SPARE))
}
