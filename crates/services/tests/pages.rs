//! The pages service through the seam: the reply to each request, under any split, and how the
//! stream continues, ends and resumes.

use memory::Region;
use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, SessionId, WorkerId};
use services::pages::{Bulletin, Page, Pages};
use sim::{Act, Case, Client, Faults, Script};
use std::time::Duration;

const TOKEN: u64 = 0x5eed;

fn founded(editions: &[&str]) -> Region<Bulletin> {
    let bulletin = Region::<Bulletin>::alone(&TOKEN.to_le_bytes());
    for text in editions {
        bulletin.publish(text.as_bytes()).expect("short");
    }
    bulletin
}

fn service() -> Pages {
    let page = |path: &str, body: &str| Page {
        path: path.to_owned(),
        kind: "text/html; charset=utf-8",
        fields: vec![("Referrer-Policy", "no-referrer".to_owned())],
        body: body.as_bytes().into(),
    };
    Pages::new(vec![page("/", "<h1>root</h1>"), page("/report.html", "<h1>report</h1>")])
}

#[test]
fn a_name_that_can_be_rebound_is_refused() {
    let (pages, bulletin) = (service(), founded(&["{}"]));
    for (host, status) in [("evil.example", "403"), ("127.0.0.1:9", "200"), ("localhost", "200")] {
        let mut talk = Talk::new(&pages, &bulletin);
        let reply = talk.say(&format!("GET /state.json HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {reply}");
    }
}

/// One connection; the test sets its clock.
struct Talk<'a> {
    pages: &'a Pages,
    bulletin: &'a Bulletin,
    effects: Effects,
    conn: Conn<Pages>,
    now: Instant,
}

impl<'a> Talk<'a> {
    fn new(pages: &'a Pages, bulletin: &'a Bulletin) -> Talk<'a> {
        let effects = Effects::new(false, false);
        let now = Instant::from_ns(5);
        let cx = Cx::new(now, ME, WorkerId::new(0, 1), bulletin, &effects);
        let conn = Conn::open(pages, &cx, Peer::Local, &mut Buffers::new(1));
        Talk { pages, bulletin, effects, conn, now }
    }

    fn with(&mut self, event: impl FnOnce(&mut Conn<Pages>, &Pages, &Cx<'_, Bulletin>)) -> String {
        let cx = Cx::new(self.now, ME, WorkerId::new(0, 1), self.bulletin, &self.effects);
        event(&mut self.conn, self.pages, &cx);
        let mut bytes = Vec::new();
        while let Some(part) = self.conn.out().take() {
            bytes.extend_from_slice(part.in_memory().expect("no files are served"));
            self.conn.landed(self.pages, &cx, part.len());
        }
        String::from_utf8(bytes).expect("all texts are ASCII")
    }

    fn say(&mut self, text: &str) -> String {
        self.with(|conn, pages, cx| conn.feed(pages, cx, text.as_bytes()))
    }

    fn after(&mut self, span: Duration) -> String {
        self.now = self.now + span;
        self.with(|conn, pages, cx| conn.deadline(pages, cx))
    }

    fn closes(&self) -> bool {
        self.conn.wants().close
    }
}

const ME: SessionId = SessionId::new(0, 0, 1);

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: [::]\r\n\r\n")
}

#[test]
fn requests_and_their_replies() {
    fn check(request: &str, status: &str, has: &[&str], goes_on: bool) {
        let (pages, bulletin) = (service(), founded(&["{\"a\":1}"]));
        let mut talk = Talk::new(&pages, &bulletin);
        let reply = talk.say(request);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {reply}");
        for part in has {
            assert!(reply.contains(part), "{request:?}: expected {part:?} in {reply}");
        }
        assert_eq!(!talk.closes(), goes_on, "{request:?}: {reply}");
    }
    let root = "Content-Type: text/html; charset=utf-8\r\n";
    check(&get("/"), "200 OK", &[root, "Content-Length: 13\r\n", "\r\n\r\n<h1>root</h1>"], true);
    check(&get("/?x=1"), "200 OK", &["Referrer-Policy: no-referrer\r\n"], true);
    check(&get("http://a/%72eport.html"), "200 OK", &["<h1>report</h1>"], true);
    check(&get("/state.json"), "200 OK", &["application/json", "\r\n\r\n{\"a\":1}"], true);
    check(&get("/nothing"), "404", &["\r\n\r\nthere is no such page"], true);
    check(&get("/../etc"), "400", &["Connection: close"], false);
    check("GET / HTTP/1.0\r\n\r\n", "200", &["Connection: close"], false);
    check("HEAD / HTTP/1.1\r\nHost: [::]\r\n\r\n", "200", &["Content-Length: 13\r\n"], true);
    check("HEAD /events HTTP/1.1\r\nHost: [::]\r\n\r\n", "200", &["text/event-stream"], false);
    check("OPTIONS * HTTP/1.1\r\nHost: [::]\r\n\r\n", "405", &["Allow: GET, HEAD"], true);
    check("BREW / HTTP/1.1\r\nHost: [::]\r\n\r\n", "501", &[], false);
    let post = "POST / HTTP/1.1\r\nHost: [::]\r\nContent-Length: 9\r\n\r\nGET / HTT";
    check(post, "413", &["expected no body"], false);
    check("GET / HTTP/1.1\r\n\r\n", "400", &["Host"], false);
    check("GET / HTTP/1.1\nHost: [::]\n\n", "400", &["CR LF"], false);
    check("GET / HTTP/3.0\r\nHost: [::]\r\n\r\n", "505", &[], false);
    check("\u{16}\u{3}\u{1}\n", "400", &[], false);
}

