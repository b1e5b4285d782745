//! The listeners of a service manager, which starts the server when a client comes, and keeps the
//! sockets when the server ends (sd_listen_fds(3)).

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use sys::{inherit, socket};

use super::listen::{SocketsOf, options, set_waits};
use crate::address::Address;
use crate::shape::Shape;

/// The number of listeners that a service manager passes, and the process that they are for.
const LENT: [&str; 2] = ["LISTEN_FDS", "LISTEN_PID"];
/// The first descriptor that a service manager passes.
const LENT_FIRST: i32 = 3;
/// The most listeners of a service manager.
const LENT_MAX: u32 = 64;

/// Whether a service manager passed listeners to this program or to its predecessor.
pub fn is_lent() -> bool {
    env::var_os(LENT[0]).is_some()
}

/// The listeners that a service manager passed to this process. Call it once.
pub fn lent() -> io::Result<Vec<OwnedFd>> {
    let [count, pid] = LENT.map(|name| env::var(name).ok()?.parse::<u32>().ok());
    match count {
        _ if pid != Some(std::process::id()) => Ok(Vec::new()),
        Some(count @ 1..=LENT_MAX) => {
            (LENT_FIRST..).take(count as usize).map(inherit::adopt).collect()
        }
        _ => Err(io::Error::other(format!(
            "expected 1 to {LENT_MAX} listeners of the service manager (LISTEN_FDS): give the \
             socket unit as many ListenStream"
        ))),
    }
}

/// A service manager's listeners, which all workers share.
pub fn adopt(listeners: Vec<OwnedFd>, shape: &Shape) -> io::Result<Vec<SocketsOf>> {
    let options = options(shape, listeners.len() > 1);
    let group = |listener: OwnedFd| {
        socket::adopt_listener(&listener, &options).map_err(|error| {
            io::Error::new(error.kind(), format!("the service manager's socket: {error}"))
        })?;
        set_waits(&listener, shape)?;
        let address = address_of(&listener)?;
        Ok((vec![listener], address))
    };
    listeners.into_iter().map(group).collect()
}

/// The address that a listener listens on.
pub fn address_of(listener: &OwnedFd) -> io::Result<Address> {
    if let Ok(found) = socket::local_addr(listener) {
        return Ok(Address::Net(found));
    }
    let found = UnixListener::from(listener.try_clone()?).local_addr()?;
    let path = found.as_pathname().ok_or(io::ErrorKind::Unsupported)?;
    Ok(Address::Unix(path.to_owned(), None))
}
