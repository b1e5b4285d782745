//! Whether a recorded history is linearisable: whether each request can have taken effect at one
//! moment between its call and its reply (Herlihy and Wing, 1990).
//!
//! Each stock has a separate history (Horn and Kroening, "Faster linearizability checking via
//! P-compositionality", 2015). A `show` is one read of each: its rows need not be of one moment.
//!
//! The search of Wing and Gong runs just in time (Lowe, "Testing for linearizability", 2017): along
//! the calls and replies it keeps every state that the stock can be in, with the set of open
//! requests that have taken effect in it. At a reply, states in which that request has not taken
//! effect are extended or dropped; when none is left, the history is impossible.

use std::collections::{BTreeSet, HashSet};

/// The effect of a request on one stock, with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum Effect {
    #[display("a buy of {_0} succeeded")]
    Bought(i64),
    #[display("a buy of {_0} was refused")]
    Refused(i64),
    #[display("a sell of {_0} succeeded")]
    Sold(i64),
    #[display("`show` said {_0}")]
    Read(i64),
}

/// A request with its two moments, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) call: u64,
    pub(crate) reply: u64,
    pub(crate) effect: Effect,
}

impl Effect {
    /// The pieces left afterwards; `None` if the reply is impossible with `left`.
    fn after(self, left: i64) -> Option<i64> {
        match self {
            Effect::Bought(count) => (left >= count).then_some(left - count),
            Effect::Refused(count) => (left < count).then_some(left),
            Effect::Sold(count) => Some(left + count),
            Effect::Read(seen) => (left == seen).then_some(left),
        }
    }
}

/// A state of the stock: the pieces left, and the open requests that have taken effect.
type State = (i64, BTreeSet<usize>);

/// Checks the history of one stock that begins with `left` pieces. The error is the index of the
/// first event, by its reply, that no order of the requests explains.
pub(crate) fn check(left: i64, events: &[Event]) -> Result<(), usize> {
    // At the same moment calls come first: the two requests overlap.
    let calls = events.iter().enumerate().map(|(at, event)| (event.call, false, at));
    let replies = events.iter().enumerate().map(|(at, event)| (event.reply, true, at));
    let mut moments: Vec<_> = calls.chain(replies).collect();
    moments.sort_unstable();
    let (mut open, mut states) = (BTreeSet::new(), HashSet::from([(left, BTreeSet::new())]));
    for (_, is_reply, at) in moments {
        if !is_reply {
            open.insert(at);
            continue;
        }
        // Keeps all states in which this request has taken effect, after any other open ones.
        let mut seen: HashSet<State> = states.clone();
        let mut ahead: Vec<State> = states.drain().collect();
        while let Some((left, mut taken)) = ahead.pop() {
            if taken.remove(&at) {
                states.insert((left, taken));
                continue;
            }
            for &next in open.difference(&taken) {
                let Some(left) = events[next].effect.after(left) else { continue };
                let more = (left, taken.iter().copied().chain([next]).collect());
                if seen.insert(more.clone()) {
                    ahead.push(more);
                }
            }
        }
        open.remove(&at);
        if states.is_empty() {
            return Err(at);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Effect::{Bought, Read, Refused, Sold};
    use super::*;
    use stats::Rng;

    fn verify(left: i64, list: &[(u64, u64, Effect)], expected: Result<(), usize>) {
        let event = |&(call, reply, effect)| Event { call, reply, effect };
        let events: Vec<Event> = list.iter().map(event).collect();
        assert_eq!(check(left, &events), expected, "{list:?}");
    }

    #[test]
    fn replies_are_possible_or_not() {
        verify(5, &[(0, 9, Bought(3)), (1, 8, Read(5)), (2, 7, Read(2))], Ok(()));
        verify(0, &[(0, 9, Bought(3)), (1, 8, Sold(3))], Ok(()));
        verify(3, &[(0, 9, Bought(3)), (1, 8, Refused(1)), (2, 7, Sold(1))], Ok(()));
        verify(5, &[(0, 1, Sold(1)), (2, 3, Read(5))], Err(1));
        verify(5, &[(0, 9, Bought(3)), (1, 8, Bought(3))], Err(0));
        verify(5, &[(0, 9, Sold(2)), (1, 2, Read(7)), (3, 4, Read(5))], Err(2));
        verify(5, &[(0, 3, Sold(1)), (1, 2, Sold(1)), (4, 5, Read(6))], Err(2));
    }

    /// Histories of a correct stock pass, and each of them fails with one wrong reply.
    #[test]
    fn a_mutant_of_every_history_is_found() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut left, mut list) = (10, Vec::new());
            // Each takes effect at `moment`, and overlaps with up to five others.
            for moment in (1000..7000).step_by(100) {
                let count = 1 + rng.below(6) as i64;
                let all = [Bought(count), Refused(count), Sold(count), Read(left)];
                let possible = all.map(|effect| Some((effect, effect.after(left)?)));
                let (effect, after) = rng.pick(&possible).unwrap_or((Read(left), left));
                left = after;
                let [before, after] = [(); 2].map(|()| rng.below(300) as u64);
                list.push((moment - before, moment + after, effect));
            }
            for (seen, expected) in [(left, Ok(())), (left + 1, Err(60))] {
                list.push((9000, 9001, Read(seen)));
                verify(10, &list, expected);
                list.pop();
            }
        }
    }
}
