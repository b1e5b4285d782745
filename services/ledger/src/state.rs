//! The reading half: the state that a ledger describes, its snapshot, and folding, which moves old
//! segments into the snapshot.
//!
//! A state is the newest snapshot plus the orders of all later segments. `recover` and `replay`
//! walk the segments, check the chain of checksums from record to record, and apply each order to
//! the state, which refuses one that does not fit. The subtle question is what a broken record
//! means. At the end of the last segment it is the torn end of a crash, which nobody acknowledged,
//! and is cut. Followed by a record that proves later orders durable, by another segment, or before
//! the number in `closed`, it is damage and is refused. A file is replaced by writing, syncing and
//! renaming a new one, so a crash leaves the old or the new one, never a part.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::record::{self, LEN, Linked, OrderRecord, u32_at, u64_at};
use crate::{Disk, DiskFile, LedgerFault, on};

/// The clients' numbers that a ledger remembers: an order that is sent again is recognised among
/// this many later ones that carry a number.
pub const REQUESTS_KEPT: usize = 1 << 20;
const SNAPSHOT: &str = "snapshot";
const SNAPSHOT_NEW: &str = "snapshot.new";
const MAGIC: &[u8; 8] = b"rhsnap01";
/// The number of the last order when the log was closed, and its checksum (CRC-32).
const CLOSED: &str = "closed";
const CLOSED_NEW: &str = "closed.new";

/// The state after some order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// The last order in it.
    pub last: u64,
    crc: u32,
    /// The number left of each stock.
    pub lefts: BTreeMap<u32, u64>,
    /// The last [`REQUESTS_KEPT`] orders that carry a number of their client, oldest first.
    pub recent: VecDeque<OrderRecord>,
    requests: HashMap<u64, u64>,
}

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The last whole order.
    pub last: u64,
    pub(crate) crc: u32,
    /// The segment that holds it, and the length of its whole records.
    pub(crate) segment: Option<(String, usize)>,
    /// Whether parts of later orders, never acknowledged, follow.
    pub is_torn: bool,
}

impl LedgerState {
    /// The state before the first order.
    pub fn new(lefts: BTreeMap<u32, u64>) -> LedgerState {
        LedgerState { lefts, ..LedgerState::default() }
    }

    /// Carries out an order again.
    ///
    /// # Errors
    /// The order is impossible here, in words.
    pub fn apply(&mut self, order: &OrderRecord) -> Result<(), String> {
        let OrderRecord { seq, request, stock, change, left } = *order;
        if seq != self.last + 1 {
            return Err(format!("expected order {}, found {seq}", self.last + 1));
        }
        let Some(now) = self.lefts.get_mut(&stock) else {
            return Err(format!("expected a stock of the book in order {seq}, found {stock}"));
        };
        if now.checked_add_signed(change.into()) != Some(left) {
            return Err(format!(
                "expected order {seq} to change the {now} shares of stock {stock} by {change}, \
                 found {left}"
            ));
        }
        if let Some(first) = self.requests.get(&request) {
            return Err(format!("expected #{request} once, found it in {first} and {seq}"));
        }
        (*now, self.last) = (left, seq);
        if request != 0 {
            self.remember(*order);
        }
        Ok(())
    }

    pub(crate) fn remember(&mut self, order: OrderRecord) {
        self.requests.insert(order.request, order.seq);
        self.recent.push_back(order);
        if self.recent.len() > REQUESTS_KEPT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.requests.remove(&oldest.request);
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.last.to_le_bytes());
        out.extend_from_slice(&u64::from(self.crc).to_le_bytes());
        out.extend_from_slice(&(self.lefts.len() as u64).to_le_bytes());
        for (stock, left) in &self.lefts {
            out.extend_from_slice(&u64::from(*stock).to_le_bytes());
            out.extend_from_slice(&left.to_le_bytes());
        }
        self.recent.iter().for_each(|order| {
            order.encode(order.seq, 0, &mut out);
        });
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<LedgerState> {
        const FRONT: usize = 32;
        let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        let is_whole = body.len() >= FRONT && body.starts_with(MAGIC);
        if !is_whole || u32_at(crc, 0) != crc32fast::hash(body) {
            return None;
        }
        let stocks = usize::try_from(u64_at(body, 24)).ok()?;
        let (rows, recent) = body[FRONT..].split_at_checked(stocks.checked_mul(16)?)?;
        let row = |row: &[u8]| (u64_at(row, 0) as u32, u64_at(row, 8));
        let mut state = LedgerState::new(rows.chunks_exact(16).map(row).collect());
        (state.last, state.crc) = (u64_at(body, 8), u64_at(body, 16) as u32);
        for record in recent.chunks(LEN) {
            state.remember(OrderRecord::decode(record)?.record);
        }
        Some(state)
    }
}

