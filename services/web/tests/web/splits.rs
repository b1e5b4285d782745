//! Replies do not depend on how the bytes arrive, nor on whether files are cached.

use super::talk::{Talk, journal, options, request};
use ::web::{MemoryFiles, Options, Web};
use sim::{Faults, Script};
use stats::Rng;
use std::time::Duration;

const FILES: &[(&str, &str)] = &[
    ("a.txt", "0123456789"),
    ("a.txt.gz", "packed"),
    ("d/index.html", "<h1>d</h1>"),
    ("e/f.txt", "listed"),
];

/// Every kind of request, one after the other; the last is malformed.
fn script() -> Vec<u8> {
    let get = |target: &str| request("GET", target, "");
    [
        get("/"),
        format!("\r\n{}", request("HEAD", "/plaintext", "")),
        format!("{}hello", request("POST", "/", "Content-Length: 5\r\n")),
        format!(
            "{}5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
            request("POST", "/", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n")
        ),
        get("/a.txt"),
        request("GET", "/a.txt", "Range: bytes=0-0,5-6\r\n"),
        request("GET", "/a.txt", "Accept-Encoding: gzip\r\n"),
        get("/work?ms=1"),
        get("/d"),
        get("/d/"),
        get("/e/"),
        get("/none"),
        request("PUT", "/", "Content-Length: 3\r\n") + "abc",
        request("GET", "/echo", "Cookie: a=b\r\n"),
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n".to_owned(),
        get("/plaintext"),
    ]
    .concat()
    .into_bytes()
}

/// Repeated requests are answered from the memo, yet with the current date, and they notice the
/// drain.
#[test]
fn asking_again() {
    let journal = journal();
    let web = Web::new(options(), MemoryFiles::new(FILES, false));
    let mut talk = Talk::new(&web, &journal);
    let one = request("GET", "/plaintext", "");
    let first = talk.say(one.as_bytes());
    assert!(first.contains("Date: Sun, 06 Nov 1994 08:51:17 GMT\r\n"), "{first}");
    assert_eq!(talk.say(one.repeat(3).as_bytes()), first.repeat(3));
    let other = request("GET", "/a.txt", "");
    assert!(talk.say(format!("{one}{other}{one}").as_bytes()).ends_with(&first));
    talk.now = talk.now + Duration::from_secs(1);
    let later = first.replace("08:51:17", "08:51:18");
    assert_eq!(talk.say(one.repeat(2).as_bytes()), later.repeat(2));
    assert_eq!(talk.say(&one.as_bytes()[..9]), "");
    assert_eq!(talk.drains(), "");
    let last = talk.say(&one.as_bytes()[9..]);
    assert_eq!(last, later.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assert!(talk.closes());
}

/// Options for conversations that take minutes in a simulated network.
fn patient() -> Options {
    let long = Duration::from_secs(3600);
    Options { head_time: long, keep_alive: long, body_grace: long, ..options() }
}

#[test]
fn cuts_and_spurious_words_change_nothing() {
    let journal_ = journal();
    let whole =
        Talk::new(&Web::new(options(), MemoryFiles::new(FILES, false)), &journal_).say(script());
    let answers = whole.matches("HTTP/1.1 ").count();
    assert_eq!(answers, 16, "15 requests, of which one is told to go on: {whole}");
    let patient = patient();
    let narrow = seam::Limits { output_high: 700, output_low: 100, ..patient.limits };
    for (cold, limits) in [(false, patient.limits), (true, patient.limits), (true, narrow)] {
        let web = Web::new(Options { limits, ..patient.clone() }, MemoryFiles::new(FILES, cold));
        let faults = Faults { spurious: true, ..Faults::default() };
        sim::chunking(&web, journal, &script(), &faults, 30, undated);
    }
}

/// Valid requests, broken ones and noise: a rough network, slow reading, late jobs and uncached
/// files change no byte, and nothing follows a reply that closes the connection.
#[test]
fn random_conversations() {
    let mut files = MemoryFiles::new(&[FILES[0], FILES[1], ("d/x", "x")], false);
    files.put("long", (0..300_000_u32).map(|byte| byte as u8 | 0x80).collect());
    let journal = journal();
    for seed in sim::seeds(150) {
        let mut rng = Rng::new(seed);
        let said = Script::saying(&requests(&mut rng));
        let mut options = Options { body_max: 100, ..patient() };
        let hear = |options: &Options, files: MemoryFiles, faults: Faults| {
            let web = Web::new(options.clone(), files);
            let heard = sim::run(&web, &*journal, &said, &faults, seed);
            heard.lawful().unwrap_or_else(|why| panic!("seed {seed}: {why}\n{said:?}"));
            undated(&heard.only().bytes)
        };
        let whole = hear(&options, files.clone(), Faults::calm());
        options.limits.output_high = 1 + rng.below(200_000);
        options.limits.output_low = rng.below(options.limits.output_high);
        files.cold = rng.once_in(2);
        let pieces = hear(&options, files.clone(), Faults::rough(seed));
        files.cold = false;
        assert!(whole == pieces, "seed {seed}: {said:?}");
        let text = String::from_utf8_lossy(&whole);
        if let Some((_, behind)) = text.split_once("\r\nConnection: close\r\n") {
            assert!(!behind.contains("HTTP/1.1 "), "seed {seed}: a reply after the last one");
        }
    }
}

/// Some requests in a row, most of them valid.
fn requests(rng: &mut Rng) -> Vec<u8> {
    const LINES: &str = "\
        GET / HTTP/1.1|HEAD /a.txt HTTP/1.1|GET /a.txt HTTP/1.1|GET /long HTTP/1.1|\
        GET /d HTTP/1.1|GET /d/ HTTP/1.1|GET /none HTTP/1.1|POST / HTTP/1.1|PUT / HTTP/1.1|\
        GET /work?ms=1 HTTP/1.1|OPTIONS * HTTP/1.1|GET /json HTTP/1.0|GET /.. HTTP/1.1|\
        BREW / HTTP/1.1";
    const FIELDS: &str = "\
        Content-Length: 5|Content-Length: 101|Transfer-Encoding: chunked|Expect: 100-continue|\
        Connection: keep-alive|Connection: close|Range: bytes=0-3,-1|Range: bytes=5-|\
        If-None-Match: *|Accept-Encoding: gzip|Host: b| folded";
    const BODIES: &[&str] = &[
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "65\r\n",
    ];
    let [lines, fields] = [LINES, FIELDS].map(|list| list.split('|').collect::<Vec<_>>());
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(6) {
        let mut text = format!("{}\r\nHost: a\r\n", rng.pick(&lines));
        let mut wants_body = 0;
        while rng.once_in(2) {
            let field = *rng.pick(&fields);
            wants_body |= usize::from(field == fields[0]) | (usize::from(field == fields[2]) << 1);
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

/// The replies without their dates, because the simulator's clock runs.
fn undated(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with("Date: "));
    lines.collect::<String>().into_bytes()
}
