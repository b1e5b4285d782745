//! The words of a protocol: how to ask once without harm, and when a reply is whole.

use lab::probe::{self, Protocol};
use load::Target;
use load::run::Workload;
use load::script::{Expectation, HttpOptions, LineOptions, StockOptions};
use load::tls::TlsOptions;
use std::net::SocketAddr;
use std::time::Duration;
use wire::framing::{Decoder, Framing, Shape};

use crate::Subject;
use crate::client::{self, Client, Reply};

/// The time that a server has for its first reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// A protocol, as far as the trials depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
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
    /// One request, harmless.
    pub(crate) request: Vec<u8>,
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
        let mut speech = Speech { target: Some(target.clone()), ..Speech::plain() };
        speech.name = match how.name {
            "" => text.split("://").next().unwrap_or_default().to_owned(),
            protocol => protocol.to_owned(),
        };
        match target.scheme {
            load::parse::Scheme::Http => speech.http(&target),
            load::parse::Scheme::Stock => speech.stock(),
            load::parse::Scheme::Line | load::parse::Scheme::Echo => {
                speech.line(subject, &how)?;
            }
        }
        speech.settle(at)?;
        Ok(speech)
    }

    fn plain() -> Speech {
        Speech {
            kind: Kind::Plain,
            name: "unknown".to_owned(),
            target: None,
            workload: Workload::Echo,
            request: Vec::new(),
            stays: false,
            first: String::new(),
        }
    }

    fn http(&mut self, target: &Target) {
        self.kind = Kind::Http;
        self.request = self.http_request("GET", "");
        let paths = vec![(target.path.clone(), 1)];
        self.workload = Workload::Http(HttpOptions::get(&target.authority, paths, 1));
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
    fn settle(&mut self, at: SocketAddr) -> Result<(), String> {
        let broken = |why| format!("expected a reply to `{}`, found: {why}", self.said());
        let mut client = Client::open(self, at, PATIENCE).map_err(broken)?;
        let reply = client.ask(self, PATIENCE).map_err(broken)?;
        if let Workload::Http(options) = &mut self.workload {
            options.wanted = Expectation { status: Some(reply.status), length: None };
        }
        self.stays = !reply.closes && client.ask(self, PATIENCE).is_ok();
        self.first = reply.head;
        Ok(())
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
            Kind::Plain => return None,
            Kind::Http => return client::http(bytes, false, is_closed),
            Kind::Stock => Decoder::new(Framing::Line).next(bytes, Shape::Block)?.used,
            Kind::Line => bytes.iter().position(|byte| *byte == b'\n')? + 1,
        };
        let head = String::from_utf8_lossy(&bytes[..len]).into_owned();
        Some(Reply { status: 0, head, len, closes: false })
    }
}
