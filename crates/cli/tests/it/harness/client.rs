//! One connection, as a test sees it. Every call ends: sockets have timeouts.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::PATIENCE;
use crate::market::{Account, Request};

/// A client that panics where a healthy server gives no reason to.
pub struct Client {
    stream: TcpStream,
    /// Received and not yet asked for.
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
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, ahead: Vec::new() })
    }

    /// Its own port, which the server logs.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().expect("a connected socket").port()
    }

    /// Lets the kernel hold about `bytes` that were not read.
    pub fn narrow(&self, bytes: usize) {
        sys::socket::set_receive_buffer(&self.stream, bytes).expect("a connected socket");
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
        // A server that has closed already makes this fail, which is no concern of the sender.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Goes away by a reset, as a crashed machine's kernel would answer.
    pub fn reset(self) {
        sys::socket::set_linger_reset(&self.stream).expect("a socket");
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
        self.ahead.drain(..len).collect()
    }

    /// The next line, without its newline.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut seen = 0;
        loop {
            if let Some(at) = self.ahead[seen..].iter().position(|&byte| byte == b'\n') {
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

    /// Enters the replies received so far into an account; what has no whole reply stays pending.
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

    /// Whether nothing has arrived by now.
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
