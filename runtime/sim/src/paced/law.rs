//! The laws of paced sources.

/// One law of paced sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[expect(missing_docs, reason = "the sentences say what each law asks")]
pub enum PacedLaw {
    #[display(
        "time: `now` and `until` never decrease for a stream, and no packet is appended before \
         its moment"
    )]
    Time,
    #[display("order: the moments of a stream's packets never decrease")]
    Order,
    #[display(
        "progress: a stream asks for a moment after `until`, unless the burst is full, and has \
         nothing due before the moment it asked for"
    )]
    Progress,
    #[display(
        "withdrawal: after `unsent` packets were withdrawn the same packets come again, neither \
         more nor fewer; a stream that was told to end meanwhile may give them up and say bye \
         instead, in its last call"
    )]
    Withdrawal,
    #[display(
        "cutting: however often a stream is called, and with however much room, it makes the same \
         packets for the same moments"
    )]
    Cutting,
    #[display(
        "closing: each order is started by one worker and closed once, a stream that is parked or \
         done makes no packet, and a stream that is torn down ends"
    )]
    Closing,
}
