//! Access-log lines on their way to the file: rings in memory that all workers share.
//!
//! Workers append lines to a ring; the launcher drains the rings to the file periodically and once
//! more after the last worker has left. So no worker waits for the disk, and a killed worker loses
//! no line that it had appended. A full ring drops lines and counts them, because a gap in the log,
//! which is reported, is better than a server that stops.
//!
//! Workers are spread over a few rings by slot, so few of them contend for one lock.

use memory::Lock;
use seam::{Dead, Share, WorkerId};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const RINGS: usize = 8;
/// Bytes of each ring: at 100 bytes per line, 10,000 requests between two drains.
pub const RING_LEN: usize = 1 << 20;

const WORD: usize = size_of::<u64>();
const WORDS: usize = RING_LEN / WORD;

/// The shared state of the web service. All-zero bytes are an empty journal.
#[repr(C)]
pub struct Journal {
    rings: [Ring; RINGS],
    /// Lines dropped because a ring was full.
    dropped: AtomicU64,
    /// Connections of trusted proxies without a whole header of the PROXY protocol.
    unproxied: AtomicU64,
}

#[repr(C)]
struct Ring {
    lock: Lock,
    /// Words taken out so far.
    taken: AtomicU64,
    /// Words put in so far.
    put: AtomicU64,
    words: [AtomicU64; WORDS],
}

// SAFETY: all-zero bytes are empty rings and free locks; there is no pointer and no destructor;
// what changes through `&self` is atomic.
unsafe impl Share for Journal {
    fn heal(&self, dead: Dead) {
        self.heal(dead.worker());
    }
}

impl Journal {
    /// Opens the rings that the worker `dead` held.
    fn heal(&self, dead: WorkerId) {
        for ring in &self.rings {
            // A line that was not yet published through `put` is lost.
            ring.lock.force_release(dead);
        }
    }

    /// Appends `lines`, which are whole lines, to the ring of worker `me`.
    pub fn put(&self, me: WorkerId, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        let ring = &self.rings[me.slot() % RINGS];
        if !ring.put(me, lines) {
            let count = memchr_count(lines);
            self.dropped.fetch_add(count, Relaxed);
        }
    }

    /// Counts a connection of a trusted proxy that ended before it had named its client.
    pub fn count_unproxied(&self) {
        self.unproxied.fetch_add(1, Relaxed);
    }

    /// The number of such connections.
    pub fn unproxied(&self) -> u64 {
        self.unproxied.load(Relaxed)
    }

    /// The number of lines dropped since the last [`Journal::take`].
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        let empty = |ring: &Ring| ring.put.load(Acquire) == ring.taken.load(Relaxed);
        self.rings.iter().all(empty) && self.dropped.load(Relaxed) == 0
    }

    /// Moves everything to `lines` and returns how many lines were dropped since the last call.
    /// During a hand-over two processes may call this at a time; each line goes to one of them.
    pub fn take(&self, lines: &mut Vec<u8>) -> u64 {
        self.rings.iter().for_each(|ring| ring.take(lines));
        self.dropped.swap(0, Relaxed)
    }
}

fn memchr_count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Ring {
    /// Stores the length in a word, then the bytes, padded to whole words.
    fn put(&self, me: WorkerId, lines: &[u8]) -> bool {
        let need = 1 + lines.len().div_ceil(WORD);
        let _locked = self.lock.lock(me);
        let at = self.put.load(Relaxed);
        if need + (at - self.taken.load(Acquire)) as usize > WORDS {
            return false;
        }
        self.word(at).store(lines.len() as u64, Relaxed);
        for (index, bytes) in lines.chunks(WORD).enumerate() {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            self.word(at + 1 + index as u64).store(u64::from_le_bytes(padded), Relaxed);
        }
        self.put.store(at + need as u64, Release);
        true
    }

    fn take(&self, lines: &mut Vec<u8>) {
        let (before, begin) = (lines.len(), self.taken.load(Acquire));
        let (end, mut at) = (self.put.load(Acquire), begin);
        while at < end {
            let len = (self.word(at).load(Relaxed) as usize).min(RING_LEN);
            let start = lines.len();
            let words = len.div_ceil(WORD) as u64;
            for word in at + 1..=at + words {
                lines.extend_from_slice(&self.word(word).load(Relaxed).to_le_bytes());
            }
            lines.truncate(start + len);
            at += 1 + words;
        }
        // Another process was quicker: its lines are ours no more, and may be overwritten by now.
        if self.taken.compare_exchange(begin, at, Release, Relaxed).is_err() {
            lines.truncate(before);
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize % WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::Region;

    fn journal() -> Region<Journal> {
        Region::<Journal>::alone(&[])
    }

    #[test]
    fn lines_come_out_as_they_went_in() {
        let journal = journal();
        let (one, other) = (WorkerId::new(0, 1), WorkerId::new(8, 1));
        assert!(journal.is_empty());
        for round in 0..5 {
            let mut wanted = Vec::new();
            for number in 0..300 {
                let line = format!("{round} {number} {}\n", "x".repeat(number));
                journal.put(if number % 2 == 0 { one } else { other }, line.as_bytes());
                wanted.extend_from_slice(line.as_bytes());
            }
            let mut lines = Vec::new();
            assert!(!journal.is_empty());
            assert_eq!(journal.take(&mut lines), 0);
            assert!(lines == wanted && journal.is_empty(), "round {round}");
        }
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let journal = journal();
        let me = WorkerId::new(3, 1);
        let line = [vec![b'x'; 1023], vec![b'\n']].concat();
        let mut put = 0;
        while journal.dropped.load(Relaxed) == 0 {
            journal.put(me, &line);
            put += 1;
        }
        let mut lines = Vec::new();
        assert_eq!(journal.take(&mut lines), 1);
        assert_eq!(lines.len(), (put - 1) * line.len());
        assert!(put - 1 > RING_LEN / line.len() * 9 / 10, "{put} lines");
        journal.put(me, b"again\n");
        lines.clear();
        assert_eq!((journal.take(&mut lines), lines.as_slice()), (0, &b"again\n"[..]));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the threads stand for two processes")]
    fn each_line_goes_to_one_of_two_processes() {
        let journal = journal();
        let done = std::sync::atomic::AtomicBool::new(false);
        let taken = std::thread::scope(|scope| {
            let taker = || {
                let mut lines = Vec::new();
                while !done.load(Acquire) || !journal.is_empty() {
                    journal.take(&mut lines);
                }
                lines
            };
            let takers = [scope.spawn(taker), scope.spawn(taker)];
            for number in 0..50_000 {
                journal.put(WorkerId::new(number % 3, 1), format!("{number}\n").as_bytes());
                std::thread::yield_now();
            }
            done.store(true, Release);
            takers.map(|it| it.join().expect("a taker")).concat()
        });
        let text = String::from_utf8(taken).expect("numbers");
        let mut found: Vec<u32> = text.lines().map(|it| it.parse().expect("a number")).collect();
        found.sort_unstable();
        assert!(found.into_iter().eq(0..50_000), "each line once");
    }

    #[test]
    fn a_dead_worker_leaves_its_ring_open() {
        let journal = journal();
        let dead = WorkerId::new(1, 1);
        std::mem::forget(journal.rings[1].lock.lock(dead));
        journal.heal(dead);
        journal.put(WorkerId::new(1, 2), b"alive\n");
        let mut lines = Vec::new();
        journal.take(&mut lines);
        assert_eq!(lines, b"alive\n");
    }
}
