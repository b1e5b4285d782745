//! Requests parsed by us and by h11, an independent HTTP/1.1 parser in Python: the two agree, or
//! the difference is in a list, with its reason.
//!
//! h11 runs as a child process and gets all requests at once. The list is exact: a difference that
//! is not in it fails the test, and so does an unused row.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use regex::bytes::Regex;
use stats::Rng;
use wire::http::{Body, Chunked, Head, Limits, Version, next};

const REQUESTS: u64 = 30_000;

/// A reader's verdict on some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Bad,
    More,
    Good {
        method: Vec<u8>,
        target: Vec<u8>,
        version: Vec<u8>,
        body: Vec<u8>,
        /// Bytes after the request.
        left: usize,
        /// Lowercase names, trimmed values.
        fields: Vec<(Vec<u8>, Vec<u8>)>,
    },
}

fn ours(bytes: &[u8]) -> Verdict {
    let head: Head<'_> = match next(bytes, &Limits::default()) {
        Err(_) => return Verdict::Bad,
        Ok(None) => return Verdict::More,
        Ok(Some(head)) => head,
    };
    let (mut body, mut at) = (Vec::new(), head.len);
    match head.body {
        Body::Length(len) => {
            let Some(found) = bytes[at..].get(..len as usize) else { return Verdict::More };
            body.extend_from_slice(found);
            at += found.len();
        }
        Body::Chunked => {
            let mut reader = Chunked::new();
            loop {
                let Ok(piece) = reader.next(&bytes[at..]) else { return Verdict::Bad };
                body.extend_from_slice(piece.data);
                at += piece.used;
                if piece.end {
                    break;
                }
                if piece.used == 0 {
                    return Verdict::More;
                }
            }
        }
    }
    // h11 lowercases the value of this field.
    let lower = |(name, value): (&str, &[u8])| match name.to_ascii_lowercase() {
        coding if coding == "transfer-encoding" => (coding.into(), value.to_ascii_lowercase()),
        name => (name.into(), value.to_vec()),
    };
    Verdict::Good {
        method: head.method.into(),
        target: head.target.into(),
        version: if head.version == Version::Http11 { b"1.1".into() } else { b"1.0".into() },
        body,
        left: bytes.len() - at,
        fields: head.fields().map(lower).collect(),
    }
}

/// Parses a line of h11's output.
fn theirs(line: &str) -> Verdict {
    let bytes = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|it| it.to_digit(16)).map(|it| it as u8).collect();
        digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["bad"] => Verdict::Bad,
        ["more"] => Verdict::More,
        ["good", method, target, version, body, left, ref fields @ ..] => Verdict::Good {
            method: bytes(method),
            target: bytes(target),
            // A later minor version counts as 1.1 here (RFC 9110 section 2.5).
            version: match bytes(version) {
                minor if minor.starts_with(b"1.") && minor != b"1.0" => b"1.1".into(),
                version => version,
            },
            body: bytes(body),
            left: left.parse().expect("a number"),
            fields: fields
                .iter()
                .map(|field| field.split_once('=').expect("name and value"))
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
        },
        _ => panic!("expected a verdict, found {line:?}"),
    }
}

struct Meant {
    /// The difference, and the reason for it.
    why: &'static str,
    /// Requests show it in which this occurs more often than `except`, ignoring case.
    shows: &'static str,
    except: &'static str,
}

const fn meant(why: &'static str, shows: &'static str) -> Meant {
    Meant { why, shows, except: "$^x" }
}

impl Meant {
    const fn except(self, except: &'static str) -> Meant {
        Meant { except, ..self }
    }
}

