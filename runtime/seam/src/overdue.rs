//! The rule for connections on which nothing moves, the same in every engine.

use core::time::Duration;

use crate::Closed;

/// The peer's progress with the output that waits for it, since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// The peer has taken some bytes.
    Some,
    /// The peer has taken no bytes.
    Nothing,
    /// Over the last stall time it has taken less than it must.
    TooLittle,
}

/// Why a connection is over on which no byte has moved for `still`, if it is: a peer that owes the
/// taking of output has `stall`, and every peer has `idle`. `taking`: the peer's progress, if
/// output waits for it.
pub fn overdue(
    taking: Option<Taking>,
    still: Duration,
    stall: Duration,
    idle: Duration,
) -> Option<Closed> {
    match taking {
        Some(Taking::TooLittle) => Some(Closed::Stalled),
        Some(_) if still >= stall => Some(Closed::Stalled),
        _ if still >= idle => Some(Closed::Idle),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_waits_has_its_own_bound_and_silence_another() {
        let at = |taking, still| {
            overdue(
                taking,
                Duration::from_secs(still),
                Duration::from_secs(9),
                Duration::from_secs(60),
            )
        };
        for taking in [Some(Taking::Some), Some(Taking::Nothing)] {
            assert_eq!([at(taking, 8), at(taking, 9)], [None, Some(Closed::Stalled)]);
        }
        assert_eq!(at(Some(Taking::TooLittle), 0), Some(Closed::Stalled));
        assert_eq!([at(None, 59), at(None, 60)], [None, Some(Closed::Idle)]);
    }
}
