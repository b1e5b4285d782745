//! The HTTP/1.1 handler of the administration, one request per connection.
//!
//! `GET /status`, `/status.json`, `/governor`, `/metrics`;
//! `POST /drain`, `/quit`, `/reload`. At a TCP address
//! every page in a browser of this machine could post here. So a command from another origin is
//! refused, and the `Host` must be a name of this machine, against DNS rebinding.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use engines::status::Sample;
use engines::{AdminHandler, Answer, Order};
use wire::http::{Body, Head, Limits, Reply, Status, Target, Version, head};

use super::ServerStatus;
#[cfg(feature = "metrics")]
use super::metrics;

/// The page that draws the status.
const PAGE: &str = include_str!("page.html");
/// Requests need no body; a body of up to this length is skipped.
const BODY_MAX: u64 = 4096;

const KINDS_JSON: &str = "application/json";
const KINDS_TEXT: &str = "text/plain; charset=utf-8";
const KINDS_HTML: &str = "text/html; charset=utf-8";

/// The handler.
pub struct Front {
    /// The service's name on the command line.
    pub service: &'static str,
    /// The TCP address, if it listens on one.
    pub address: Option<SocketAddr>,
}

/// The page in the chosen language.
fn page() -> String {
    let lang = format!("lang=\"{}\"", language::code());
    language::template(PAGE).replacen("lang=\"en\"", &lang, 1)
}

struct Response<'a> {
    status: Status,
    kind: &'a str,
    body: String,
    allow: Option<&'a str>,
}

