//! The web script against handmade replies, cut at every byte.
//!
//! Each case is a reply in bytes and the verdict on it. The verdict must be the same for the whole
//! reply, for every cut in two, and byte by byte.

use super::*;
use crate::faults::Faults;
use crate::script::Notes;

fn options(method: &str, wanted: Expectation) -> HttpOptions {
    HttpOptions {
        method: method.to_owned(),
        wanted,
        ..HttpOptions::get("a:1", vec![("/".to_owned(), 1)], 1)
    }
}

/// The outcome: replies, wrong ones, whether the connection is over, unrequested bytes.
#[derive(Debug, Default, PartialEq)]
struct Found {
    done: u32,
    wrong: u32,
    over: bool,
    unasked: bool,
}

fn feed(http: &mut Http, asked: u32, pieces: &[&[u8]], end: bool) -> (Found, Faults) {
    let (mut faults, mut found, mut held) = (Faults::default(), Found::default(), Vec::new());
    let mut out = Vec::new();
    http.open(0);
    http.ask(0, asked, &mut out);
    for piece in pieces {
        held.extend_from_slice(piece);
        let replies = http.receive(0, &held, &mut ReplyLog::new(&mut faults, None));
        held.drain(..replies.used);
        found.done += replies.done;
        found.wrong += replies.wrong;
        if replies.over {
            found.over = true;
            break;
        }
    }
    if end && !found.over {
        let replies = http.ended(0, &held, &mut ReplyLog::new(&mut faults, None));
        found.done += replies.done;
        found.wrong += replies.wrong;
        found.over = replies.over;
    }
    found.unasked = faults.of(FaultKind::UnaskedBytes) > 0;
    (found, faults)
}

/// Feeds `wire` cut in two at each byte, twice on one script so that the head is known the second
/// time, and finally byte by byte.
fn check_with(options: &HttpOptions, asked: u32, wire: &[u8], expected: &Found) {
    let mut http = Http::new(options.clone(), 1).expect("it makes sense");
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    let shown = shown(wire);
    for cut in 0..=wire.len() {
        let (found, faults) = feed(&mut http, asked, &[&wire[..cut], &wire[cut..]], true);
        assert_eq!(&found, expected, "{shown} cut at {cut}: {faults:?}");
    }
    let (found, faults) = feed(&mut http, asked, &bytes, true);
    assert_eq!(&found, expected, "{shown} byte by byte: {faults:?}");
}

