//! The addresses of a name, and the one of them that answers.
//!
//! A server may listen on one address of its name only: `localhost` is 127.0.0.1 and ::1, and some
//! servers listen on ::1. So a client tries the next address when one does not answer (RFC 6724
//! section 2, RFC 8305 section 5; here one after the other).

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The wait for an address before the next one is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// The addresses of HOST:PORT, at least one. Those of IPv4 come first, because loopback names
/// resolve to ::1 too, where few servers listen.
///
/// # Errors
/// The text is no HOST:PORT, or the name has no address.
pub fn addresses(place: &str) -> io::Result<Vec<SocketAddr>> {
    let mut all: Vec<SocketAddr> = place.to_socket_addrs()?.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    if all.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(all)
}

/// The first address that accepts a connection of TCP. One alone is not tried.
#[must_use]
pub fn answering(all: &[SocketAddr]) -> Option<SocketAddr> {
    match all {
        [] | [_] => all.first().copied(),
        _ => all.iter().copied().find(|it| TcpStream::connect_timeout(it, PATIENCE).is_ok()),
    }
}

/// The address of HOST:PORT that accepts a connection of TCP; the first if none does.
///
/// # Errors
/// As [`addresses`].
pub fn server(place: &str) -> io::Result<SocketAddr> {
    let all = addresses(place)?;
    Ok(answering(&all).unwrap_or(all[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_next_address_is_tried() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        assert_eq!(answering(&[closed, listening]), Some(listening));
        assert_eq!(answering(&[closed, closed]), None);
        assert_eq!(answering(&[closed]), Some(closed), "there is no choice");
        assert_eq!(server(&listening.to_string()).unwrap(), listening);
        assert!(addresses("no port").is_err());
    }
}
