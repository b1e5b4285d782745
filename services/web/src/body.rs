//! The body of a request: delimited by length or chunks, limited, kept or discarded, and not slower
//! than the minimum rate.

use seam::Instant;
use std::time::Duration;
use wire::http::{Bad, Body, Chunked};

use super::options::Options;

/// The longest pause of a body, however fast it was before.
const REST_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct RequestBody {
    framing: Framing,
    /// The bytes so far, if they are needed.
    kept: Option<Vec<u8>>,
    got: u64,
    max: u64,
    began: Instant,
    latest: Instant,
}

#[derive(Debug)]
enum Framing {
    Left(u64),
    Chunks(Chunked),
}

/// Why a body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    Bad(Bad),
    TooLong,
}

impl RequestBody {
    /// A body of which nothing has arrived; `None` if its declared length exceeds the limit.
    pub fn new(body: Body, keep: bool, max: u64, now: Instant) -> Option<RequestBody> {
        let framing = match body {
            Body::Length(len) if len > max => return None,
            Body::Length(len) => Framing::Left(len),
            Body::Chunked => Framing::Chunks(Chunked::new()),
        };
        let kept = keep.then(Vec::new);
        Some(RequestBody { framing, kept, got: 0, max, began: now, latest: now })
    }

    /// Takes the body's part from the front of `bytes`; returns its length and whether the body is
    /// complete.
    ///
    /// # Errors
    /// [`BodyError`]; nothing after it may be read.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Result<(usize, bool), BodyError> {
        self.latest = now;
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let (data, taken, end) = match &mut self.framing {
                Framing::Left(left) => {
                    let len = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= len as u64;
                    (&rest[..len], len, *left == 0)
                }
                Framing::Chunks(chunks) => {
                    let piece = chunks.next(rest).map_err(BodyError::Bad)?;
                    (piece.data, piece.used, piece.end)
                }
            };
            self.got += data.len() as u64;
            if self.got > self.max {
                return Err(BodyError::TooLong);
            }
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(data);
            }
            used += taken;
            if end || taken == 0 {
                return Ok((used, end));
            }
        }
    }

    /// When the body times out unless more arrives: after the grace period, each second must bring
    /// the minimum rate.
    pub fn due(&self, options: &Options) -> Instant {
        let earned = Duration::from_millis(self.got * 1000 / options.body_rate.max(1));
        let rested = self.latest + REST_MAX;
        (self.began + options.body_grace + earned).min(rested)
    }

    /// The memory that the kept bytes take, in bytes.
    pub fn kept_len(&self) -> usize {
        self.kept.as_ref().map_or(0, Vec::capacity)
    }

    pub fn into_kept(self) -> Vec<u8> {
        self.kept.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_keep_its_rate() {
        let second = Duration::from_secs(1);
        let options = Options { body_grace: 5 * second, ..Options::default() };
        let mut incoming =
            RequestBody::new(Body::Length(1 << 20), false, 1 << 20, Instant::ZERO).expect("short");
        assert_eq!(incoming.due(&options), Instant::ZERO + options.body_grace);
        incoming.feed(&[0; 512], Instant::ZERO + second).expect("a body");
        assert_eq!(incoming.due(&options), Instant::ZERO + options.body_grace + 2 * second);
        incoming.feed(&[0; 500_000], Instant::ZERO + 2 * second).expect("a body");
        assert_eq!(incoming.due(&options), Instant::ZERO + 2 * second + REST_MAX);
    }
}
