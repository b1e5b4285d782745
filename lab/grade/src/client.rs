//! One client of the server under trial. Every wait has a limit.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::TcpStreamExt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use stats::words;
use wire::framing::{BadFraming, Decoder, Framing, Shape};

use crate::market::{Ask, Meaning, Told, quoted};

/// The longest reply that is read (bytes).
const REPLY_MAX: usize = 1 << 20;

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
    pub(crate) link: checkup::TrialClient,
    pub(crate) access: Access,
    /// How the first reply with other words than the course's differs; empty without one.
    pub(crate) wording: String,
    decoder: Decoder,
}

/// Why a wait was in vain.
#[derive(Debug, derive_more::Display)]
pub(crate) enum Lost {
    #[display("the server has closed the connection without a reply")]
    Closed,
    #[display("the connection is broken: {_0}")]
    Broken(io::Error),
    #[display("no reply within {}", words::span(*_0))]
    Late(Duration),
    #[display("the reply has no end")]
    Endless,
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
        let decoder = match self.ending {
            Ending::Framed(framing) => Decoder::new(framing),
            Ending::Count => Decoder::new(Framing::Line),
        };
        let link = checkup::TrialClient::plain(at, self.patience);
        let link = link.map_err(|error| format!("a client cannot connect: {error}"))?;
        Ok(Client { link, access: self, wording: String::new(), decoder })
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.link.send(bytes).map_err(|error| match error.kind() {
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
        let (meaning, used) = self.until(|it| it.reply(ask)).map_err(|lost| {
            let heard = match self.link.ahead.as_slice() {
                [] => String::new(),
                some => format!(" ({} bytes of one: {})", some.len(), quoted(some)),
            };
            format!("`{ask}`: {lost}{heard}")
        })?;
        self.link.ahead.drain(..used);
        let Meaning { told, wording } = meaning?;
        if self.wording.is_empty() {
            self.wording = wording;
        }
        Ok(told)
    }

    /// Receives until `find` finds something, with the patience of one wait.
    pub(crate) fn until<T>(
        &mut self,
        mut find: impl FnMut(&mut Client) -> Option<T>,
    ) -> Result<T, Lost> {
        let end = Instant::now() + self.access.patience;
        loop {
            if let Some(found) = find(self) {
                return Ok(found);
            }
            if self.link.ahead.len() > REPLY_MAX {
                return Err(Lost::Endless);
            }
            // A server that sends a reply in two pieces waits up to 40 ms for a late ACK (tcp(7)).
            let _ = self.link.stream.socket.set_quickack(true);
            match self.link.receive(end) {
                Ok(true) => {}
                Ok(false) if self.link.is_closed => return Err(Lost::Closed),
                Ok(false) => return Err(Lost::Late(self.access.patience)),
                Err(error) => return Err(Lost::Broken(error)),
            }
        }
    }

    /// The reply at the front of the received bytes, with its length, if it is whole.
    fn reply(&mut self, ask: Ask) -> Option<(Result<Meaning, String>, usize)> {
        let Ending::Framed(framing) = self.access.ending else {
            // The end of each line may be the end of the reply; text without lines is one.
            let lines =
                (1..=self.link.ahead.len()).filter(|&end| self.link.ahead[end - 1] == b'\n');
            let mut ends = lines.chain((ask != Ask::Show).then_some(self.link.ahead.len()));
            return ends.find_map(|end| {
                let meaning = ask.meaning(&self.link.ahead[..end]).ok()?;
                let is_whole = match &meaning.told {
                    Told::Rows(rows) => rows.0.len() >= self.access.stocks,
                    Told::Done | Told::NotEnough => true,
                };
                is_whole.then_some((Ok(meaning), end))
            });
        };
        let mut echo = 0;
        loop {
            let reply = self.decoder.next(&self.link.ahead[echo..], ask.shape())?;
            let is_echo = framing == Framing::Line
                && ask.shape() == Shape::Line
                && reply.text.trim_ascii() == ask.line().trim_ascii();
            let used = echo + reply.used;
            if !is_echo {
                return Some((ask.meaning(&self.link.ahead[..echo + reply.text.len()]), used));
            }
            echo = used;
        }
    }

    /// Whether the server closes the connection in time; replies before that do not matter.
    pub(crate) fn sees_end(&mut self) -> bool {
        matches!(self.until(|_| None::<()>), Err(Lost::Closed | Lost::Broken(_)))
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
        let stream = &mut self.link.stream.socket;
        drain(stream);
        let _ = stream.shutdown(Shutdown::Write);
        drain(stream);
    }
}
