//! One client of the server under trial. Every wait has a limit.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::TcpStreamExt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use stats::words;
use wire::framing::{Decoder, Framing, Shape};

use crate::market::{Ask, Meaning, Told, quoted};

/// The longest reply that is read (bytes).
const REPLY_MAX: usize = 1 << 20;
/// The pause after a part of a line: so long that the server reads the part by itself.
pub(crate) const APART: Duration = Duration::from_millis(8);

/// The meaning of a reply, and its length.
type Reply = (Result<Meaning, String>, usize);

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
pub(crate) fn lost(why: &io::Error, patience: Duration) -> String {
    match why.kind() {
        ErrorKind::UnexpectedEof => {
            "the server has closed the connection without a reply".to_owned()
        }
        ErrorKind::TimedOut => format!("no reply within {}", words::span(patience)),
        ErrorKind::InvalidData => why.to_string(),
        _ => format!("the connection is broken: {why}"),
    }
}

impl FromStr for Ending {
    type Err = String;

    fn from_str(name: &str) -> Result<Ending, String> {
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

    /// The reply at the front of the received bytes, with its length, if it is whole.
    fn reply(self, ask: Ask, ahead: &[u8], decoder: &mut Decoder) -> Option<Reply> {
        let Ending::Framed(framing) = self.ending else {
            // The end of each line may be the end of the reply; text without lines is one.
            let lines = (1..=ahead.len()).filter(|&end| ahead[end - 1] == b'\n');
            let mut ends = lines.chain((ask != Ask::Show).then_some(ahead.len()));
            return ends.find_map(|end| {
                let meaning = ask.meaning(&ahead[..end]).ok()?;
                let is_whole = match &meaning.told {
                    Told::Rows(rows) => rows.0.len() >= self.stocks,
                    Told::Done | Told::NotEnough => true,
                };
                is_whole.then_some((Ok(meaning), end))
            });
        };
        let mut echo = 0;
        loop {
            let reply = decoder.next(&ahead[echo..], ask.shape())?;
            let is_echo = framing == Framing::Line
                && ask.shape() == Shape::Line
                && reply.text.trim_ascii() == ask.line().trim_ascii();
            let used = echo + reply.used;
            if !is_echo {
                return Some((ask.meaning(&ahead[..echo + reply.text.len()]), used));
            }
            echo = used;
        }
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.link.send(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => "the server does not read requests".to_owned(),
            _ => format!("the server has closed a connection before a request: {error}"),
        })
    }

    /// Sends pieces so slowly that the server reads each by itself.
    pub(crate) fn dribble(&mut self, pieces: &[&[u8]]) -> Result<(), String> {
        pieces.iter().try_for_each(|piece| {
            self.send(piece)?;
            thread::sleep(APART);
            Ok(())
        })
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Told, String> {
        self.send(&ask.line())?;
        self.hear(ask)
    }

    /// Waits for the reply to `ask`.
    pub(crate) fn hear(&mut self, ask: Ask) -> Result<Told, String> {
        let access = self.access;
        let reply = self.until(|ahead, decoder| access.reply(ask, ahead, decoder));
        let (meaning, used) = reply.map_err(|why| {
            let heard = match self.link.ahead.as_slice() {
                [] => String::new(),
                some => format!(" ({} bytes of one: {})", some.len(), quoted(some)),
            };
            format!("`{ask}`: {}{heard}", lost(&why, access.patience))
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
        mut find: impl FnMut(&[u8], &mut Decoder) -> Option<T>,
    ) -> io::Result<T> {
        let Client { link, decoder, access, .. } = self;
        link.until(access.patience, |link| {
            // A server that sends a reply in two pieces waits up to 40 ms for a late ACK (tcp(7)).
            let _ = link.stream.socket.set_quickack(true);
            match find(&link.ahead, decoder) {
                None if link.ahead.len() > REPLY_MAX => {
                    Err(io::Error::new(ErrorKind::InvalidData, "the reply has no end"))
                }
                found => Ok(found),
            }
        })
    }

    /// Whether the server closes the connection in time; replies before that do not matter.
    pub(crate) fn sees_end(&mut self) -> bool {
        let is_open =
            |why: &io::Error| matches!(why.kind(), ErrorKind::TimedOut | ErrorKind::InvalidData);
        self.until(|_, _| None::<()>).is_err_and(|why| !is_open(&why))
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
