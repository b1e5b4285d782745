//! The adapter for HTTP/1.1, in the simulator: framing, persistence, refusals, times.

use std::panic::{AssertUnwindSafe, catch_unwind};

use roundhouse::prelude::*;
use roundhouse::sim;

const SEEDS: u64 = 20;

fn answer(request: HttpRequest<'_>, response: &mut HttpResponse) {
    let length = request.body.len();
    match (request.method, request.path) {
        ("GET", "/") => response.text("hello\n"),
        ("GET", "/none") => drop(response.status(204)),
        ("GET", "/split") => response.field("X-Text", "a\r\nX-B: b").text(request.query),
        ("POST", _) => response.text(format!("{length} {}\n", request.body.escape_ascii())),
        ("OPTIONS", "*") => drop(response.status(204).field("Allow", "GET, POST")),
        _ => response.status(404).text("lost\n"),
    }
}

/// Each request of `talk` is `> REQUEST-LINE`, with a Host and an empty line added; the other lines
/// are those of [`sim::check`].
fn check(talk: &str, count: u64) {
    let mut service = http(answer);
    (service.dated, service.body_max) = (false, 10);
    let script = talk.lines().map(|line| match line.trim_start().strip_prefix("> ") {
        Some(first) => format!(">| {first}\\r\\nHost: a\\r\\n\\r\\n\n"),
        None => format!("{}\n", line.trim_start()),
    });
    sim::check(&service, &script.collect::<String>(), count);
}

const TEXT: &str = "Content-Type: text/plain; charset=utf-8\\r\\nContent-Length:";

#[test]
fn connections_persist_and_heads_have_no_body() {
    let talk = format!(
        r"> GET / HTTP/1.1
        <| HTTP/1.1 200 OK\r\n{TEXT} 6\r\n\r\nhello\n
        > HEAD / HTTP/1.1
        <| HTTP/1.1 200 OK\r\n{TEXT} 6\r\n\r\n
        > GET /none HTTP/1.1
        <| HTTP/1.1 204 No Content\r\n\r\n
        > GET /split?q=%20 HTTP/1.1
        <| HTTP/1.1 200 OK\r\nX-Text: a  X-B: b\r\n{TEXT} 5\r\n\r\nq=%20
        > OPTIONS * HTTP/1.1
        <| HTTP/1.1 204 No Content\r\nAllow: GET, POST\r\n\r\n
        > PUT /x HTTP/1.0
        <| HTTP/1.1 404 Not Found\r\n{TEXT} 5\r\nConnection: close\r\n\r\nlost\n
        = end"
    );
    check(&talk, SEEDS);
}

#[test]
fn bodies_come_by_length_and_by_chunks() {
    let post = "POST / HTTP/1.1\\r\\nHost: a\\r\\n";
    let talk = format!(
        r">| {post}Content-Length: 5\r\n\r\nabcde
        <| HTTP/1.1 200 OK\r\n{TEXT} 8\r\n\r\n5 abcde\n
        >| {post}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n
        <| HTTP/1.1 200 OK\r\n{TEXT} 6\r\n\r\n3 abc\n
        = end"
    );
    check(&talk, SEEDS);
    // The client holds its body back until it is invited.
    let talk = format!(
        r">| {post}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n
        <| HTTP/1.1 100 Continue\r\n\r\n
        >| ab
        <| HTTP/1.1 200 OK\r\n{TEXT} 5\r\n\r\n2 ab\n
        = end"
    );
    let mut service = http(answer);
    service.dated = false;
    let golden = talk.lines().map(|line| format!("{}\n", line.trim_start()));
    let golden = sim::Golden::parse(&golden.collect::<String>()).expect("a conversation");
    golden.play(&service, || (), &sim::Faults::calm(), 0);
}

#[test]
fn requests_that_repeat_a_head_have_bodies_of_their_own() {
    let post = r"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
    let get = r"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let ok = format!(r"HTTP/1.1 200 OK\r\n{TEXT}");
    let talk = format!(
        r">| {post}ab{post}cd{get}{get}{post}ef
        <| {ok} 5\r\n\r\n2 ab\n{ok} 5\r\n\r\n2 cd\n
        <| {ok} 6\r\n\r\nhello\n{ok} 6\r\n\r\nhello\n{ok} 5\r\n\r\n2 ef\n"
    );
    check(&talk, SEEDS);
}

#[test]
fn what_is_refused_ends_the_connection() {
    let close = "Connection: close\\r\\n\\r\\n";
    let table = "\
POST / HTTP/1.1^Host: a^Content-Length: 11^^|413 Content Too Large|expected a shorter body
POST / HTTP/1.1^Host: a^Transfer-Encoding: chunked^^b^0123456789a^|413 Content Too Large|\
    expected a shorter body
GET /../x HTTP/1.1^Host: a^^|400 Bad Request|\
    expected a path below the root, found one that climbs above it
GET /%ff HTTP/1.1^Host: a^^|400 Bad Request|expected a path in UTF-8
GET / HTTP/1.1^^|400 Bad Request|expected exactly one Host field that names a host
GET / HTTP/2.0^Host: a^^|505 HTTP Version Not Supported|\
    expected HTTP/1.0 or HTTP/1.1, found another major version";
    for line in table.lines() {
        let [request, status, why] = line.split('|').collect::<Vec<_>>()[..] else { panic!() };
        let (request, length) = (request.replace('^', "\\r\\n"), why.len() + 1);
        let reply = format!("HTTP/1.1 {status}\\r\\n{TEXT} {length}\\r\\n{close}{why}\\n");
        check(&format!(">| {request}\n<| {reply}\n= closed"), SEEDS);
    }
}

#[test]
fn a_slow_request_gets_a_timeout_and_an_idle_client_is_closed() {
    let mut service = http(answer);
    (service.dated, service.patience) = (false, Duration::from_millis(50));
    let heard = |acts| {
        let clients = vec![sim::Client { acts, ..sim::Client::default() }];
        let faults = sim::Faults::calm();
        let heard = sim::run(&service, &(), &sim::Script { clients }, &faults, 1);
        assert_eq!(heard.lawful(), Ok(()));
        assert_eq!(heard.only().end, sim::End::Closed);
        String::from_utf8_lossy(&heard.only().bytes).into_owned()
    };
    let late = heard(vec![sim::Act::Send(b"GET / HT".to_vec()), sim::Act::Stay]);
    assert!(late.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{late}");
    assert_eq!(heard(vec![sim::Act::Stay]), "");
}

#[test]
fn a_failure_names_the_limit_that_was_reached() {
    let mut service = http(answer);
    (service.dated, service.patience) = (false, Duration::from_secs(1));
    let get = r"> GET / HTTP/1.1\r\nHost: a\r\n\r";
    let script = format!("{get}\n<| HTTP/1.1 200 OK\\r\\n{TEXT} 6\\r\\n\\r\\nhello\\n\n");
    let check = AssertUnwindSafe(|| sim::check(&service, &script, 100));
    let failure = catch_unwind(check).expect_err("the network is slower than that");
    let why = failure.downcast_ref::<String>().expect("a text");
    assert!(why.contains("was reached: `patience`, 1s for a request."), "{why}");
}
