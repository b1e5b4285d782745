//! The access log: one line for each request however it ends, with the bytes that were sent.

use super::talk::{Talk, journal, options, request};
use ::web::{Format, Journal, MemoryFiles, Options, Web};
use seam::Closed;
use std::time::Duration;

const LONG: usize = 600_000;

fn logging(format: Format) -> Options {
    Options { record: Some(format), ..options() }
}

fn web(cold: bool) -> Web<MemoryFiles> {
    let mut files = MemoryFiles::new(&[("a.txt", "0123456789")], cold);
    files.put("long.bin", vec![b'x'; LONG]);
    Web::new(logging(Format::default()), files)
}

/// The lines since the last call, without host and time.
fn lines(journal: &Journal) -> Vec<String> {
    let mut bytes = Vec::new();
    journal.take(&mut bytes);
    let text = String::from_utf8(bytes).expect("text");
    text.lines().map(|line| line.split_once("] ").expect("a time").1.to_owned()).collect()
}

#[test]
fn an_aborted_download_is_logged_with_the_bytes_that_were_sent() {
    for cold in [false, true] {
        let (web, journal) = (web(cold), journal());
        let mut talk = Talk::new(&web, &journal);
        talk.quietly(|conn, web, cx| {
            conn.feed(web, cx, request("GET", "/long.bin", "").as_bytes());
        });
        let head = talk.sip(usize::MAX).len();
        let mut sent = head;
        while sent < 300_000 {
            sent += talk.sip(10_000).len();
        }
        assert!(lines(&journal).is_empty(), "the request is not over");
        talk.leaves(Closed::Reset);
        let all = lines(&journal);
        let bytes: usize = all[0]
            .strip_prefix("\"GET /long.bin HTTP/1.1\" 200 ")
            .and_then(|it| it.parse().ok())
            .unwrap_or_else(|| panic!("{all:?}"));
        // The head of the reply is not part of its body.
        assert!(bytes < sent && sent - bytes < 500, "cold {cold}: {bytes} of {sent}");
        assert_eq!(all.len(), 1);
    }
}

#[test]
fn a_whole_download_is_logged_once_it_is_sent() {
    let (web, journal) = (web(false), journal());
    let mut talk = Talk::new(&web, &journal);
    let two = request("GET", "/long.bin", "") + &request("GET", "/a.txt", "");
    talk.quietly(|conn, web, cx| conn.feed(web, cx, two.as_bytes()));
    while talk.waiting() > 40_000 {
        assert!(lines(&journal).is_empty(), "{} bytes wait", talk.waiting());
        talk.sip(30_000);
    }
    let rest = talk.drink();
    assert!(rest.ends_with(b"0123456789"), "the next request is answered");
    let want = [
        format!("\"GET /long.bin HTTP/1.1\" 200 {LONG}"),
        "\"GET /a.txt HTTP/1.1\" 200 10".to_owned(),
    ];
    assert_eq!(lines(&journal), want);
    talk.leaves(Closed::Reset);
    assert!(lines(&journal).is_empty(), "nothing is logged twice");
}

#[test]
fn a_request_that_is_not_answered_has_its_line() {
    let check = |input: &str, end: fn(Talk<'_>), want: &[&str]| {
        let (web, journal) = (web(false), journal());
        let mut talk = Talk::new(&web, &journal);
        talk.say(input.as_bytes());
        end(talk);
        let all = lines(&journal);
        assert_eq!(all.len(), want.len(), "{input:?}: {all:?}");
        for (line, want) in all.iter().zip(want) {
            assert!(line.starts_with(want), "{input:?}: {line}");
        }
    };
    fn resets(talk: Talk<'_>) {
        talk.leaves(Closed::Reset);
    }
    fn waits(mut talk: Talk<'_>) {
        talk.after(Duration::from_secs(60));
        talk.leaves(Closed::Service);
    }
    fn ends(mut talk: Talk<'_>) {
        talk.ends();
        talk.leaves(Closed::Service);
    }
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc";
    check("", resets, &[]);
    check("", waits, &[]);
    check("GET /a.txt HT", resets, &["\"GET /a.txt HT\" 499 0"]);
    check("GET /a.txt HTTP/1.1\r\nHo", waits, &["\"GET /a.txt HTTP/1.1\" 408 "]);
    check("GET /a.txt HTTP/1.1\r\nHo", ends, &["\"GET /a.txt HTTP/1.1\" 400 "]);
    check(post, resets, &["\"POST /echo HTTP/1.1\" 499 0"]);
    check(post, waits, &["\"POST /echo HTTP/1.1\" 408 "]);
    check(post, ends, &["\"POST /echo HTTP/1.1\" 400 "]);
    let large = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n";
    check(large, resets, &["\"POST /echo HTTP/1.1\" 413 "]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    check(&long, resets, &["\"GET /xxx"]);
    check("GET /a.txt HTTP/1.1\r\n\r\n", resets, &["\"GET /a.txt HTTP/1.1\" 400 "]);
}

#[test]
fn combined_lines_name_the_page_before_and_the_client() {
    let files = MemoryFiles::new(&[("a.txt", "0123456789")], false);
    let (web, journal) =
        (Web::new(logging("combined".parse().expect("a format")), files), journal());
    let mut talk = Talk::new(&web, &journal);
    talk.say(request("GET", "/a.txt", "Referer: http://b/\r\nUser-Agent: x \"1\"\r\n").as_bytes());
    talk.say(request("GET", "/a.txt", "").as_bytes());
    let want = [
        "\"GET /a.txt HTTP/1.1\" 200 10 \"http://b/\" \"x \\\"1\\\"\"",
        "\"GET /a.txt HTTP/1.1\" 200 10 \"-\" \"-\"",
    ];
    assert_eq!(lines(&journal), want);
}

#[test]
fn trusted_proxies_name_the_client() {
    fn check(trusted: &str, hops: &str, want: &str) {
        let trusted = trusted.split(' ').map(|text| text.parse().expect("a network")).collect();
        let options = Options { trusted, ..logging(Format::default()) };
        let (web, journal) = (Web::new(options, MemoryFiles::new::<&str>(&[], false)), journal());
        let fields = format!("X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for:{hops}\r\n");
        Talk::new(&web, &journal).say(request("GET", "/plaintext", &fields).as_bytes());
        let mut line = Vec::new();
        journal.take(&mut line);
        let start = format!("{want} - - [");
        assert!(line.starts_with(start.as_bytes()), "{hops}: {}", line.escape_ascii());
    }
    let hops = "192.0.2.7, 10.1.2.3";
    check("0.0.0.0/0 ::/0", hops, "local");
    check("unix", hops, "10.1.2.3");
    check("unix 10.0.0.0/8", hops, "192.0.2.7");
    check("unix 10.1.2.3 192.0.2.0/24", hops, "6.6.6.6");
    check("unix 10.1.2.128/25", hops, "10.1.2.3");
    check("unix 10.0.0.0/8", "::1,::ffff:10.1.1.1", "::1");
    check("unix 2001:db8::/32", "7.7.7.7,[2001:db8:1::2]:443", "7.7.7.7");
    check("unix 10.0.0.0/8", "unknown, 10.0.0.1", "10.0.0.1");
    check("unix", "\"", "local");
}
