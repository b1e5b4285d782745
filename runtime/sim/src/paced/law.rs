//! The laws of paced sources.

/// One law of paced sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum PacedLaw {
    /// The schedule is kept.
    #[display(
        "time: `now` and `until` never decrease for a stream, and no packet is appended before \
         its moment"
    )]
    Time,
    /// Packets keep their order.
    #[display("order: the moments of a stream's packets never decrease")]
    Order,
    /// Every call makes progress.
    #[display(
        "progress: a stream asks for a moment after `until`, unless the burst is full, and has \
         nothing due before the moment it asked for"
    )]
    Progress,
    /// Withdrawn packets come again.
    #[display(
        "withdrawal: after `unsent` packets were withdrawn the same packets come again, neither \
         more nor fewer; a stream that was told to end meanwhile may give them up and say bye \
         instead, in its last call"
    )]
    Withdrawal,
    /// The number of calls does not change the packets.
    #[display(
        "cutting: however often a stream is called, and with however much room, it makes the same \
         packets for the same moments"
    )]
    Cutting,
    /// Started once, closed once.
    #[display(
        "closing: each order is started by one worker and closed once, a stream that is parked or \
         done makes no packet, and a stream that is torn down ends"
    )]
    Closing,
}

impl PacedLaw {
    /// All six, in their customary order.
    pub const ALL: [PacedLaw; 6] = [
        PacedLaw::Time,
        PacedLaw::Order,
        PacedLaw::Progress,
        PacedLaw::Withdrawal,
        PacedLaw::Cutting,
        PacedLaw::Closing,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_law_has_a_sentence_of_its_own() {
        for (at, law) in PacedLaw::ALL.iter().enumerate() {
            for other in &PacedLaw::ALL[..at] {
                assert_ne!(law.to_string(), other.to_string());
            }
        }
    }
}
