//! Files: which one, under which conditions, which bytes.

use super::talk::{NOW_NS, Talk, body, journal, options, reply, request};
use ::web::{CHANGED_NS, ErrorPage, Format, MemoryFiles, Options, Web};
use seam::{Instant, WallClock};
use std::sync::atomic::{AtomicU64, Ordering};

const FILES: &[(&str, &str)] = &[
    ("index.html", "<h1>root</h1>"),
    ("a.txt", "0123456789"),
    ("a.txt.gz", "packed by gzip"),
    ("b.txt", "only brotli"),
    ("b.txt.br", "packed by brotli"),
    ("c.png", "a picture"),
    ("c.png.gz", "never served"),
    ("empty", ""),
    ("sub/index.html", "<h1>sub</h1>"),
    ("list/x y.txt", "1234567"),
    ("list/deep/z", ""),
    (".secret", "no"),
    (".well-known/a", "yes"),
    ("closed.txt", "forbidden"),
];

const TAG: &str = "\"ae1b981bc490a01-a\"";

#[track_caller]
fn check(method: &str, target: &str, fields: &str, status: &str, has: &[&str]) {
    // The demonstration would answer for the root; this tests files.
    let options = Options { demo: false, ..options() };
    let (reply, goes_on) = reply(FILES, &options, request(method, target, fields).as_bytes());
    assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{method} {target}: {reply}");
    for part in has {
        assert!(reply.contains(part), "{method} {target}: expected {part:?} in {reply}");
    }
    assert!(goes_on, "{reply}");
}

fn get(target: &str, status: &str, has: &[&str]) {
    check("GET", target, "", status, has);
}

#[test]
fn paths_and_what_they_lead_to() {
    get("/", "200", &["text/html", "\r\n\r\n<h1>root</h1>"]);
    get("/a.txt?x=y", "200", &["text/plain", "Content-Length: 10\r\n", "\r\n\r\n0123456789"]);
    get("/%61.t%78t", "200", &["0123456789"]);
    get("/empty", "200", &["Content-Length: 0\r\n", "application/octet-stream"]);
    get("/sub/", "200", &["<h1>sub</h1>"]);
    get("/sub", "301", &["Location: /sub/\r\n"]);
    get("//sub?q=1", "301", &["Location: /sub/?q=1\r\n"]);
    get("/sub/../a.txt", "200", &["0123456789"]);
    get("/a.txt/", "404", &[]);
    get("/list/", "200", &["./x%20y.txt\">x y.txt</a><td>7", "./deep/\">deep/", "../"]);
    get("/none", "404", &["there is no such page"]);
    get("/.secret", "404", &[]);
    get("/.well-known/a", "200", &["yes"]);
    get("/closed.txt", "403", &[]);
    check("HEAD", "/a.txt", "", "200", &["Content-Length: 10\r\n", "bytes\r\n"]);
    check("OPTIONS", "/a.txt", "", "204", &["Allow: GET, HEAD, OPTIONS\r\n"]);
    check("DELETE", "/a.txt", "", "405", &["Allow: GET, HEAD, OPTIONS\r\n"]);
    let closed = Options { listing: false, demo: false, ..options() };
    assert!(reply(FILES, &closed, request("GET", "/list/", "").as_bytes()).0.contains(" 403 "));
}

#[test]
fn conditions() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
    let get = |fields: &str, status: &str| {
        check("GET", "/c.png", fields, status, &[]);
        check("HEAD", "/c.png", fields, status, &[]);
    };
    let tag = "\"ae1b981bc490a01-9\"";
    check("GET", "/c.png", "", "200", &[tag, date]);
    get(&format!("If-None-Match: {tag}\r\n"), "304");
    get(&format!("If-None-Match: \"x\", W/{tag}\r\n"), "304");
    get(&format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), "304");
    get("If-None-Match: *\r\n", "304");
    get("If-None-Match: \"x\"\r\n", "200");
    get(&format!("If-Modified-Since: {date}\r\n"), "304");
    get(&format!("If-Modified-Since: {earlier}\r\n"), "200");
    get("If-Modified-Since: yesterday\r\n", "200");
    get(&format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}\r\n"), "200");
    get("If-Match: \"x\"\r\n", "412");
    get(&format!("If-Match: {tag}\r\n"), "200");
    get(&format!("If-Match: W/{tag}\r\n"), "412");
    get(&format!("If-Unmodified-Since: {earlier}\r\n"), "412");
    get(&format!("If-Unmodified-Since: {date}\r\n"), "200");
    let not_modified = request("GET", "/c.png", "If-None-Match: *\r\n");
    let demo = Options { demo: false, ..options() };
    let (reply, _) = reply(FILES, &demo, not_modified.as_bytes());
    assert!(reply.ends_with("\r\n\r\n") && !reply.contains("Content-Length"), "{reply}");
}