/// Whether the folder holds a ledger.
///
/// # Errors
/// The disk's, and segments without a snapshot: a ledger has one before its first segment.
pub fn exists<D: Disk>(disk: &D) -> Result<bool, LedgerFault> {
    let names = on("list", "the folder of the log", disk.names())?;
    if names.iter().any(|name| name == SNAPSHOT) {
        return Ok(true);
    }
    match names.iter().filter(|name| first_of(name) > 0 || *name == CLOSED).min() {
        None => Ok(false),
        Some(other) => {
            let found = format!("expected it next to {other}, found none");
            Err(LedgerFault::damaged(SNAPSHOT, found))
        }
    }
}

/// Notes that the log ends with order `last`, which is durable: a later start that finds less
/// knows that the end of the log is gone, which looks like the torn end of a crash otherwise.
pub(crate) fn close<D: Disk>(disk: &D, last: u64) -> Result<(), LedgerFault> {
    let number = last.to_le_bytes();
    let bytes = [&number[..], &crc32fast::hash(&number).to_le_bytes()].concat();
    replace(disk, [CLOSED_NEW, CLOSED], &bytes)
}

/// Replaces a file as a whole.
fn replace<D: Disk>(disk: &D, [new, old]: [&str; 2], bytes: &[u8]) -> Result<(), LedgerFault> {
    let mut file = on("create", new, disk.create(new))?;
    on("write", new, file.write_at(bytes, 0))?;
    on("sync", new, file.sync())?;
    on("rename", new, disk.rename(new, old))?;
    on("sync", "the folder of the log", disk.sync_names())
}

/// The last order when the log was last closed; 0: it never was.
fn closed<D: Disk>(disk: &D) -> Result<u64, LedgerFault> {
    if !on("list", "the folder of the log", disk.names())?.iter().any(|name| name == CLOSED) {
        return Ok(0);
    }
    let bytes = on("read", CLOSED, on("open", CLOSED, disk.open(CLOSED))?.read())?;
    let is_whole = bytes.len() == 12 && u32_at(&bytes, 8) == crc32fast::hash(&bytes[..8]);
    if is_whole {
        return Ok(u64_at(&bytes, 0));
    }
    Err(LedgerFault::damaged(CLOSED, "expected the number of the last order, found another"))
}

/// Refuses a log that ends with `end` and was longer when it was closed.
fn check_closed(end: &Tail, closed: u64) -> Result<(), LedgerFault> {
    if end.last >= closed {
        return Ok(());
    }
    let name = end.segment.as_ref().map_or(SNAPSHOT, |(name, _)| name.as_str());
    let last = end.last;
    let found = format!("expected orders up to {closed}, as at the last stop, found {last}");
    Err(LedgerFault::damaged(name, found))
}

/// Founds a ledger with these amounts, or replaces its snapshot.
///
/// # Errors
/// The disk's; then the former snapshot, or none, is there.
pub fn found<D: Disk>(disk: &D, state: &LedgerState) -> Result<(), LedgerFault> {
    replace(disk, [SNAPSHOT_NEW, SNAPSHOT], &state.encode())
}

fn snapshot<D: Disk>(disk: &D) -> Result<LedgerState, LedgerFault> {
    let file = on("open", SNAPSHOT, disk.open(SNAPSHOT))?;
    let bytes = on("read", SNAPSHOT, file.read())?;
    let damaged = || LedgerFault::damaged(SNAPSHOT, "expected a whole snapshot, found another");
    LedgerState::decode(&bytes).ok_or_else(damaged)
}

/// The state after the last whole order, and the end of the log. Nothing is written; what was read
/// may not be durable before [`crate::Log::open`].
///
/// # Errors
/// The disk's, and damage.
pub fn recover<D: Disk>(disk: &D) -> Result<(LedgerState, Tail), LedgerFault> {
    replay(disk, u64::MAX, |_, _| {})
}

/// Replays the orders after the snapshot up to number `until`, and calls `visit` with the state
/// before each.
///
/// # Errors
/// The disk's, and damage.
pub fn replay<D: Disk>(
    disk: &D,
    until: u64,
    mut visit: impl FnMut(&LedgerState, &OrderRecord),
) -> Result<(LedgerState, Tail), LedgerFault> {
    // First: a log that another process still writes only grows.
    let closed = closed(disk)?;
    let mut state = snapshot(disk)?;
    let names = segments(disk)?;
    // A segment is folded already if the next one begins within the snapshot.
    let folded = names.partition_point(|name| first_of(name) <= state.last + 1);
    let names = &names[folded.saturating_sub(1)..];
    let mut end = Tail { last: state.last, crc: state.crc, ..Tail::default() };
    for (index, name) in names.iter().enumerate() {
        if end.last >= until {
            break;
        }
        let is_final = index + 1 == names.len();
        let bytes = on("open", name, disk.open(name))?;
        let bytes = on("read", name, bytes.read())?;
        let walk = Walk { name, bytes: &bytes, is_final };
        end = walk.run(&end, |linked| {
            if linked.record.seq == state.last && linked.crc != state.crc {
                return Err(format!("expected the order {} of the snapshot", state.last));
            }
            if linked.record.seq <= state.last || linked.record.seq > until {
                return Ok(());
            }
            visit(&state, &linked.record);
            state.apply(&linked.record)?;
            state.crc = linked.crc;
            Ok(())
        })?;
    }
    if end.last < until {
        check_closed(&end, closed.min(until))?;
    }
    Ok((state, end))
}

