//! One request on its own connection, before or after the run.
//!
//! Nothing is timed here, so it blocks. The generator's other connections must be closed by then: a
//! server that serves one client at a time would never reach this one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest reply to wait for (bytes): a market of ten million rows.
const REPLY_MAX: usize = 256 << 20;

/// Sends `request` and reads until `whole` accepts the reply.
///
/// With an empty `request` it only connects.
///
/// # Errors
/// Those of the socket; `TimedOut` after `patience`, `UnexpectedEof` when the server closes before
/// the reply is complete, `InvalidData` when the reply never ends.
pub fn ask(
    address: SocketAddr,
    request: &[u8],
    whole: impl Fn(&[u8]) -> bool,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut socket = TcpStream::connect_timeout(&address, patience)?;
    let mut reply = Vec::new();
    if request.is_empty() {
        return Ok(reply);
    }
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(patience))?;
    socket.write_all(request)?;
    let mut buffer = vec![0; 256 << 10];
    while !whole(&reply) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(short(io::ErrorKind::TimedOut, &reply));
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut buffer) {
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
    let start = reply[..reply.len().min(60)].escape_ascii();
    io::Error::new(kind, format!("{kind} after {} bytes of the reply: `{start}`", reply.len()))
}
