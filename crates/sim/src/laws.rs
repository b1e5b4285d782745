//! The seam's nine laws as checkable properties.
//!
//! [`Watched`] wraps a service and sees, under any engine, whether the engine keeps back-pressure,
//! time, exclusion, bounded turns and the visible half of order, progress and closing. The other
//! laws show only when two runs, or a run and a model, are compared: [`chunking`] and
//! [`determinism`] do so, and [`probe`] gives services whose reply is a pure function of the input,
//! so that any engine can be compared byte for byte.
//!
//! The surprising thing: nothing here knows an engine. Each law is checked where its breach does
//! damage: at the service.

use core::fmt;

mod compared;
pub mod probe;
mod watched;

pub(crate) use compared::equal;
pub use compared::{chunking, determinism};
pub use watched::{Ledger, Seen, TURN_BYTES_MAX, Watched};

/// One law of the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Law {
    /// The cuts of the input do not matter.
    Chunking,
    /// Input that the service cannot use ends the connection.
    Progress,
    /// A full output stops the input.
    BackPressure,
    /// Time goes forward, and deadlines are kept.
    Time,
    /// First in, first out.
    Order,
    /// Flush, then close once.
    Closing,
    /// One worker at a time in a session.
    Exclusion,
    /// No session is served without end.
    BoundedTurn,
    /// The same inputs give the same bytes.
    Determinism,
}

impl Law {
    /// All nine, in their customary order.
    pub const ALL: [Law; 9] = [
        Law::Chunking,
        Law::Progress,
        Law::BackPressure,
        Law::Time,
        Law::Order,
        Law::Closing,
        Law::Exclusion,
        Law::BoundedTurn,
        Law::Determinism,
    ];

    /// The law's name, in one or two words.
    pub const fn name(self) -> &'static str {
        match self {
            Law::Chunking => "chunking",
            Law::Progress => "progress",
            Law::BackPressure => "back-pressure",
            Law::Time => "time",
            Law::Order => "order",
            Law::Closing => "closing",
            Law::Exclusion => "exclusion",
            Law::BoundedTurn => "bounded turn",
            Law::Determinism => "determinism",
        }
    }

    /// The demand of the law, in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Law::Chunking => "any split of the input gives the same output",
            Law::Progress => {
                "a step uses at most what it is offered, is never offered nothing, and if it uses \
                 nothing of `input_max` bytes the connection is closed"
            }
            Law::BackPressure => {
                "no input is offered from a full output on until it is low, nor during a pause"
            }
            Law::Time => {
                "`now` never decreases for a session, no deadline is told before the moment asked \
                 for, and one that was replaced is forgotten"
            }
            Law::Order => {
                "output leaves in the order written, input is offered in the order sent, and \
                 nothing is told to a session while its job is out"
            }
            Law::Closing => {
                "after `Then::Close` the output is flushed, no step is called again, and `close` \
                 is called exactly once for each `open`"
            }
            Law::Exclusion => "one worker is in a session at a time",
            Law::BoundedTurn => {
                "an engine feeds a bounded number of bytes of one session before it looks at the \
                 others"
            }
            Law::Determinism => {
                "with one worker the same state, events and times give the same bytes"
            }
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.sentence())
    }
}

/// A breach of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The broken law.
    pub law: Law,
    /// The session, and the details.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (law of {})", self.detail, self.law)
    }
}

/// Reacts to a violation when no caller reads the list afterwards: panics, so that the
/// thread or process ends loudly.
///
/// # Panics
/// Always.
pub fn panicking(violation: &Violation) {
    panic!("{violation}");
}

/// Reacts to a violation when a caller reads the list afterwards: does nothing.
pub fn listing(_violation: &Violation) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_has_its_own_name_and_sentence() {
        for (at, law) in Law::ALL.iter().enumerate() {
            for other in &Law::ALL[..at] {
                assert_ne!(law.name(), other.name());
                assert_ne!(law.sentence(), other.sentence());
            }
            assert!(law.to_string().starts_with(law.name()), "{law}");
        }
    }
}
