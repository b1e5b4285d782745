//! Files that are compressed when a client first asks for them, and kept in memory.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::platform::Meta;

/// Shorter files are sent as they are: they fit into one packet anyway.
pub const LEN_MIN: u64 = 1024;
/// Longer files are sent as they are, because the kernel can then send them, and because a client
/// would wait for some tenths of a second.
pub const LEN_MAX: u64 = 8 << 20;
/// The level of zstd: the highest whose speed is still that of gzip (zstd(1) has 1 to 19). Its
/// window is at most the 8 MiB that every client takes (RFC 9659).
const ZSTD_LEVEL: i32 = 9;
/// The level of gzip, which is the default of zlib and gzip(1).
const GZIP_LEVEL: u32 = 6;
/// The quality of brotli: the highest whose speed is still that of gzip (brotli(1) has 0 to 11).
const BROTLI_QUALITY: i32 = 5;
/// The size of brotli's window as a power of two; RFC 7932 section 9.1 allows up to 24.
const BROTLI_WINDOW: i32 = 22;
/// The cost of an entry besides its bytes and its path, in bytes.
const ENTRY: usize = 256;

/// One form of one file, as it was at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub site: u16,
    pub path: Vec<u8>,
    /// Length and modification time of the file.
    pub meta: Meta,
    /// The index among the codings of files.
    pub coding: usize,
}

/// Compressed files of a process, in two halves: a file that is used moves to the young half, and
/// when that is full, the old one is dropped.
#[derive(Debug)]
pub struct Cache {
    halves: Mutex<Halves>,
    half_max: usize,
}

/// Compressed files; `None` for one that does not become shorter.
type Files = HashMap<Key, Option<Arc<[u8]>>>;

#[derive(Debug, Default)]
struct Halves {
    young: Files,
    old: Files,
    /// The cost of the young ones, in bytes.
    bytes: usize,
}

impl Cache {
    pub fn new(bytes_max: usize) -> Cache {
        Cache { halves: Mutex::default(), half_max: bytes_max / 2 }
    }

    /// The compressed file, if it was compressed before; `Some(None)` if it is not worth it.
    pub fn find(&self, key: &Key) -> Option<Option<Arc<[u8]>>> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = halves.young.get(key) {
            return Some(bytes.clone());
        }
        let (key, bytes) = halves.old.remove_entry(key)?;
        halves.keep(key, bytes.clone(), self.half_max);
        Some(bytes)
    }

    /// Compresses `plain` and keeps the result.
    pub fn put(&self, key: Key, plain: &[u8]) -> Option<Arc<[u8]>> {
        let packed = compressed(key.coding, plain).ok().filter(|it| it.len() < plain.len());
        let bytes: Option<Arc<[u8]>> = packed.map(Arc::from);
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.keep(key, bytes.clone(), self.half_max);
        bytes
    }
}

impl Halves {
    fn keep(&mut self, key: Key, bytes: Option<Arc<[u8]>>, half_max: usize) {
        let cost = ENTRY + key.path.len() + bytes.as_ref().map_or(0, |bytes| bytes.len());
        if cost > half_max {
            return;
        }
        if self.bytes + cost > half_max {
            (self.old, self.bytes) = (std::mem::take(&mut self.young), 0);
        }
        self.bytes += cost;
        self.young.insert(key, bytes);
    }
}

/// The same input gives the same output, so that a strong tag may name it.
fn compressed(coding: usize, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::with_capacity(plain.len() / 4);
    if coding == 0 {
        let params = brotli::enc::BrotliEncoderParams {
            quality: BROTLI_QUALITY,
            lgwin: BROTLI_WINDOW,
            size_hint: plain.len(),
            ..Default::default()
        };
        brotli::BrotliCompress(&mut &plain[..], &mut packed, &params)?;
        return Ok(packed);
    }
    if coding == 1 {
        return zstd::bulk::compress(plain, ZSTD_LEVEL);
    }
    let mut encoder = GzEncoder::new(packed, Compression::new(GZIP_LEVEL));
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let key = |path: &str| Key {
            site: 0,
            path: path.into(),
            meta: Meta { len: 1, modified_ns: 1, version: 0 },
            coding: 2,
        };
        let is_known = |cache: &Cache, path: &str| cache.find(&key(path)).is_some();
        let cache = Cache::new(6 * (ENTRY + 100));
        let text = "words and words ".repeat(500);
        for name in ["a", "b", "c", "d"] {
            let packed = cache.put(key(name), text.as_bytes()).expect("it is shorter");
            assert!(packed.len() < 100, "{} bytes", packed.len());
            assert!(is_known(&cache, "a") && is_known(&cache, name));
        }
        cache.put(key("e"), text.as_bytes());
        cache.put(key("f"), text.as_bytes());
        assert!(is_known(&cache, "a") && !is_known(&cache, "b"), "only one was used");
        assert_eq!(cache.put(key("x"), b"x"), None);
        assert_eq!(cache.find(&key("x")), Some(None), "what does not shrink is remembered");
    }
}
