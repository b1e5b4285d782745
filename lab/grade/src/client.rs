//! One client of the server under trial. Every wait has a limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::TcpStreamExt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use stats::words;
use wire::framing::{BadFraming, Decoder, Framing, Shape};

use crate::market::{Ask, Meaning, Told, quoted};

/// How the end of a reply is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Ending {
    /// By a framing of the protocol.
    #[display("{_0}")]
    Framed(Framing),
    /// By its meaning alone: a listing ends with its last stock, an order with its answer.
    #[display("count")]
    Count,
}

#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) port: u16,
    pub(crate) ending: Ending,
    /// The stocks of a listing.
    pub(crate) stocks: usize,
    /// The limit of one wait.
    pub(crate) patience: Duration,
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) access: Access,
    /// How the first reply with other words than the course's differs; empty without one.
    pub(crate) wording: String,
    decoder: Decoder,
    /// Received bytes that are no whole reply yet.
    ahead: Vec<u8>,
}

impl FromStr for Ending {
    type Err = BadFraming;

    fn from_str(name: &str) -> Result<Ending, BadFraming> {
        if name == "count" { Ok(Ending::Count) } else { name.parse().map(Ending::Framed) }
    }
}

impl Access {
    pub(crate) fn connect(self) -> Result<Client, String> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let open = || {
            let stream = TcpStream::connect_timeout(&at, self.patience)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(self.patience))?;
            Ok(stream)
        };
        let told = |error: io::Error| format!("a client cannot connect: {error}");
        let decoder = match self.ending {
            Ending::Framed(framing) => Decoder::new(framing),
            Ending::Count => Decoder::new(Framing::Line),
        };
        let stream = open().map_err(told)?;
        let wording = String::new();
        Ok(Client { stream, access: self, wording, decoder, ahead: Vec::new() })
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => "the server does not read requests".to_owned(),
            _ => format!("the server has closed a connection before a request: {error}"),
        })
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Told, String> {
        self.send(&ask.line())?;
        self.hear(ask)
    }

    /// Waits for the reply to `ask`.
    pub(crate) fn hear(&mut self, ask: Ask) -> Result<Told, String> {
        let end = Instant::now() + self.access.patience;
        let mut scratch = [0; 16 * 1024];
        let failed = loop {
            if let Some((meaning, used)) = self.reply(ask) {
                self.ahead.drain(..used);
                let Meaning { told, wording } = meaning?;
                if self.wording.is_empty() {
                    self.wording = wording;
                }
                return Ok(told);
            }
            // A timeout of zero would mean none.
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            let _ = self.stream.set_read_timeout(Some(left));
            // A server that sends a reply in two pieces waits up to 40 ms for a late ACK (tcp(7)).
            let _ = self.stream.set_quickack(true);
            match self.stream.read(&mut scratch) {
                Ok(0) => break "the server has closed the connection without a reply".to_owned(),
                Ok(_) if self.ahead.len() > 1 << 20 => break "the reply has no end".to_owned(),
                Ok(len) => self.ahead.extend_from_slice(&scratch[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    break format!("no reply within {}", words::span(self.access.patience));
                }
                Err(error) => break format!("the connection is broken: {error}"),
            }
        };
        let heard = match self.ahead.as_slice() {
            [] => String::new(),
            some => format!(" ({} bytes of one: {})", some.len(), quoted(some)),
        };
        Err(format!("`{ask}`: {failed}{heard}"))
    }

    /// The reply at the front of the received bytes, with its length, if it is whole.
    fn reply(&mut self, ask: Ask) -> Option<(Result<Meaning, String>, usize)> {
        let Ending::Framed(framing) = self.access.ending else {
            // The end of each line may be the end of the reply; text without lines is one.
            let lines = (1..=self.ahead.len()).filter(|&end| self.ahead[end - 1] == b'\n');
            let mut ends = lines.chain((ask != Ask::Show).then_some(self.ahead.len()));
            return ends.find_map(|end| {
                let meaning = ask.meaning(&self.ahead[..end]).ok()?;
                let is_whole = match &meaning.told {
                    Told::Rows(rows) => rows.0.len() >= self.access.stocks,
                    Told::Done | Told::NotEnough => true,
                };
                is_whole.then_some((Ok(meaning), end))
            });
        };
        let mut echo = 0;
        loop {
            let reply = self.decoder.next(&self.ahead[echo..], ask.shape())?;
            let is_echo = framing == Framing::Line
                && ask.shape() == Shape::Line
                && reply.text.trim_ascii() == ask.line().trim_ascii();
            let used = echo + reply.used;
            if !is_echo {
                return Some((ask.meaning(&self.ahead[..echo + reply.text.len()]), used));
            }
            echo = used;
        }
    }

    /// Whether the server closes the connection in time; replies before that do not matter.
    pub(crate) fn sees_end(mut self) -> bool {
        let _ = self.stream.set_read_timeout(Some(self.access.patience));
        let end = self.stream.read_to_end(&mut Vec::new());
        end.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    }

    /// Leaves in order: reads until the server is silent for `quiet`, then closes with nothing
    /// unread, so that the server sees the end of the stream and no reset.
    pub(crate) fn leave(mut self, quiet: Duration) {
        let mut scratch = [0; 16 * 1024];
        let mut drain = |stream: &mut TcpStream| {
            let _ = stream.set_read_timeout(Some(quiet));
            // A server that talks without end is left all the same.
            (0..64).take_while(|_| stream.read(&mut scratch).is_ok_and(|len| len > 0)).count()
        };
        drain(&mut self.stream);
        let _ = self.stream.shutdown(Shutdown::Write);
        drain(&mut self.stream);
    }
}
