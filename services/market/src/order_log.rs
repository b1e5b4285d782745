//! The log of a market: what it rebuilds before the server starts, and the committer, one a
//! machine, which writes and syncs the batches of all workers.
//!
//! Before the server starts, `open` replays the log onto the market: the log is newer than the
//! book. The committer then takes batches from the `OrderQueue`, appends them, and reports the last
//! order that is in the log. With `Durability::Sync` it also syncs each batch, and sessions reply
//! only after that. A write or sync that fails stops all further orders, because the kernel may
//! have dropped the pages, while `show` continues. With `Durability::Os` orders lie in a mapped
//! file (`waiting`) before they are answered: after a kill of the server the next start appends
//! them to the log. Full segments are folded into the snapshot by a thread next to the commits.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engines::{ExtraFault, ExtraWorker, ExtraWorkerEntry};
use language::{eprintln, info};
use ledger::{Folder, LedgerState, Log, LogOptions, OrderRecord, SEGMENT_BYTES};
use memory::{Board, FileWords, Phase, SlotState};
use stock::queue::{ORDERS_WAITING, OrderQueue, WORDS, order_in_file};
use stock::{Durability, Market};

/// The time between two batches without sync, and between two looks at the server's phase.
pub const LOOK: Duration = Duration::from_millis(20);
/// The time without a connection after which a draining server gets no order any more.
const QUIET: Duration = Duration::from_millis(100);
/// Orders that did not reach the log before the server was killed ([`Durability::Os`]).
const WAITING: &str = "waiting";

/// The folder of the log of the book at `book`, next to it.
pub fn folder_of(book: &Path) -> PathBuf {
    let path = fs::canonicalize(book).unwrap_or_else(|_| book.to_owned());
    let mut path = path.into_os_string();
    path.push(".log");
    path.into()
}

pub struct OrderLog<'a> {
    path: PathBuf,
    folder: Folder,
    orders: &'a OrderQueue,
    durability: Durability,
    /// Segments that stay after they are full.
    keep: usize,
}

fn options(sync: bool) -> LogOptions {
    LogOptions { sync, segment_bytes: SEGMENT_BYTES }
}

impl<'a> OrderLog<'a> {
    /// Brings `market`, which holds the book at `book`, to the state of the log in the folder
    /// next to it, which is founded if it is not there.
    ///
    /// # Errors
    /// The disk's, and damage.
    pub fn open(
        book: &Path,
        market: &'a Market,
        durability: Durability,
        keep: usize,
    ) -> Result<OrderLog<'a>> {
        let path = folder_of(book);
        let folder = Folder::make(&path)
            .with_context(|| format!("cannot make the folder of the log, {}", path.display()))?;
        let log = OrderLog { path, folder, orders: market.orders(), durability, keep };
        log.recover(market)
            .with_context(|| format!("cannot recover the log in {}", log.path.display()))?;
        Ok(log)
    }

    fn recover(&self, market: &Market) -> Result<()> {
        let folder = &self.folder;
        let rows = (0..market.len() as u32).map(|row| (market.entry(row).id, row));
        let rows: BTreeMap<u32, u32> = rows.collect();
        let book = || rows.iter().map(|(id, row)| (*id, market.entry(*row).left));
        if !ledger::exists(folder)? {
            ledger::found(folder, &LedgerState::new(book().collect()))?;
        }
        let (mut state, tail) = ledger::recover(folder)?;
        if tail.is_torn {
            eprintln!("the log was cut after order {}: a crash tore what follows", state.last);
        }
        let waiting = self.waiting(state.last)?;
        let is_same = rows.keys().eq(state.lefts.keys());
        if !waiting.is_empty() || !is_same {
            // These orders must be on the disk before anything is built on them.
            Log::open(folder.clone(), options(true))?.commit(&waiting)?;
            for order in &waiting {
                state.apply(order).map_err(anyhow::Error::msg)?;
            }
        }
        if !is_same {
            let gone = state.lefts.keys().filter(|id| !rows.contains_key(id)).count();
            let before = state.lefts.len();
            state.lefts.retain(|id, _| rows.contains_key(id));
            book().for_each(|(id, left)| _ = state.lefts.entry(id).or_insert(left));
            ledger::found(folder, &state)?;
            let new = state.lefts.len() + gone - before;
            info!("the book has {new} new stocks, and lacks {gone} that the log had");
        }
        let differ = book().filter(|(id, left)| state.lefts[id] != *left).count();
        if differ > 0 {
            info!("{differ} amounts come from the log, which is newer than the book");
        }
        for (id, row) in &rows {
            market.set_left(*row, state.lefts[id]);
        }
        self.orders.begin(state.last, state.recent.iter().copied());
        Ok(())
    }

    /// The orders after `last` that a killed server had answered and not written.
    fn waiting(&self, last: u64) -> Result<Vec<OrderRecord>> {
        let Ok(bytes) = fs::read(self.path.join(WAITING)) else { return Ok(Vec::new()) };
        let words = |entry: &[u8]| {
            let word = |at: usize| {
                u64::from_le_bytes(entry[8 * at..8 * at + 8].try_into().expect("eight bytes"))
            };
            order_in_file([0, 1, 2, 3, 4].map(word)).map(|order| (order.seq, order))
        };
        let found: BTreeMap<_, _> = bytes.chunks_exact(8 * WORDS).filter_map(words).collect();
        Ok((last + 1..).map_while(|seq| found.get(&seq).copied()).collect())
    }

    /// The file of words in which orders lie before they count, emptied; `None` if they need none.
    ///
    /// # Errors
    /// The disk's.
    pub fn words(&self) -> Result<Option<FileWords>> {
        let path = self.path.join(WAITING);
        if self.durability != Durability::Os {
            let _ = fs::remove_file(&path);
            return Ok(None);
        }
        let count = ORDERS_WAITING * WORDS;
        let made = fs::write(&path, vec![0; count * 8])
            .and_then(|()| File::options().read(true).write(true).open(&path))
            .and_then(|file| {
                file.sync_all()?;
                FileWords::map(file.into(), count)
            });
        Ok(Some(made.with_context(|| format!("cannot make {}", path.display()))?))
    }

    /// Commits batches until the server ends.
    fn serve(&self, mut log: Log<Folder>, entry: &ExtraWorkerEntry<'_>) {
        let mut last = log.last();
        self.orders.committed(last);
        let mut batch = Vec::new();
        let (mut rest, mut folded) = (Rest::default(), last);
        let is_lazy = self.durability != Durability::Sync;
        std::thread::scope(|threads| {
            let mut folding = None;
            loop {
                batch.clear();
                self.orders.next(last, LOOK, is_lazy, &mut batch);
                if batch.is_empty() {
                    if rest.is_over(entry.board) {
                        if let Err(fault) = log.close() {
                            eprintln!("{fault}; the next start cannot tell a log without its end");
                        }
                        return;
                    }
                    // A quiet moment. If this fails, so does the next rotation, and says so.
                    let _ = ledger::prepare_spare(&self.folder, options(!is_lazy));
                    continue;
                }
                if let Err(fault) = log.commit(&batch) {
                    self.orders.stop();
                    eprintln!("{fault}; orders are refused from now on, `show` goes on");
                    return;
                }
                last = log.last();
                self.orders.committed(last);
                if last - folded > SEGMENT_BYTES / 48 {
                    folded = last;
                    if folding.as_ref().is_none_or(ScopedJoinHandle::is_finished) {
                        folding = self.fold(threads);
                    }
                }
            }
        });
    }
}

