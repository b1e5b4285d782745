//! Random conversations of valid requests, broken ones and noise, sent once as a whole and once in
//! random pieces with late jobs, slow reading and uncached files. Both must get the same bytes, and
//! nothing follows a reply that closes the connection.

use memory::Region;
use stats::Rng;
use std::io;
use std::time::Duration;

use super::platform::{Entry, LookupError, Meta, Platform, Resource};
use super::{Journal, Options, Web};
use crate::cuts::{Cuts, exchange};

/// Runs `events` conversations from `seed`.
///
/// # Panics
/// When a promise is broken; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let journal = Region::<Journal>::alone(&[]);
    // A conversation counts as a hundred events of the other fuzzers.
    for conversation in 0..events.div_ceil(100) {
        let at = format!("services::web::fuzz seed {seed}, conversation {conversation}");
        converse(&mut rng, &journal, &at);
    }
}

/// Two files, one of them longer than an output, and a folder.
struct MemoryFiles {
    cold: bool,
}

/// The length of the long file.
const LONG: u64 = 300_000;

impl Platform for MemoryFiles {
    type File = u64;

    fn try_find(&self, path: &[u8]) -> Option<Result<Resource<u64>, LookupError>> {
        (!self.cold).then(|| self.find(path))
    }

    fn find(&self, path: &[u8]) -> Result<Resource<u64>, LookupError> {
        let len = match path {
            b"a.txt" => 10,
            b"a.txt.gz" => 7,
            b"long" => LONG,
            b"d" => return Ok(Resource::Folder),
            _ => return Err(LookupError::Absent),
        };
        Ok(Resource::File(len, Meta { len, modified_ns: 1 }))
    }

    fn read_now(
        &self,
        file: &u64,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>> {
        (!self.cold).then(|| self.read(file, offset, len, into))
    }

    fn read(&self, file: &u64, offset: u64, len: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        let end = (offset + len as u64).min(*file);
        into.extend((offset..end).map(|byte| byte as u8 | 0x80));
        Ok((end - offset) as usize)
    }

    fn list(&self, _path: &[u8]) -> Result<Vec<Entry>, LookupError> {
        Ok(vec![Entry { name: b"x".to_vec(), len: Some(1) }])
    }

    fn compute(&self, _time: Duration) {}

    fn sleep(&self, _time: Duration) {}
}

fn converse(rng: &mut Rng, journal: &Journal, at: &str) {
    let sent = requests(rng);
    let mut options = Options { demo: true, files: true, body_max: 100, ..Options::default() };
    let whole = {
        let web = Web::new(options.clone(), MemoryFiles { cold: false });
        exchange(&mut Rng::new(0), &web, journal, &sent, &cuts(&[usize::MAX]), at)
    };
    options.limits.output_high = 1 + rng.below(200_000);
    options.limits.output_low = rng.below(options.limits.output_high);
    let web = Web::new(options, MemoryFiles { cold: rng.once_in(2) });
    let most = [*rng.pick(&[1, 7, 200, 20_000])];
    let pieces = exchange(rng, &web, journal, &sent, &cuts(&most), at);
    let differs = whole.iter().zip(&pieces).position(|(one, other)| one != other);
    assert!(
        whole == pieces,
        "{at}: answers of {} and {} bytes differ at {differs:?}; sent {:?}",
        whole.len(),
        pieces.len(),
        sent.escape_ascii().to_string()
    );
    let text = String::from_utf8_lossy(&whole);
    if let Some((_, behind)) = text.split_once("\r\nConnection: close\r\n") {
        assert!(!behind.contains("HTTP/1.1 "), "{at}: a reply after the last one");
    }
}

fn cuts(pieces: &[usize]) -> Cuts<'_> {
    Cuts { pieces, sip: 100_000, notes: false }
}

/// Some requests in a row, most of them valid.
fn requests(rng: &mut Rng) -> Vec<u8> {
    const LINES: &[&str] = &[
        "GET / HTTP/1.1",
        "HEAD /a.txt HTTP/1.1",
        "GET /a.txt HTTP/1.1",
        "GET /long HTTP/1.1",
        "GET /d HTTP/1.1",
        "GET /d/ HTTP/1.1",
        "GET /none HTTP/1.1",
        "POST / HTTP/1.1",
        "PUT / HTTP/1.1",
        "GET /work?ms=1 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET /json HTTP/1.0",
        "GET /.. HTTP/1.1",
        "BREW / HTTP/1.1",
    ];
    const FIELDS: &[&str] = &[
        "Content-Length: 5",
        "Content-Length: 101",
        "Transfer-Encoding: chunked",
        "Expect: 100-continue",
        "Connection: keep-alive",
        "Connection: close",
        "Range: bytes=0-3,-1",
        "Range: bytes=5-",
        "If-None-Match: *",
        "Accept-Encoding: gzip",
        "Host: b",
        " folded",
    ];
    const BODIES: &[&str] = &[
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "65\r\n",
    ];
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(6) {
        let mut text = format!("{}\r\nHost: a\r\n", rng.pick(LINES));
        let mut wants_body = 0;
        while rng.once_in(2) {
            let field = *rng.pick(FIELDS);
            wants_body |= usize::from(field == FIELDS[0]) | (usize::from(field == FIELDS[2]) << 1);
            text += &format!("{field}\r\n");
        }
        text += "\r\n";
        text += match wants_body {
            1 => BODIES[0],
            2 => *rng.pick(&BODIES[1..]),
            _ => "",
        };
        bytes.extend_from_slice(text.as_bytes());
    }
    if rng.once_in(3) {
        // Repeated requests are answered from the memo.
        bytes.extend_from_within(..);
    }
    if rng.once_in(4) {
        let place = rng.below(bytes.len());
        bytes[place] = *rng.pick(b"\r\n\0 :x");
    }
    bytes
}
