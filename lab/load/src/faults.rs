//! Faults, counted by kind, with one example each.
//!
//! A generator that only counts successes makes a broken server look fast. Each kind comes with a
//! remedy ([`FaultKind::remedy`]).
//!
//! Drivers and scripts count faults as they happen. Each thread has its own list, and lists are
//! merged at the end. Only the first fault of a kind is put into words, so a broken server does
//! not slow the generator that measures it.

use crate::tunnel::NoTunnel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

/// Kinds of faults; those of connections come first, those of replies last.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, derive_more::Display,
)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing listens at the address.
    #[display("connections refused")]
    Refused,
    /// The server, or something in between, reset the connection.
    #[display("connections reset")]
    Reset,
    /// The server closed the connection while replies were outstanding.
    #[display("connections closed early")]
    ClosedEarly,
    /// No whole reply arrived within the timeout.
    #[display("connections timed out")]
    Timeout,
    /// This machine has no local port left for the server's address.
    #[display("connections without a local port")]
    NoPorts,
    /// This process may open no more descriptors.
    #[display("connections without a descriptor")]
    NoDescriptors,
    /// The server's certificate is not believed.
    #[display("certificates not believed")]
    Certificate,
    /// Any other fault of TLS, mostly a handshake that failed.
    #[display("faults of TLS")]
    Tls,
    /// The proxy makes no tunnel to the server.
    #[display("tunnels refused by the proxy")]
    Proxy,
    /// Any other error of a socket.
    #[display("other socket errors")]
    Socket,
    /// The server ended a connection of HTTP/2 early, or because of an error.
    #[display("connections ended by GOAWAY")]
    GoAway,
    /// Frames that HTTP/2 forbids.
    #[display("violations of HTTP/2")]
    Protocol,
    /// A stream of HTTP/2 that the server reset in place of a reply.
    #[display("streams reset")]
    StreamReset,
    /// A reply that does not match its request.
    #[display("wrong replies")]
    WrongReply,
    /// Bytes that no request asked for.
    #[display("unrequested replies")]
    UnaskedBytes,
    /// A reply longer than the limit.
    #[display("endless replies")]
    Overlong,
}

/// Faults of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The count: connections, or replies for the last four kinds.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// The first one, described.
    pub example: String,
}

/// All kinds that occurred, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Faults {
    /// One entry per kind.
    pub list: Vec<Fault>,
}

impl Faults {
    /// Counts one; the example is built only for the first of its kind.
    pub fn count(&mut self, kind: FaultKind, example: impl FnOnce() -> String) {
        match self.list.iter_mut().find(|fault| fault.kind == kind) {
            Some(fault) => fault.count += 1,
            None => self.list.push(Fault { kind, count: 1, example: example() }),
        }
    }

    /// Counts a socket error under the kind that it means.
    pub fn count_io(&mut self, error: &io::Error, words: impl FnOnce() -> String) {
        self.count(FaultKind::of(error), words);
    }

    /// The number of faults of `kind`.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.list.iter().find(|fault| fault.kind == kind).map_or(0, |fault| fault.count)
    }

    /// Adds the counts of another list; existing examples stay.
    pub fn merge(&mut self, other: &Faults) {
        for theirs in &other.list {
            match self.list.iter_mut().find(|fault| fault.kind == theirs.kind) {
                Some(mine) => mine.count += theirs.count,
                None => self.list.push(theirs.clone()),
            }
        }
    }

    /// The number of faults of all kinds.
    pub fn total(&self) -> u64 {
        self.list.iter().map(|fault| fault.count).sum()
    }

    /// Whether nothing went wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl FaultKind {
    /// The kind of a socket error.
    pub(crate) fn of(error: &io::Error) -> Self {
        if error.get_ref().is_some_and(|why| why.is::<NoTunnel>()) {
            return Self::Proxy;
        }
        match error.get_ref().and_then(|why| why.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(_)) => return Self::Certificate,
            Some(_) => return Self::Tls,
            None => {}
        }
        // The two numbers have no stable kind: EMFILE 24 and ENFILE 23 (errno(3), Linux).
        match (error.kind(), error.raw_os_error()) {
            (_, Some(23 | 24)) => Self::NoDescriptors,
            (io::ErrorKind::ConnectionRefused, _) => Self::Refused,
            (
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
                _,
            ) => Self::Reset,
            (io::ErrorKind::TimedOut, _) => Self::Timeout,
            (io::ErrorKind::AddrNotAvailable, _) => Self::NoPorts,
            _ => Self::Socket,
        }
    }

    /// The remedy, in words.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Refused => "start the server, or name the right port",
            Self::Reset => {
                "check the server's log: it crashed or dropped connections; if it closes after a \
                 reply without `Connection: close`, say --requests-per-connection 1"
            }
            Self::ClosedEarly => {
                "check the server's log and limits, that it speaks this protocol, and whether it \
                 wants TLS (https://)"
            }
            Self::Timeout => "use fewer connections, or raise --timeout",
            Self::NoPorts => {
                "keep connections longer (--requests-per-connection), connect from several \
                 addresses (--source 127.0.0.2,127.0.0.3), widen net.ipv4.ip_local_port_range, or \
                 wait a minute"
            }
            Self::NoDescriptors => "raise the limit (ulimit -n) or use fewer connections",
            Self::Certificate => {
                "use the name that the certificate has, trust its issuer by --cacert, make one for \
                 --cacert by openssl req -x509 -addext basicConstraints=CA:FALSE, or do not check \
                 it by --insecure"
            }
            Self::Tls => "check that the server speaks TLS 1.2 or 1.3 at this port",
            Self::Proxy => "check the user of --proxy, and whether it allows this host and port",
            Self::Socket => "see the error text of the kernel",
            Self::GoAway | Self::StreamReset => "check the server's log and limits",
            Self::Protocol => "check that the server speaks HTTP/2, or leave out --http2",
            Self::WrongReply | Self::UnaskedBytes => "the server is wrong, or the expectation is",
            Self::Overlong => "the reply's end was never found: check --framing or --terminator",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_the_first_example_stays() {
        let mut faults = Faults::default();
        assert!(faults.is_empty());
        faults.count(FaultKind::WrongReply, || "first".to_owned());
        faults.count(FaultKind::WrongReply, || unreachable!("words are made once"));
        faults.count_io(&io::ErrorKind::ConnectionReset.into(), || "reading: reset".to_owned());
        assert_eq!((faults.of(FaultKind::WrongReply), faults.of(FaultKind::Timeout)), (2, 0));
        assert_eq!(faults.list[0].example, "first");
        assert!(faults.list[1].example.starts_with("reading: "));
        let json = serde_json::to_string(&faults).expect("plain data");
        assert!(
            json.starts_with(r#"[{"kind":"wrong_reply","count":2,"example":"first"}"#),
            "{json}"
        );
    }

    #[test]
    fn errors_are_told_apart() {
        for (number, kind) in [
            (111, FaultKind::Refused),
            (104, FaultKind::Reset),
            (32, FaultKind::Reset),
            (110, FaultKind::Timeout),
            (99, FaultKind::NoPorts),
            (24, FaultKind::NoDescriptors),
            (12, FaultKind::Socket),
        ] {
            assert_eq!(FaultKind::of(&io::Error::from_raw_os_error(number)), kind, "{number}");
        }
    }
}
