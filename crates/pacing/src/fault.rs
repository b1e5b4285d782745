//! Why streams could not be sent.

use std::fmt;
use std::io;

use crate::rank::RankRefused;
use crate::senders::Sender;

/// Why a streaming worker could not begin or continue.
#[derive(Debug)]
pub enum Fault {
    /// A wait failed, or a resource for it is missing.
    Wait(io::Error),
    /// The worker is not allowed its rank.
    Rank(RankRefused),
    /// A resource that the sender needs is missing, or has gone.
    Sender(Sender, io::Error),
    /// A thread panicked.
    Panicked,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Wait(error) => write!(f, "cannot wait for orders: {error}"),
            Fault::Rank(refused) => write!(f, "{refused}"),
            Fault::Sender(sender, error) => {
                write!(f, "the sender {sender} cannot continue: {error}")
            }
            Fault::Panicked => f.write_str("a thread panicked"),
        }
    }
}

impl std::error::Error for Fault {}
