//! Runs a conversation in pieces, without a socket, for the fuzzers of the services.
//!
//! Input is fed in random pieces, output is taken in random amounts, and jobs finish late or at
//! once. Buffers are lent for each turn only, as an engine does that keeps none for an idle
//! session. None of this may change the output.

use std::io::IoSlice;

use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, Service, SessionId, WorkerId};
use stats::Rng;

/// How a conversation is cut.
pub(crate) struct Cuts<'a> {
    /// The maximum lengths of pieces; one is drawn for each piece. `usize::MAX` sends the whole
    /// rest at once.
    pub(crate) pieces: &'a [usize],
    /// The maximum number of bytes taken from the output at once.
    pub(crate) sip: usize,
    /// Whether the engine sometimes prints notes.
    pub(crate) notes: bool,
}

/// Sends `said` to `service`, ends, and returns all replies.
///
/// # Panics
/// If the conversation stalls or violates the seam's contract; `at` says where.
pub(crate) fn exchange<S: Service>(
    rng: &mut Rng,
    service: &S,
    state: &S::State,
    said: &[u8],
    cuts: &Cuts<'_>,
    at: &str,
) -> Vec<u8> {
    let effects = Effects::new(false, cuts.notes && rng.once_in(2));
    let worker = WorkerId::new(0, 1);
    let cx = Cx::new(Instant::ZERO, SessionId::new(0, 0, 1), worker, state, &effects);
    let mut buffers = Buffers::new(4);
    let mut conn = Conn::open(service, &cx, Peer::Local, &mut buffers);
    let (mut heard, mut fed, mut ended) = (Vec::new(), 0, false);
    loop {
        conn.lend(&mut buffers);
        let wants = conn.wants();
        if wants.close {
            break;
        }
        let may_feed = wants.read && fed < said.len();
        if wants.job && (!may_feed || rng.once_in(2)) {
            let job = conn.take_job().expect("it was wanted");
            conn.outcome(service, &cx, service.work(state, job));
        } else if may_feed {
            let end = match *rng.pick(cuts.pieces) {
                usize::MAX => said.len(),
                most => said.len().min(fed + 1 + rng.below(most)),
            };
            conn.feed(service, &cx, &said[fed..end]);
            fed = end;
        } else if fed == said.len() && !ended {
            conn.eof(service, &cx);
            ended = true;
        } else {
            assert!(wants.write, "{at}: neither reads nor writes nor works nor ends");
        }
        if rng.once_in(2) || !conn.wants().read {
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = conn.out().gather(&mut slices);
            let bytes = slices[..filled].iter().flat_map(|slice| slice.iter().copied());
            let before = heard.len();
            heard.extend(bytes.take(1 + rng.below(cuts.sip)));
            conn.sent(service, &cx, heard.len() - before);
        }
        conn.reclaim(&mut buffers);
    }
    conn.close(service, &cx);
    heard
}
