//! Any protocol in which one constant request leads to a reply with a known end.
//!
//! `INCR x\r\n` to a redis server, `buy 1 1\n` to a market, `ping\n` to an echo. A reply is right
//! if it begins with the expected prefix.

use super::{Heard, Script, shown};
use crate::faults::{FaultKind, Faults};
use crate::report::Check;
use memchr::memmem::Finder;

/// The request and what its reply looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// The request's bytes, its end included.
    pub request: Vec<u8>,
    /// What ends a reply; not empty.
    pub terminator: Vec<u8>,
    /// What a reply begins with; empty if anything goes.
    pub prefix: Vec<u8>,
}

/// The script.
#[derive(Debug)]
pub struct Line {
    options: LineOptions,
    end: Finder<'static>,
    sessions: Vec<Session>,
    wrong: u64,
    done: u64,
}

/// What a connection owes.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    owed: u32,
    /// Bytes at the front that are known to hold no end of the reply.
    scanned: usize,
}

impl Line {
    /// A script for `connections` connections.
    pub fn new(options: LineOptions, connections: usize) -> Self {
        let end = Finder::new(&options.terminator).into_owned();
        Self { options, end, sessions: vec![Session::default(); connections], wrong: 0, done: 0 }
    }
}

impl Script for Line {
    fn open(&mut self, at: usize) {
        self.sessions[at] = Session::default();
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        (0..count).for_each(|_| out.extend_from_slice(&self.options.request));
        self.sessions[at].owed += count;
    }

    fn hear(&mut self, at: usize, bytes: &[u8], faults: &mut Faults) -> Heard {
        let session = &mut self.sessions[at];
        let mut heard = Heard::default();
        while heard.done < session.owed {
            let rest = &bytes[heard.used..];
            let Some(found) = self.end.find(&rest[session.scanned..]) else {
                // The terminator may have begun in the last few bytes.
                session.scanned = (rest.len() + 1).saturating_sub(self.options.terminator.len());
                break;
            };
            let reply = &rest[..session.scanned + found + self.options.terminator.len()];
            session.scanned = 0;
            if !reply.starts_with(&self.options.prefix) {
                self.wrong += 1;
                faults.count(FaultKind::WrongReply, || {
                    let (prefix, reply) = (shown(&self.options.prefix), shown(reply));
                    format!("expected a reply that begins with {prefix}, found {reply}")
                });
            }
            heard.used += reply.len();
            heard.done += 1;
        }
        session.owed -= heard.done;
        self.done += u64::from(heard.done);
        if session.owed == 0 && heard.used < bytes.len() {
            let extra = &bytes[heard.used..];
            faults.count(FaultKind::UnaskedBytes, || format!("found {}", shown(extra)));
            heard.used = bytes.len();
        }
        heard
    }

    fn close(&mut self, at: usize) {
        self.sessions[at] = Session::default();
    }

    fn verdict(&self, _reply: &[u8]) -> Check {
        let prefix = shown(&self.options.prefix);
        Check {
            kind: if self.options.prefix.is_empty() { "none" } else { "prefix" }.to_owned(),
            ok: self.wrong == 0,
            detail: match self.options.prefix.is_empty() {
                true => format!("{} replies counted, none looked into", self.done),
                false => format!("{} of {} do not begin with {prefix}", self.wrong, self.done),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(prefix: &str) -> Line {
        let options = LineOptions {
            request: b"INCR x\r\n".to_vec(),
            terminator: b"\r\n".to_vec(),
            prefix: prefix.as_bytes().to_vec(),
        };
        let mut line = Line::new(options, 1);
        line.open(0);
        line
    }

    /// Feeds `wire` in every pair of pieces and expects `done` replies and the given faults.
    fn check(prefix: &str, asked: u32, wire: &[u8], done: u32, wrong: u64, unasked: u64) {
        for cut in 0..=wire.len() {
            let (mut line, mut faults, mut out) = (line(prefix), Faults::default(), Vec::new());
            line.ask(0, asked, &mut out);
            assert_eq!(out, b"INCR x\r\n".repeat(asked as usize));
            let first = line.hear(0, &wire[..cut], &mut faults);
            let second = line.hear(0, &wire[first.used..], &mut faults);
            assert_eq!(first.done + second.done, done, "cut at {cut}");
            assert_eq!(faults.of(FaultKind::WrongReply), wrong, "cut at {cut}");
            let found = faults.of(FaultKind::UnaskedBytes);
            assert_eq!(found.min(1), unasked, "cut at {cut}: {faults:?}");
            assert_eq!(line.verdict(b"").ok, wrong == 0);
        }
    }

    #[test]
    fn replies_are_found_in_any_pieces() {
        check(":", 3, b":1\r\n:22\r\n:333\r\n", 3, 0, 0);
        check(":", 3, b":1\r\n:22\r\n:333\r", 2, 0, 0);
        check("", 1, b"\r\n", 1, 0, 0);
        check(":", 2, b":1\r\n-ERR no\r\n", 2, 1, 0);
        check(":", 1, b":1\r\n:2\r\n", 1, 0, 1);
        check(":", 1, b":1\r\r\n", 1, 0, 0);
    }

    #[test]
    fn a_new_connection_owes_nothing() {
        let (mut line, mut faults, mut out) = (line(":"), Faults::default(), Vec::new());
        line.ask(0, 2, &mut out);
        line.close(0);
        line.open(0);
        assert_eq!(line.hear(0, b":1\r\n", &mut faults), Heard { used: 4, done: 0 });
        assert_eq!(faults.of(FaultKind::UnaskedBytes), 1);
    }
}
