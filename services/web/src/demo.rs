//! The demonstration routes for conformance suites, load generators and users of curl.
//!
//! | route | answer |
//! |---|---|
//! | `/` | `OK`; the body of a POST |
//! | `/plaintext`, `/json` | `Hello, World!`, bare and as an object |
//! | `/echo` | the fields of the request, `name: value` a line |
//! | `/cookie` | the cookies of the request, `name=value` a line |
//! | `/dynamic?rows=N` | a page that is built for each request |
//! | `/work?ms=N` | computes for N milliseconds of CPU time |
//! | `/sleep?ms=N` | blocks for N milliseconds |

use std::time::Duration;
use wire::decimal;
use wire::http::{Head, Status};

use super::dispatch::{Action, Content, MS_MAX};
use super::mime;

const ROWS_MAX: u64 = 10_000;
/// The default number of rows of `/dynamic`.
const ROWS: u64 = 100;

/// A route: from a request's head and query to the action.
pub type Route = fn(&Head<'_>, &str) -> Action;

pub fn route(path: &[u8]) -> Option<Route> {
    Some(match std::str::from_utf8(path).ok()? {
        "/" => |head, _| match head.method {
            "POST" => Action::Echo,
            _ => Action::Say(mime::TEXT, Content::Fixed("OK")),
        },
        "/plaintext" => |_, _| Action::Say("text/plain", Content::Fixed("Hello, World!")),
        "/json" => {
            |_, _| Action::Say(mime::JSON, Content::Fixed("{\"message\":\"Hello, World!\"}"))
        }
        "/echo" => |head, _| Action::Say(mime::TEXT, Content::Made(fields(head))),
        "/cookie" => |head, _| Action::Say(mime::TEXT, Content::Made(cookies(head))),
        "/dynamic" => |_, query| match parameter(query, "rows").map_or(Ok(ROWS), str::parse) {
            Ok(rows) if rows <= ROWS_MAX => Action::Say(mime::HTML, Content::Made(page(rows))),
            _ => Action::Refuse(Status::BAD_REQUEST, "expected ?rows=N with N from 0 to 10000"),
        },
        "/work" => |_, query| timed(query, Action::Compute),
        "/sleep" => |_, query| timed(query, Action::Sleep),
        _ => return None,
    })
}

fn timed(query: &str, act: fn(Duration) -> Action) -> Action {
    let wanted = parameter(query, "ms").and_then(|text| text.parse().ok());
    let refused = Action::Refuse(Status::BAD_REQUEST, "expected ?ms=N with N from 0 to 10000");
    wanted.filter(|ms| *ms <= MS_MAX).map_or(refused, |ms| act(Duration::from_millis(ms)))
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn fields(head: &Head<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in head.fields() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

/// The pairs of all `Cookie` fields (RFC 6265 section 4.2.1); malformed ones are skipped.
fn cookies(head: &Head<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let cookies = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    for pair in cookies.flat_map(|(_, value)| value.split(|byte| *byte == b';')) {
        let pair = pair.trim_ascii();
        if pair.iter().position(|byte| *byte == b'=').is_some_and(|at| at > 0) {
            text.extend_from_slice(pair);
            text.push(b'\n');
        }
    }
    text
}

/// A table of numbers, their squares and the running sums: real work with a result that can be
/// checked.
fn page(rows: u64) -> Vec<u8> {
    let mut text = b"<!doctype html>\n<title>Squares</title>\n<table>\n".to_vec();
    let mut sum = 0;
    for number in 1..=rows {
        sum += number * number;
        text.extend_from_slice(b"<tr><td>");
        decimal::push(&mut text, number);
        text.extend_from_slice(b"<td>");
        decimal::push(&mut text, number * number);
        text.extend_from_slice(b"<td>");
        decimal::push(&mut text, sum);
        text.push(b'\n');
    }
    text.extend_from_slice(b"</table>\n");
    text
}
