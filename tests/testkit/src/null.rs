//! A server that does almost nothing, for tests of the load generator.
//!
//! One thread, one epoll, prebuilt replies: the fastest possible server that speaks the protocol
//! through sockets. It counts every request, so that its count can be compared with the client's.
//!
//! Its market is a real one, because constant replies would fail the generator's audit.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest};
use sys::socket::{self, ListenOptions};

/// The protocols that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullProtocol {
    /// Any request gets one page.
    Http,
    /// A packet of a login, then every packet as it came.
    Echo,
    /// A market of ten stocks.
    Stock,
}

/// The reply of the web server.
const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: null\r\nContent-Type: text/plain\r\n\
                      Content-Length: 13\r\n\r\nHello, World!";
/// The number of stocks in the market.
const STOCKS: usize = 10;
/// Initial pieces of each stock: more than any run can buy.
const PIECES: i64 = 1 << 40;
/// A receive takes at most this many bytes.
const RECEIVE: usize = 64 << 10;
/// Epoll keys: connections from 0.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Bytes of a packet of the echo, and the first one: a length of 8, and the number of a login.
const PACKET: usize = 10;
const LOGIN: [u8; PACKET] = [8, 0, 255, 255, 255, 255, 255, 255, 255, 127];

/// The server.
pub struct NullServer {
    protocol: NullProtocol,
    listener: OwnedFd,
    address: SocketAddr,
    epoll: Epoll,
    clients: Vec<Option<Client>>,
    vacant: VecDeque<usize>,
    book: [i64; STOCKS],
    buffer: Vec<u8>,
    requests: Arc<AtomicU64>,
    held: Arc<AtomicBool>,
}

struct Client {
    fd: OwnedFd,
    /// The unused rest of the input.
    held: Vec<u8>,
    out: Vec<u8>,
    /// Whether the epoll watches for room to send.
    blocked: bool,
}

