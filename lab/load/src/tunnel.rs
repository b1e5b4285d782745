//! A tunnel through a proxy (CONNECT, RFC 9110 section 9.3.6), in which TLS begins.

use crate::parse::{Proxy, Target};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// The longest reply of a proxy to CONNECT (bytes).
const REPLY_MAX: usize = 16 << 10;

/// The tunnel of one connection, until the proxy has made it.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    /// The rest of the request.
    pub(crate) unsent: Vec<u8>,
    reply: Vec<u8>,
}

/// The reply of a proxy that makes no tunnel.
#[derive(Debug, derive_more::Display)]
#[display("expected a tunnel from the proxy (CONNECT), found `{_0}`")]
pub(crate) struct NoTunnel(String);

impl std::error::Error for NoTunnel {}

impl Tunnel {
    /// A tunnel through `proxy` to the host of `target`.
    pub(crate) fn new(target: &Target, proxy: &Proxy) -> Self {
        let authority = target.authority_with_port();
        let login = proxy.login.as_ref();
        let login = login.map(|it| format!("Proxy-Authorization: {it}\r\n")).unwrap_or_default();
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{login}\r\n");
        Self { unsent: request.into_bytes(), reply: Vec::new() }
    }

    /// Takes the reply, as it comes. Once it is whole, the number of `bytes` that belong to it.
    ///
    /// # Errors
    /// [`NoTunnel`] in an [`io::Error`]: the status is not 2xx, or there is no end.
    pub(crate) fn open(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let kept = self.reply.len();
        self.reply.extend_from_slice(bytes);
        let end = self.reply.windows(4).position(|it| it == b"\r\n\r\n");
        let is_made = self.reply.starts_with(b"HTTP/1.") && self.reply.get(8..10) == Some(b" 2");
        match end {
            Some(end) if is_made => Ok(Some(end + 4 - kept)),
            None if !bytes.is_empty() && self.reply.len() < REPLY_MAX => Ok(None),
            _ => Err(self.refused()),
        }
    }

    /// Makes the tunnel over a socket that blocks.
    ///
    /// # Errors
    /// Those of the socket, and as [`Tunnel::open`].
    pub(crate) fn make(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        socket.write_all(&self.unsent)?;
        let mut byte = [0];
        loop {
            // No byte of the server must be taken with the reply.
            let count = socket.read(&mut byte)?;
            if self.open(&byte[..count])?.is_some() {
                return Ok(());
            }
        }
    }

    fn refused(&self) -> io::Error {
        let line = self.reply.split(|it| *it == b'\r').next().unwrap_or_default();
        io::Error::new(ErrorKind::InvalidData, NoTunnel(stats::words::visible(line, 60)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_however_it_arrives() {
        let mut target: Target = "https://127.0.0.1/a".parse().expect("a target");
        target.ask_proxy(Proxy::default()).expect("TLS is tunnelled");
        let check = |reply: &[u8], want: Result<usize, &str>| {
            for step in [1, 3, reply.len().max(1)] {
                let mut tunnel = Tunnel::new(&target, &Proxy::default());
                let asked = b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n";
                assert_eq!(tunnel.unsent, asked);
                let mut taken = 0;
                let mut pieces = reply.chunks(step).chain([&b""[..]]);
                let found = pieces.find_map(|piece| match tunnel.open(piece) {
                    Ok(None) => {
                        taken += piece.len();
                        None
                    }
                    Ok(Some(count)) => Some(Ok(taken + count)),
                    Err(why) => Some(Err(why.to_string())),
                });
                match (found.expect("an end"), want) {
                    (Err(why), Err(want)) => assert!(why.contains(want), "{why}"),
                    (found, want) => assert_eq!(found, want.map_err(str::to_owned)),
                }
            }
        };
        check(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n\x16\x03", Ok(27));
        check(b"HTTP/1.0 200 Connection established\r\n\r\n", Ok(39));
        check(b"HTTP/1.1 407 Who\r\n\r\n", Err("found `HTTP/1.1 407 Who`"));
        check(b"SSH-2.0-x\r\n", Err("found `SSH-2.0-x`"));
        check(b"", Err("found ``"));
    }
}