fn check(asked: u32, wire: &str, done: u32, wrong: u32, over: bool) {
    let expected = Found { done, wrong, over, unasked: false };
    check_with(&options("GET", Expectation::default()), asked, wire.as_bytes(), &expected);
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn sized_bodies() {
    check(1, OK, 1, 0, false);
    check(3, &OK.repeat(3), 3, 0, false);
    check(3, &OK.repeat(2), 2, 0, false);
    check(1, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nX: y\r\n\r\n", 1, 0, false);
    check(1, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 1, 0, false);
    check(2, &format!("HTTP/1.1 304 Not Modified\r\n\r\n{OK}"), 2, 0, false);
    check(1, &format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\n{OK}"), 1, 0, false);
    check(1, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 0, 0, false);
}

#[test]
fn chunked_bodies() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nTrail: er\r\n\r\n";
    check(2, &format!("{head}{body}{head}0\r\n\r\n"), 2, 0, false);
    check(1, &format!("{head}5\r\nhello\r\n"), 0, 0, false);
    check(1, &format!("{head}5\r\nhelloX\r\n0\r\n\r\n"), 1, 1, true);
    check(1, &format!("{head}five\r\nhello\r\n0\r\n\r\n"), 1, 1, true);
    check(1, &format!("{head}+5\r\nhello\r\n0\r\n\r\n"), 1, 1, true);
    let wanted = Expectation { status: None, length: Some(15) };
    let expected = Found { done: 1, ..Found::default() };
    check_with(&options("GET", wanted), 1, format!("{head}{body}").as_bytes(), &expected);
}

#[test]
fn bodies_that_end_with_the_connection() {
    check(1, "HTTP/1.0 200 OK\r\n\r\nsome text", 1, 0, true);
    check(1, "HTTP/1.1 200 OK\r\n\r\n", 1, 0, true);
    check(3, &OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"), 1, 0, true);
    check(2, &OK.replace("1.1", "1.0"), 1, 0, true);
    let kept = OK.replace("1.1", "1.0").replace("\r\nC", "\r\nConnection: Keep-Alive\r\nC");
    check(2, &kept, 1, 0, false);
}

#[test]
fn wrong_replies() {
    check(2, &format!("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno{OK}"), 2, 1, false);
    check(1, "hello\r\n\r\n", 1, 1, true);
    check(1, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 1, 1, true);
    check(1, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", 1, 1, true);
    let expected = Found { done: 1, wrong: 1, ..Found::default() };
    let wanted = Expectation { status: Some(201), length: None };
    check_with(&options("GET", wanted), 1, OK.as_bytes(), &expected);
    let wanted = Expectation { status: None, length: Some(6) };
    check_with(&options("GET", wanted), 1, OK.as_bytes(), &expected);
    let expected = Found { done: 1, unasked: true, ..Found::default() };
    check_with(&options("GET", Expectation::default()), 1, OK.repeat(2).as_bytes(), &expected);
}

#[test]
fn a_head_alone_has_no_body() {
    let wire =
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let expected = Found { done: 2, ..Found::default() };
    check_with(&options("HEAD", Expectation::default()), 2, wire, &expected);
}

#[test]
fn a_known_head_is_still_held_against_what_is_wanted() {
    let mut http = Http::new(options("GET", Expectation { status: Some(200), length: Some(5) }), 1)
        .expect("it makes sense");
    assert_eq!(feed(&mut http, 1, &[OK.as_bytes()], false).0.wrong, 0);
    let other = OK.replace("200 OK", "500 No").replace("hello", "sorry");
    assert_eq!(feed(&mut http, 1, &[other.as_bytes()], false).0.wrong, 1);
    let longer = OK.replace(": 5", ": 6").replace("hello", "hello!");
    assert_eq!(feed(&mut http, 1, &[longer.as_bytes()], false).0.wrong, 1);
    let right = Found { done: 1, ..Found::default() };
    assert_eq!(feed(&mut http, 1, &[OK.as_bytes()], false).0, right);
}

#[test]
fn an_endless_head_is_no_head() {
    let mut http = Http::new(options("GET", Expectation::default()), 1).expect("it makes sense");
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEAD_MAX));
    let (found, faults) = feed(&mut http, 1, &[endless.as_bytes()], false);
    assert_eq!((found.wrong, found.over), (1, true), "{faults:?}");
}

#[test]
fn requests_are_rendered_once() {
    let mut post = options("POST", Expectation::default());
    post.headers = vec![("Accept".to_owned(), "*/*".to_owned())];
    post.body = b"a=b".to_vec();
    let mut http = Http::new(post.clone(), 1).expect("it makes sense");
    let mut out = Vec::new();
    http.ask(0, 1, &mut out);
    let text = "POST / HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\nContent-Length: 3\r\n\r\na=b";
    assert_eq!(String::from_utf8(out), Ok(text.to_owned()));
    assert!(!http.may_repeat(0));
    for (name, value) in [("Bad Name", "x"), ("", "x"), ("X", "a\r\nb")] {
        post.headers = vec![(name.to_owned(), value.to_owned())];
        assert!(Http::new(post.clone(), 1).is_err(), "{name}");
    }
    for path in ["index.html", "", "/a b"] {
        let bad = HttpOptions {
            requests: vec![(path.to_owned(), 1).into()],
            ..options("GET", Expectation::default())
        };
        assert!(Http::new(bad, 1).is_err(), "{path}");
    }
}

#[test]
fn paths_follow_their_weights_and_are_told_apart() {
    let mut two = options("GET", Expectation::default());
    two.requests = vec![("/a".to_owned(), 9).into(), ("/b".to_owned(), 1).into()];
    let mut http = Http::new(two, 1).expect("it makes sense");
    let (mut faults, mut notes, mut out) = (Faults::default(), Notes::default(), Vec::new());
    http.open(0);
    http.ask(0, 1000, &mut out);
    let text = String::from_utf8(out).expect("ASCII");
    let asked: Vec<u16> = text
        .lines()
        .filter(|line| line.starts_with("GET"))
        .map(|line| u16::from(line.contains("/b")))
        .collect();
    // Five standard deviations of a thousand draws of one in ten.
    let b = asked.iter().filter(|&&kind| kind == 1).count();
    assert!(b.abs_diff(100) < 50, "{b} of 1000");
    http.receive(0, OK.repeat(1000).as_bytes(), &mut ReplyLog::new(&mut faults, Some(&mut notes)));
    let replies: Vec<u16> = notes.list.iter().map(|note| note.kind).collect();
    assert_eq!(replies, asked);
    assert!(notes.list.iter().all(|note| note.bytes == OK.len() as u32 && !note.wrong));
}

#[test]
fn a_recording_is_sent_in_its_order() {
    let mut list = options("GET", Expectation::default());
    list.in_order = true;
    let body = Some(b"x".to_vec());
    let post = WebRequest { method: Some("PUT".to_owned()), body, ..("/b".to_owned(), 1).into() };
    list.requests = vec![("/a".to_owned(), 1).into(), post, ("/c".to_owned(), 1).into()];
    let mut http = Http::new(list, 1).expect("it makes sense");
    let asked = |http: &mut Http, count| {
        let mut out = Vec::new();
        http.ask(0, count, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        let lines = text.lines().filter_map(|line| line.strip_suffix(" HTTP/1.1"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    http.open(0);
    assert_eq!(asked(&mut http, 4), ["GET /a", "PUT /b", "xGET /c", "GET /a"]);
    assert_eq!(http.kinds(), ["/a", "PUT /b", "/c"]);
    // One reply, then the connection ends: the others are asked again.
    let mut faults = Faults::default();
    http.receive(0, OK.as_bytes(), &mut ReplyLog::new(&mut faults, None));
    http.open(0);
    assert_eq!(asked(&mut http, 1), ["PUT /b"]);
}

#[test]
fn another_protocol_is_named() {
    let frame: &[u8] = &[0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
    for (bytes, want) in [(frame, "HTTP/2"), (&[21, 3, 3, 0, 2, 2, 70], "https://")] {
        let mut http = Http::new(options("GET", Expectation::default()), 1).expect("a script");
        let (found, faults) = feed(&mut http, 1, &[bytes], false);
        assert_eq!((found.done, found.wrong, found.over), (1, 1, true));
        assert!(faults.list[0].example.contains(want), "{faults:?}");
    }
}

/// Replies with a known head count too.
#[test]
fn replies_are_counted_by_status() {
    let mut http = Http::new(options("GET", Expectation::default()), 1).expect("a script");
    let moved = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
    let wire = [OK, OK, moved, moved, OK, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"].concat();
    feed(&mut http, 6, &[wire.as_bytes()], false);
    assert_eq!(http.statuses(), BTreeMap::from([(200, 3), (302, 2), (500, 1)]));
    let check = http.verdict(b"", &[vec![4, 3, 200, 1, 500, 2]]);
    let detail = "3 of 10 replies were 500, 1 of 10 replies had another length or form; expected \
                  a status of 200 to 399 and as many bytes as they announce";
    assert_eq!((check.ok, check.detail.as_str()), (false, detail));
}

#[test]
fn a_target_is_sent_in_ascii() {
    let paths = vec![("/münchen/%41?ä=ö".to_owned(), 1)];
    let bytes = HttpOptions::get("a:1", paths, 1).render().expect("a request").remove(0);
    let text = String::from_utf8(bytes).expect("ASCII");
    assert!(text.starts_with("GET /m%C3%BCnchen/%41?%C3%A4=%C3%B6 HTTP/1.1\r\n"), "{text}");
}
