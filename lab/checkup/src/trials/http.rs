//! The cases of HTTP/1.1: what RFC 9110 and RFC 9112 demand of a server, and framings that two
//! servers read differently, by which requests are smuggled.
//!
//! A case is a request and the conduct that its section allows. `{head}` stands for the method, the
//! path and the version, `{host}` for the field `Host`. After an ambiguous request a second one
//! follows in what may be its body: two servers that disagree on that let clients smuggle it.

use std::time::Duration;

use super::{Act, Finding, Need, Trial};
use crate::client::{self, Reply};
use crate::stand::Stand;

/// The time for a reply, and then for the end of a connection that must close.
const PATIENCE: Duration = Duration::from_millis(1500);
const CLOSES: Duration = Duration::from_millis(700);

/// The conduct that a case allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A status of 400 to 499 or 501, or the end of the connection.
    Refused,
    /// The same, or one reply after which the connection closes.
    RefusedOrClosed,
    /// A reply with the status of a usual request.
    Served,
    /// A head and no body.
    Headless,
    /// Any final reply, or 100.
    Answered,
    /// A reply with this field.
    Field(&'static str),
    /// One reply, then the end of the connection.
    Closed,
}

pub(super) type Case = super::Case<Want, &'static str>;

use Want::{Answered, Closed, Field, Headless, Refused, RefusedOrClosed, Served};

cases! { Http
    "no-host" "RFC 9112 section 3.2" true Refused,
        "GET {path} HTTP/1.1\r\n\r\n", "a request without Host";
    "two-hosts" "RFC 9112 section 3.2" true Refused,
        "GET {path} HTTP/1.1\r\n{host}Host: other\r\n\r\n", "two fields Host";
    "blank-before-colon" "RFC 9112 section 5.1" true Refused,
        "GET {path} HTTP/1.1\r\n{host}X-A : b\r\n\r\n", "a blank before the colon of a field";
    "absolute-form" "RFC 9112 section 3.2.2" true Served,
        "GET http://{authority}{path} HTTP/1.1\r\n{host}\r\n", "a whole URL as the target";
    "head" "RFC 9110 section 9.3.2" true Headless,
        "HEAD {path} HTTP/1.1\r\n{host}\r\n", "HEAD has no body";
    "date" "RFC 9110 section 6.6.1" true Field("date"),
        "GET {path} HTTP/1.1\r\n{host}\r\n", "a reply has a Date";
    "close" "RFC 9112 section 9.6" true Closed,
        "GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n", "Connection: close closes";
    "expect" "RFC 9110 section 10.1.1" true Answered,
        "POST {path} HTTP/1.1\r\n{host}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        "a client waits for 100 Continue";
    "old-version" "RFC 9112 section 2.3" true Answered,
        "GET {path} HTTP/1.0\r\n\r\n", "a client of HTTP/1.0";
    "bad-request-line" "RFC 9112 section 3" false Refused,
        "GET  {path}  HTTP/1.1 x\r\n{host}\r\n", "a request line with too many words";
    "empty-line-first" "RFC 9112 section 2.2" false Served,
        "\r\nGET {path} HTTP/1.1\r\n{host}\r\n", "an empty line before a request";
    "nul-in-field" "RFC 9110 section 5.5" true Refused,
        "GET {path} HTTP/1.1\r\n{host}X-A: a\0b\r\n\r\n", "a NUL in the value of a field";
    "two-lengths" "RFC 9112 section 6.3" true Refused,
        "POST {path} HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "two different lengths";
    "length-with-sign" "RFC 9112 section 6.3" true Refused,
        "POST {path} HTTP/1.1\r\n{host}Content-Length: +5\r\n\r\nabcde", "a length with a sign";
    "length-of-words" "RFC 9112 section 6.3" true Refused,
        "POST {path} HTTP/1.1\r\n{host}Content-Length: 5x\r\n\r\nabcde", "a length with a letter";
    "chunked-and-length" "RFC 9112 section 6.1" true RefusedOrClosed,
        "POST {path} HTTP/1.1\r\n{host}Content-Length: {smuggled}\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}", "chunked and a length";
    "chunked-not-last" "RFC 9112 section 6.3" true Refused,
        "POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "chunked is not the last coding";
    "unknown-coding" "RFC 9112 section 6.1" false RefusedOrClosed,
        "POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{second}",
        "a coding that no server knows";
    "chunked-in-1.0" "RFC 9112 section 6.1" true RefusedOrClosed,
        "POST {path} HTTP/1.0\r\n{host}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n{second}", "chunked in HTTP/1.0";
    "chunk-size-overflow" "RFC 9112 section 7.1" true RefusedOrClosed,
        "POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n\
         10000000000000001\r\na\r\n0\r\n\r\n{second}", "a chunk size beyond 64 bits";
    "chunk-size-of-words" "RFC 9112 section 7.1" true RefusedOrClosed,
        "POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n\
         0x1\r\na\r\n0\r\n\r\n{second}", "a chunk size with a prefix";
}

