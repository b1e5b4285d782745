//! The reasons why a server could not run, with remedies.

use std::io;

use sys::uring::Refusal;

use crate::address::Address;
use crate::axes::Refused;
use crate::extra::ExtraFault;

/// The reason why a server could not run.
#[derive(Debug, derive_more::Display)]
pub enum Fault {
    /// The shape is impossible.
    Refused(Refused),
    /// The address cannot be listened on.
    #[display("cannot listen on {_0}: {_1}{}", remedy(_0, _1))]
    Listen(Address, io::Error),
    /// The server listens, and cannot give up its rights.
    #[display("cannot give up rights: {_0}")]
    Rights(io::Error),
    /// A ring cannot be made.
    #[display("cannot make a ring of io_uring: {_0}")]
    Ring(Refusal),
    /// A wait failed, or a resource for it is missing.
    #[display("cannot wait for connections: {_0}")]
    Wait(io::Error),
    /// A worker cannot be started.
    #[display("cannot start a worker: {_0}")]
    Spawn(io::Error),
    /// A thread of a worker process panicked.
    #[display("a thread panicked")]
    Panicked,
    /// A worker ended before the server was ready; the reason is on stderr.
    #[display("worker {_0} ended before it was ready")]
    DiedAtStartup(usize),
    /// The listeners or the state of a predecessor cannot be used.
    #[display("cannot take over from the running server: {_0}; it continues to serve")]
    Handover(io::Error),
    /// The extra worker could not begin or go on.
    Extra(ExtraFault),
}

fn remedy(address: &Address, error: &io::Error) -> &'static str {
    use io::ErrorKind::{AddrInUse, PermissionDenied};
    match (error.kind(), address) {
        (AddrInUse, Address::Unix(..)) => {
            "; another server listens there, or the path is not a socket"
        }
        (AddrInUse, _) => "; another server uses the port: stop it, or say --port 0",
        (PermissionDenied, Address::Net(_)) => {
            "; ports below 1024 need a privilege: say --port 6000"
        }
        _ => "",
    }
}

impl std::error::Error for Fault {}
