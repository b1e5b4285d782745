//! Replies do not depend on how the bytes arrive, nor on whether files are cached.

use super::talk::{Talk, journal, options, request};
use services::web::{MemoryFiles, Options, Web};
use sim::Faults;
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

#[test]
fn at_every_byte() {
    let script = script();
    let journal = journal();
    let mut wanted = String::new();
    for cold in [false, true] {
        let web = Web::new(options(), MemoryFiles::new(FILES, cold));
        for at in 0..=script.len() {
            let mut talk = Talk::new(&web, &journal);
            let mut heard = talk.say(&script[..at]);
            heard += &talk.say(&script[at..]);
            if wanted.is_empty() {
                wanted = heard.clone();
                let answers = wanted.matches("HTTP/1.1 ").count();
                assert_eq!(answers, 16, "15 requests, of which one is told to go on: {wanted}");
            }
            assert_eq!(heard, wanted, "cut at {at}, cold: {cold}");
            assert!(talk.closes());
        }
    }
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

#[test]
fn one_byte_at_a_time() {
    let (script, journal) = (script(), journal());
    let web = Web::new(options(), MemoryFiles::new(FILES, true));
    let whole = Talk::new(&web, &journal).say(&script);
    let mut talk = Talk::new(&web, &journal);
    let pieces: String = script.iter().map(|byte| talk.say([*byte])).collect();
    assert_eq!(pieces, whole);
}

#[test]
fn cuts_and_spurious_words_change_nothing() {
    // The simulated network may take minutes for this conversation.
    let long = Duration::from_secs(3600);
    let patient = Options { head_time: long, keep_alive: long, body_grace: long, ..options() };
    let narrow = seam::Limits { output_high: 700, output_low: 100, ..patient.limits };
    for (cold, limits) in [(false, patient.limits), (true, patient.limits), (true, narrow)] {
        let web = Web::new(Options { limits, ..patient.clone() }, MemoryFiles::new(FILES, cold));
        let faults = Faults { spurious: true, ..Faults::default() };
        sim::chunking(&web, journal, &script(), &faults, 30, undated);
    }
}

/// The replies without their dates, because the simulator's clock runs.
fn undated(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with("Date: "));
    lines.collect::<String>().into_bytes()
}
