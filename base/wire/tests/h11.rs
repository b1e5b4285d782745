//! Requests parsed by us and by h11, an independent HTTP/1.1 parser in Python: the two agree, or
//! the difference is in a list, with its reason.
//!
//! h11 runs as a child process and gets all requests at once. The list is exact: a difference that
//! is not in it fails the test, and so does an unused row.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use stats::Rng;
use wire::http::{Body, Chunked, Head, Limits, Version, next};

/// Requests of one run.
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

/// An intended difference: its name, a test for the bytes that show it, and its reason.
type Meant = (&'static str, fn(&[u8]) -> bool, &'static str);

/// Requests that our parser refuses and h11 accepts, or that ours refuses earlier.
const STRICTER: &[Meant] = &[
    ("a line that ends with LF alone", lone_newline, "half of most smuggling (RFC 9112 2.2: MAY)"),
    ("a CR that ends nothing", lone_return, "two readers see two ends of a line"),
    ("a folded line", |it| has(it, b"\r\n ") || has(it, b"\r\n\t"), "RFC 9112 5.2: reject or fold"),
    ("a control character in a value", control, "RFC 9110 5.5: dangerous, MUST reject or replace"),
    (
        "two lengths",
        |it| count(it, b"content-length:") > 1,
        "RFC 9112 6.3: equal ones MAY be taken",
    ),
    (
        "a list of lengths",
        |it| values(it, b"content-length").any(|it| it.contains(&b',')),
        "the same in one line",
    ),
    ("a length together with chunks", both_framings, "RFC 9112 6.1: ought to be an attack"),
    ("chunks in HTTP/1.0", |it| has(it, b"/1.0\r\n") && chunked(it), "RFC 9112 6.1: faulty"),
    ("a name that CGI reads as another", |it| has(it, b"content_length:"), "a gateway's framing"),
    ("a host that is none", |it| values(it, b"host").any(no_host), "RFC 9112 3.2: MUST be 400"),
    (
        "no Host in a later minor version",
        |it| has(it, b"http/1.2\r\n") && !has(it, b"\nhost:"),
        "RFC 9110 2.5: as 1.1, so MUST be 400",
    ),
    ("another expectation", |it| values(it, b"expect").any(no_expectation), "RFC 9110 10.1.1: 417"),
    ("another major version", version, "RFC 9110 15.6.6: 505"),
    (
        "a length of more than 64 bits",
        |it| values(it, b"content-length").any(too_long),
        "no body is so long",
    ),
    ("a size of more than 16 digits", |it| has(it, b"0000000000000000"), "no chunk is so long"),
    ("an extension that is none", bad_extension, "RFC 9112 7.1.1, and desyncs by `;` LF"),
    ("a trailer without a colon", |it| has(it, b"0\r\nX y\r\n"), "h11 waits for the last of them"),
];

/// Requests that our parser accepts and h11 refuses.
const LOOSER: &[Meant] = &[
    ("an empty line before the request", |it| it.starts_with(b"\r\n"), "RFC 9112 2.2: SHOULD"),
    (
        "a byte that begins no request",
        |it| !it[0].is_ascii_graphic(),
        "seen when the line is whole",
    ),
];

/// Whether the bytes announce a chunked body.
fn chunked(bytes: &[u8]) -> bool {
    values(bytes, b"transfer-encoding").any(|it| it.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// Whether `bytes` contains `part`, ignoring case.
fn has(bytes: &[u8], part: &[u8]) -> bool {
    count(bytes, part) > 0
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|it| it.eq_ignore_ascii_case(part)).count()
}

fn lone_newline(bytes: &[u8]) -> bool {
    let before = |at: usize| at.checked_sub(1).map(|at| bytes[at]);
    (0..bytes.len()).any(|at| bytes[at] == b'\n' && before(at) != Some(b'\r'))
}

fn lone_return(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two[0] == b'\r' && two[1] != b'\n')
}

fn control(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 127))
}

/// The values of a field, untrimmed.
fn values<'a>(bytes: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines =
        bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let value = move |line: &'a [u8]| {
        let (found, value) = line.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then_some(value.strip_prefix(b":")?)
    };
    lines.filter_map(value)
}

fn no_host(value: &[u8]) -> bool {
    let name = |byte: &u8| byte.is_ascii_alphanumeric();
    !value.trim_ascii().iter().all(name)
}

/// Digits of a number of more than 64 bits.
fn too_long(value: &[u8]) -> bool {
    let digits = String::from_utf8_lossy(value.trim_ascii()).into_owned();
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() >= 20
}

