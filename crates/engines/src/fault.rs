//! The reasons why a server could not run, with remedies.

use std::fmt;
use std::io;

use sys::uring::Refusal;

use crate::address::Address;
use crate::extra::ExtraFault;
use crate::shape::Refused;

/// The reason why a server could not run.
#[derive(Debug)]
pub enum Fault {
    /// The shape is impossible.
    Refused(Refused),
    /// The address cannot be listened on.
    Listen(Address, io::Error),
    /// A ring cannot be made.
    Ring(Refusal),
    /// A wait failed, or a resource for it is missing.
    Wait(io::Error),
    /// A worker cannot be started.
    Spawn(io::Error),
    /// A thread of a worker process panicked.
    Panicked,
    /// A worker ended before the server was ready; the reason is on stderr.
    DiedAtStartup(usize),
    /// The listeners or the state of a predecessor cannot be used.
    Handover(io::Error),
    /// The extra worker could not begin or go on.
    Extra(ExtraFault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(reason) => write!(f, "{reason}"),
            Fault::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}")?;
                match error.kind() {
                    io::ErrorKind::AddrInUse if address.net().is_none() => {
                        f.write_str("; another server listens there, or the path is no socket")
                    }
                    _ if address.net().is_none() => Ok(()),
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; another server uses the port: stop it, or say --port 0")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; ports below 1024 need a privilege: say --port 6000")
                    }
                    _ => Ok(()),
                }
            }
            Fault::Ring(error) => write!(f, "cannot make a ring of io_uring: {error}"),
            Fault::Wait(error) => write!(f, "cannot wait for connections: {error}"),
            Fault::Spawn(error) => write!(f, "cannot start a worker: {error}"),
            Fault::Handover(error) => {
                write!(
                    f,
                    "cannot take over from the running server: {error}; it continues to serve"
                )
            }
            Fault::Extra(fault) => write!(f, "{fault}"),
            Fault::Panicked => f.write_str("a thread panicked"),
            Fault::DiedAtStartup(slot) => write!(f, "worker {slot} ended before it was ready"),
        }
    }
}

impl std::error::Error for Fault {}
