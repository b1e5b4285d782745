//! One request on its own connection, before or after the run.
//!
//! Nothing is timed here, so it blocks. The generator's other connections must be closed by then: a
//! server that serves one client at a time would never reach this one.

use crate::tls::{Layers, Stream};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest reply to wait for (bytes): a market of ten million rows.
const REPLY_MAX: usize = 256 << 20;

/// Sends `request` and reads until `whole` accepts the reply.
///
/// The first address that can be connected to is asked.
///
/// With an empty `request` it only connects, and makes the handshakes of `layers`.
///
/// # Errors
/// Those of the socket; `TimedOut` after `patience`, `UnexpectedEof` when the server closes before
/// the reply is complete, `InvalidData` when the reply never ends; faults of the layers.
pub fn ask(
    addresses: &[SocketAddr],
    layers: Option<&Layers>,
    request: &[u8],
    whole: impl Fn(&[u8]) -> bool,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let links = addresses.iter().map(|it| TcpStream::connect_timeout(it, patience));
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let socket = links.filter_map(|it| it.map_err(|error| failed = error).ok()).next();
    let socket = socket.ok_or(failed)?;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_read_timeout(Some(patience))?;
    let mut stream = Stream::layered(socket, layers)?;
    stream.agree().map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => short(io::ErrorKind::TimedOut, b""),
        _ => e,
    })?;
    converse(stream, request, whole, end)
}

fn converse(
    mut stream: Stream,
    request: &[u8],
    whole: impl Fn(&[u8]) -> bool,
    end: Instant,
) -> io::Result<Vec<u8>> {
    let mut reply = Vec::new();
    if request.is_empty() {
        return Ok(reply);
    }
    stream.write_all(request)?;
    stream.flush()?;
    let mut buffer = vec![0; 256 << 10];
    while !whole(&reply) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(short(io::ErrorKind::TimedOut, &reply));
        }
        stream.socket.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Err(short(io::ErrorKind::UnexpectedEof, &reply)),
            Ok(_) if reply.len() > REPLY_MAX => {
                return Err(short(io::ErrorKind::InvalidData, &reply));
            }
            Ok(count) => reply.extend_from_slice(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // A read timeout answers EAGAIN, which reads as "would block".
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(reply)
}

fn short(kind: io::ErrorKind, reply: &[u8]) -> io::Error {
    let start = stats::words::visible(reply, 60);
    io::Error::new(kind, format!("{kind} after {} bytes of the reply: `{start}`", reply.len()))
}