impl NullServer {
    /// Listens at `address`, whose port may be 0.
    ///
    /// # Errors
    /// Those of listen(2) and epoll_create1(2).
    pub fn listen(protocol: NullProtocol, address: SocketAddr) -> io::Result<Self> {
        let listener = socket::listen(address, &ListenOptions::default())?;
        socket::set_nonblocking(&listener, true)?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, Interest::READ, LISTENER)?;
        Ok(Self {
            protocol,
            address: socket::local_addr(&listener)?,
            listener,
            epoll,
            clients: Vec::new(),
            vacant: VecDeque::new(),
            book: [PIECES; STOCKS],
            buffer: vec![0; RECEIVE],
            requests: Arc::default(),
            held: Arc::default(),
        })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered so far; readable while it runs.
    pub fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }

    /// While this is set, the server stands still.
    pub fn held(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.held)
    }

    /// Serves until `stop` is readable.
    ///
    /// # Errors
    /// Those of the epoll. A client that fails is closed.
    pub fn run(mut self, stop: impl AsFd) -> io::Result<()> {
        self.epoll.add(stop, Interest::READ, STOP)?;
        let mut events = Events::with_capacity(256);
        loop {
            self.epoll.wait(&mut events, None)?;
            while self.held.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
            }
            for ready in events.iter() {
                match ready.key {
                    STOP => return Ok(()),
                    LISTENER => self.accept()?,
                    key => self.turn(key as usize),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let fd = match socket::accept(&self.listener, true) {
                Ok((fd, _)) => fd,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client has gone, or no descriptor is left; other clients stay in the backlog.
                Err(_) => return Ok(()),
            };
            socket::set_nodelay(&fd, true)?;
            let at = self.vacant.pop_front().unwrap_or(self.clients.len());
            if at == self.clients.len() {
                self.clients.push(None);
            }
            self.epoll.add(&fd, Interest::READ, at as u64)?;
            let mut client = Client { fd, held: Vec::new(), out: Vec::new(), blocked: false };
            if self.protocol == NullProtocol::Echo {
                client.out.extend_from_slice(&LOGIN);
            }
            self.clients[at] = Some(client);
            self.flush(at);
        }
    }

    /// Receives, answers, sends.
    fn turn(&mut self, at: usize) {
        let Some(client) = &mut self.clients[at] else { return };
        if client.blocked {
            return self.flush(at);
        }
        match socket::recv(&client.fd, &mut self.buffer) {
            Ok(0) => self.close(at),
            Ok(count) => {
                let fresh = &self.buffer[..count];
                let (book, out) = (&mut self.book, &mut client.out);
                let (used, requests) = if client.held.is_empty() {
                    let (used, requests) = answer(self.protocol, fresh, book, out);
                    client.held.extend_from_slice(&fresh[used..]);
                    (0, requests)
                } else {
                    client.held.extend_from_slice(fresh);
                    answer(self.protocol, &client.held, book, out)
                };
                client.held.drain(..used);
                self.requests.fetch_add(requests, Ordering::Relaxed);
                self.flush(at);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.close(at),
        }
    }

    fn flush(&mut self, at: usize) {
        let Some(client) = &mut self.clients[at] else { return };
        if client.out.is_empty() {
            return;
        }
        match socket::send(&client.fd, &client.out) {
            Ok(sent) if sent == client.out.len() => client.out.clear(),
            Ok(sent) => drop(client.out.drain(..sent)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return self.close(at),
        }
        let blocked = !client.out.is_empty();
        if blocked != client.blocked {
            client.blocked = blocked;
            // While replies are pending, no input is read, so the peer's own window limits it.
            let interest = if blocked { Interest::WRITE } else { Interest::READ };
            if self.epoll.modify(&client.fd, interest, at as u64).is_err() {
                self.close(at);
            }
        }
    }

    fn close(&mut self, at: usize) {
        self.clients[at] = None;
        self.vacant.push_back(at);
    }
}

/// Answers the complete requests at the front; returns bytes used and number of requests.
fn answer(
    protocol: NullProtocol,
    bytes: &[u8],
    book: &mut [i64],
    out: &mut Vec<u8>,
) -> (usize, u64) {
    let (mut used, mut requests) = (0, 0);
    match protocol {
        NullProtocol::Http => {
            while let Some(end) = bytes[used..].windows(4).position(|it| it == b"\r\n\r\n") {
                used += end + 4;
                requests += 1;
                out.extend_from_slice(PAGE);
            }
        }
        NullProtocol::Echo => {
            used = bytes.len() - bytes.len() % PACKET;
            requests = (used / PACKET) as u64;
            out.extend_from_slice(&bytes[..used]);
        }
        NullProtocol::Stock => {
            while let Some(end) = bytes[used..].iter().position(|it| *it == b'\n') {
                trade(&bytes[used..used + end], book, out);
                used += end + 1;
                requests += 1;
            }
        }
    }
    (used, requests)
}

/// Executes a line of the market's protocol; any unknown line is answered like `show`.
fn trade(line: &[u8], book: &mut [i64], out: &mut Vec<u8>) {
    let order = str::from_utf8(line).ok().and_then(|line| {
        let mut words = line.trim_end().split(' ');
        let sign = match words.next()? {
            "buy" => -1,
            "sell" => 1,
            _ => return None,
        };
        let id: usize = words.next()?.parse().ok()?;
        let amount: i64 = words.next()?.parse().ok()?;
        Some((sign, book.get_mut(id.checked_sub(1)?)?, amount))
    });
    match order {
        Some((sign, left, amount)) => {
            *left += sign * amount;
            let answer: &[u8] = if sign < 0 { b"[buy] success\n" } else { b"[sell] success\n" };
            out.extend_from_slice(answer);
        }
        None => {
            for (at, left) in book.iter().enumerate() {
                out.extend_from_slice(format!("{} {left} 1000\n", at + 1).as_bytes());
            }
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: NullProtocol, request: &[u8], reply: &[u8], used: usize, requests: u64) {
        let (mut book, mut out) = ([PIECES; STOCKS], Vec::new());
        let found = answer(protocol, request, &mut book, &mut out);
        assert_eq!(found, (used, requests), "{}", request.escape_ascii());
        assert_eq!(out, reply, "{}", out.escape_ascii());
    }

    #[test]
    fn whole_requests_are_answered() {
        check(NullProtocol::Http, b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", PAGE, 27, 1);
        check(NullProtocol::Echo, &[7; 25], &[7; 20], 20, 2);
        let answer = b"[buy] success\n[sell] success\n";
        check(NullProtocol::Stock, b"buy 1 5\nsell 10 7\nb", answer, 18, 2);
    }
}
