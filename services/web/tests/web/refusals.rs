//! Ambiguous requests are answered once, and nothing after them is read.

use super::talk::{Talk, body, journal, options, reply, request};
use ::web::{MemoryFiles, Options, Web};

/// The request after every request here; a reply to it shows that it was read.
const NEXT: &str = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";

/// Expects one reply with this status, and the end.
#[track_caller]
fn refused(input: &str, status: u16) {
    let (found, goes_on) = reply(&[], &options(), format!("{input}{NEXT}").as_bytes());
    let statuses: Vec<&str> = found.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(statuses, [status.to_string()], "{input:?}: {found}");
    assert!(!goes_on && found.contains("Connection: close\r\n"), "{input:?}: {found}");
    assert!(found.contains("Date: Sun, 06 Nov 1994 08:51:17 GMT\r\n"), "{found}");
}

/// Expects a reply with this status, and then that of the next request.
#[track_caller]
fn goes_on(input: &str, status: u16) -> String {
    let (found, goes_on) = reply(&[], &options(), format!("{input}{NEXT}").as_bytes());
    assert!(found.starts_with(&format!("HTTP/1.1 {status} ")), "{input:?}: {found}");
    assert!(goes_on && found.ends_with("\r\n\r\nHello, World!"), "{input:?}: {found}");
    found
}

/// Under overload each request is refused where it begins, and the connection stays.
#[test]
fn an_overload_refuses_requests_and_keeps_the_connection() {
    let journal = journal();
    let web = Web::new(options(), MemoryFiles::new(&[("a.txt", "text")], true));
    let mut talk = Talk::new(&web, &journal);
    let check = |talk: &mut Talk<'_>, input: &str, statuses: &[&str]| {
        let heard = talk.say(input.as_bytes());
        let found: Vec<&str> = heard.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
        assert_eq!(found, statuses, "{input:?}: {heard}");
        let retries = heard.matches("\r\nRetry-After: 1\r\n").count();
        assert_eq!(retries, found.iter().filter(|it| **it == "503").count(), "{heard}");
        assert!(!talk.closes());
    };
    let work = request("GET", "/work?ms=1", "");
    check(&mut talk, &work, &["200"]);
    talk.effects.set_overloaded(true);
    let file = request("GET", "/a.txt", "");
    let many = format!("{work}{file}{}{NEXT}", post("Content-Length: 4\r\n", "body"));
    check(&mut talk, &many, &["503", "503", "503", "200"]);
    talk.effects.set_overloaded(false);
    check(&mut talk, &many, &["200", "200", "200", "200"]);
}

fn post(fields: &str, body: &str) -> String {
    format!("{}{body}", request("POST", "/", fields))
}

/// One ambiguity for each part of a request and each status: one reply, and the end. The tests of
/// `wire::http` have all of them.
#[test]
fn what_is_ambiguous_ends_the_conversation() {
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    refused(&post(&format!("{length}{length}"), "hello"), 400);
    refused(&post(&format!("{length}{chunked}"), "0\r\n\r\n"), 400);
    refused(&post("Content_Length: 5\r\n", "hello"), 400);
    refused(&post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501);
    refused(&format!("POST / HTTP/1.0\r\n{chunked}\r\n0\r\n\r\n"), 400);
    for bad in ["5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "0\r\nX : y\r\n\r\n"] {
        refused(&post(chunked, bad), 400);
    }
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", 400);
    refused("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n\r\n", 400);
    for target in ["/..", "/%2e%2e/etc", "/a%2fb", "/%00", "a", "http://u:p@h/", "http://:80/"] {
        refused(&request("GET", target, ""), 400);
    }
    refused("\u{16}\u{3}\u{1}\r\n\r\n", 400);
}

#[test]
fn limits() {
    refused(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(8192)), 414);
    refused(&request("GET", "/", &format!("X: {}\r\n", "a".repeat(16 * 1024))), 431);
    refused(&request("GET", "/", &"X: y\r\n".repeat(100)), 431);
    goes_on(&request("GET", "/", &"X: y\r\n".repeat(99)), 200);
    refused("POST / HTTP/1.0\r\n\r\n", 411);
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    refused(&request("BREW", "/", ""), 501);
    refused(&request("get", "/", ""), 501);
    refused(&request("GET", "/", "Expect: a miracle\r\n"), 417);
    refused(&post("Content-Length: 1048577\r\n", "x"), 413);
    refused(&post("Content-Length: 99999999999\r\nExpect: 100-continue\r\n", ""), 413);
    refused(&request("PUT", "/", "Content-Length: 5000000\r\n"), 405);
    let small = Options { body_max: 5, ..options() };
    let chunks = post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    let (found, goes_on) = reply(&[], &small, format!("{chunks}{NEXT}").as_bytes());
    assert!(found.starts_with("HTTP/1.1 413 ") && !goes_on, "{found}");
    assert_eq!(found.matches("HTTP/1.1").count(), 1, "{found}");
}

