//! The other nodes of a market and the machines of its store, in memory that all workers share. The
//! committer writes it, `show` and the status page read it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory::Region;
use seam::Instant;
use stock::replicated::NodeView;

const ROWS: usize = 16;
/// Words of a row: the number, then the name in eight bytes a word.
const ROW_WORDS: usize = 8;

seam::share! {
    /// The market of all nodes, as the committer of this one knows it.
    pub struct ClusterView {
        /// The last order that is executed here.
        last: AtomicU64,
        batch: AtomicU64,
        /// The numbered orders that are decided here.
        decided: AtomicU64,
        /// The monotonic clock when nothing in the log was missing here.
        fresh_ns: AtomicU64,
        /// The nodes that live, with the last order that each has executed.
        pub nodes: NamedNumbers,
        /// The machines of the store, with their states: 0 silent, 1 ailing, 2 follows, 3 leads.
        pub members: NamedNumbers,
    }
}

impl ClusterView {
    /// Batch `batch`, which ends with order `last`, is the last one that is executed here;
    /// `decided` numbered orders are.
    pub fn advance(&self, batch: u64, last: u64, decided: u64) {
        self.batch.store(batch, Relaxed);
        self.decided.store(decided, Relaxed);
        self.last.store(last, Release);
    }

    /// Nothing was missing here at `now`.
    pub fn refresh(&self, now: Instant) {
        self.fresh_ns.store(now.ns(), Relaxed);
    }

    /// The last batch and order that are executed here.
    pub fn ends(&self) -> (u64, u64) {
        (self.batch.load(Relaxed), self.last.load(Acquire))
    }

    /// The time since nothing was missing here, in milliseconds.
    pub fn age_ms(&self, now: Instant) -> u64 {
        now.ns().saturating_sub(self.fresh_ns.load(Relaxed)) / 1_000_000
    }
}

seam::share! {
    /// Names, of which 56 bytes are kept, with a number each.
    pub struct NamedNumbers {
        count: AtomicU64,
        rows: [[AtomicU64; ROW_WORDS]; ROWS],
    }
}

impl NamedNumbers {
    /// Replaces the list; 16 are kept.
    pub fn replace(&self, list: &[(String, u64)]) {
        for (row, (name, number)) in self.rows.iter().zip(list) {
            let mut bytes = [0; 8 * (ROW_WORDS - 1)];
            let len = name.len().min(bytes.len());
            bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
            row[0].store(*number, Relaxed);
            for (word, bytes) in row[1..].iter().zip(bytes.as_chunks::<8>().0) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
        }
        self.count.store(list.len().min(ROWS) as u64, Release);
    }

    /// The list.
    pub fn list(&self) -> Vec<(String, u64)> {
        let count = self.count.load(Acquire) as usize;
        let pair = |row: &[AtomicU64; ROW_WORDS]| {
            let words = row[1..].iter().map(|word| word.load(Relaxed).to_le_bytes());
            let bytes: Vec<u8> = words.flatten().take_while(|byte| *byte != 0).collect();
            (String::from_utf8_lossy(&bytes).into_owned(), row[0].load(Relaxed))
        };
        self.rows.iter().take(count).map(pair).collect()
    }
}

pub(crate) struct SharedView(pub Arc<Region<ClusterView>>);

impl NodeView for SharedView {
    fn decided(&self) -> u64 {
        self.0.decided.load(Relaxed)
    }

    fn last(&self) -> u64 {
        self.0.ends().1
    }

    fn age_ms(&self, now: Instant) -> u64 {
        self.0.age_ms(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_tells_its_end_and_its_age() {
        let view = Arc::new(Region::<ClusterView>::alone(b""));
        view.advance(3, 17, 9);
        view.refresh(Instant::from_ns(4_000_000));
        let shared = SharedView(Arc::clone(&view));
        assert_eq!((view.ends(), shared.decided(), shared.last()), ((3, 17), 9, 17));
        assert_eq!(shared.age_ms(Instant::from_ns(9_000_000)), 5);
    }

    #[test]
    fn nodes_are_listed() {
        let view = Region::<ClusterView>::alone(b"");
        let nodes = [("127.0.0.1:6001".to_owned(), 7), ("x".repeat(56), 8)];
        view.nodes.replace(&nodes);
        assert_eq!(view.nodes.list(), nodes);
        assert_eq!(view.members.list(), []);
    }
}
