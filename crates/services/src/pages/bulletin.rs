//! The latest edition of one document, in memory that all workers share.
//!
//! Two buffers alternate: an edition overwrites the one before the last, then its number is
//! published. A reader copies an edition and checks the number again; if it is unchanged, the copy
//! is consistent. So no reader waits, and a publisher that dies while it writes leaves the last
//! edition readable.

use seam::{BadSeed, Share};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// The longest document in bytes. Only written pages are ever touched.
pub const EDITION_MAX: usize = 1 << 20;

const WORD: usize = size_of::<u64>();

/// How often a reader retries when a publisher overtakes it.
const TRIES: usize = 8;

/// The shared state of the pages service. All-zero bytes are a bulletin without an edition.
#[repr(C)]
pub struct Bulletin {
    /// Distinguishes this bulletin from an earlier one at the same address.
    token: u64,
    /// The number of editions; the last is in place `editions % 2`.
    editions: AtomicU64,
    places: [Place; 2],
}

#[repr(C)]
struct Place {
    len: AtomicU64,
    words: [AtomicU64; EDITION_MAX / WORD],
}

// SAFETY: all-zero bytes are a bulletin without an edition; there is no pointer and no destructor;
// what changes through `&self` is atomic.
unsafe impl Share for Bulletin {
    /// The seed is the token, in eight bytes.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let bytes: [u8; 8] = seed.try_into().map_err(|_| {
            BadSeed(format!("expected a token of 8 bytes, found {} bytes", seed.len()))
        })?;
        self.token = u64::from_le_bytes(bytes);
        Ok(())
    }
}

/// The document is longer than [`EDITION_MAX`]; the edition before it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
#[display("expected a document of at most {EDITION_MAX} bytes, found {_0}; publish less")]
pub struct TooLong(pub usize);

impl std::error::Error for TooLong {}

impl Bulletin {
    /// Distinguishes this bulletin from others.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The number of editions.
    pub fn editions(&self) -> u64 {
        self.editions.load(Acquire)
    }

    /// Publishes the next edition. Only one publisher may run at a time.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn publish(&self, text: &[u8]) -> Result<(), TooLong> {
        if text.len() > EDITION_MAX {
            return Err(TooLong(text.len()));
        }
        let edition = self.editions.load(Relaxed) + 1;
        let place = &self.places[(edition % 2) as usize];
        // A reader that sees a word of this edition must also see the previous edition's number.
        fence(Release);
        place.len.store(text.len() as u64, Relaxed);
        for (word, bytes) in place.words.iter().zip(text.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Relaxed);
        }
        self.editions.store(edition, Release);
        Ok(())
    }

    /// Appends the latest edition to `out` and returns its number. `None`, and nothing appended, if
    /// there is none yet or publishers overtook every try.
    pub fn read(&self, out: &mut Vec<u8>) -> Option<u64> {
        let start = out.len();
        for _ in 0..TRIES {
            let edition = self.editions.load(Acquire);
            if edition == 0 {
                return None;
            }
            let place = &self.places[(edition % 2) as usize];
            let len = (place.len.load(Relaxed) as usize).min(EDITION_MAX);
            out.reserve(len + WORD);
            for word in &place.words[..len.div_ceil(WORD)] {
                out.extend_from_slice(&word.load(Relaxed).to_le_bytes());
            }
            out.truncate(start + len);
            fence(Acquire);
            if self.editions.load(Relaxed) == edition {
                return Some(edition);
            }
            out.truncate(start);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::{Placement, Region};
    use std::sync::atomic::AtomicBool;

    fn bulletin() -> Region<Bulletin> {
        Region::<Bulletin>::alone(&7_u64.to_le_bytes())
    }

    #[test]
    fn the_latest_edition_is_read_whole() {
        let bulletin = bulletin();
        let mut out = b"before ".to_vec();
        assert_eq!((bulletin.read(&mut out), bulletin.token()), (None, 7));
        for (number, text) in [(1, "first edition"), (2, ""), (3, "x"), (4, "12345678")] {
            bulletin.publish(text.as_bytes()).expect("short");
            out.truncate(7);
            assert_eq!(bulletin.read(&mut out), Some(number));
            assert_eq!(out, format!("before {text}").as_bytes());
        }
        let long = vec![b'x'; EDITION_MAX + 1];
        assert_eq!(bulletin.publish(&long), Err(TooLong(EDITION_MAX + 1)));
        assert_eq!(bulletin.editions(), 4);
        bulletin.publish(&long[1..]).expect("just short enough");
        out.clear();
        assert_eq!((bulletin.read(&mut out), out.len()), (Some(5), EDITION_MAX));
    }

    #[test]
    fn a_seed_is_a_token() {
        let mut bulletin = Region::<Bulletin>::place(Placement::Private).expect("memory");
        assert!(bulletin.init(b"short").is_err());
    }

    /// Every edition is one byte repeated, so a mixture of two would show.
    #[test]
    fn a_reader_never_sees_two_editions_mixed() {
        let bulletin = &*bulletin();
        let over = AtomicBool::new(false);
        #[expect(clippy::disallowed_methods, reason = "a publisher beside a reader is the test")]
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..4_000_u64 {
                    let text = vec![b'a' + (round % 26) as u8; 100 + (round % 900) as usize];
                    bulletin.publish(&text).expect("short");
                }
                over.store(true, Release);
            });
            let (mut out, mut last, mut reads) = (Vec::new(), 0, 0);
            while !over.load(Acquire) || reads == 0 {
                out.clear();
                let Some(edition) = bulletin.read(&mut out) else { continue };
                assert!(edition >= last, "editions go forward: {last}, then {edition}");
                assert!(out.iter().all(|byte| *byte == out[0]), "edition {edition} is mixed");
                (last, reads) = (edition, reads + 1);
            }
        });
    }
}
