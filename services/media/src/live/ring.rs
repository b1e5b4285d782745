//! The last seconds of a live source: datagrams with their due times, written by one worker and
//! read by all.
//!
//! Each slot has a turn: the number of its datagram plus one, or 0 while it is being written. A
//! reader checks the turn before and after it copies, as with a sequence lock (Boehm, "Can Seqlocks
//! Get Along With Programming Language Memory Models?", MSPC 2012). So readers never delay the
//! source, and the writer overwrites old datagrams.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use seam::{Share, WorkerId};
use wire::containers::ts::{GROUP, PACKET};

/// The longest datagram, in bytes.
pub const DATAGRAM: usize = PACKET * GROUP;
/// The number of datagrams in a ring: 17 s at 5 Mbit/s, 4 s at 20 Mbit/s.
pub const SLOTS: u64 = 8192;
/// The longest entry of a ring, in bytes: a datagram of Ethernet, and the address before it.
pub const ENTRY_MAX: usize = 1520;
const WORDS: usize = ENTRY_MAX.div_ceil(8);
/// The number of oldest slots that may be overwritten soon.
const MARGIN: u64 = 64;

/// A ring. All-zero bytes are an empty one.
#[repr(C)]
pub struct Ring {
    /// The number of datagrams so far.
    count: AtomicU64,
    ended: AtomicU32,
    /// The worker that reads the source.
    reader: AtomicU32,
    /// The number of bytes that belonged to no packet.
    astray: AtomicU64,
    /// How often the source fell behind its own schedule.
    late: AtomicU64,
    slots: [Slot; SLOTS as usize],
}

#[repr(C)]
struct Slot {
    turn: AtomicU64,
    at_ns: AtomicU64,
    len: AtomicU32,
    sync: AtomicU32,
    words: [AtomicU64; WORDS],
}

// SAFETY: all-zero bytes are an empty ring; there is no pointer and no destructor; everything is
// atomic.
unsafe impl Share for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Ring {
    // ---- who reads the source

    /// Makes `me` the reader; false if it was already. A server has one streaming worker, so an
    /// earlier reader is a predecessor.
    pub fn take(&self, me: WorkerId) -> bool {
        self.reader.swap(me.bits(), SeqCst) != me.bits()
    }

    /// Whether `me` is the reader.
    pub fn is_read_by(&self, me: WorkerId) -> bool {
        self.reader.load(SeqCst) == me.bits()
    }

    // ---- the writer's side

    /// Appends a datagram that is due at `at_ns` of the clock.
    ///
    /// # Panics
    /// If it is longer than [`ENTRY_MAX`].
    pub fn push(&self, at_ns: u64, sync: bool, bytes: &[u8]) {
        assert!(bytes.len() <= ENTRY_MAX, "a datagram of {} bytes", bytes.len());
        let index = self.count.load(Relaxed);
        let slot = self.slot(index);
        slot.turn.store(0, Relaxed);
        fence(Release);
        slot.at_ns.store(at_ns, Relaxed);
        slot.len.store(bytes.len() as u32, Relaxed);
        slot.sync.store(sync.into(), Relaxed);
        for (word, chunk) in slot.words.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        slot.turn.store(index + 1, Release);
        self.count.store(index + 1, Release);
    }

    /// Marks this datagram as one at which a player can begin, too.
    pub fn mark(&self, index: u64) {
        let slot = self.slot(index);
        if slot.turn.load(Relaxed) == index + 1 {
            slot.sync.store(1, Relaxed);
        }
    }

    /// Marks the source as ended.
    pub fn end(&self) {
        self.ended.store(1, Release);
    }

    /// Counts bytes that belonged to no packet.
    pub fn stray(&self, bytes: u64) {
        self.astray.fetch_add(bytes, Relaxed);
    }

    /// Counts one time that the source fell behind.
    pub fn tarry(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    // ---- the readers' side

    /// The number of datagrams so far, which is the index of the next one.
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// The oldest datagram that will not be overwritten soon.
    pub fn oldest(&self) -> u64 {
        self.count().saturating_sub(SLOTS - MARGIN)
    }

    /// Whether the source has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }

    /// The number of bytes that belonged to no packet, and how often the source fell behind.
    pub fn troubles(&self) -> (u64, u64) {
        (self.astray.load(Relaxed), self.late.load(Relaxed))
    }

    /// When the datagram is due; `None` if it was overwritten or has not arrived.
    pub fn at_ns(&self, index: u64) -> Option<u64> {
        self.look(index).map(|(at_ns, _)| at_ns)
    }

    /// The due time of the last datagram, if there is one.
    pub fn last_ns(&self) -> Option<u64> {
        // If the datagram is overwritten during the read, the next one is tried.
        (0..8).find_map(|_| self.at_ns(self.count().checked_sub(1)?))
    }

    /// The due time of a datagram, and whether a player can begin with it.
    pub fn look(&self, index: u64) -> Option<(u64, bool)> {
        let slot = self.slot(index);
        let turn = slot.turn.load(Acquire);
        let found = (slot.at_ns.load(Relaxed), slot.sync.load(Relaxed) != 0);
        fence(Acquire);
        (turn == index + 1 && slot.turn.load(Relaxed) == turn).then_some(found)
    }

    /// The length of a datagram in bytes; 0 if it was overwritten or has not arrived.
    pub fn len_of(&self, index: u64) -> usize {
        let slot = self.slot(index);
        if slot.turn.load(Acquire) != index + 1 {
            return 0;
        }
        (slot.len.load(Relaxed) as usize).min(ENTRY_MAX)
    }

    /// Appends the bytes of a datagram to `into`; false if it was overwritten or has not arrived.
    pub fn read(&self, index: u64, into: &mut Vec<u8>) -> bool {
        let slot = self.slot(index);
        let turn = slot.turn.load(Acquire);
        if turn != index + 1 {
            return false;
        }
        let (from, len) = (into.len(), (slot.len.load(Relaxed) as usize).min(ENTRY_MAX));
        into.extend(
            slot.words[..len.div_ceil(8)].iter().flat_map(|it| it.load(Relaxed).to_le_bytes()),
        );
        into.truncate(from + len);
        fence(Acquire);
        let is_whole = slot.turn.load(Relaxed) == turn;
        if !is_whole {
            into.truncate(from);
        }
        is_whole
    }

    /// The first datagram in the ring that is due at `ns` or later.
    pub fn first_at(&self, ns: u64) -> u64 {
        let (mut low, mut high) = (self.oldest(), self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            // A datagram that was overwritten during the search was due earlier.
            match self.at_ns(middle) {
                Some(at) if at >= ns => high = middle,
                _ => low = middle + 1,
            }
        }
        low
    }

    /// The last datagram due at or before `ns` with which a player can begin; if there is none, the
    /// first that is due later.
    pub fn sync_at(&self, ns: u64) -> u64 {
        let behind = self.first_at(ns.saturating_add(1));
        let is_sync = |index: &u64| self.look(*index).is_some_and(|(_, sync)| sync);
        (self.oldest()..behind).rev().find(is_sync).unwrap_or(behind)
    }

    /// The first datagram from `index` on with which a player can begin; if there is none, the
    /// index of the next one to arrive.
    pub fn sync_from(&self, index: u64) -> u64 {
        let count = self.count();
        let is_sync = |index: &u64| self.look(*index).is_some_and(|(_, sync)| sync);
        (index.max(self.oldest())..count).find(is_sync).unwrap_or(count)
    }

    fn slot(&self, index: u64) -> &Slot {
        &self.slots[(index % SLOTS) as usize]
    }
}