impl OrderLog<'_> {
    /// Compacts the log next to the batches that follow; `None` where no thread can start: the next
    /// segment tries again.
    fn fold<'scope>(
        &'scope self,
        threads: &'scope Scope<'scope, '_>,
    ) -> Option<ScopedJoinHandle<'scope, ()>> {
        let refused = |fault: &dyn Display| {
            eprintln!("the log cannot be compacted: {fault}; it goes on growing");
        };
        let fold = move || {
            if let Err(fault) = ledger::fold(&self.folder, self.keep) {
                refused(&fault);
            }
        };
        let started = Builder::new().name("compaction".to_owned()).spawn_scoped(threads, fold);
        started.inspect_err(|error| refused(error)).ok()
    }
}

impl ExtraWorker for OrderLog<'_> {
    fn check(&self) -> Result<(), ExtraFault> {
        Ok(())
    }

    fn run(&self, entry: &ExtraWorkerEntry<'_>) -> Result<(), ExtraFault> {
        let is_first = entry.board.phase() == Phase::Starting;
        let sync = self.durability == Durability::Sync;
        let opened = Log::open(self.folder.clone(), options(sync));
        let log = match opened {
            Ok(log) => Some(log),
            Err(fault) if is_first => return Err(fault.into()),
            Err(fault) => {
                eprintln!("{fault}; orders are refused from now on, `show` goes on");
                self.orders.stop();
                None
            }
        };
        begin(entry);
        if let Some(log) = log.filter(|_| !self.orders.commits().1) {
            self.serve(log, entry);
        }
        end(entry, self.orders);
        Ok(())
    }
}

/// The committer is ready.
pub fn begin(entry: &ExtraWorkerEntry<'_>) {
    for slot in entry.id.slot()..entry.id.slot() + entry.slots {
        entry.board.slot(slot).set_state(SlotState::Ready);
    }
    entry.bell.ring();
}

/// The committer leaves when the server does.
pub fn end(entry: &ExtraWorkerEntry<'_>, orders: &OrderQueue) {
    while entry.board.phase() <= Phase::Ready {
        std::thread::sleep(LOOK);
    }
    // Orders of later connections are refused rather than left waiting.
    orders.stop();
}

/// Whether a server still needs its committer, which has nothing to do.
pub struct Rest(Instant);

impl Default for Rest {
    fn default() -> Rest {
        Rest(Instant::now())
    }
}

impl Rest {
    /// Whether the server drains and has had no connection for a while.
    pub fn is_over(&mut self, board: &Board) -> bool {
        let phase = board.phase();
        if phase <= Phase::Ready || !board.is_idle() {
            self.0 = Instant::now();
        }
        phase >= Phase::Forced || self.0.elapsed() >= QUIET
    }
}
