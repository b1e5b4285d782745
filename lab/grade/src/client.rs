//! One client of the server under trial. Every wait has a limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use stats::words;
use wire::framing::{Decoder, Framing};

use crate::market::{Ask, Told, quoted};

#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) port: u16,
    pub(crate) framing: Framing,
    /// The limit of one wait.
    pub(crate) patience: Duration,
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) access: Access,
    decoder: Decoder,
    /// Received bytes that are no whole reply yet.
    ahead: Vec<u8>,
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
        let decoder = Decoder::new(self.framing);
        Ok(Client { stream: open().map_err(told)?, access: self, decoder, ahead: Vec::new() })
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
            if let Some(reply) = self.decoder.next(&self.ahead, ask.shape()) {
                let (meaning, used) = (ask.meaning(reply.text), reply.used);
                self.ahead.drain(..used);
                return meaning;
            }
            // A timeout of zero would mean none.
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            let _ = self.stream.set_read_timeout(Some(left));
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

    /// Whether the server closes the connection in time; replies before that do not matter.
    pub(crate) fn sees_end(mut self) -> bool {
        let _ = self.stream.set_read_timeout(Some(self.access.patience));
        let end = self.stream.read_to_end(&mut Vec::new());
        end.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    }
}
