//! The laws of paced sources.

use core::fmt;

/// One law of paced sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacedLaw {
    /// The schedule is kept.
    Time,
    /// Packets keep their order.
    Order,
    /// Every call makes progress.
    Progress,
    /// Withdrawn packets come again.
    Withdrawal,
    /// The number of calls does not change the packets.
    Cutting,
    /// Started once, closed once.
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

    /// The law's name, in one word.
    pub const fn name(self) -> &'static str {
        match self {
            PacedLaw::Time => "time",
            PacedLaw::Order => "order",
            PacedLaw::Progress => "progress",
            PacedLaw::Withdrawal => "withdrawal",
            PacedLaw::Cutting => "cutting",
            PacedLaw::Closing => "closing",
        }
    }

    /// The demand of the law, in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            PacedLaw::Time => {
                "`now` and `until` never decrease for a stream, and no packet is appended before \
                 its moment"
            }
            PacedLaw::Order => "the moments of a stream's packets never decrease",
            PacedLaw::Progress => {
                "a stream asks for a moment after `until`, unless the burst is full, and has \
                 nothing due before the moment it asked for"
            }
            PacedLaw::Withdrawal => {
                "after `unsent` packets were withdrawn the same packets come again, neither more \
                 nor fewer; a stream that was told to end meanwhile may give them up and say \
                 bye instead, in its last call"
            }
            PacedLaw::Cutting => {
                "however often a stream is called, and with however much room, it makes the same \
                 packets for the same moments"
            }
            PacedLaw::Closing => {
                "each order is started by one worker and closed once, a stream that is parked or \
                 done makes no packet, and a stream that is torn down ends"
            }
        }
    }
}

impl fmt::Display for PacedLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_law_has_a_name_and_a_sentence_of_its_own() {
        for (at, law) in PacedLaw::ALL.iter().enumerate() {
            for other in &PacedLaw::ALL[..at] {
                assert_ne!(law.name(), other.name());
                assert_ne!(law.sentence(), other.sentence());
            }
            assert!(law.to_string().starts_with(law.name()));
        }
    }
}
