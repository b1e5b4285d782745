//! The words of a protocol: how to ask once without harm, and when a reply is whole.

use lab::probe::{self, Protocol};
use load::Target;
use load::parse::Scheme;
use load::run::Workload;
use load::script::{Expectation, HttpOptions, LineOptions, StockOptions, http2_request};
use load::tls::TlsOptions;
use std::net::SocketAddr;
use std::time::Duration;
use wire::framing::{Decoder, Framing, Shape};

use crate::Subject;
use crate::client::{self, Reply, TrialClient};
use crate::http2::Call;

/// The time that a server has for its first reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// A method that no service of gRPC has: its call is refused with a status of gRPC.
const NO_METHOD: &str = "/roundhouse.Checkup/Ask";
const BY_CALL: &str = "gRPC, by calls of a method that it lacks; name one that it has as \
                       grpc://{address}/PACKAGE.SERVICE/METHOD";

/// A protocol, as far as the trials depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Http2,
    Stock,
    Line,
    /// None that is known: only connections can be made.
    Plain,
}

#[derive(Clone, Debug)]
pub(crate) struct Speech {
    pub(crate) kind: Kind,
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) target: Option<Target>,
    pub(crate) workload: Workload,
    /// One request, harmless; of HTTP/2 its words.
    pub(crate) request: Vec<u8>,
    /// The same in HTTP/2.
    pub(crate) call: Option<Call>,
    /// Whether a connection takes more than one request.
    pub(crate) stays: bool,
    /// The head of the first reply of HTTP.
    pub(crate) first: String,
}

impl Speech {
    /// Finds out how the server is asked, and asks once.
    pub(crate) fn of(subject: &Subject, at: SocketAddr) -> Result<Speech, String> {
        let (how, name) = match &subject.url {
            Some(url) => (Protocol::default(), url.clone()),
            None => match probe::protocol(&at.to_string()) {
                Ok(protocol) => (protocol.clone(), protocol.target.to_owned()),
                Err(_) => return Ok(Speech::plain()),
            },
        };
        let text = name.replace("{address}", &at.to_string());
        let mut target: Target = text.parse().map_err(|usage| format!("{usage}"))?;
        if target.tls.is_some() {
            // A server is asked by its address, which few certificates name.
            let trust = TlsOptions { is_insecure: true, ..TlsOptions::default() };
            target.trust(trust).map_err(|usage| format!("{usage}"))?;
        }
        if subject.http2 || how.load.contains(&"--http2") {
            target.speak_http2().map_err(|usage| format!("{usage}"))?;
        }
        let scheme = text.split("://").next().unwrap_or_default();
        let name = match how.name {
            _ if subject.http2 => "HTTP/2",
            "" => scheme,
            known => known,
        };
        let is_found = subject.url.is_none() && target.scheme == Scheme::Http;
        let may_be_2 = is_found && (target.http2 || target.tls.is_some());
        let by_alpn = (may_be_2 && !target.http2).then(|| Target { http2: true, ..target.clone() });
        let call =
            Target { http2: true, is_grpc: true, path: NO_METHOD.to_owned(), ..target.clone() };
        let ways = [
            (name, Some(target)),
            ("HTTP/2 alone, by ALPN; its certificate is not checked", by_alpn),
            (BY_CALL, may_be_2.then_some(call)),
        ];
        let mut usual = None;
        for (name, target) in ways {
            let Some(target) = target else { continue };
            let speech = Speech { name: name.to_owned(), target: Some(target), ..Speech::plain() };
            match speech.settled(subject, &how, at) {
                Ok(speech) if speech.kind != Kind::Http2 || !speech.is_refused() => {
                    return Ok(speech);
                }
                other if usual.as_ref().is_none_or(Result::is_err) => {
                    usual = Some(match (usual, other) {
                        (Some(first), Err(_)) => first,
                        (_, other) => other,
                    });
                }
                _ => {}
            }
        }
        usual.unwrap_or_else(|| Ok(Speech::plain()))
    }

    fn plain() -> Speech {
        Speech {
            kind: Kind::Plain,
            name: "unknown".to_owned(),
            target: None,
            workload: Workload::Echo,
            request: Vec::new(),
            call: None,
            stays: false,
            first: String::new(),
        }
    }

