//! Any protocol in which a request leads to a reply with a known terminator.
//!
//! Examples are `INCR x\r\n` to a redis server, `buy 1 1\n` to a market, and `ping\n` to an echo
//! server; or the requests of a file in order, each connection beginning at another position. A
//! reply is right if it begins with the expected prefix.

use super::{Replies, ReplyLog, Script, shown, unasked};
use crate::faults::FaultKind;
use crate::report::Check;
use memchr::memmem::Finder;

/// The requests and the form of their replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// The requests' bytes, including their ends; at least one.
    pub requests: Vec<Vec<u8>>,
    /// The end of a reply; not empty.
    pub terminator: Vec<u8>,
    /// The number of terminators in a reply, at least one: a redis server ends a bulk reply, `$3`
    /// and `foo`, with its second.
    pub terminators: u32,
    /// The expected beginning of a reply; empty accepts any.
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

/// The outstanding requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    owed: u32,
    /// Bytes at the front already searched for the end of the reply.
    scanned: usize,
    /// Terminators of the reply at the front found so far.
    seen: u32,
    next: usize,
}

impl Line {
    /// A script for `connections` connections.
    pub fn new(options: LineOptions, connections: usize) -> Self {
        let end = Finder::new(&options.terminator).into_owned();
        let mut line = Self { options, end, sessions: Vec::new(), wrong: 0, done: 0 };
        line.reserve(connections);
        line
    }

    /// The length of the complete reply at the front of `rest`, once it has arrived.
    fn whole(&mut self, at: usize, rest: &[u8]) -> Option<usize> {
        let session = &mut self.sessions[at];
        let length = self.options.terminator.len();
        while let Some(found) = self.end.find(&rest[session.scanned..]) {
            session.scanned += found + length;
            session.seen += 1;
            if session.seen == self.options.terminators.max(1) {
                session.seen = 0;
                return Some(std::mem::take(&mut session.scanned));
            }
        }
        // A terminator may have begun in the last few bytes.
        session.scanned = session.scanned.max((rest.len() + 1).saturating_sub(length));
        None
    }
}

impl Script for Line {
    fn reserve(&mut self, connections: usize) {
        let made = self.sessions.len();
        let session = |at| Session { next: at % self.options.requests.len(), ..Session::default() };
        self.sessions.extend((made..connections).map(session));
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        let session = &mut self.sessions[at];
        let requests = &self.options.requests;
        for _ in 0..count {
            out.extend_from_slice(&requests[session.next]);
            session.next = if session.next + 1 == requests.len() { 0 } else { session.next + 1 };
        }
        session.owed += count;
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        while replies.done < self.sessions[at].owed {
            let rest = &bytes[replies.used..];
            let Some(length) = self.whole(at, rest) else { break };
            let wrong = !rest.starts_with(&self.options.prefix);
            if wrong {
                log.fault(FaultKind::WrongReply, || {
                    let (prefix, reply) = (shown(&self.options.prefix), shown(&rest[..length]));
                    format!("expected a reply that begins with {prefix}, found {reply}")
                });
            }
            log.note(0, length, wrong);
            replies.wrong += u32::from(wrong);
            replies.used += length;
            replies.done += 1;
        }
        self.sessions[at].owed -= replies.done;
        self.done += u64::from(replies.done);
        self.wrong += u64::from(replies.wrong);
        if self.sessions[at].owed == 0 && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn close(&mut self, at: usize) {
        let next = self.sessions[at].next;
        self.sessions[at] = Session { next, ..Session::default() };
    }

    fn kinds(&self) -> Vec<String> {
        vec!["line".to_owned()]
    }

    fn totals(&self) -> Vec<u64> {
        vec![self.wrong, self.done]
    }

    fn verdict(&self, _reply: &[u8], others: &[Vec<u64>]) -> Check {
        let sum = |place: usize| others.iter().map(|sums| sums[place]).sum::<u64>();
        let (wrong, done) = (self.wrong + sum(0), self.done + sum(1));
        let prefix = shown(&self.options.prefix);
        Check {
            kind: if self.options.prefix.is_empty() { "none" } else { "prefix" }.to_owned(),
            ok: wrong == 0,
            detail: match self.options.prefix.is_empty() {
                true => format!("{done} replies counted; --expect-prefix looks into them"),
                false => {
                    format!("{} of {done} replies begin with {prefix}", done.saturating_sub(wrong))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;

    fn line(prefix: &str) -> Line {
        let options = LineOptions {
            requests: vec![b"INCR x\r\n".to_vec()],
            terminator: b"\r\n".to_vec(),
            terminators: 1,
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
            let mut log = ReplyLog::new(&mut faults, None);
            let first = line.receive(0, &wire[..cut], &mut log);
            let second = line.receive(0, &wire[first.used..], &mut log);
            assert_eq!(first.done + second.done, done, "cut at {cut}");
            assert_eq!(faults.of(FaultKind::WrongReply), wrong, "cut at {cut}");
            let found = faults.of(FaultKind::UnaskedBytes);
            assert_eq!(found.min(1), unasked, "cut at {cut}: {faults:?}");
            assert_eq!(line.verdict(b"", &[]).ok, wrong == 0);
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
        let replies = line.receive(0, b":1\r\n", &mut ReplyLog::new(&mut faults, None));
        assert_eq!(replies, Replies { used: 4, ..Replies::default() });
        assert_eq!(faults.of(FaultKind::UnaskedBytes), 1);
    }

    #[test]
    fn replies_of_several_lines_and_requests_of_a_file() {
        let mut options = line("$").options;
        options.requests = vec![b"GET a\r\n".to_vec(), b"GET b\r\n".to_vec()];
        options.terminators = 2;
        let wire = b"$3\r\nfoo\r\n$0\r\n\r\n$1\r\nx\r\n";
        for cut in 0..=wire.len() {
            let mut line = Line::new(options.clone(), 2);
            let (mut faults, mut out) = (Faults::default(), Vec::new());
            line.ask(1, 3, &mut out);
            assert_eq!(out, b"GET b\r\nGET a\r\nGET b\r\n");
            let mut log = ReplyLog::new(&mut faults, None);
            let first = line.receive(1, &wire[..cut], &mut log);
            let second = line.receive(1, &wire[first.used..], &mut log);
            assert_eq!((first.done + second.done, second.used), (3, wire.len() - first.used));
            assert!(faults.is_empty(), "cut at {cut}: {faults:?}");
        }
    }
}
