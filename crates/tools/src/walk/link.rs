//! The connection to a game server: packets out, packets in, and a timeout for each wait. The
//! packets travel in messages of a WebSocket if the server expects that.

use anyhow::{Context, Result, anyhow, bail};
use engines::Refused;
use load::Target;
use load::tls::Stream;
use services::game::packet::{Ask, TELL_MAX, Tell, front};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wire::websocket::{EXAMPLE_REQUEST, FrameHead, Opcode, put_masked};

/// How long connecting and sending may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection.
pub struct Link {
    stream: Stream,
    /// Received bytes that are no whole packet yet.
    held: Vec<u8>,
    /// Received bytes that are no whole frame yet, on a WebSocket.
    frames: Option<Vec<u8>>,
    /// The server has closed the connection.
    is_over: bool,
}

impl Link {
    /// Connects, by WebSocket if the server expects that.
    pub fn open(server: &Target, is_websocket: bool) -> Result<Link> {
        language::debug!("connecting to {}", server.address);
        let socket = TcpStream::connect_timeout(&server.address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let stream = Stream::new(socket, server).map_err(|usage| Refused(usage.0))?;
        let mut link = Link { stream, held: Vec::new(), frames: None, is_over: false };
        if !is_websocket {
            return Ok(link);
        }
        link.stream.write_all(EXAMPLE_REQUEST.as_bytes())?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = link.held.windows(4).position(|it| it == b"\r\n\r\n") {
                if !link.held.starts_with(b"HTTP/1.1 101 ") {
                    bail!("expected a WebSocket (serve game --websocket), found another answer");
                }
                let rest = link.held.split_off(at + 4);
                link.held.clear();
                link.frames = Some(Vec::new());
                link.take(&rest)?;
                return Ok(link);
            }
            let left = end.saturating_duration_since(Instant::now());
            if link.is_over || left.is_zero() {
                bail!("expected the answer of a WebSocket, found none");
            }
            link.receive(left)?;
        }
    }

    /// Sends a packet.
    pub fn ask(&mut self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        ask.put(&mut bytes);
        if self.frames.is_some() {
            let packet = std::mem::take(&mut bytes);
            let mask = (sys::clock::now_ns() as u32).to_ne_bytes();
            put_masked(true, Opcode::Binary, &packet, mask, &mut bytes);
        }
        self.stream.write_all(&bytes).context("the server takes nothing any more")
    }

    /// Takes received bytes: packets, or frames with pieces of packets.
    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(frames) = &mut self.frames else {
            self.held.extend_from_slice(bytes);
            return Ok(());
        };
        frames.extend_from_slice(bytes);
        while let Some(head) = FrameHead::parse(frames).map_err(|bad| anyhow!(bad.why))? {
            let whole = head.head.saturating_add(usize::try_from(head.len)?);
            let Some(payload) = frames.get(head.head..whole) else { break };
            match head.opcode {
                Opcode::Binary | Opcode::Continuation => self.held.extend_from_slice(payload),
                Opcode::Close => self.is_over = true,
                _ => {}
            }
            frames.drain(..whole);
        }
        Ok(())
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
            Ok(count) => self.take(&bytes[..count])?,
            Err(why) => match why.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset => self.is_over = true,
                _ => return Err(why).context("the connection failed"),
            },
        }
        Ok(())
    }
}
