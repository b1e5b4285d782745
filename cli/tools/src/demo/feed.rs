//! Records for pages: each page receives over its WebSocket the records that are appended after it
//! has connected; pages send lines.
//!
//! A record is a kind of one byte, the length of the rest in four, little-endian, and the rest. All
//! records that wait are one message. A page that reads too slowly misses the oldest.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seam::{Cx, Event, Limits, Out, Peer, Service, Step};

/// How often a page's session looks for records: a picture of 25 a second waits half its time.
const LOOK: Duration = Duration::from_millis(20);
/// Records that are kept: about five seconds of a film.
const KEPT: usize = 512;
/// The longest line.
const LINE_MAX: usize = 256;

/// The records, and the function that takes lines.
#[derive(Clone)]
pub struct Feed {
    records: Arc<Mutex<Records>>,
    hear: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Records {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<Vec<u8>>,
}

impl Feed {
    /// Without records yet.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Feed {
        Feed { records: Arc::default(), hear: Arc::new(hear) }
    }

    /// Appends a record.
    pub fn put(&self, kind: u8, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|it| it.len()).sum();
        let mut record = vec![kind];
        record.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        parts.iter().for_each(|it| record.extend_from_slice(it));
        let mut records = self.records();
        records.kept.push_back(record);
        if records.kept.len() > KEPT {
            records.kept.pop_front();
            records.first += 1;
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Feed {
    type State = ();
    /// The number of the page's next record.
    type Session = u64;
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        let (output_high, output_low) = (1 << 20, 1 << 16);
        Limits { input_max: LINE_MAX, output_high, output_low, sessions_max: 64 }
    }

    fn patience(&self) -> Option<Duration> {
        Some(LOOK)
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) -> u64 {
        let records = self.records();
        records.first + records.kept.len() as u64
    }

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        next: &mut u64,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        let mut used = 0;
        match event {
            Event::Bytes(input) => {
                while let Some(len) = input[used..].iter().position(|byte| *byte == b'\n') {
                    (self.hear)(str::from_utf8(&input[used..used + len]).unwrap_or_default());
                    used += len + 1;
                }
            }
            Event::Eof | Event::Drain => return Step::close(0),
            Event::Room | Event::Deadline => {}
            Event::Outcome(never) => match never {},
        }
        if !out.is_full() {
            let records = self.records();
            let at = next.saturating_sub(records.first);
            let waiting = records.kept.iter().skip(usize::try_from(at).unwrap_or(usize::MAX));
            waiting.for_each(|record| out.bytes().extend_from_slice(record));
            *next = records.first + records.kept.len() as u64;
        }
        Step::read(used).wake_at(cx.now + LOOK)
    }

    fn work(&self, _state: &(), job: Infallible) -> Infallible {
        match job {}
    }
}