/// Requests that our parser refuses and h11 accepts, or that ours refuses earlier.
const STRICTER: &[Meant] = &[
    meant("LF alone ends a line: half of most smuggling (RFC 9112 2.2)", r"(^|[^\r])\n"),
    meant("a CR ends nothing: two readers see two ends of a line", r"\r[^\n]"),
    meant("a folded line (RFC 9112 5.2: reject or fold)", r"\r\n[ \t]"),
    meant("a control character (RFC 9110 5.5: dangerous)", r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"),
    meant("two lengths (RFC 9112 6.3: equal ones MAY be)", r"content-length:.*content-length:"),
    meant("a list of lengths: the same in one line", r"^content-length:[^\n]*,"),
    meant(
        "a length, then chunks (RFC 9112 6.1: ought to be an attack)",
        r"^content-length:.*^transfer-encoding:[ \t]*chunked[ \t\r]*$",
    ),
    meant(
        "chunks, then a length: the same the other way round",
        r"^transfer-encoding:[ \t]*chunked[ \t\r]*$.*^content-length:",
    ),
    meant(
        "chunks in HTTP/1.0 (RFC 9112 6.1: faulty)",
        r"/1\.0\r\n.*^transfer-encoding:[ \t]*chunked[ \t\r]*$",
    ),
    meant("a name that CGI reads as another: a gateway's framing", r"content_length:"),
    meant(
        "a host that is none (RFC 9112 3.2: MUST be 400)",
        r"^host:[^\n]*([^a-z0-9 \t\r\n]|[a-z0-9][ \t\r]+[a-z0-9])",
    ),
    meant("no Host in 1.2 (RFC 9110 2.5: as 1.1, so MUST be 400)", r"http/1\.2\r\n")
        .except(r"^host:"),
    meant("another expectation (RFC 9110 10.1.1: 417)", r"^expect:")
        .except(r"^expect:[ \t]*100-continue[ \t\r]*$"),
    meant("another major version (RFC 9110 15.6.6: 505)", r"HTTP/([^1].|.[^.])"),
    meant("no body is so long", r"^content-length:[ \t]*[0-9]{20,}[ \t\r]*$"),
    meant("no chunk is so long", r"0{16}"),
    meant("no extension (RFC 9112 7.1.1, and desyncs by `;` LF)", r"^[0-9a-f]+[; \t]")
        .except(r"^[0-9a-f]+;[a-z0-9]+(=[a-z0-9]+)?\r?$"),
    meant("a trailer without a colon: h11 waits for the last of them", r"0\r\nX y\r\n"),
];

/// Requests that our parser accepts and h11 refuses.
const LOOSER: &[Meant] = &[
    meant("an empty line before the request (RFC 9112 2.2: SHOULD)", r"\A\r\n"),
    meant("a byte that begins no request: seen when the line is whole", r"\A[^!-~]"),
];

/// A list, ready to count what its rows show and except.
fn compiled(list: &'static [Meant]) -> Vec<(&'static Meant, [Regex; 2])> {
    let regex = |text: &str| Regex::new(&format!("(?ims-u){text}")).expect("a pattern");
    list.iter().map(|row| (row, [row.shows, row.except].map(regex))).collect()
}

/// Request lines, the valid ones first.
const LINES: &str = "\
    GET / HTTP/1.1\r\n|POST /a?b=%20 HTTP/1.1\r\n|OPTIONS * HTTP/1.0\r\n|GET  / HTTP/1.1\r\n|\
    GET / HTTP/2.0\r\n|GET / HTTP/1.2\r\n|\r\nGET / HTTP/1.1\r\n|GET / HTTP/1.1\n|\
    G@T / HTTP/1.1\r\n|GET /\u{e9} HTTP/1.1\r\n";

/// Fields; the first ones are valid.
const FIELDS: &str = "\
    Host: a\r\n|X-Y:z\r\n|Accept: \t*/*;q=0.5 \r\n|Content-Length: 3\r\n|\
    Transfer-Encoding: chunked\r\n|Connection: close, x\r\n|Expect: 100-continue\r\n|\
    Host: a b\r\n|Host: a/b\r\n|Host:\r\n|Content-Length: 3, 3\r\n|Content-Length: 03\r\n|\
    Content-Length: +3\r\n|Content-Length: 99999999999999999999\r\n|Content_Length: 3\r\n|\
    Transfer-Encoding: gzip, chunked\r\n|transfer-encoding: Chunked\r\n|\
    Expect: x\r\n|X : y\r\n| folded\r\n|\
    : y\r\n|X\r\n|X: \u{1}\r\n|X: a\rb\r\n|X: y\n|Content-Length:\r\n";

/// Bodies after the head, for any framing.
const BODIES: &str = "\
    |abc|3\r\nabc\r\n0\r\n\r\n|1;a=b\r\na\r\n0\r\nX: y\r\n\r\n|3;=\r\nabc\r\n0\r\n\r\n|\
    3 \r\nabc\r\n0\r\n\r\n|3; a\r\nabc\r\n0\r\n\r\n|00000000000000003\r\nabc\r\n0\r\n\r\n|\
    3\nabc\n0\n\n|3\r\nabcd\r\n0\r\n\r\n|x\r\n|0\r\nX y\r\n\r\n|2\r\n\r\n\r\n0\r\n\r\n";

/// A request made of mostly valid pieces.
fn request(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    let good = |rng: &mut Rng, of: usize, good: usize| {
        if rng.once_in(5) { rng.below(of) } else { rng.below(good) }
    };
    let [lines, fields, bodies] =
        [LINES, FIELDS, BODIES].map(|list| list.split('|').collect::<Vec<_>>());
    text += lines[good(rng, lines.len(), 3)];
    if !rng.once_in(8) {
        text += fields[0];
    }
    for _ in 0..rng.below(4) {
        text += fields[1 + good(rng, fields.len() - 1, 6)];
    }
    text += "\r\n";
    text += bodies[good(rng, bodies.len(), 4)];
    let mut bytes = text.into_bytes();
    if rng.once_in(8) {
        let place = rng.below(bytes.len());
        bytes[place] = *rng.pick(b"\r\n\t \0:;,aZ09\x7f\x80");
    }
    if rng.once_in(4) {
        bytes.extend_from_slice(b"GET /next");
    }
    bytes.truncate(bytes.len() - if rng.once_in(6) { rng.below(bytes.len()) } else { 0 });
    bytes
}

/// Gives h11 all requests; `None` if h11 is not installed.
fn ask(requests: &[Vec<u8>]) -> Option<Vec<Verdict>> {
    let can = |python: &&str| {
        let output = Command::new(*python).args(["-c", "import h11"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    // The first one found may be a private one without the system's packages.
    let python = ["python3", "/usr/bin/python3"].into_iter().find(can)?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/h11_reader.py");
    let mut child = Command::new(python)
        .args(["-B", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it has just run");
    let mut input = child.stdin.take().expect("it is piped");
    let lines: String = requests
        .iter()
        .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    // Both pipes fill up soon, so a thread writes.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let heard = output.lines().map(|line| theirs(&line.expect("text"))).collect();
    writer.join().expect("a writer").expect("it reads to the end");
    assert!(child.wait().expect("our own child").success());
    Some(heard)
}

#[test]
fn h11_reads_what_we_read_but_for_what_is_listed() {
    let seed = 11;
    let mut rng = Rng::new(seed);
    let requests: Vec<Vec<u8>> = (0..REQUESTS).map(|_| request(&mut rng)).collect();
    let Some(heard) = ask(&requests) else {
        println!("skipped: h11");
        return;
    };
    assert_eq!(heard.len(), requests.len());
    let (stricter, looser) = (compiled(STRICTER), compiled(LOOSER));
    let (mut hits, mut same) = (BTreeMap::<&str, u32>::new(), 0);
    for (bytes, theirs) in requests.iter().zip(heard) {
        let ours = ours(bytes);
        if ours == theirs {
            same += 1;
            continue;
        }
        let list = match (&ours, &theirs) {
            (Verdict::Bad, _) => &stricter[..],
            (_, Verdict::Bad) => &looser,
            _ => &[],
        };
        let shown = bytes.escape_ascii();
        let is_shown = |[shows, except]: &[Regex; 2]| {
            shows.find_iter(bytes).count() > except.find_iter(bytes).count()
        };
        let meant: Vec<_> = list.iter().filter(|(_, regexes)| is_shown(regexes)).collect();
        assert!(!meant.is_empty(), "seed {seed}: {shown}\nours: {ours:?}\nh11: {theirs:?}");
        for (row, _) in meant {
            *hits.entry(row.why).or_default() += 1;
        }
    }
    println!("seed {seed}: {same} of {REQUESTS} the same; differences by reason: {hits:?}");
    assert!(same > REQUESTS / 2, "only {same} of {REQUESTS} are the same");
    for Meant { why, .. } in STRICTER.iter().chain(LOOSER) {
        assert!(hits.contains_key(why), "no request shows this, so strike the row: {why}");
    }
}