#[test]
fn what_is_refused_and_goes_on() {
    let allow = "Allow: GET, HEAD, POST, OPTIONS\r\n";
    for method in ["PUT", "DELETE", "PATCH", "TRACE"] {
        assert!(goes_on(&request(method, "/", ""), 405).contains(allow));
    }
    goes_on(&request("CONNECT", "a:80", ""), 405);
    goes_on(&request("GET", "/none", ""), 404);
    goes_on(&format!("{}hello", request("DELETE", "/", "Content-Length: 5\r\n")), 405);
    goes_on(&format!("{}hello", request("GET", "/none", "Content-Length: 5\r\n")), 404);
    goes_on("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 200);
    goes_on(&request("GET", "/work?ms=10001", ""), 400);
    goes_on(&request("GET", "/sleep", ""), 400);
    goes_on(&request("GET", "/dynamic?rows=-1", ""), 400);
    assert!(goes_on(&request("OPTIONS", "*", ""), 204).contains(allow));
}

#[test]
fn the_answer_to_head_never_has_a_body() {
    let long = "a".repeat(8192);
    for (input, status) in [
        ("HEAD / HTTP/1.1\r\n\r\n", 400),
        ("\r\nHEAD /.. HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (&format!("HEAD /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (&request("HEAD", "/", "Expect: a miracle\r\n"), 417),
        (&request("HEAD", "/", &"X: y\r\n".repeat(100)), 431),
        (&request("HEAD", "/", "Transfer-Encoding: gzip, chunked\r\n"), 501),
        ("HEAD / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ] {
        let (found, goes_on) = reply(&[], &options(), input.as_bytes());
        assert!(found.starts_with(&format!("HTTP/1.1 {status} ")), "{input:?}: {found}");
        assert!(!goes_on && found.contains("Content-Length: "), "{input:?}: {found}");
        assert_eq!(body(&found), "", "{input:?}");
    }
    let (journal, web) = (journal(), Web::new(options(), MemoryFiles::default()));
    let mut talk = Talk::new(&web, &journal);
    talk.say(b"HEAD / HTTP/1.1\r\nHost:");
    let found = talk.ends();
    assert!(found.starts_with("HTTP/1.1 400 ") && body(&found).is_empty(), "{found}");
}

#[test]
fn the_routes() {
    let says = |input: &str, want: &str| {
        let (found, goes_on) = reply(&[], &options(), input.as_bytes());
        assert!(found.starts_with("HTTP/1.1 200 OK\r\nServer: roundhouse\r\nDate: "), "{found}");
        assert_eq!((body(&found), goes_on), (want, true), "{input:?}");
    };
    let get = |target: &str| request("GET", target, "");
    says(&get("/"), "OK");
    says(&get("/?x"), "OK");
    says(&get("http://a/"), "OK");
    says(&get("/plaintext"), "Hello, World!");
    says(&get("/json"), "{\"message\":\"Hello, World!\"}");
    says(&request("HEAD", "/json", ""), "");
    says(&post("Content-Length: 5\r\n", "hello"), "hello");
    says(
        &post("Transfer-Encoding: chunked\r\n", "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n"),
        "hello",
    );
    says(&post("Transfer-Encoding: chunked\r\n", "5 ; a = b\r\nhello\r\n0\r\n\r\n"), "hello");
    says(&post("", ""), "");
    says(&request("GET", "/echo", "X-Y:  z \r\nx-y: \r\n"), "Host: a\nX-Y: z\nx-y: \n");
    says(
        &request("GET", "/cookie", "Cookie: a=b; c=d=e;f; =g\r\ncookie: h=\r\n"),
        "a=b\nc=d=e\nh=\n",
    );
    let rows = "<tr><td>1<td>1<td>1\n<tr><td>2<td>4<td>5\n";
    let page = format!("<!doctype html>\n<title>Squares</title>\n<table>\n{rows}</table>\n");
    says(&get("/dynamic?a=1&rows=2&rows=3"), &page);
    says(&get("/work?ms=3"), "done\n");
    says(&get("/sleep?ms=3"), "done\n");
    says(&format!("{}hello", request("GET", "/", "Content-Length: 5\r\n")), "OK");
}

#[test]
fn the_client_that_waits_is_told_to_go_on() {
    let expects = "Expect: 100-continue\r\nContent-Length: 5\r\n";
    let (found, goes_on) = reply(&[], &options(), post(expects, "hello").as_bytes());
    let (first, rest) = found.split_once("\r\n\r\n").expect("two heads");
    assert_eq!((first, body(rest), goes_on), ("HTTP/1.1 100 Continue", "hello", true));
    // A request that is refused anyway gets that status instead of 100.
    let input = format!("{}hello", request("DELETE", "/", expects));
    let (found, goes_on) = reply(&[], &options(), input.as_bytes());
    assert!(found.starts_with("HTTP/1.1 405 ") && !goes_on, "{found}");
    let old = "GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    let (found, goes_on) = reply(&[], &options(), old.as_bytes());
    assert!(found.starts_with("HTTP/1.1 200 ") && !goes_on, "{found}");
}

#[test]
fn connections_go_on_as_their_version_has_it() {
    let ends = |input: &str, want: &str| {
        let (found, goes_on) = reply(&[], &options(), input.as_bytes());
        assert!(!goes_on && found.contains(want), "{found}");
    };
    ends("GET / HTTP/1.0\r\n\r\n", "Connection: close\r\n");
    ends(&request("GET", "/", "Connection: x, close\r\n"), "Connection: close\r\n");
    let (found, goes_on) =
        reply(&[], &options(), b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(goes_on && found.contains("Connection: keep-alive\r\n"), "{found}");
}
