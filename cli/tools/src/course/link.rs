//! One connection to a stock server: a line out, a framed reply in.
//!
//! All clients of the market share this code. A reply in an unexpected framing looks like one that
//! has not arrived yet. So after [`SLOW`] the link reports once how many bytes there are, and keeps
//! waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ::stock::{LINE_MAX, command};
use language::debug;
use load::{Target, Usage};
use wire::framing::{Decoder, Framing};

/// How long connecting may take. Three lost SYNs cost 7 s (tcp(7)).
const CONNECT: Duration = Duration::from_secs(30);
/// After this much silence the wait is reported.
const SLOW: Duration = Duration::from_secs(3);
/// The longest accepted reply: some two million stocks.
const REPLY_MAX: usize = 64 << 20;
/// The size of one receive.
const PIECE: usize = 64 * 1024;

/// A connection with known framing.
pub struct Link {
    stream: TcpStream,
    framing: Framing,
    decoder: Decoder,
    /// Received bytes that are not part of a reply yet.
    ahead: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug, derive_more::Display)]
pub enum Lost {
    /// The server closed the connection after this many bytes of the reply.
    #[display("the server has closed the connection{}", begun(*_0))]
    Closed(usize),
    /// The connection failed.
    #[display("the connection is broken: {_0}")]
    Broken(io::Error),
    /// The request is longer than any server takes.
    #[display(
        "expected a line of at most {LINE_MAX} bytes with its newline, found {_0}; it was not sent"
    )]
    TooLong(usize),
    /// The reply has no end.
    #[display(
        "expected the end of a reply within {} MiB, found none; does the server frame replies in \
         another way (--framing)?",
        REPLY_MAX >> 20
    )]
    Endless,
}

/// The address of a server.
pub fn address_of(host: &str, port: u16) -> Result<SocketAddr, String> {
    // A bare IPv6 address has colons, so its port needs brackets.
    let host = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let target: Result<Target, Usage> = format!("stock://{host}:{port}").parse();
    target.map(|target| target.settled().address).map_err(|usage| usage.to_string())
}

