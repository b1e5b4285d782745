//! Flows without sockets: what a user sends after which replies.

use super::*;
use crate::faults::Faults;
use crate::parse::Proxy;
use crate::script::har;
use std::path::Path;

const LOGIN: &str = r#"
[[flow]]
name = "shop"

[[flow.step]]
name = "login"
path = "/login?u=${user}"
json = { name = "a\"b", number = 7 }
take.token = { json = "/token" }
take.next = { header = "Location" }
take.sid = { cookie = "sid" }
expect = { status = ["2xx", 302], header = { "Content-Type" = "json" } }

[[flow.step]]
name = "read"
path = "${next}"
headers = { Authorization = "Bearer ${token}" }
take.id = { regex = 'id=(\d+)' }
think = "5ms"
expect.contains = "${token}"

[[flow.step]]
name = "add"
form = { id = "${id}", "a b" = "${sid}&" }
path = "/add"
expect.json = { "/items/0/id" = "${id}", "/ok" = true }
"#;

fn parsed(text: &str) -> Result<Flows, Usage> {
    let target = "http://127.0.0.1:8".parse().expect("a target");
    Flows::parse(text, Path::new(""), &target, &[("X-All".to_owned(), "1".to_owned())])
}

/// One user with the script, the errors so far, and the log's room.
struct Talk(FlowScript, Faults);

impl Talk {
    fn new(text: &str) -> Self {
        let flows = parsed(text).unwrap_or_else(|Usage(why)| panic!("{why}"));
        Self::of(flows)
    }

    fn of(flows: Flows) -> Self {
        let counters = flows.counters();
        let mut script = FlowScript::new(flows.into(), counters, 1, false, 1);
        script.enter(0);
        script.open(0);
        Self(script, Faults::default())
    }

