//! One request on its own connection, before or after the run.
//!
//! Nothing is timed here, so it blocks. The generator's other connections must be closed by then: a
//! server that serves one client at a time would never reach this one.

use crate::parse::Target;
use crate::tls::{Layers, Stream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The longest reply to wait for (bytes): a market of ten million rows.
const REPLY_MAX: usize = 256 << 20;

/// How long a server that was only connected to may go on.
const FAREWELL: Duration = Duration::from_millis(250);

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
    target: &Target,
    layers: Option<&Layers>,
    request: &[u8],
    whole: impl Fn(&[u8]) -> bool,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let socket = connect(target, patience)?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_read_timeout(Some(patience))?;
    let mut stream = Stream::layered(socket, layers)?;
    stream.agree().map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => short(io::ErrorKind::TimedOut, b""),
        _ => e,
    })?;
    converse(stream, request, whole, end)
}

fn connect(target: &Target, patience: Duration) -> io::Result<TcpStream> {
    if let Some(path) = &target.unix {
        // The calls of the two kinds of streams are the same.
        return sys::socket::connect_unix(path, false).map(TcpStream::from);
    }
    let addresses = target.addresses();
    let links = addresses.iter().map(|it| TcpStream::connect_timeout(it, patience));
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let socket = links.filter_map(|it| it.map_err(|error| failed = error).ok()).next();
    let socket = socket.ok_or(failed)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn converse(
    mut stream: Stream,
    request: &[u8],
    whole: impl Fn(&[u8]) -> bool,
    end: Instant,
) -> io::Result<Vec<u8>> {
    let mut reply = Vec::new();
    if request.is_empty() {
        hear_out(&stream.socket);
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

/// Ends the output and drops what comes until the server has closed, or a moment has passed. A
/// server that answers the end of input, such as tiny of CS:APP, would die of SIGPIPE where the
/// connection is closed already.
fn hear_out(mut socket: &TcpStream) {
    let (end, mut buffer) = (Instant::now() + FAREWELL, [0; 4096]);
    // Faults of a connection that is not needed any more.
    let _ = socket.shutdown(Shutdown::Write);
    while let left = end.saturating_duration_since(Instant::now())
        && !left.is_zero()
        && socket.set_read_timeout(Some(left)).is_ok()
        && matches!(socket.read(&mut buffer), Ok(1..))
    {}
}

fn short(kind: io::ErrorKind, reply: &[u8]) -> io::Error {
    let start = stats::words::visible(reply, 60);
    io::Error::new(kind, format!("{kind} after {} bytes of the reply: `{start}`", reply.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_server_can_answer_the_end_of_input() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            assert_eq!(client.read(&mut [0; 10]).expect("an end"), 0);
            // In several writes; after a close the second one would fail.
            let mut writes = (0..3).map(|_| {
                std::thread::sleep(Duration::from_millis(20));
                client.write_all(b"HTTP/1.0 501 ")
            });
            writes.all(|written| written.is_ok())
        });
        let target = format!("line://{address}").parse().expect("a target");
        let reply = ask(&target, None, b"", |_| true, Duration::from_secs(5));
        assert_eq!(reply.expect("it listens"), b"");
        assert!(server.join().expect("a server"), "an answer met a closed connection");
    }
}
