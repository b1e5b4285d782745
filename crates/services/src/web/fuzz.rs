//! Random conversations of valid requests, broken ones and noise, sent once as a whole and once in
//! random pieces with late jobs, slow reading and uncached files. Both must get the same bytes, and
//! nothing follows a reply that closes the connection.

use memory::Region;
use stats::Rng;

use super::{Journal, MemoryFiles, Options, Web};
use crate::cuts::{Cuts, exchange};

/// Runs `events` conversations from `seed`.
///
/// # Panics
/// When a promise is broken; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let journal = Region::<Journal>::alone(&[]);
    let mut files =
        MemoryFiles::new(&[("a.txt", "0123456789"), ("a.txt.gz", "packed!"), ("d/x", "x")], false);
    files.put("long", (0..LONG).map(|byte| byte as u8 | 0x80).collect());
    // A conversation counts as a hundred events of the other fuzzers.
    for conversation in 0..events.div_ceil(100) {
        let at = format!("services::web::fuzz seed {seed}, conversation {conversation}");
        converse(&mut rng, &journal, &files, &at);
    }
}

/// The length of the file that is longer than an output.
const LONG: u32 = 300_000;

fn converse(rng: &mut Rng, journal: &Journal, files: &MemoryFiles, at: &str) {
    let sent = requests(rng);
    let mut options = Options { demo: true, files: true, body_max: 100, ..Options::default() };
    let whole = {
        let web = Web::new(options.clone(), files.clone());
        exchange(&mut Rng::new(0), &web, journal, &sent, &cuts(&[usize::MAX]), at)
    };
    options.limits.output_high = 1 + rng.below(200_000);
    options.limits.output_low = rng.below(options.limits.output_high);
    let mut files = files.clone();
    files.cold = rng.once_in(2);
    let web = Web::new(options, files);
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