#[test]
fn a_body_for_head_is_never_sent_and_a_document_may_be_missing() {
    let (pages, bulletin) = (service(), founded(&[]));
    let mut talk = Talk::new(&pages, &bulletin);
    let reply = talk.say("HEAD / HTTP/1.1\r\nHost: [::]\r\n\r\n");
    assert!(reply.ends_with("\r\n\r\n") && !reply.contains("<h1>"), "{reply}");
    assert!(talk.say(&get("/state.json")).starts_with("HTTP/1.1 503 "));
    for (fields, status) in [("Content-Length: 5", 413), ("X : y", 400)] {
        let mut talk = Talk::new(&pages, &bulletin);
        let reply = talk.say(&format!("HEAD / HTTP/1.1\r\nHost: [::]\r\n{fields}\r\n\r\n"));
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
        assert!(reply.ends_with("\r\n\r\n"), "{reply}");
    }
}

#[test]
fn a_stream_tells_each_edition_once_and_the_last_one_at_the_end() {
    let (pages, bulletin) = (service(), founded(&["one"]));
    let mut talk = Talk::new(&pages, &bulletin);
    let begin = talk.say(&get("/events"));
    assert!(begin.contains("Transfer-Encoding: chunked\r\n"), "{begin}");
    assert!(begin.contains("retry: 1000\n\n") && begin.contains("data: one\n\n"), "{begin}");
    assert_eq!(talk.after(Duration::from_secs(1)), "");
    bulletin.publish(b"two").expect("short");
    bulletin.publish(b"three\nlines").expect("short");
    let news = talk.after(Duration::from_secs(1));
    assert_eq!(news, "24\r\nid: 5eed-3\ndata: three\ndata: lines\n\n\r\n");
    assert_eq!(talk.after(Duration::from_secs(11)), "e\r\n: still here\n\n\r\n");
    assert_eq!(talk.say("GET / HTTP/1.1\r\n"), "", "who listens is not heard");
    bulletin.publish(b"over").expect("short");
    let end = talk.with(|conn, pages, cx| conn.drain(pages, cx));
    assert!(end.contains("data: over\n\n") && end.ends_with("0\r\n\r\n"), "{end}");
    assert!(talk.closes());
}

#[test]
fn who_comes_back_is_told_what_is_new_and_only_that() {
    fn check(id: &str, want: bool) {
        let (pages, bulletin) = (service(), founded(&["one", "two"]));
        let mut talk = Talk::new(&pages, &bulletin);
        let request = format!("GET /events HTTP/1.1\r\nHost: [::]\r\nLast-Event-ID: {id}\r\n\r\n");
        assert_eq!(talk.say(&request).contains("data: two"), want, "{id}");
    }
    check("5eed-2", false);
    check("5eed-1", true);
    check("bad-2", true);
    check("5eed", true);
    check("\u{ff}", true);
}

#[test]
fn http_1_0_hears_the_stream_without_chunks() {
    let (pages, bulletin) = (service(), founded(&["one"]));
    let mut talk = Talk::new(&pages, &bulletin);
    let begin = talk.say("GET /events HTTP/1.0\r\n\r\n");
    assert!(begin.ends_with("\r\n\r\nretry: 1000\n\nid: 5eed-1\ndata: one\n\n"), "{begin}");
}

#[test]
fn patience_ends() {
    let (pages, bulletin) = (service(), founded(&[]));
    let mut talk = Talk::new(&pages, &bulletin);
    assert_eq!((talk.after(Duration::from_secs(16)), talk.closes()), (String::new(), true));
    let mut talk = Talk::new(&pages, &bulletin);
    talk.say("GET / HTTP/1.1\r\n");
    talk.after(Duration::from_secs(10));
    talk.say("X: y\r\n");
    let late = talk.after(Duration::from_secs(6));
    assert!(late.starts_with("HTTP/1.1 408 ") && talk.closes(), "a slow head is cut off: {late}");
}

#[test]
fn replies_do_not_depend_on_how_requests_arrive() {
    let pages = service();
    let fresh = || founded(&["{\"a\":1}"]);
    for input in [
        [get("/"), get("/state.json"), get("/no"), get("/report.html")].concat(),
        format!(
            "{}OPTIONS * HTTP/1.1\r\nHost: [::]\r\nConnection: close\r\n\r\n{}",
            get("/"),
            get("/")
        ),
        format!(
            "{}GET / HTTP/1.1\r\nHost: [::]\r\nContent-Length: 2\r\n\r\n{}",
            get("/"),
            get("/")
        ),
        format!("{}GET / HTTP/1.1\nHost: [::]\r\n\r\n{}", get("/"), get("/")),
    ] {
        let faults = Faults { spurious: true, ..Faults::default() };
        sim::chunking(&pages, fresh, input.as_bytes(), &faults, 30, <[u8]>::to_vec);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_a_stream_among_the_clients() {
    let pages = service();
    let case = |seed| {
        let input = [get("/"), get("/events")].concat();
        let faults = Faults { drain: Some(Duration::from_secs(2)), ..Faults::rough(seed) };
        let acts = vec![Act::Send(input.into_bytes()), Act::Stay];
        let listener = Client { start: Duration::ZERO, acts };
        let script = Script { clients: vec![listener, Client::saying(get("/").as_bytes())] };
        Case { script, faults, seed }
    };
    sim::determinism(&pages, || founded(&["one"]), 40, case);
}
