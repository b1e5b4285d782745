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

mod compared;
pub mod probe;
mod watched;

pub(crate) use compared::equal;
pub use compared::{chunking, determinism};
pub use watched::{Ledger, Seen, TURN_BYTES_MAX, Watched};

/// One law of the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[expect(missing_docs, reason = "the sentences say what each law asks")]
pub enum Law {
    #[display("chunking: any split of the input gives the same output")]
    Chunking,
    #[display(
        "progress: a step uses at most what it is offered, is never offered nothing, and if it \
         uses nothing of `input_max` bytes the connection is closed"
    )]
    Progress,
    #[display(
        "back-pressure: no input is offered from a full output on until it is low, nor during a \
         pause"
    )]
    BackPressure,
    #[display(
        "time: `now` never decreases for a session, no deadline is told before the moment asked \
         for, and one that was replaced is forgotten"
    )]
    Time,
    #[display(
        "order: output leaves in the order written, input is offered in the order sent, and \
         nothing is told to a session while its job is out"
    )]
    Order,
    #[display(
        "closing: after `Then::Close` the output is flushed, no step is called again, and `close` \
         is called exactly once for each `open`"
    )]
    Closing,
    #[display("exclusion: one worker is in a session at a time")]
    Exclusion,
    #[display(
        "bounded turn: an engine feeds a bounded number of bytes of one session before it looks \
         at the others"
    )]
    BoundedTurn,
    #[display("determinism: with one worker the same state, events and times give the same bytes")]
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
}

/// A breach of a law.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{} (law of {})", self.detail, self.law)]
pub struct Violation {
    /// The broken law.
    pub law: Law,
    /// The session, and the details.
    pub detail: String,
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
    fn each_law_has_its_own_sentence() {
        for (at, law) in Law::ALL.iter().enumerate() {
            for other in &Law::ALL[..at] {
                assert_ne!(law.to_string(), other.to_string());
            }
        }
    }
}