#[test]
fn a_file_from_the_future_was_modified_now() {
    let wall = WallClock::Fixed(Instant::ZERO, CHANGED_NS - 3_600_000_000_000);
    let options = Options { demo: false, wall, ..options() };
    let (reply, _) = reply(FILES, &options, request("GET", "/a.txt", "").as_bytes());
    let date = "Sun, 06 Nov 1994 07:49:37 GMT\r\n";
    for field in ["Date", "Last-Modified"] {
        assert!(reply.contains(&format!("{field}: {date}")), "{reply}");
    }
}

#[test]
fn a_clock_that_is_set_is_followed() {
    static SET_BY: AtomicU64 = AtomicU64::new(0);
    let wall = WallClock::Asked(|at| NOW_NS + at.ns() + SET_BY.load(Ordering::Relaxed));
    let options = Options { wall, record: Some(Format::default()), ..options() };
    let (web, journal) = (Web::new(options, MemoryFiles::new(FILES, true)), journal());
    let mut talk = Talk::new(&web, &journal);
    let input = request("GET", "/a.txt", "");
    let first = talk.say(&input);
    assert!(first.contains("Date: Sun, 06 Nov 1994 08:51:17 GMT"), "{first}");
    // Thirty days, as after the sleep of a machine.
    SET_BY.store(30 * 86_400 * 1_000_000_000, Ordering::Relaxed);
    let second = talk.say(&input);
    assert!(second.contains("Date: Tue, 06 Dec 1994 08:51:17 GMT"), "{second}");
    let mut lines = Vec::new();
    journal.take(&mut lines);
    let lines = String::from_utf8(lines).expect("text");
    assert!(lines.contains("[06/Nov/1994:") && lines.contains("[06/Dec/1994:"), "{lines}");
}

#[test]
fn ranges() {
    let part = |range: &str, want: &str, has: &str| {
        let fields = format!("Range: bytes={range}\r\n");
        let ending = format!("\r\n\r\n{want}");
        check(
            "GET",
            "/a.txt",
            &fields,
            "206",
            &[&ending, &format!("Content-Range: bytes {has}/10")],
        );
    };
    part("0-0", "0", "0-0");
    part("2-4", "234", "2-4");
    part("8-", "89", "8-9");
    part("-3", "789", "7-9");
    let why = "none of the ranges is within the file";
    check("GET", "/a.txt", "Range: bytes=10-\r\n", "416", &["Range: bytes */10\r\n", why]);
    check("GET", "/a.txt", "Range: lines=1\r\n", "200", &["0123456789"]);
    check("HEAD", "/a.txt", "Range: bytes=0-0\r\n", "200", &["Content-Length: 10"]);
    let if_range = |value: &str, status: &str| {
        let fields = format!("Range: bytes=0-0\r\nIf-Range: {value}\r\n");
        check("GET", "/a.txt", &fields, status, &[]);
    };
    if_range(TAG, "206");
    if_range("\"x\"", "200");
    if_range(&format!("W/{TAG}"), "200");
    if_range("Sun, 06 Nov 1994 08:49:37 GMT", "206");
    if_range("Sun, 06 Nov 1994 08:49:38 GMT", "200");
}

