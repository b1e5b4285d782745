//! When a connection ends at a stop.

use super::*;
use crate::{Effects, Limits, SessionId, WorkerId};

/// Sends each line back; a drain ends it.
struct Lines;

enum Never {}

impl Service for Lines {
    type State = ();
    type Session = ();
    type Job = Never;
    type Outcome = Never;

    fn limits(&self) -> Limits {
        Limits { input_max: 64, output_high: 64, output_low: 8, sessions_max: 1 }
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        _cx: &Cx<'_, ()>,
        _session: &mut (),
        event: Event<'_, Never>,
        out: &mut Out,
    ) -> Step<Never> {
        let Event::Bytes(input) = event else { return Step::close(0) };
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
            return Step::read(0);
        };
        out.bytes().extend_from_slice(&input[..=end]);
        Step::read(end + 1)
    }

    fn work(&self, _state: &(), job: Never) -> Never {
        job
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// A connection that last moved a byte at 1000 ms and has heard `before`; its last call is at
/// `called` ms. Feeds each input at its time, and returns when a look is due, or 5000.
fn look_at(before: &[u8], called: u64, inputs: &[(u64, &[u8])]) -> u64 {
    let effects = Effects::new(false, false);
    let cx = |ms| Cx::new(at(ms), SessionId::NONE, WorkerId::new(0, 1), &(), &effects);
    let mut conn = Conn::open(&Lines, &cx(0), Peer::Local, &mut Buffers::new(0));
    conn.feed(&Lines, &cx(1000), before);
    conn.last_call(at(called), at(1000));
    for ms in called..5000 {
        for (_, input) in inputs.iter().filter(|(moment, _)| *moment == ms) {
            conn.feed(&Lines, &cx(ms), input);
        }
        assert!(conn.wants().look || conn.wants().wake.is_some(), "it would sleep forever");
        conn.deadline(&Lines, &cx(ms));
        assert!(!conn.is_closing(), "only a look ends it");
        if conn.wants().look {
            conn.drain(&Lines, &cx(ms));
            assert!(conn.is_closing() && !conn.wants().look);
            return ms;
        }
    }
    5000
}

#[test]
fn a_connection_ends_between_two_requests() {
    assert_eq!(look_at(b"", 3000, &[]), 3000, "idle for long");
    assert_eq!(look_at(b"", 1020, &[]), 1100, "it may ask once more");
    assert_eq!(look_at(b"", 1020, &[(1060, b"one\n")]), 1060, "it has asked once more");
    assert_eq!(look_at(b"half", 3000, &[]), 4000, "half a request has a second");
    assert_eq!(look_at(b"half", 3000, &[(3300, b" a line\n")]), 3300);
    assert_eq!(look_at(b"", 1020, &[(1060, b"ha"), (1500, b"lf\n")]), 1500);
    assert_eq!(look_at(b"", 1020, &[(1060, b"half")]), 2020);
}