/// The end of the log, from its last segments alone.
pub(crate) fn tail<D: Disk>(disk: &D) -> Result<Tail, LedgerFault> {
    let closed = closed(disk)?;
    let names = segments(disk)?;
    let mut read = Vec::new();
    let mut end = None;
    for name in names.iter().rev() {
        let file = on("open", name, disk.open(name))?;
        read.push((name, on("read", name, file.read())?));
        let head = read.last().and_then(|(_, bytes)| record::read_head(bytes));
        end = head.map(|(first, crc)| Tail { last: first - 1, crc, ..Tail::default() });
        if end.is_some() {
            break;
        }
    }
    let mut end = match end {
        Some(end) => end,
        None => {
            let LedgerState { last, crc, .. } = snapshot(disk)?;
            Tail { last, crc, ..Tail::default() }
        }
    };
    for (later, (name, bytes)) in read.iter().enumerate().rev() {
        end = Walk { name, bytes, is_final: later == 0 }.run(&end, |_| Ok(()))?;
    }
    check_closed(&end, closed)?;
    Ok(end)
}

/// One pass over a segment.
struct Walk<'a> {
    name: &'a str,
    bytes: &'a [u8],
    is_final: bool,
}

impl Walk<'_> {
    /// Visits all orders of the segment, which continues the log that ends with `before`.
    fn run(
        &self,
        before: &Tail,
        mut visit: impl FnMut(&Linked) -> Result<(), String>,
    ) -> Result<Tail, LedgerFault> {
        let Walk { name, bytes, is_final } = *self;
        let Some((first, mut crc)) = record::read_head(bytes) else {
            // A crash while the segment was begun.
            self.no_proof(0, before.last)?;
            return Ok(Tail { is_torn: true, ..before.clone() });
        };
        if first > before.last + 1 || (first == before.last + 1 && crc != before.crc) {
            let found = format!("expected order {} next, found {first}", before.last + 1);
            return Err(LedgerFault::damaged(name, found));
        }
        let (mut last, mut at) = (first - 1, LEN);
        while let Some(linked) = bytes.get(at..).and_then(OrderRecord::decode)
            && (linked.record.seq, linked.prev) == (last + 1, crc)
        {
            visit(&linked).map_err(|found| LedgerFault::damaged(name, found))?;
            (last, crc, at) = (linked.record.seq, linked.crc, at + LEN);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let is_torn = rest.iter().any(|byte| *byte != 0);
        if is_final && is_torn {
            self.no_proof(at, last)?;
        }
        if last < before.last {
            let found = format!("expected order {}, found none after {last}", last + 1);
            return Err(LedgerFault::damaged(name, found));
        }
        Ok(Tail { last, crc, segment: Some((name.to_owned(), at)), is_torn })
    }

    /// Refuses a segment in which a record after the first broken one, at `at`, proves that orders
    /// after `last` were durable, or another segment follows: a crash tears only what was not.
    fn no_proof(&self, at: usize, last: u64) -> Result<(), LedgerFault> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let later = rest.chunks_exact(LEN).filter_map(OrderRecord::decode);
        let proof = later.map(|linked| linked.durable).max().filter(|durable| *durable > last);
        let found = match proof {
            Some(proof) => {
                format!("expected orders up to {proof}, found none after {last} at byte {at}")
            }
            None if !self.is_final => "expected the head of a segment, found another".to_owned(),
            None => return Ok(()),
        };
        Err(LedgerFault::damaged(self.name, found))
    }
}

/// Moves the oldest segments into the snapshot, except the last `keep` and the one in use. Returns
/// the last order of the new snapshot, if there is one.
///
/// # Errors
/// The disk's, and damage. The ledger describes the same state as before.
pub fn fold<D: Disk>(disk: &D, keep: usize) -> Result<Option<u64>, LedgerFault> {
    let names = segments(disk)?;
    let count = names.len().saturating_sub(keep + 1);
    if count == 0 {
        return Ok(None);
    }
    let (state, _) = replay(disk, first_of(&names[count]) - 1, |_, _| {})?;
    found(disk, &state)?;
    for name in &names[..count] {
        on("remove", name, disk.remove(name))?;
    }
    on("sync", "the folder of the log", disk.sync_names())?;
    Ok(Some(state.last))
}

/// The segments, oldest first.
fn segments<D: Disk>(disk: &D) -> Result<Vec<String>, LedgerFault> {
    let mut names = on("list", "the folder of the log", disk.names())?;
    names.retain(|name| first_of(name) > 0);
    names.sort_unstable();
    Ok(names)
}

pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}.log")
}

/// The first order of the segment of that name; 0 if it is no segment.
fn first_of(name: &str) -> u64 {
    let number = name.strip_suffix(".log").filter(|number| number.len() == 20);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