impl<'a> Response<'a> {
    fn of(status: Status, words: &str) -> Response<'a> {
        Response { status, kind: KINDS_TEXT, body: format!("{words}\n"), allow: None }
    }

    fn ok(kind: &'a str, body: String) -> Response<'a> {
        Response { status: Status::OK, kind, body, allow: None }
    }

    fn bytes(self, version: Version, head_only: bool) -> Vec<u8> {
        let mut fields = vec![
            ("Content-Type", self.kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ];
        if self.kind == KINDS_HTML {
            fields.push((
                "Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                 connect-src 'self'; frame-ancestors 'none'",
            ));
        }
        fields.extend(self.allow.map(|allow| ("Allow", allow)));
        let (status, len) = (self.status, self.body.len() as u64);
        let mut bytes = Vec::with_capacity(self.body.len() + 512);
        Reply { status, fields: &fields, len, keep_alive: false }.put(version, &mut bytes);
        if !head_only {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

impl AdminHandler for Front {
    fn handle(&mut self, request: &[u8], sample: &mut dyn FnMut() -> Sample) -> Answer {
        let refuse = |status, words: &str| {
            Answer::Say(Response::of(status, words).bytes(Version::Http11, false))
        };
        let head = match head::next(request, &Limits::default()) {
            Ok(Some(head)) => head,
            Ok(None) => return Answer::More,
            Err(bad) => return refuse(bad.status(), bad.why()),
        };
        match head.body {
            Body::Length(len) if len > BODY_MAX => {
                return refuse(Status::CONTENT_TOO_LONG, "expected no body");
            }
            Body::Length(len) if ((request.len() - head.len) as u64) < len => return Answer::More,
            Body::Length(_) => {}
            Body::Chunked => return refuse(Status::LENGTH, "expected no body"),
        }
        if let Some(words) = self.distrust(&head) {
            return refuse(Status::FORBIDDEN, words);
        }
        let Ok(target) = Target::read(head.target) else {
            return refuse(Status::BAD_REQUEST, "expected a target such as /status");
        };
        let head_only = head.method == "HEAD";
        let path = std::str::from_utf8(&target.path).unwrap_or_default();
        let response = match (head.method, path) {
            ("POST", "/drain") => return Answer::Obey(Order::Drain),
            ("POST", "/leave") => return Answer::Obey(Order::Leave),
            ("POST", "/quit") => return Answer::Obey(Order::Quit),
            ("POST", "/reload") => return Answer::Obey(Order::Reload),
            (_, "/drain" | "/leave" | "/quit" | "/reload") => {
                let refusal = Response::of(Status::METHOD, "expected POST: this is an order");
                Response { allow: Some("POST"), ..refusal }
            }
            ("GET" | "HEAD", path) => self.give(path, sample),
            _ => {
                let refusal = Response::of(Status::METHOD, "expected GET");
                Response { allow: Some("GET, HEAD"), ..refusal }
            }
        };
        Answer::Say(response.bytes(head.version, head_only))
    }

    fn carried_out(&mut self, order: Order, words: &[String]) -> Vec<u8> {
        let body = serde_json::json!({ "order": order.to_string(), "words": words }).to_string();
        Response::ok(KINDS_JSON, format!("{body}\n")).bytes(Version::Http11, false)
    }
}

impl Front {
    fn give(&self, path: &str, sample: &mut dyn FnMut() -> Sample) -> Response<'static> {
        match path {
            "/" | "/status" => Response::ok(KINDS_HTML, page()),
            "/status.json" => {
                let status = self.status(sample());
                match serde_json::to_string(&status) {
                    Ok(text) => Response::ok(KINDS_JSON, format!("{text}\n")),
                    Err(error) => Response::of(Status::INTERNAL, &error.to_string()),
                }
            }
            "/governor" => Response::ok(KINDS_TEXT, decisions(&sample())),
            #[cfg(feature = "metrics")]
            "/metrics" => {
                Response::ok(metrics::Exposition::KIND, metrics::render(&self.status(sample())))
            }
            #[cfg(not(feature = "metrics"))]
            "/metrics" => Response::of(
                Status::NOT_IMPLEMENTED,
                "this program is built without metrics: add the feature `metrics`",
            ),
            _ => Response::of(
                Status::NOT_FOUND,
                "expected /status, /status.json, /governor or /metrics, or POST to /drain, \
                 /leave, /quit or /reload",
            ),
        }
    }

    fn status(&self, sample: Sample) -> ServerStatus {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ServerStatus {
            service: self.service.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_seconds: wall.as_secs_f64(),
            sample,
        }
    }

    /// Why a request is not trusted.
    fn distrust(&self, head: &Head<'_>) -> Option<&'static str> {
        let address = self.address?;
        let host = head.field("Host")?;
        if !is_ours(host, address) {
            return Some("expected a Host of this machine");
        }
        let origin = head.field("Origin").map(|origin| origin == [&b"http://"[..], host].concat());
        (head.method == "POST" && origin == Some(false))
            .then_some("expected an order from no other origin")
    }
}

/// The last decisions about requests and spare workers with their reasons, oldest first.
fn decisions(sample: &Sample) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let governed = sample.governor.iter().flat_map(|governor| &governor.decisions);
    let limits = governed.map(|it| {
        (it.ago_ns, it.rule.as_str(), format!("{} -> {}: {}", it.before, it.after, it.why))
    });
    let is_decision = |what: &str| ["spare", "governor", "reload"].contains(&what);
    let others = sample.events.iter().filter(|it| is_decision(&it.what));
    let others = others.map(|it| (it.ago_ns, it.what.as_str(), it.why.clone()));
    let mut all: Vec<(u64, &str, String)> = limits.chain(others).collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.0));
    let line = |(ago_ns, rule, why): (u64, &str, String)| {
        format!("{:.2} s ago  {rule:<8} {why}\n", ago_ns as f64 / 1e9)
    };
    let text: String = all.into_iter().map(line).collect();
    let Some(governor) = &sample.governor else {
        return text + "there is no governor: start the server with --governor on or advise\n";
    };
    text + &format!(
        "governor {}: the limit is {} of at most {}, requests wait {:.1} of {:.1} ms, {} were \
         refused\n",
        governor.mode,
        governor.limit,
        governor.ceiling,
        ms(governor.wait_ns),
        ms(governor.target_ns),
        governor.refused
    )
}

/// Whether `host` is a name of this machine or a numeric address, which cannot be rebound.
fn is_ours(host: &[u8], address: SocketAddr) -> bool {
    wire::http::host::address(host)
        .is_some_and(|ip| ip.is_loopback() || !address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(address: Option<&str>) -> Front {
        Front { service: "stock", address: address.map(|it| it.parse().expect("an address")) }
    }

    /// The status and the body of the answer to `request`, or the command that it carries.
    fn ask(front: &mut Front, request: &str) -> Result<(u16, String), Answer> {
        let mut sample = || metrics::tests::status().sample;
        for end in 0..request.len() {
            let early = front.handle(&request.as_bytes()[..end], &mut sample);
            assert!(early == Answer::More, "after {end} bytes of {request:?}: {early:?}");
        }
        match front.handle(request.as_bytes(), &mut sample) {
            Answer::Say(bytes) => {
                let text = String::from_utf8(bytes).expect("text");
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                assert!(head.contains("\r\nConnection: close"), "{head}");
                let length = format!("\r\nContent-Length: {}\r\n", body.len());
                let is_head = request.starts_with("HEAD");
                assert!(is_head || head.contains(&length), "{head} of {} bytes", body.len());
                Ok((head[9..12].parse().expect("a status"), body.to_owned()))
            }
            other => Err(other),
        }
    }

    #[track_caller]
    fn check(request: &str, status: u16, words: &str) {
        let (found, body) = ask(&mut front(None), request).expect("an answer");
        assert!(found == status && body.contains(words), "{request:?}: {found}, {body}");
    }

    #[test]
    fn the_page_is_translated() {
        let (page, missing) = language::korean().template(PAGE);
        assert_eq!(missing, ["roundhouse"; 2]);
        assert!(page.contains("T(\"초당 요청\")"), "{page}");
    }

    #[test]
    fn pages_and_what_is_none() {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        check(&get("/"), 200, "<!doctype html>");
        check(&get("/status"), 200, "status.json");
        check(&get("/status.json?x"), 200, "\"answered\":21");
        check(&get("/governor"), 200, "there is no governor");
        check(&get("/metrics"), 200, "roundhouse_requests_total");
        check(&get("/none"), 404, "expected /status");
        check(&get("/drain"), 405, "expected POST");
        check("HEAD /status HTTP/1.1\r\nHost: x\r\n\r\n", 200, "");
        check("PUT /status HTTP/1.1\r\nHost: x\r\n\r\n", 405, "expected GET");
        check("GET /status HTTP/1.0\r\n\r\n", 200, "html");
        check("POST /drain HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", 413, "no body");
        let chunked = "POST /drain HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(chunked, 411, "no body");
    }

    #[test]
    fn a_status_can_be_read_back() {
        let request = "GET /status.json HTTP/1.1\r\nHost: x\r\n\r\n";
        let (_, body) = ask(&mut front(None), request).expect("an answer");
        let status: ServerStatus = serde_json::from_str(&body).expect("our own JSON");
        assert_eq!(
            (status.service.as_str(), &status.sample),
            ("stock", &metrics::tests::status().sample)
        );
    }

    #[test]
    fn orders_are_carried_out_by_others() {
        for (path, order) in
            [("drain", Order::Drain), ("leave", Order::Leave), ("reload", Order::Reload)]
        {
            let request =
                format!("POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
            assert_eq!(ask(&mut front(None), &request), Err(Answer::Obey(order)));
            let words = front(None).carried_out(order, &["done \"so\"".to_owned()]);
            let text = String::from_utf8(words).expect("text");
            assert!(text.contains(path) && text.contains(r#"done \"so\""#), "{text}");
        }
    }

    #[test]
    fn pages_of_others_cannot_order_anything() {
        let check = |at: &str, host: &str, more: &str, allowed: bool| {
            let request = format!("POST /drain HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
            let found = ask(&mut front(Some(at)), &request);
            assert_eq!(found.is_err(), allowed, "{at} {host} {more}: {found:?}");
        };
        check("127.0.0.1:9", "localhost:9", "", true);
        check("127.0.0.1:9", "127.0.0.1:9", "Origin: http://127.0.0.1:9\r\n", true);
        check("127.0.0.1:9", "127.0.0.1:9", "Origin: http://evil.example\r\n", false);
        check("127.0.0.1:9", "127.0.0.1:9", "Origin: null\r\n", false);
        check("127.0.0.1:9", "evil.example:9", "", false);
        check("127.0.0.1:9", "192.0.2.1", "", false);
        check("[::1]:9", "[::1]:9", "", true);
        check("0.0.0.0:9", "192.0.2.1:9", "", true);
        check("0.0.0.0:9", "evil.example", "", false);
    }
}
