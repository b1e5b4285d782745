//! A route that becomes a WebSocket (RFC 6455): one function for all events of a connection.
//!
//! The output is the back-pressure: a message is taken only while the output has room, so a client
//! that sends and does not read stops at one full output and one full input.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::{Cx, Event, Instant, Out, Step, Then};
use wire::websocket::{
    CONTROL_MAX, Incoming, MessageKind, MessageReader, Opcode, close_code, put_close, put_frame,
};

/// An event of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent<'a> {
    /// The connection has become a WebSocket.
    Open,
    /// A text has come.
    Text(&'a str),
    /// A message of bytes has come.
    Binary(&'a [u8]),
    /// The moment of [`SocketReply::wake_at`] has come.
    Timer,
    /// The connection has ended; a reply goes nowhere.
    Closed,
}

/// The place for messages to the client: each call appends one.
#[derive(Debug)]
pub struct SocketReply<'a> {
    out: &'a mut Vec<u8>,
    wake: &'a mut Instant,
    end: &'a mut Option<Ending>,
}

/// The code and the reason of a close frame.
type Ending = (u16, Cow<'static, str>);

impl SocketReply<'_> {
    /// Sends a text.
    pub fn text(&mut self, text: impl AsRef<str>) -> &mut Self {
        put_frame(Opcode::Text, text.as_ref().as_bytes(), self.out);
        self
    }

    /// Sends a message of bytes.
    pub fn binary(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        put_frame(Opcode::Binary, bytes.as_ref(), self.out);
        self
    }

    /// Sets the connection's only timer: [`SocketEvent::Timer`] comes at this moment, or when the
    /// client has then taken enough of the output. [`Instant::NEVER`] stops it.
    pub fn wake_at(&mut self, moment: Instant) -> &mut Self {
        *self.wake = moment;
        self
    }

    /// Closes the connection after what was sent: 1000 says that all is done, codes from 4000 to
    /// 4999 are free for your use (RFC 6455 section 7.4.2).
    ///
    /// # Panics
    /// If the code is another, or the reason is longer than 123 bytes.
    pub fn close(&mut self, code: u16, why: impl Into<String>) {
        let why = why.into();
        assert!(
            (code == close_code::NORMAL || (3000..5000).contains(&code))
                && why.len() + 2 <= CONTROL_MAX,
            "expected code 1000 or 3000 to 4999 and at most 123 bytes, found {code} {why}"
        );
        *self.end = Some((code, why.into()));
    }
}

type Talker<T> = Box<dyn FnMut(&Cx<'_, T>, SocketEvent<'_>, &mut SocketReply<'_>) + Send>;

/// The function of one WebSocket.
pub struct Socket<T>(Talker<T>);

impl<T> Socket<T> {
    /// A WebSocket whose events `talk` handles.
    pub fn by(
        talk: impl FnMut(&Cx<'_, T>, SocketEvent<'_>, &mut SocketReply<'_>) + Send + 'static,
    ) -> Socket<T> {
        Socket(Box::new(talk))
    }
}

/// A connection that has become a WebSocket.
pub(crate) struct Talk<T> {
    talker: Talker<T>,
    reader: MessageReader,
    wake: Instant,
    /// The first event has ended the conversation.
    ending: Option<Ending>,
}

impl<T> Talk<T> {
    /// Opens a WebSocket with messages of up to `message_max` bytes.
    pub(crate) fn open(
        Socket(talker): Socket<T>,
        message_max: usize,
        cx: &Cx<'_, T>,
        out: &mut Out,
    ) -> Talk<T> {
        let reader = MessageReader::new(None, message_max);
        let mut talk = Talk { talker, reader, wake: Instant::NEVER, ending: None };
        talk.ending = talk.tell(cx, SocketEvent::Open, out.bytes());
        talk
    }

    /// Handles an event of the connection.
    pub(crate) fn step<O, J>(
        &mut self,
        cx: &Cx<'_, T>,
        event: Event<'_, O>,
        out: &mut Out,
    ) -> Step<J> {
        let mut used = 0;
        let mut ending = match event {
            _ if self.ending.is_some() => self.ending.take(),
            Event::Bytes(input) => self.hear(cx, input, &mut used, out),
            Event::Eof => Some((close_code::NORMAL, "".into())),
            Event::Drain => Some((close_code::GOING_AWAY, "the server stops".into())),
            Event::Room | Event::Deadline | Event::Outcome(_) => None,
        };
        if ending.is_none() && self.wake <= cx.now && !out.is_full() {
            self.wake = Instant::NEVER;
            ending = self.tell(cx, SocketEvent::Timer, out.bytes());
        }
        if let Some((code, why)) = ending {
            put_close(code, &why, out.bytes());
            // Input after the end is ignored.
            return Step::close(if let Event::Bytes(input) = event { input.len() } else { 0 });
        }
        out.note_kept(self.reader.held());
        // With a full output the timer waits for `Event::Room`.
        let wake = Some(self.wake).filter(|wake| *wake != Instant::NEVER && !out.is_full());
        Step { used, then: Then::Read, wake }
    }

    /// Takes whole frames while the output has room.
    fn hear(
        &mut self,
        cx: &Cx<'_, T>,
        input: &[u8],
        used: &mut usize,
        out: &mut Out,
    ) -> Option<Ending> {
        while !out.is_full() {
            let (incoming, len) = match self.reader.next(&input[*used..]) {
                Ok(found) => found?,
                Err(bad) => return Some((bad.code, bad.why.into())),
            };
            *used += len;
            match incoming {
                Incoming::Message(message) => {
                    cx.answered(1);
                    let event = match (self.reader.kind(), str::from_utf8(&message)) {
                        (MessageKind::Text, Ok(text)) => SocketEvent::Text(text),
                        _ => SocketEvent::Binary(&message),
                    };
                    let ending = self.tell(cx, event, out.bytes());
                    if ending.is_some() {
                        return ending;
                    }
                }
                Incoming::Ping(payload) => put_frame(Opcode::Pong, &payload, out.bytes()),
                Incoming::Close(code) => return Some((code, "".into())),
                Incoming::Nothing => {}
            }
        }
        None
    }

    /// Calls the function. A panic closes the connection; its place is on stderr.
    fn tell(
        &mut self,
        cx: &Cx<'_, T>,
        event: SocketEvent<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let (start, mut end) = (out.len(), None);
        let run = AssertUnwindSafe(|| {
            let mut reply = SocketReply { out: &mut *out, wake: &mut self.wake, end: &mut end };
            (self.talker)(cx, event, &mut reply);
        });
        if catch_unwind(run).is_err() {
            engines::eprintln!("the function of a WebSocket panicked: 1011");
            out.truncate(start);
            return Some((close_code::INTERNAL, "internal error".into()));
        }
        end
    }

    /// The connection has ended.
    pub(crate) fn close(mut self, cx: &Cx<'_, T>) {
        self.tell(cx, SocketEvent::Closed, &mut Vec::new());
    }
}
