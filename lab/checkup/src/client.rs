//! One connection to the server, with limits on every wait, and the replies of HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use load::script::{WholeReply, whole_reply};
use load::tls::Stream;

use crate::http2::{Talk, greeting};
use crate::speech::Speech;

/// The longest reply that is read (bytes).
const REPLY_MAX: usize = 64 << 20;

/// A connection. Each wait has a limit.
pub struct TrialClient {
    /// Its socket, and TLS over it.
    pub stream: Stream,
    /// Received bytes that no reply has used.
    pub ahead: Vec<u8>,
    /// The server has closed its side, or the connection is broken.
    pub is_closed: bool,
    /// The state of HTTP/2.
    talk: Option<Talk>,
}

/// A whole reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    /// Of HTTP; 0 elsewhere.
    pub(crate) status: u16,
    /// The head of HTTP, else the reply.
    pub(crate) head: String,
    /// Its length in bytes.
    pub(crate) len: usize,
    /// The server announces that it closes the connection.
    pub(crate) closes: bool,
}

impl TrialClient {
    /// A connection after its handshakes, and after the greeting of HTTP/2.
    pub(crate) fn open(speech: &Speech, at: SocketAddr, patience: Duration) -> io::Result<Self> {
        let mut client = TrialClient::dial(speech, at, patience)?;
        if speech.call.is_some() {
            client.talk = Some(Talk::default());
            client.send(&greeting())?;
        }
        Ok(client)
    }

    /// A connection after the handshakes of its layers.
    pub(crate) fn dial(speech: &Speech, at: SocketAddr, patience: Duration) -> io::Result<Self> {
        let mut client = TrialClient::plain(at, patience)?;
        if let Some(target) = &speech.target {
            client.stream = Stream::new(client.stream.socket, target)
                .map_err(|usage| io::Error::other(usage.to_string()))?;
        }
        client.stream.agree()?;
        Ok(client)
    }

    /// A connection without layers.
    ///
    /// # Errors
    /// The server does not accept it in time.
    pub fn plain(at: SocketAddr, patience: Duration) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&at, patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let stream = socket.into();
        Ok(TrialClient { stream, ahead: Vec::new(), is_closed: false, talk: None })
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// The server reads none of them in time, or has closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Receives once into `ahead`; `false` at the end and after `end`.
    ///
    /// # Errors
    /// The connection is broken, or what it says has no end.
    pub fn receive(&mut self, end: Instant) -> io::Result<bool> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || self.is_closed {
            return Ok(false);
        }
        self.stream.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut part = [0; 16 << 10];
        match self.stream.read(&mut part) {
            Ok(0) => self.is_closed = true,
            Ok(_) if self.ahead.len() > REPLY_MAX => {
                return Err(io::Error::new(ErrorKind::InvalidData, "the reply has no end"));
            }
            Ok(len) => self.ahead.extend_from_slice(&part[..len]),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The end of TLS without a goodbye is an end.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => self.is_closed = true,
            Err(why) => {
                self.is_closed = true;
                return Err(why);
            }
        }
        Ok(!self.is_closed)
    }

    /// Receives until `find` finds something in `ahead`.
    ///
    /// # Errors
    /// Of `find` and of the connection; `UnexpectedEof` if the server closes before, `TimedOut` if
    /// it says too little in time.
    pub fn until<T>(
        &mut self,
        patience: Duration,
        mut find: impl FnMut(&mut TrialClient) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let end = Instant::now() + patience;
        loop {
            if let Some(found) = find(self)? {
                return Ok(found);
            }
            if self.is_closed {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
            self.receive(end)?;
        }
    }

    /// Waits for a whole reply.
    pub(crate) fn reply(&mut self, speech: &Speech, patience: Duration) -> io::Result<Reply> {
        self.until(patience, |it| it.whole(speech))
    }

    /// Takes the reply at the front, if it is whole.
    pub(crate) fn whole(&mut self, speech: &Speech) -> io::Result<Option<Reply>> {
        let Some(talk) = &mut self.talk else {
            let reply = speech.whole(&self.ahead, self.is_closed);
            self.ahead.drain(..reply.as_ref().map_or(0, |reply| reply.len));
            return Ok(reply);
        };
        let mut answers = Vec::new();
        let reply = talk.reply(&mut self.ahead, &mut answers)?;
        // A server that has closed wants no answers.
        let _ = self.send(&answers);
        Ok(reply)
    }

    /// The bytes of the next requests of this connection.
    pub(crate) fn requests(&mut self, speech: &Speech, count: usize) -> Vec<u8> {
        let (Some(talk), Some(call)) = (&mut self.talk, &speech.call) else {
            return speech.request.repeat(count);
        };
        let mut bytes = Vec::new();
        (0..count).for_each(|_| talk.ask(call, &mut bytes));
        bytes
    }

    pub(crate) fn ask(&mut self, speech: &Speech, patience: Duration) -> io::Result<Reply> {
        let request = self.requests(speech, 1);
        self.send(&request)?;
        self.reply(speech, patience)
    }
}

/// The first whole reply of HTTP in `bytes`; interim ones (1xx) before it belong to it.
pub(crate) fn http(bytes: &[u8], is_head: bool, is_closed: bool) -> Option<Reply> {
    let WholeReply { status, head, end, closes } = whole_reply(bytes, is_head, is_closed)?;
    let head = String::from_utf8_lossy(&bytes[head.0..head.1]).into_owned();
    Some(Reply { status, head, len: end, closes })
}

pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_their_framing_says() {
        let check = |text: &str, is_head: bool, is_closed: bool, want: Option<(u16, usize)>| {
            let start = http(text.as_bytes(), is_head, is_closed);
            assert_eq!(start.map(|it| (it.status, it.len)), want, "{text:?}");
        };
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        check(sized, false, false, Some((200, sized.len())));
        check(&sized[..sized.len() - 1], false, false, None);
        check(sized, true, false, Some((200, sized.len() - 2)));
        let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\n\r\n";
        check(chunks, false, false, Some((200, chunks.len())));
        check(&chunks[..chunks.len() - 2], false, false, None);
        let open = "HTTP/1.0 404 x\r\n\r\nabc";
        check(open, false, false, None);
        check(open, false, true, Some((404, open.len())));
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{sized}");
        check(&interim, false, false, Some((200, interim.len())));
        check("nonsense\r\n\r\n", false, true, None);
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            false,
            true,
            None,
        );
    }
}
