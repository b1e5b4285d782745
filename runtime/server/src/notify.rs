//! Tells a service manager that the server is ready and alive (sd_notify(3)).
//!
//! The protocol is a datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a manager that does not read may delay the server.
const PATIENCE: Duration = Duration::from_secs(1);

/// A service manager that wants to know.
pub(crate) struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// The manager that started this process; `None` without one.
    pub fn of_environment() -> Option<Manager> {
        let name = env::var("NOTIFY_SOCKET").ok()?;
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&name),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Manager { socket, address: address.ok()? })
    }

    /// Sends lines; waits for room in the manager's queue if `must`. A manager that is gone needs
    /// none.
    fn tell(&self, lines: &str, must: bool) {
        let _ = self.socket.set_nonblocking(!must);
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.address);
    }

    /// The server is ready, and this process is its main one: also after a hand-over.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS={status}\n", std::process::id()), true);
    }

    /// The server works.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1\n", false);
    }
}

/// The interval of signs of life: half the time after which the manager ends the server
/// (sd_watchdog_enabled(3)). A successor has the watchdog of its predecessor.
pub(crate) fn interval(is_successor: bool) -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let pid = number("WATCHDOG_PID").filter(|_| !is_successor);
    let is_meant = pid.is_none_or(|pid| pid == u64::from(std::process::id()));
    let limit = number("WATCHDOG_USEC").filter(|limit| is_meant && *limit > 0)?;
    Some(Duration::from_micros(limit / 2))
}
