//! The echo protocol of game servers: packets of ten bytes that are returned unchanged.
//!
//! A packet is a length, always 8, in two bytes, and a number in eight, both little-endian. Each
//! connection counts its packets from 0 to 0x1000 and then again from 0. A server sends one login
//! packet with the number 0x7fff_ffff_ffff_ffff when it accepts. Every byte of every packet is
//! compared. The original stress client compared none, because it read the eight bytes as text.

use super::{Replies, ReplyLog, Script, shown, unasked};
use crate::faults::FaultKind;
use crate::report::Check;

/// The size of a packet, its length field included (bytes).
pub(crate) const PACKET: usize = 10;
/// The payload's length, as it precedes each payload.
const LENGTH: u16 = 8;
pub(crate) const LOGIN: u64 = 0x7fff_ffff_ffff_ffff;
/// The last number before the count restarts.
const LAST: u64 = 0x1000;

/// The script.
#[derive(Debug, Default)]
pub struct Echo {
    sessions: Vec<Session>,
    done: u64,
    wrong: u64,
    logins: u64,
    opened: u64,
}

/// The outstanding requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// The number that the next request carries.
    next: u64,
    /// The number that the next echo must carry.
    expected: u64,
    owed: u32,
    /// Whether any packet has arrived.
    greeted: bool,
    /// Login packets received; one is expected.
    logins: u32,
}

impl Echo {
    /// A script for `connections` connections.
    pub fn new(connections: usize) -> Self {
        Self { sessions: vec![Session::default(); connections], ..Self::default() }
    }
}

pub(crate) fn packet(number: u64) -> [u8; PACKET] {
    let mut bytes = [0; PACKET];
    bytes[..2].copy_from_slice(&LENGTH.to_le_bytes());
    bytes[2..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn after(number: u64) -> u64 {
    if number == LAST { 0 } else { number + 1 }
}

impl Script for Echo {
    fn reserve(&mut self, connections: usize) {
        if connections > self.sessions.len() {
            self.sessions.resize(connections, Session::default());
        }
    }

    fn open(&mut self, at: usize) {
        self.sessions[at] = Session::default();
        self.opened += 1;
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        let session = &mut self.sessions[at];
        for _ in 0..count {
            out.extend_from_slice(&packet(session.next));
            session.next = after(session.next);
        }
        session.owed += count;
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let session = &mut self.sessions[at];
        let mut replies = Replies::default();
        for found in bytes.as_chunks::<PACKET>().0 {
            session.greeted = true;
            if *found == packet(LOGIN) {
                session.logins += 1;
                if session.logins == 1 {
                    self.logins += 1;
                } else {
                    log.fault(FaultKind::UnaskedBytes, || "found another login packet".to_owned());
                }
                replies.used += PACKET;
                continue;
            }
            if session.owed == replies.done {
                break;
            }
            let wrong = *found != packet(session.expected);
            if wrong {
                let expected = shown(&packet(session.expected));
                log.fault(FaultKind::WrongReply, || {
                    format!("expected the echo {expected}, found {}", shown(found))
                });
            }
            session.expected = after(session.expected);
            replies.wrong += u32::from(wrong);
            replies.done += 1;
            replies.used += PACKET;
            log.note(0, PACKET, wrong);
        }
        session.owed -= replies.done;
        self.done += u64::from(replies.done);
        self.wrong += u64::from(replies.wrong);
        if session.owed == 0 && session.greeted && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn greetings(&self, at: usize) -> Option<u32> {
        Some(self.sessions[at].logins)
    }

    fn close(&mut self, at: usize) {
        self.sessions[at] = Session::default();
    }

    fn kinds(&self) -> Vec<String> {
        vec!["echo".to_owned()]
    }

    fn totals(&self) -> Vec<u64> {
        vec![self.done, self.wrong, self.logins, self.opened]
    }

    fn verdict(&self, _reply: &[u8], others: &[Vec<u64>]) -> Check {
        let mine = self.totals();
        let sum = |at: usize| mine[at] + others.iter().map(|it| it[at]).sum::<u64>();
        let [done, wrong, logins, opened] = [0, 1, 2, 3].map(sum);
        let right = done - wrong;
        Check {
            kind: "echo".to_owned(),
            ok: wrong == 0,
            detail: format!(
                "{right} of {done} echoes right to the byte; a login packet on {logins} of \
                 {opened} connections"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;

    /// Sends `asked` packets and feeds `wire` in every pair of pieces.
    fn check(asked: u32, wire: &[u8], done: u32, wrong: u32, unasked: u64) {
        for cut in 0..=wire.len() {
            let (mut echo, mut faults, mut out) = (Echo::new(1), Faults::default(), Vec::new());
            echo.open(0);
            echo.ask(0, asked, &mut out);
            let mut log = ReplyLog::new(&mut faults, None);
            let first = echo.receive(0, &wire[..cut], &mut log);
            let second = echo.receive(0, &wire[first.used..], &mut log);
            let found = (first.done + second.done, first.wrong + second.wrong);
            assert_eq!(found, (done, wrong), "cut at {cut}");
            assert_eq!(faults.of(FaultKind::UnaskedBytes).min(1), unasked, "cut at {cut}");
            assert_eq!(echo.verdict(b"", &[]).ok, wrong == 0);
        }
    }

    fn wire(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|&number| packet(number)).collect()
    }

    #[test]
    fn packets_come_back_in_order_behind_a_login() {
        check(3, &wire(&[LOGIN, 0, 1, 2]), 3, 0, 0);
        check(3, &wire(&[0, 1, 2]), 3, 0, 0);
        check(3, &wire(&[LOGIN, 0, 2, 1]), 3, 2, 0);
        check(2, &wire(&[LOGIN, 0, LOGIN, 1]), 2, 0, 1);
        check(2, &wire(&[0, LOGIN, 1]), 2, 0, 0);
        check(1, &wire(&[LOGIN, 0, 1]), 1, 0, 1);
        check(2, &wire(&[LOGIN, 0, 1])[..25], 1, 0, 0);
        check(1, b"\x09\0\0\0\0\0\0\0\0\0", 1, 1, 0);
    }

    #[test]
    fn the_bytes_are_those_of_the_stress_client() {
        assert_eq!(packet(LOGIN), *b"\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f");
        assert_eq!(packet(0x1000), *b"\x08\0\0\x10\0\0\0\0\0\0");
        let mut echo = Echo::new(1);
        let mut out = Vec::new();
        echo.ask(0, 0x1002, &mut out);
        assert!(out.ends_with(&wire(&[0x1000, 0])));
    }
}
