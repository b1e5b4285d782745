//! A port for a server that cannot choose one by itself.
//!
//! A port of the ephemeral range is a bad choice: while the server starts, or between its end and
//! its restart, another program's `connect` or `bind` to port 0 takes it, and a client that tries a
//! closed port of that range can be given the same port as its source and then connects to itself
//! (tcp(7), RFC 9293 section 3.5, simultaneous open). So the port is below that range.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports of clients (`net.ipv4.ip_local_port_range`, 32768 and above).
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A TCP port on which nothing listens at `host`. Each call of a process returns another one.
///
/// # Errors
/// The host is no address of this machine; none of 1,000 ports is free.
pub fn free_port(host: IpAddr) -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = process::id().wrapping_mul(61);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..1000 {
        let next = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + next % (PORTS.end - PORTS.start)) as u16;
        match TcpListener::bind((host, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn each_call_returns_another_free_port_below_those_of_clients() {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut ports: Vec<u16> = (0..100).map(|_| free_port(host).unwrap()).collect();
        assert!(ports.iter().all(|port| PORTS.contains(&u32::from(*port))));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100);
        assert!(free_port(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))).is_err(), "not our address");
    }
}