/// Connects.
pub fn connect(at: SocketAddr) -> anyhow::Result<TcpStream> {
    debug!("connecting to {at}");
    let stream = TcpStream::connect_timeout(&at, CONNECT).map_err(|error| {
        let port = at.port();
        anyhow::anyhow!(
            "cannot connect to {at}: {error}; is a server there? One is started by `roundhouse \
             serve stock --port {port}` or `stockserver {port}`"
        )
    })?;
    // A request is one small write, and its reply must arrive before the next, so there is nothing
    // to coalesce.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

impl Link {
    /// A conversation over `stream`, on which no replies are outstanding.
    pub fn new(stream: TcpStream, framing: Framing) -> Link {
        Link { stream, framing, decoder: Decoder::new(framing), ahead: Vec::new() }
    }

    /// Sends one line, whose newline may be missing, in one write, and waits for its reply: the
    /// text without padding or end marks. `slow` is called once, with a message, if that takes
    /// long.
    ///
    /// # Errors
    /// [`Lost`]; it is then unknown whether the server has executed the request.
    pub fn ask(&mut self, line: &[u8], slow: &mut dyn FnMut(String)) -> Result<Vec<u8>, Lost> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if text.len() >= LINE_MAX {
            return Err(Lost::TooLong(text.len() + 1));
        }
        self.stream.write_all(&[text, b"\n"].concat()).map_err(Lost::Broken)?;
        let shape = command::shape(text);
        loop {
            if let Some(reply) = self.decoder.next(&self.ahead, shape) {
                let (text, used) = (reply.text.to_vec(), reply.used);
                self.ahead.drain(..used);
                return Ok(text);
            }
            if self.ahead.len() > REPLY_MAX {
                return Err(Lost::Endless);
            }
            self.receive(slow)?;
        }
    }

    /// Whether the server has closed the connection between requests.
    pub fn is_over(&mut self) -> bool {
        let mut byte = [0];
        let quiet = self.stream.set_nonblocking(true);
        let heard = quiet.and_then(|()| self.stream.read(&mut byte));
        let restored = self.stream.set_nonblocking(false);
        match heard {
            Ok(len) => {
                self.ahead.extend_from_slice(&byte[..len]);
                len == 0 || restored.is_err()
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    fn receive(&mut self, slow: &mut dyn FnMut(String)) -> Result<(), Lost> {
        let mut scratch = vec![0; PIECE];
        let mut patience = Some(SLOW);
        loop {
            self.stream.set_read_timeout(patience).map_err(Lost::Broken)?;
            match self.stream.read(&mut scratch) {
                Ok(0) => return Err(Lost::Closed(self.ahead.len())),
                Ok(len) => {
                    self.ahead.extend_from_slice(&scratch[..len]);
                    return Ok(());
                }
                // A wait with a timeout is not resumed by the kernel (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && patience.is_some() => {
                    slow(waiting(self.ahead.len(), self.framing));
                    patience = None;
                }
                Err(error) => return Err(Lost::Broken(error)),
            }
        }
    }
}

/// The message while a reply is awaited of which `found` bytes have arrived.
fn waiting(found: usize, framing: Framing) -> String {
    match (found, framing) {
        (0, _) => "no reply yet; still waiting".to_owned(),
        (found, Framing::Fixed(size)) => format!(
            "{found} of a reply's {size} bytes are here; still waiting. A server that does not pad \
             its replies needs another framing, such as --framing line"
        ),
        (found, framing) => format!(
            "{found} bytes are here, but not the end of a reply in framing {framing}; still \
             waiting. The course's servers need --framing fixed:8192"
        ),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// How far a reply came that `len` bytes of a closed connection began.
fn begun(len: usize) -> String {
    match len {
        0 => String::new(),
        _ => format!(
            " after {len} bytes of a reply; does it frame replies in another way (--framing)?"
        ),
    }
}

impl std::error::Error for Lost {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn addresses() {
        let check = |host: &str, expected: &str| {
            let found = address_of(host, 5).map(|found| found.to_string());
            assert_eq!(found, Ok(expected.to_owned()), "{host}");
        };
        check("127.0.0.1", "127.0.0.1:5");
        check("::1", "[::1]:5");
        check("[::1]", "[::1]:5");
        assert!(address_of("a b", 5).expect_err("refused").contains("expected"));
    }

    /// The reply that a client reads from a server that sends `reply` once and closes.
    fn hear(reply: &'static [u8], framing: Framing) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut line = [0; 5];
            stream.read_exact(&mut line).expect("a request");
            assert_eq!(&line, b"show\n");
            stream.write_all(reply).expect("the client reads");
        });
        let mut link = Link::new(connect(at).expect("a server"), framing);
        let reply = link.ask(b"show", &mut |_| {});
        server.join().expect("the server has answered");
        reply.map(|text| String::from_utf8_lossy(&text).into_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn replies_of_each_framing_and_of_none() {
        let heard = |text: &str| Ok(text.to_owned());
        assert_eq!(hear(b"1 2 3\n\n", Framing::Line), heard("1 2 3\n"));
        assert_eq!(hear(b"1 2 3\n\0\0", Framing::Fixed(8)), heard("1 2 3\n"));
        assert_eq!(hear(b"1 2 3\nEOF\n", Framing::Eof), heard("1 2 3\n"));
        let short = hear(b"1 2 3\n", Framing::Fixed(8)).expect_err("short");
        assert!(short.contains("after 6 bytes") && short.contains("--framing"), "{short}");
        let closed = hear(b"", Framing::Line).expect_err("nothing");
        assert_eq!(closed, "the server has closed the connection");
    }

    #[test]
    fn nobody_there_is_said_with_what_to_do() {
        // No test machine listens on port 1 (tcpmux).
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        let error = connect(at).expect_err("nobody listens").to_string();
        assert!(error.contains("refused") && error.contains("serve stock"), "{error}");
    }
}
