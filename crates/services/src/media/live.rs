//! Live sources: transport streams that come through a pipe and go out to every client.
//!
//! ```text
//!   ring   the last seconds of it, in memory that all workers see
//!   feed   bytes as they come -> datagrams with the moments at which they are due
//! ```
//!
//! The streaming worker reads, as a stream of its own; all others copy from the ring. Each session
//! and each stream has a cursor there, so a slow client falls behind by at most the ring and costs
//! the others nothing. To players a live source is a title whose packets have no beginning; its
//! times are those of the clock.

mod feed;
mod fuzz;
mod ring;
#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::Region;
use seam::{Instant, WorkerId};

pub use feed::Feed;
pub use fuzz::fuzz;
pub use ring::{DATAGRAM, Ring, SLOTS};

use super::title::{Title, locked};

/// How often a source is read.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of one read.
const PIECE: usize = 64 * 1024;
/// Most bytes of one turn, because streams wait during it.
const TURN: usize = 4 * PIECE;

/// Where the bytes of a source come from.
pub struct Input {
    /// Must not block: `WouldBlock` where nothing has arrived.
    pub reader: Box<dyn Read + Send>,
    /// Whether end of file is the end of the source. A named pipe continues with its next writer.
    pub ends: bool,
}

/// A source: its name, its ring, and in the process that reads it the bytes.
pub struct Source<F> {
    pub(super) title: Arc<Title<F>>,
    ring: Arc<Region<Ring>>,
    input: Mutex<Reading>,
}

struct Reading {
    input: Input,
    feed: Feed,
    piece: Vec<u8>,
}

impl<F: Send + 'static> Source<F> {
    /// The source `name`, read from `input` by the worker that takes it up.
    pub fn new(name: &str, ring: Arc<Region<Ring>>, input: Input) -> Source<F> {
        let title = Arc::new(Title::live(name, ring.clone()));
        let reading = Reading { input, feed: Feed::default(), piece: vec![0; PIECE] };
        Source { title, ring, input: Mutex::new(reading) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.title.path
    }

    /// The descriptor of its ring, if it lies in shared memory: for a hand-over.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.fd()
    }

    /// Its ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Makes `me` the reader; false if it is already, or the source has ended.
    pub(super) fn take(&self, me: WorkerId) -> bool {
        !self.ring.has_ended() && self.ring.take(me)
    }

    /// Reads what has arrived, unless enough is buffered; `None` if the source has ended, or
    /// another worker reads now.
    pub(super) fn pump(&self, me: WorkerId, now: Instant) -> Option<Instant> {
        let mut reading = locked(&self.input);
        let Reading { input, feed, piece } = &mut *reading;
        let mut read = 0;
        while self.ring.is_read_by(me) && read < TURN && !feed.is_ahead(&self.ring, now) {
            match input.reader.read(piece) {
                Ok(0) if input.ends => {
                    feed.end(now, &self.ring);
                    return None;
                }
                Ok(0) => break,
                Ok(len) => {
                    feed.take(&piece[..len], now, &self.ring);
                    read += len;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    feed.end(now, &self.ring);
                    return None;
                }
            }
        }
        feed.hurry(now, &self.ring);
        self.ring.is_read_by(me).then(|| now + LOOK_EVERY)
    }
}

impl<F> std::fmt::Debug for Source<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("ring", &**self.ring).finish_non_exhaustive()
    }
}