    fn http(&mut self, target: &Target) -> Result<(), String> {
        self.kind = Kind::Http;
        self.request = self.http_request("GET", "");
        let paths = vec![(target.path.clone(), 1)];
        let mut options = HttpOptions::get(&target.authority, paths, 1);
        if target.is_grpc {
            options.call_grpc();
        }
        if target.http2 {
            let scheme = if target.tls.is_some() { "https" } else { "http" };
            let (block, body) =
                http2_request(&options, scheme).map_err(|usage| format!("{usage}"))?;
            self.call = Some(Call { block, body });
            self.kind = Kind::Http2;
            self.request = format!("{} {}", options.method, target.path).into_bytes();
        }
        self.workload = Workload::Http(options);
        Ok(())
    }

    /// A request of HTTP/1.1 with further fields, each with its line end.
    pub(crate) fn http_request(&self, method: &str, fields: &str) -> Vec<u8> {
        let (path, host) = self.target.as_ref().map_or(("/", ""), |it| (&it.path, &it.authority));
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
    }

    fn stock(&mut self) {
        self.kind = Kind::Stock;
        self.request = load::script::SHOW.to_vec();
        self.workload = Workload::Stock(StockOptions::default());
    }

    fn line(&mut self, subject: &Subject, how: &Protocol) -> Result<(), String> {
        self.kind = Kind::Line;
        let flag = |name: &str| {
            let at = how.load.iter().position(|word| *word == name)?;
            how.load.get(at + 1).map(ToString::to_string)
        };
        let request = subject.request.clone().or_else(|| flag("--request"));
        let request = request.ok_or("expected --request TEXT for line://, such as 'PING\\r\\n'")?;
        let bytes = |text: &str| load::parse::bytes(text).map_err(|usage| format!("{usage}"));
        self.request = bytes(&request)?;
        if !self.request.ends_with(b"\n") {
            self.request.push(b'\n');
        }
        self.workload = Workload::Line(LineOptions {
            requests: vec![self.request.clone()],
            terminator: b"\n".to_vec(),
            terminators: 1,
            prefix: bytes(&flag("--expect-prefix").unwrap_or_default())?,
        });
        Ok(())
    }

    /// Asks twice on one connection: the first reply shows what a right one looks like.
    fn settled(
        mut self,
        subject: &Subject,
        how: &Protocol,
        at: SocketAddr,
    ) -> Result<Speech, String> {
        let target = self.target.clone().ok_or("expected a target")?;
        match target.scheme {
            Scheme::Http => self.http(&target)?,
            Scheme::Stock => self.stock(),
            Scheme::Line | Scheme::Echo => self.line(subject, how)?,
        }
        let said = self.said();
        let broken = |why| format!("expected a reply to `{said}`, found: {why}");
        let mut client = TrialClient::open(&self, at, PATIENCE).map_err(broken)?;
        let reply = client.ask(&self, PATIENCE).map_err(broken)?;
        if target.is_grpc && !reply.head.starts_with("gRPC") {
            return Err(format!("expected a status of gRPC, found {}", reply.head));
        }
        if let Workload::Http(options) = &mut self.workload {
            options.wanted = Expectation { status: Some(reply.status), length: None };
        }
        self.stays = !reply.closes && client.ask(&self, PATIENCE).is_ok();
        self.first = reply.head;
        Ok(self)
    }

    /// Whether the first reply has a status of 400 or more, or one of gRPC to a page.
    fn is_refused(&self) -> bool {
        let is_call = self.target.as_ref().is_some_and(|target| target.is_grpc);
        let status = self.first.split(' ').nth(1).and_then(|it| it.parse().ok());
        status.is_some_and(|it: u16| it >= 400) || (self.first.starts_with("gRPC") && !is_call)
    }

    /// Whether connections are encrypted.
    pub(crate) fn has_tls(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.tls.is_some())
    }

    /// The request as people read it.
    pub(crate) fn said(&self) -> String {
        stats::words::visible(&self.request, 40)
    }

    /// The first whole reply in `bytes`.
    pub(crate) fn whole(&self, bytes: &[u8], is_closed: bool) -> Option<Reply> {
        let len = match self.kind {
            Kind::Plain | Kind::Http2 => return None,
            Kind::Http => return client::http(bytes, false, is_closed),
            Kind::Stock => Decoder::new(Framing::Line).next(bytes, Shape::Block)?.used,
            Kind::Line => bytes.iter().position(|byte| *byte == b'\n')? + 1,
        };
        let head = String::from_utf8_lossy(&bytes[..len]).into_owned();
        Some(Reply { status: 0, head, len, closes: false })
    }
}
