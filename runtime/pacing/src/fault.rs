//! Why streams could not be sent.

use std::io;

use crate::rank::RankRefused;
use crate::senders::Sender;

/// Why a streaming worker could not begin or continue.
#[derive(Debug, derive_more::Display)]
pub enum Fault {
    /// A wait failed, or a resource for it is missing.
    #[display("cannot wait for orders: {_0}")]
    Wait(io::Error),
    /// The worker is not allowed its rank.
    #[display("{_0}")]
    Rank(RankRefused),
    /// A resource that the sender needs is missing, or has gone.
    #[display("the sender {_0} cannot continue: {_1}")]
    Sender(Sender, io::Error),
    /// A thread panicked.
    #[display("a thread panicked")]
    Panicked,
}

impl std::error::Error for Fault {}
