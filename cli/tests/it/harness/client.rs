//! One connection of a test. Every call ends, because sockets have timeouts.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use memchr::memchr;
use socket2::{Domain, Socket, Type};

use super::PATIENCE;
use crate::market::{Account, Request};

/// A client that panics at any behaviour that a healthy server does not show.
pub struct Client {
    stream: TcpStream,
    /// Bytes that were received and not yet taken.
    ahead: Vec<u8>,
}

impl Client {
    /// Connects.
    #[track_caller]
    pub fn new(address: SocketAddr) -> Client {
        Client::try_new(address).expect("a connection")
    }

    /// Connects if that is possible.
    pub fn try_new(address: SocketAddr) -> io::Result<Client> {
        Client::hasty(address, PATIENCE)
    }

    /// Connects if that is possible within `limit`, which each wait has from then on.
    pub fn hasty(address: SocketAddr, limit: Duration) -> io::Result<Client> {
        Client::over(TcpStream::connect_timeout(&address, limit)?, limit)
    }

    /// Connects as over a network: with a small window, and with segments that fit into an Ethernet
    /// frame. The kernel reserves much less memory for them than for loopback's large ones.
    pub fn distant(address: SocketAddr) -> io::Result<Client> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_tcp_mss(1460)?;
        socket.set_recv_buffer_size(4096)?;
        socket.connect_timeout(&address.into(), PATIENCE)?;
        Client::over(socket.into(), PATIENCE)
    }

    /// A client of an established connection, each wait of which lasts at most `limit`.
    fn over(stream: TcpStream, limit: Duration) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Client { stream, ahead: Vec::new() })
    }

    /// Its own port, which the server logs.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().expect("a connected socket").port()
    }

    /// Limits the kernel's receive buffer to about `bytes`.
    pub fn narrow(&self, bytes: usize) {
        let socket = sys::socket::SockRef::from(&self.stream);
        socket.set_recv_buffer_size(bytes).expect("a connected socket");
    }

    /// A second handle, for a thread that sends while this one reads.
    pub fn twin(&self) -> Client {
        let stream = self.stream.try_clone().expect("a descriptor");
        Client { stream, ahead: Vec::new() }
    }

    // ---- send

    /// Sends all of `bytes`.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server takes requests");
    }

    /// Sends all of `bytes`, if the server has not ended the conversation.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Ends its half of the conversation.
    pub fn finish(&mut self) {
        // This fails if the server has already closed, which the sender ignores.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes by a reset, as a crashed machine's kernel would answer.
    pub fn reset(self) {
        sys::socket::set_linger_reset(&self.stream).expect("a socket");
    }

    /// Disappears without a segment, like a machine that loses its power; without the privilege to
    /// do so it closes in the usual way.
    pub fn vanish(self) -> io::Result<()> {
        sys::socket::abandon(self.stream.into())
    }

    // ---- receive

    /// Waits for more; false at the end of input.
    pub fn try_receive(&mut self) -> io::Result<bool> {
        let mut scratch = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut scratch) {
                // A wait with a timeout is not resumed by the kernel (signal(7)).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(len) => {
                    self.ahead.extend_from_slice(&scratch[..len]);
                    return Ok(len > 0);
                }
            }
        }
    }

    #[track_caller]
    fn receive(&mut self) -> bool {
        match self.try_receive() {
            Ok(more) => more,
            Err(error) => panic!("expected a reply, found {error} after {:?}", self.heard()),
        }
    }

    /// Takes what was received so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ahead)
    }

    /// The next `len` bytes.
    #[track_caller]
    pub fn exact(&mut self, len: usize) -> Vec<u8> {
        while self.ahead.len() < len {
            assert!(self.receive(), "expected {len} bytes, found the end after {:?}", self.heard());
        }
        let rest = self.ahead.split_off(len);
        mem::replace(&mut self.ahead, rest)
    }

    /// The next line, without its newline.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut seen = 0;
        loop {
            if let Some(at) = memchr(b'\n', &self.ahead[seen..]) {
                let mut line = self.exact(seen + at + 1);
                line.pop();
                return String::from_utf8(line).expect("replies are text");
            }
            seen = self.ahead.len();
            assert!(self.receive(), "expected a line, found the end after {:?}", self.heard());
        }
    }

    /// Lines up to an empty one, each with its newline: what `show` replies in line framing.
    #[track_caller]
    pub fn block(&mut self) -> String {
        let mut block = String::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return block;
            }
            block += &line;
            block.push('\n');
        }
    }

    /// Everything up to the server's end.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        self.take()
    }

    /// Sends a line and returns the line that answers it.
    #[track_caller]
    pub fn ask(&mut self, request: &str) -> String {
        self.send(format!("{request}\n"));
        self.line()
    }

    /// Sends a line and returns the line that answers it, or `None` if the server has ended the
    /// conversation, in whatever way.
    ///
    /// # Panics
    /// If neither an answer nor the end comes in time.
    #[track_caller]
    pub fn try_ask(&mut self, request: &str) -> Option<String> {
        // A server that has closed may answer with a reset.
        let _ = self.try_send(format!("{request}\n"));
        match self.try_receive() {
            Ok(true) => Some(self.line()),
            Ok(false) => None,
            Err(error) if is_end(&error) => None,
            Err(error) => panic!("expected an answer to {request:?} or the end, found {error}"),
        }
    }

    /// Enters the received replies into an account; requests without a whole reply stay pending.
    #[track_caller]
    pub fn settle(&mut self, account: &mut Account, pending: &mut VecDeque<Request>) {
        account.settle(pending, &mut self.ahead);
    }

    /// Whether nothing arrives for `time`.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).expect("a socket");
        let heard = self.try_receive();
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let quiet = |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        self.ahead.is_empty() && heard.is_err_and(|error| quiet(error.kind()))
    }

    /// Whether nothing has arrived yet.
    pub fn hears_nothing(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        self.stream.set_nonblocking(false).expect("a socket");
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The end of what was received, for messages.
    fn heard(&self) -> String {
        let tail = &self.ahead[self.ahead.len().saturating_sub(200)..];
        tail.escape_ascii().to_string()
    }
}

/// Whether this error means that the server has closed the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}
