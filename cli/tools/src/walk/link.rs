//! The connection to a game server: packets out, packets in, and a timeout for each wait.

use ::game::packet::{Ask, TELL_MAX, Tell, front};
use anyhow::{Context, Result};
use engines::Refused;
use load::Target;
use load::tls::Stream;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long connecting and sending may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection.
pub struct Link {
    stream: Stream,
    /// Received bytes that are no whole packet yet.
    held: Vec<u8>,
    /// The server has closed the connection.
    is_over: bool,
}

impl Link {
    /// Connects.
    pub fn open(server: &Target) -> Result<Link> {
        language::debug!("connecting to {}", server.address);
        let socket = TcpStream::connect_timeout(&server.address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut stream = Stream::new(socket, server).map_err(|usage| Refused(usage.0))?;
        stream.agree()?;
        Ok(Link { stream, held: Vec::new(), is_over: false })
    }

    /// Sends a packet.
    pub fn ask(&mut self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        ask.put(&mut bytes);
        self.stream.write_all(&bytes).context("the server takes nothing any more")
    }

    /// The next packet, if one comes within `patience`.
    pub fn tell(&mut self, patience: Duration) -> Result<Option<Tell>> {
        let end = Instant::now() + patience;
        loop {
            if let Some((body, used)) = front(&self.held, TELL_MAX)? {
                let tell = Tell::read(body)?;
                self.held.drain(..used);
                return Ok(Some(tell));
            }
            let left = end.saturating_duration_since(Instant::now());
            if self.is_over || left.is_zero() {
                return Ok(None);
            }
            self.receive(left)?;
        }
    }

    /// Whether the server has closed and all packets were read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn receive(&mut self, patience: Duration) -> Result<()> {
        let mut bytes = [0; 64 * 1024];
        // Zero would mean no timeout.
        self.stream.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        match self.stream.read(&mut bytes) {
            Ok(0) => self.is_over = true,
            Ok(count) => self.held.extend_from_slice(&bytes[..count]),
            Err(why) => match why.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset => self.is_over = true,
                _ => return Err(why).context("the connection failed"),
            },
        }
        Ok(())
    }
}