fn no_expectation(value: &[u8]) -> bool {
    !value.trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// `HTTP/` with a major version other than 1.
fn version(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|it| it.starts_with(b"HTTP/") && !it.ends_with(b"1."))
}

fn both_framings(bytes: &[u8]) -> bool {
    chunked(bytes) && has(bytes, b"content-length:")
}

/// A semicolon in a size line, followed by anything but `name` or `name=value`.
fn bad_extension(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.into_iter().any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let behind = &line[digits..];
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'=';
        digits > 0
            && matches!(behind, [b';' | b' ' | b'\t', rest @ ..] if !rest.iter().all(plain)
            || rest.is_empty() || behind[0] != b';' || rest.starts_with(b"=")
            || rest.ends_with(b"=") || rest.iter().filter(|byte| **byte == b'=').count() > 1)
    })
}

/// Request lines, the valid ones first.
const LINES: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "POST /a?b=%20 HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.0\r\n",
    "GET  / HTTP/1.1\r\n",
    "GET / HTTP/2.0\r\n",
    "GET / HTTP/1.2\r\n",
    "\r\nGET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\n",
    "G@T / HTTP/1.1\r\n",
    "GET /\u{e9} HTTP/1.1\r\n",
];

/// Fields; the first ones are valid.
const FIELDS: &[&str] = &[
    "Host: a\r\n",
    "X-Y:z\r\n",
    "Accept: \t*/*;q=0.5 \r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close, x\r\n",
    "Expect: 100-continue\r\n",
    "Host: a b\r\n",
    "Host: a/b\r\n",
    "Host:\r\n",
    "Content-Length: 3, 3\r\n",
    "Content-Length: 03\r\n",
    "Content-Length: +3\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content_Length: 3\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "transfer-encoding: Chunked\r\n",
    "Expect: x\r\n",
    "X : y\r\n",
    " folded\r\n",
    ": y\r\n",
    "X\r\n",
    "X: \u{1}\r\n",
    "X: a\rb\r\n",
    "X: y\n",
    "Content-Length:\r\n",
];

/// Bodies after the head, for any framing.
const BODIES: &[&str] = &[
    "",
    "abc",
    "3\r\nabc\r\n0\r\n\r\n",
    "1;a=b\r\na\r\n0\r\nX: y\r\n\r\n",
    "3;=\r\nabc\r\n0\r\n\r\n",
    "3 \r\nabc\r\n0\r\n\r\n",
    "3; a\r\nabc\r\n0\r\n\r\n",
    "00000000000000003\r\nabc\r\n0\r\n\r\n",
    "3\nabc\n0\n\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "x\r\n",
    "0\r\nX y\r\n\r\n",
    "2\r\n\r\n\r\n0\r\n\r\n",
];

/// A request made of mostly valid pieces.
fn request(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    let good = |rng: &mut Rng, of: usize, good: usize| {
        if rng.once_in(5) { rng.below(of) } else { rng.below(good) }
    };
    text += LINES[good(rng, LINES.len(), 3)];
    if !rng.once_in(8) {
        text += FIELDS[0];
    }
    for _ in 0..rng.below(4) {
        text += FIELDS[1 + good(rng, FIELDS.len() - 1, 6)];
    }
    text += "\r\n";
    text += BODIES[good(rng, BODIES.len(), 4)];
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
    let (mut hits, mut same) = (BTreeMap::<&str, u32>::new(), 0);
    for (bytes, theirs) in requests.iter().zip(heard) {
        let ours = ours(bytes);
        if ours == theirs {
            same += 1;
            continue;
        }
        let list = match (&ours, &theirs) {
            (Verdict::Bad, _) => STRICTER,
            (_, Verdict::Bad) => LOOSER,
            _ => &[],
        };
        let shown = bytes.escape_ascii();
        let meant: Vec<&Meant> = list.iter().filter(|(_, shows, _)| shows(bytes)).collect();
        assert!(!meant.is_empty(), "seed {seed}: {shown}\nours: {ours:?}\nh11: {theirs:?}");
        for (name, ..) in meant {
            *hits.entry(name).or_default() += 1;
        }
    }
    println!("seed {seed}: {same} of {REQUESTS} the same; differences by reason: {hits:?}");
    assert!(same > REQUESTS / 2, "only {same} of {REQUESTS} are the same");
    for (name, ..) in STRICTER.iter().chain(LOOSER) {
        assert!(hits.contains_key(name), "no request shows a difference by {name}: strike the row");
    }
}