/// Replies to a case: those that are whole, and whether the connection then closed.
#[derive(Default)]
struct Conduct {
    replies: Vec<Reply>,
    rest: Vec<u8>,
    closed: bool,
    interim: bool,
}

pub(super) fn run(case: &Case, stand: &mut Stand) -> Result<Finding, String> {
    let conduct = watched(case, stand).map_err(|why| format!("the case cannot be tried: {why}"))?;
    let usual = stand.speech.first.split(' ').nth(1).unwrap_or_default().to_owned();
    let seen = conduct.words();
    let first = conduct.replies.first();
    let status = first.map_or(0, |it| it.status);
    let is_refusal = matches!(status, 400..=499 | 501 | 505) || (status == 0 && conduct.closed);
    let is_usual = first.is_some_and(|it| it.status.to_string() == usual);
    let holds = match case.want {
        Want::Refused => is_refusal && conduct.replies.len() < 2,
        Want::RefusedOrClosed => is_refusal || (conduct.replies.len() == 1 && conduct.closed),
        Want::Served => is_usual,
        Want::Headless => first.is_some() && conduct.rest.is_empty(),
        Want::Answered => first.is_some() || conduct.interim,
        Want::Field(name) => first.is_some_and(|it| client::field(&it.head, name).is_some()),
        Want::Closed => conduct.replies.len() == 1 && conduct.closed,
    };
    let rule = case.want.words();
    if !holds && conduct.replies.len() > 1 && case.sent.contains("{second}") {
        let section = case.section;
        let why = format!("{section}: {rule}; a proxy may read it otherwise (smuggling)");
        return Ok(Finding::fault(seen, &why));
    }
    Ok(case.judged(holds, seen, &rule))
}

impl Want {
    fn words(self) -> String {
        match self {
            Refused => "the server must refuse it (400)".to_owned(),
            RefusedOrClosed => "the server must refuse it, or close after its reply".to_owned(),
            Served => "the server must serve it".to_owned(),
            Headless => "a reply to HEAD must have no body".to_owned(),
            Answered => "the server must answer".to_owned(),
            Field(name) => format!("the reply must have the field {name}"),
            Closed => "the server must close after its reply".to_owned(),
        }
    }
}

impl Conduct {
    fn words(&self) -> String {
        let statuses: Vec<String> = self.replies.iter().map(|it| it.status.to_string()).collect();
        let said = match statuses.is_empty() {
            true if self.interim => "100 Continue".to_owned(),
            true => "no reply".to_owned(),
            false => statuses.join(", then "),
        };
        let end = if self.closed { "closed" } else { "stays open" };
        match self.rest.is_empty() {
            true => format!("{said}, {end}"),
            false => format!("{said}, {} more bytes, {end}", self.rest.len()),
        }
    }
}

/// Sends the request of a case and watches what comes.
fn watched(case: &Case, stand: &Stand) -> std::io::Result<Conduct> {
    let speech = &stand.speech;
    let (path, authority) =
        speech.target.as_ref().map_or(("/", ""), |it| (&it.path, &it.authority));
    let host = format!("Host: {authority}\r\n");
    let second = format!("GET {path} HTTP/1.1\r\n{host}\r\n");
    let text = case.sent.replace("{path}", path).replace("{authority}", authority);
    let text = text.replace("{host}", &host).replace("{second}", &second);
    let text = text.replace("{smuggled}", &(second.len() + 5).to_string());
    let mut client = stand.connect()?;
    // A server may refuse and close before it has read everything.
    let _ = client.send(text.as_bytes());
    let is_head = case.want == Want::Headless;
    let mut conduct = Conduct::default();
    let mut watch = |time, is_enough: fn(&Conduct, Want) -> bool| {
        // The end of the connection is a part of the conduct.
        let _ = client.until(time, |client| {
            conduct.interim |= client.ahead.starts_with(b"HTTP/1.1 100");
            conduct.take(client, is_head);
            Ok(is_enough(&conduct, case.want).then_some(()))
        });
        conduct.take(&mut client, is_head);
    };
    watch(PATIENCE, |it, want| !it.replies.is_empty() || (it.interim && want == Answered));
    if !matches!(case.want, Served | Answered | Field(_)) {
        watch(CLOSES, |_, _| false);
    }
    conduct.closed = client.is_closed;
    conduct.rest = std::mem::take(&mut client.ahead);
    Ok(conduct)
}

impl Conduct {
    /// Takes the replies that are whole.
    fn take(&mut self, client: &mut client::TrialClient, is_head: bool) {
        while let Some(reply) = client::http(&client.ahead, is_head, client.is_closed) {
            client.ahead.drain(..reply.len);
            self.replies.push(reply);
        }
    }
}
