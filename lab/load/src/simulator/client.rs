//! One client: a thread that connects, sends, waits for the whole reply, and repeats.

use super::{REQUESTS_MAX, Shared};
use crate::faults::FaultKind;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes per read.
const CHUNK: usize = 16 << 10;
/// The longest head that is looked for (bytes).
const HEAD_MAX: usize = 64 << 10;
/// The pause after a failure, so that a refusing server is not asked a million times.
const PAUSE: Duration = Duration::from_millis(20);
/// The sleep of an absent guest between two clock checks.
const NAP: Duration = Duration::from_millis(20);

/// One request that was answered; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The client's number.
    pub client: u32,
    /// The beginning of connecting, from the start of the run.
    pub at_us: u64,
    /// Time to connect, with all retries.
    pub connect_us: u64,
    /// From the end of the request to the last byte of the reply.
    pub response_us: u64,
    /// The number of retries of connecting after a timeout.
    pub retries: u32,
    /// Bytes of the reply.
    pub bytes: u64,
    /// Its status.
    pub status: u16,
    /// Whether its head is complete and its body has the announced length.
    pub is_whole: bool,
}

/// The parts of a reply that are checked.
#[derive(Debug, Default)]
struct Reply {
    bytes: u64,
    head: Vec<u8>,
    status: u16,
    is_whole: bool,
}

pub(super) struct Client<'a> {
    number: u32,
    shared: &'a Shared,
    start: Instant,
    rows: Vec<Row>,
    chunk: Vec<u8>,
}

impl<'a> Client<'a> {
    /// A client that has waited at the barrier.
    pub(super) fn new(number: u32, shared: &'a Shared) -> Client<'a> {
        let start = shared.pass();
        shared.users.fetch_add(1, Ordering::Relaxed);
        Client { number, shared, start, rows: Vec::new(), chunk: vec![0; CHUNK] }
    }

    /// Sends requests until the run is over.
    pub(super) fn work(mut self) -> Vec<Row> {
        while !self.is_over() {
            if self.is_away() {
                thread::sleep(NAP);
                continue;
            }
            match self.ask() {
                Ok(Some(row)) => {
                    self.rows.push(row);
                    if self.shared.done.fetch_add(1, Ordering::Relaxed) + 1 >= REQUESTS_MAX {
                        self.shared.over.store(true, Ordering::Relaxed);
                    }
                }
                Ok(None) => return self.rows,
                Err((kind, words)) => {
                    self.shared.fail(kind, self.start.elapsed(), words);
                    thread::sleep(PAUSE);
                }
            }
        }
        self.rows
    }

    fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed)
    }

    /// Guests are present in every second period; the first one is without them.
    fn is_away(&self) -> bool {
        let plan = &self.shared.plan;
        let round = self.start.elapsed().as_nanos() / plan.stay.as_nanos().max(1);
        self.number >= plan.clients && round.is_multiple_of(2)
    }

    /// Sends one request. `None` if the run ended before the reply.
    fn ask(&mut self) -> Result<Option<Row>, (FaultKind, String)> {
        let fault =
            |what: &str, error: &io::Error| (FaultKind::of(error), format!("{what}: {error}"));
        let begun = Instant::now();
        let at = begun.saturating_duration_since(self.start);
        let Some((mut stream, retries)) =
            self.connect().map_err(|error| fault("connecting", &error))?
        else {
            return Ok(None);
        };
        let connected = Instant::now();
        stream.write_all(&self.shared.request).map_err(|error| fault("asking", &error))?;
        let asked = Instant::now();
        let mut reply = Reply::default();
        loop {
            match stream.read(&mut self.chunk) {
                Ok(0) => break,
                Ok(count) => {
                    reply.take(&self.chunk[..count]);
                    if reply.is_whole {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => match self.is_over() {
                    true => return Ok(None),
                    false if asked.elapsed() < self.shared.plan.timeout => {}
                    false => {
                        let words = match reply.bytes {
                            0 => "no reply came in time".to_owned(),
                            bytes => format!("a reply of {bytes} bytes did not end in time"),
                        };
                        return Err((FaultKind::Timeout, words));
                    }
                },
                Err(error) => return Err(fault("reading", &error)),
            }
        }
        let response = asked.elapsed();
        reply.read_head();
        if !(200..400).contains(&reply.status) {
            return Err(reply.wrong());
        }
        Ok(Some(Row {
            client: self.number,
            at_us: at.as_micros() as u64,
            connect_us: connected.saturating_duration_since(begun).as_micros() as u64,
            response_us: response.as_micros() as u64,
            retries,
            bytes: reply.bytes,
            status: reply.status,
            is_whole: reply.is_whole,
        }))
    }

    /// Connects, retrying after timeouts; returns the number of retries, `None` when the run is
    /// over.
    fn connect(&self) -> io::Result<Option<(TcpStream, u32)>> {
        let plan = &self.shared.plan;
        let mut retries = 0;
        while !self.is_over() {
            match TcpStream::connect_timeout(&plan.target.address, plan.timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    // Short, to notice the end of the run; the whole timeout is counted in `ask`.
                    let look = plan.timeout.min(Duration::from_millis(200));
                    stream.set_read_timeout(Some(look.max(Duration::from_millis(1))))?;
                    return Ok(Some((stream, retries)));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    retries += 1;
                    self.shared.retries.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Reply {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.head.len() < HEAD_MAX {
            self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_MAX - self.head.len())]);
        }
        self.read_head();
    }

    /// Parses the status, finds the end of the head, and checks whether the announced body is
    /// complete. A reply without a length ends with the connection and is complete if its head is.
    fn read_head(&mut self) {
        let text = &self.head;
        if self.status == 0 && text.starts_with(b"HTTP/1.") {
            let word = text.get(9..12).and_then(|it| std::str::from_utf8(it).ok());
            self.status = word.and_then(|it| it.parse().ok()).unwrap_or(0);
        }
        let Some(end) = memchr::memmem::find(text, b"\r\n\r\n") else { return };
        let head = String::from_utf8_lossy(&text[..end]);
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let length = fields
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse::<u64>().ok());
        self.is_whole = length.is_some_and(|length| self.bytes >= end as u64 + 4 + length);
    }

    fn wrong(&self) -> (FaultKind, String) {
        if self.bytes == 0 {
            return (FaultKind::ClosedEarly, "the connection ended without a reply".to_owned());
        }
        let text = String::from_utf8_lossy(&self.head[..self.head.len().min(60)]).into_owned();
        (FaultKind::WrongReply, format!("expected a status 200 to 399, found `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_whole_when_what_they_announce_has_come() {
        fn check(text: &str, status: u16, is_whole: bool) {
            for cut in 0..=text.len() {
                let mut reply = Reply::default();
                reply.take(&text.as_bytes()[..cut]);
                reply.take(&text.as_bytes()[cut..]);
                assert_eq!((reply.status, reply.is_whole), (status, is_whole), "{text:?} at {cut}");
            }
        }
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", 200, true);
        check("HTTP/1.1 404 Gone\r\ncontent-length:0\r\n\r\n", 404, true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nOK", 200, false);
        check("HTTP/1.1 200 OK\r\n", 200, false);
        check("hello", 0, false);
        check("", 0, false);
    }
}
