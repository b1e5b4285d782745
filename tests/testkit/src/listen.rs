//! Servers of a few lines in this process, for tests of clients.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Listens at `place`, and calls `talk` with each client in a thread, until the process ends.
///
/// # Errors
/// The place cannot be listened at.
pub fn listen_at<T>(
    place: impl Into<SocketAddr>,
    talk: impl Fn(TcpStream) -> T + Clone + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(place.into())?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let talk = talk.clone();
            thread::spawn(move || drop(talk(client)));
        }
    });
    Ok(address)
}

/// [`listen_at`] a free port of loopback.
///
/// # Panics
/// If no port is free.
pub fn listen<T>(talk: impl Fn(TcpStream) -> T + Clone + Send + 'static) -> SocketAddr {
    listen_at((Ipv4Addr::LOCALHOST, 0), talk).expect("a free port")
}
