//! Live sources: transport streams that are read from a pipe and sent to every client.
//!
//! ```text
//! ring   the last seconds of a stream, in memory that all workers share
//! feed   bytes as they arrive -> datagrams with due times
//! ```
//!
//! The streaming worker reads a source, as one more stream in its loop; all others copy from the
//! ring. Each session and each stream has its own cursor in the ring, so a slow client falls behind
//! by at most the length of the ring and costs the others nothing. To players, a live source is a
//! title without a beginning, whose times are those of the clock.

mod feed;
#[cfg(test)]
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
pub use ring::{DATAGRAM, ENTRY_MAX, Ring, SLOTS};

use super::title::{Title, locked};

/// The interval between two reads of a source.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The maximum number of bytes of one read.
const PIECE: usize = 64 * 1024;
/// The maximum number of bytes in one turn, because streams wait during it.
const TURN: usize = 4 * PIECE;

/// The reader of a source.
pub struct Input {
    /// Must not block: returns `WouldBlock` if no bytes have arrived.
    pub reader: Box<dyn Read + Send>,
    /// Whether end of file is the end of the source. A named pipe continues with its next writer.
    pub ends: bool,
}

/// A source: its name, its ring and, in the process that reads it, its input.
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
    /// A source called `name`. The worker that takes it reads `input`.
    pub fn new(name: &str, ring: Arc<Region<Ring>>, input: Input) -> Source<F> {
        let title = Arc::new(Title::live(name, ring.clone()));
        let reading = Reading { input, feed: Feed::default(), piece: vec![0; PIECE] };
        Source { title, ring, input: Mutex::new(reading) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.title.path
    }

    /// The descriptor of the ring, if the ring is in shared memory; a hand-over passes it on.
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

    /// Reads the bytes that have arrived, unless enough is buffered; returns when to read again.
    /// `None` if the source has ended or another worker reads it now.
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