    fn asks(&mut self) -> String {
        let mut out = Vec::new();
        self.0.ask(0, 1, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn receives(&mut self, bytes: &[u8]) -> Replies {
        self.0.receive(0, bytes, &mut ReplyLog::new(&mut self.1, None))
    }

    /// Asks, and receives a reply of these fields and this body.
    fn step(&mut self, fields: &str, body: &str) -> String {
        let asked = self.asks();
        let reply = format!("HTTP/1.1 {fields}Content-Length: {}\r\n\r\n{body}", body.len());
        let replies = self.receives(reply.as_bytes());
        assert_eq!((replies.used, replies.done), (reply.len(), 1), "{asked}: {:?}", self.1);
        asked
    }

    fn error(&self) -> &str {
        self.1.list.first().map_or("", |fault| &fault.example)
    }
}

const SET: &str = "302 Found\r\nContent-Type: application/json\r\nLocation: http://a:1/b?c\r\n\
                   Set-Cookie: sid=9; HttpOnly\r\n";

#[test]
fn a_step_sends_what_earlier_replies_said() {
    let mut talk = Talk::new(LOGIN);
    let asked = talk.step(SET, r#"{"token":"t1"}"#);
    let body = r#"{"name":"a\"b","number":7}"#;
    let fields = "Host: 127.0.0.1:8\r\nContent-Type: application/json\r\nContent-Length: 26\r\n";
    let want = format!("POST /login?u=1 HTTP/1.1\r\n{fields}X-All: 1\r\n\r\n{body}");
    assert_eq!(asked, want);
    let want = "GET /b?c HTTP/1.1\r\nHost: 127.0.0.1:8\r\nX-All: 1\r\nAuthorization: Bearer t1\r\n\
                Cookie: sid=9\r\n\r\n";
    assert_eq!(talk.asks(), want);
    // A chunk may be cut anywhere, so the driver offers the rest again with more.
    let reply =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nid=\r\n5\r\n42 t1\r\n0\r\n\r\n";
    let (mut held, mut done) = (Vec::new(), 0);
    for byte in reply {
        held.push(*byte);
        let replies = talk.receives(&held);
        held.drain(..replies.used);
        done += replies.done;
    }
    assert_eq!((done, held.len()), (1, 0));
    assert_eq!(talk.0.pause(0), Some(Duration::from_millis(5)));
    let asked = talk.step("200 OK\r\n", r#"{"items":[{"id":42}],"ok":true}"#);
    assert!(
        asked.ends_with("\r\nCookie: sid=9\r\nContent-Length: 14\r\n\r\na+b=9%26&id=42"),
        "{asked}"
    );
    assert!(talk.1.is_empty() && talk.0.is_through(0) && talk.0.pause(0).is_none(), "{:?}", talk.1);
    let Check { ok, detail, .. } = talk.0.verdict(b"", &[vec![2, 0, 1, 0]]);
    assert_eq!((ok, &*detail), (false, "1 of 5 replies are not as expected: read 1"));
}

#[test]
fn a_broken_expectation_names_its_step() {
    /// The words after `expected` about a reply to the first step, and whether the iteration ends.
    fn check(step: &str, fields: &str, body: &str, want: &str, ends: bool) {
        let text = format!(
            "[[flow]]\nname='f'\n[[flow.step]]\nname='one'\npath='/'\n{step}\n[[flow.step]]\n\
             name='two'\npath='/'"
        );
        let mut talk = Talk::new(&text);
        talk.step(fields, body);
        let want = format!("one: expected {want}");
        assert!(talk.error().starts_with(&want), "{step}: {:?}", talk.1);
        assert_eq!(talk.0.is_through(0), ends, "{step}");
    }
    let ok = "200 OK\r\n";
    let no = "401 No\r\n";
    check("", no, "", "status 200 to 399, found 401", false);
    check("expect.status = 201", ok, "", "status 201, found 200", false);
    check("expect.status = [404, '5xx']", ok, "", "status 404 or 5xx", false);
    check("expect.contains = 'tea'", ok, "te", "`tea` in the body, found `te`", false);
    let json = "expect.json = { '/a' = 1 }";
    check(json, ok, "{\"a\":2}", "1 at /a, found `2`", false);
    check(json, ok, "{}", "1 at /a, found none", false);
    check(json, ok, "<p>", "JSON, found `<p>`", false);
    check("expect.header = { ETag = 'x' }", ok, "", "`x` in ETag, found none", false);
    check("take.t = { json = '/t' }", ok, "{\"t\":null}", "t at /t, found `null`", true);
    check("take.t = { json = '/t' }", no, "no", "status 200", true);
    check("take.t = { regex = 'x' }", ok, "y", "t by `x`, found `y`", true);
    check("take.t = { cookie = 's' }", ok, "", "t in the cookie s, found none", true);
    check("take.t = { header = 'L' }", ok, "", "t in the field L, found none", true);
    let great = "x".repeat(BODY_MAX + 1);
    check("take.t = { regex = 'x' }", ok, &great, "a body of at most 1048576 bytes", true);
    let coded = "200 OK\r\nContent-Encoding: gzip\r\n";
    check("expect.contains = 'x'", coded, "x", "a body without Content", false);
}

#[test]
fn a_lost_reply_ends_the_iteration_and_a_new_user_has_nothing() {
    let mut talk = Talk::new(LOGIN);
    talk.step(SET, r#"{"token":"t1"}"#);
    assert!(talk.asks().starts_with("GET /b?c ") && talk.0.may_repeat(0));
    talk.0.close(0);
    let body = "id=1 t1";
    assert!(talk.step("200 OK\r\n", body).starts_with("GET /b?c "), "harmless, so asked again");
    assert!(talk.asks().starts_with("POST /add ") && !talk.0.may_repeat(0));
    talk.0.close(0);
    assert!(talk.0.is_through(0), "no reply, no later steps");
    let asked = talk.asks();
    assert!(asked.starts_with("POST /login?u=1 ") && asked.contains("\r\nCookie: sid=9\r\n"));
    talk.0.close(0);
    talk.0.enter(0);
    let asked = talk.asks();
    assert!(asked.starts_with("POST /login?u=2 ") && !asked.contains("Cookie"), "{asked}");
    let replies = talk.receives(b"HTTP/2.0 nonsense");
    assert!(
        replies.over && replies.wrong == 1 && talk.error().starts_with("login: "),
        "{:?}",
        talk.1
    );
}

#[test]
fn flows_are_drawn_by_weight_and_rows_come_in_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.csv"), "n\n1\n2\n3\n").expect("our own file");
    let text = "[[flow]]\nname='a'\nweight=3\ndata='a.csv'\n[[flow.step]]\nname='s'\n\
                path='/a${n}'\n[[flow]]\nname='b'\n[[flow.step]]\nname='s'\npath='/b${iteration}'";
    let target = "http://127.0.0.1:8".parse().expect("a target");
    let flows = Flows::parse(text, folder.path(), &target, &[]).expect("two flows");
    let mut talk = Talk::of(flows);
    assert_eq!(talk.0.kinds(), ["a/s", "b/s"]);
    let asked: Vec<String> = (0..400).map(|_| talk.step("200 OK\r\n", "")).collect();
    let of_a: Vec<&str> = asked.iter().filter_map(|asked| asked.strip_prefix("GET /a")).collect();
    assert!((250..350).contains(&of_a.len()), "{}", of_a.len());
    for (at, row) in of_a.iter().enumerate() {
        assert!(row.starts_with(&format!("{} ", at % 3 + 1)), "{at}: {row}");
    }
}

#[test]
fn an_error_in_a_file_has_its_line() {
    fn check(step: &str, want: &str) {
        let text = format!("[[flow]]\nname = 'f'\n[[flow.step]]\nname = 'one'\n{step}");
        let Usage(why) = parsed(&text).expect_err(step);
        assert!(why.contains(want), "{step}: {why}");
    }
    check("", "missing field `path`");
    check("path = '/'\nmehtod = 'GET'", "line 6, column 1");
    check("path = '/'\nmehtod = 'GET'", "unknown field `mehtod`, expected one of `name`, `method`");
    check("path = 7", "invalid type: integer `7`, expected a string");
    check("path = 'a b'", "line 4, `one`: expected a path such as /index.html");
    check("path = '/${id}'", "line 4, `one`: expected a variable that is known here");
    check("path = '/'\ntake.id = { xml = 'a' }", "expected one of `json`, `header`");
    check("path = '/'\ntake.id = { regex = '(' }", "unclosed group");
    check("path = '/'\ntake.id = { json = 'id' }", "expected a place in JSON such as /items/0");
    check("path = '/'\ntake.'a b' = { json = '/id' }", "expected a name of letters");
    check("path = '/'\nbody = 'a'\njson = 1", "expected one of `body`, `json` and `form`");
    check("path = '/'\njson = { at = 2026-01-01 }", "expected a date in quotes");
    check("path = '/'\nexpect.status = '6xx'", "expected a status such as 200 or \"2xx\"");
    check("path = '/'\nthink = 'long'", "expected a pause such as 100ms");
    check("path = '/'\nheaders = { 'a b' = 'c' }", "expected a header such as");
    let twice = "path = '/'\n[[flow.step]]\nname = 'one'\npath = '/'";
    check(twice, "line 7, `one`: expected a name for each step");
    check("path = '/'\n[[flow]]\nname = 'g'\nstep = []", "line 7, `g`: expected a step or more");
    check("path = '/'\n[[flow]]\nname = 'g'\nweight = 0\nstep = []", "expected a weight from 1");
    check("path = '/'\n[[flow]]\nname = 'g'\ndata = 'no.csv'\nstep = []", "no.csv: cannot read");
}

#[test]
fn a_recording_becomes_a_flow() {
    let fields = r#"[{"name":"Accept","value":"*/*"},{"name":"Cookie","value":"a=b"},
        {"name":"Sec-Fetch-Mode","value":"cors"},{"name":"If-None-Match","value":"x"}]"#;
    let entry = |method: &str, url: &str, more: &str, status: u16| {
        format!(
            r#"{{"request":{{"method":"{method}","url":"{url}","headers":{fields}{more}}},
            "response":{{"status":{status}}}}}"#
        )
    };
    let entries = [
        entry("GET", "/a.css?b", "", 200),
        entry("POST", "/login", r#","postData":{"text":"{\"a\":\"${x}\\n\"}"}"#, 200),
        entry("GET", "/a.css", "", 404),
    ];
    let har_text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
    let target = "http://127.0.0.1:8".parse().expect("a target");
    let (requests, _) = har(har_text.as_bytes(), &target, false).expect("three requests");
    let text = flow_of(&requests);
    let mut talk = Talk::new(&text);
    assert_eq!(talk.0.kinds(), ["GET /a.css", "POST /login", "GET /a.css (2)"], "{text}");
    let get = "GET /a.css?b HTTP/1.1\r\nHost: 127.0.0.1:8\r\nX-All: 1\r\naccept: */*\r\n\r\n";
    assert_eq!(talk.step("200 OK\r\n", ""), get);
    let post = talk.step("200 OK\r\n", "");
    assert!(post.ends_with("\r\n\r\n{\"a\":\"${x}\\n\"}"), "{post}");
    talk.step("404 Not Found\r\n", "");
    assert!(talk.1.is_empty(), "{:?}", talk.1);
}

#[test]
fn a_proxy_is_asked_for_the_whole_url_of_a_step() {
    let mut target: Target = "http://127.0.0.1:8".parse().expect("a target");
    target.ask_proxy(Proxy::default()).expect("plain HTTP/1.1");
    let mut talk = Talk::of(Flows::parse(LOGIN, Path::new(""), &target, &[]).expect("flows"));
    let mut asked = Vec::new();
    talk.0.ask(0, 1, &mut asked);
    let asked = String::from_utf8_lossy(&asked);
    assert!(asked.starts_with("POST http://127.0.0.1:8/login?u="), "{asked}");
}