#[test]
fn several_ranges_in_one_body() {
    let options = Options { demo: false, ..options() };
    let input = request("GET", "/a.txt", "Range: bytes=0-1, 5-5, -2\r\n");
    let (reply, _) = reply(FILES, &options, input.as_bytes());
    let boundary = reply
        .lines()
        .find_map(|line| line.strip_prefix("Content-Type: multipart/byteranges; boundary="))
        .expect("a boundary");
    let part = |range: &str, text: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {range}/10\r\n\r\n{text}\r\n"
        )
    };
    let want = [part("0-1", "01"), part("5-5", "5"), part("8-9", "89")].concat();
    assert_eq!(body(&reply), format!("{want}--{boundary}--\r\n"));
    assert!(reply.contains(&format!("Content-Length: {}\r\n", body(&reply).len())), "{reply}");
}

#[test]
fn packed_files() {
    let accepts = |accept: &str, target: &str, want: &str, coding: Option<&str>| {
        let fields = format!("Accept-Encoding: {accept}\r\n");
        let encoding = coding.map(|coding| format!("Content-Encoding: {coding}\r\n"));
        check("GET", target, &fields, "200", &[want, encoding.as_deref().unwrap_or("")]);
    };
    accepts("gzip, br", "/a.txt", "packed by gzip", Some("gzip"));
    accepts("br;q=0.5, *;q=0", "/a.txt", "0123456789", None);
    accepts("gzip;q=0", "/a.txt", "0123456789", None);
    accepts("x-gzip", "/a.txt", "packed by gzip", Some("gzip"));
    accepts("*", "/b.txt", "packed by brotli", Some("br"));
    accepts("gzip", "/b.txt", "only brotli", None);
    accepts("gzip", "/c.png", "a picture", None);
    check("GET", "/a.txt", "", "200", &["Vary: Accept-Encoding\r\n", TAG]);
    check("GET", "/a.txt", "Accept-Encoding: gzip\r\n", "200", &["-e-gzip\"\r\n", "text/plain"]);
}

#[test]
fn a_file_that_is_shorter_than_it_said_ends_the_connection() {
    let mut memory_files = MemoryFiles::new(FILES, false);
    memory_files.shrunk = 4;
    let (web, journal) = (Web::new(options(), memory_files), journal());
    let mut talk = Talk::new(&web, &journal);
    let reply = talk.say(format!("{0}{0}", request("GET", "/a.txt", "")).as_bytes());
    assert!(reply.ends_with("\r\n\r\n012345") && talk.closes(), "{reply}");
}

#[test]
fn pages_for_errors_and_lines_for_the_log() {
    let page = ErrorPage { code: 404, kind: "text/html", body: b"<h1>lost</h1>"[..].into() };
    let options = Options { error_pages: vec![page], record: Some(Format::default()), ..options() };
    let (web, journal) = (Web::new(options, MemoryFiles::new(FILES, true)), journal());
    let mut talk = Talk::new(&web, &journal);
    let input = [
        request("GET", "/none", ""),
        request("GET", "/a.txt", "Range: bytes=1-2\r\n"),
        request("HEAD", "/json", ""),
        request("GET", "/work?ms=1", ""),
        "nonsense\r\n\r\n".to_owned(),
    ];
    let reply = talk.say(input.concat().as_bytes());
    assert!(reply.contains("text/html\r\nContent-Length: 13\r\n\r\n<h1>lost</h1>HTTP"), "{reply}");
    let mut lines = Vec::new();
    assert_eq!(journal.take(&mut lines), 0);
    let stamp = "local - - [06/Nov/1994:08:51:17 +0000]";
    let want = format!(
        "{stamp} \"GET /none HTTP/1.1\" 404 13\n{stamp} \"GET /a.txt HTTP/1.1\" 206 2\n\
         {stamp} \"HEAD /json HTTP/1.1\" 200 0\n{stamp} \"GET /work?ms=1 HTTP/1.1\" 200 5\n\
         {stamp} \"nonsense\" 400 "
    );
    let lines = String::from_utf8(lines).expect("text");
    assert!(lines.starts_with(&want), "{lines}");
    assert_eq!(lines.lines().count(), 5, "{lines}");
}
