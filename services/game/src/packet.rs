//! The packets between client and server: a length of two bytes, a kind of one, fields.
//!
//! Fields are those of [`wire::message`]. The length counts what follows it, the kind included. The
//! tables of `docs/game.md` describe these encoders; a test checks that each packet reads back as
//! written. No count is trusted: a packet whose fields do not fill it exactly is [`Bad`].

use wire::message::{Field, Fields, PutField};

/// The protocol version; a JOIN with another one is answered by BYE.
pub const VERSION: u8 = 1;
/// Bytes of the length field.
pub const HEAD: usize = 2;
/// The longest packet of a client in bytes, without its length field.
pub const ASK_MAX: usize = 256;
/// The longest packet of a server in bytes, without its length field.
pub const TELL_MAX: usize = 16 * 1024;
/// The longest name (bytes).
pub const NAME_MAX: usize = 16;
/// The longest text (bytes).
pub const TEXT_MAX: usize = 200;

/// A place on the map: column, row.
pub type Place = (u16, u16);

/// The role of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::TryFrom)]
#[try_from(repr)]
#[repr(u8)]
pub enum Role {
    /// The session has a position and walks.
    Player,
    /// The session sees everything and has no position.
    Spectator,
}

/// A packet from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the tables of docs/game.md describe the fields")]
pub enum Ask {
    /// The first packet of a connection, with [`VERSION`].
    Join {
        version: u8,
        role: Role,
        name: String,
    },
    /// Asks for a path to a place.
    Go(Place),
    Stop,
    /// Sends a text to one session, or to all (id 0).
    Say {
        to: u64,
        text: String,
    },
    /// Asks for rows of the map.
    Rows {
        first: u16,
        count: u16,
    },
    /// Requests the list of sessions.
    Who,
    /// Asks for a PONG.
    Ping(u64),
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::TryFrom)]
#[try_from(repr)]
#[repr(u8)]
pub enum Bye {
    /// A malformed packet.
    BadPacket,
    /// No JOIN in time, or something else before it.
    NotJoined,
    /// No seat is free.
    Full,
    /// The server stops.
    Drain,
    /// The operator disconnected it.
    Operator,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::TryFrom)]
#[try_from(repr)]
#[repr(u8)]
pub enum NoWay {
    /// The place is not on the map.
    Outside,
    /// Spectators have no position.
    Spectator,
}

/// A session that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The session.
    pub id: u64,
    /// The new position.
    pub at: Place,
}

/// A packet from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the tables of docs/game.md describe the fields")]
pub enum Tell {
    /// The answer to JOIN: the session's id, to which others can send, columns and rows of the map,
    /// and the session's position, which is meaningless for a spectator.
    Welcome { version: u8, role: Role, id: u64, size: Place, tick_ms: u16, at: Place },
    /// A row of the map: one bit a column, lowest first; 1 is free.
    Row { row: u16, bits: Vec<u8> },
    /// A session is here.
    Enter { id: u64, role: Role, at: Place, name: String },
    /// A session has left.
    Leave(u64),
    /// All sessions that moved in a tick; ticks without a move are not sent.
    Moves { tick: u32, moved: Vec<Moved> },
    /// The path that the session will take, to the requested place if it is exact, otherwise to the
    /// nearest reachable one: straight and diagonal steps of the whole path, then the start, every
    /// turn, and the end. If the path was too long and was cut, the client asks again at its end.
    Path { is_exact: bool, is_cut: bool, steps: (u32, u32), turns: Vec<Place> },
    /// There is no path.
    NoWay(NoWay),
    /// A message from a session to one, or to all (id 0).
    Said { from: u64, to: u64, text: String },
    /// The answer to a PING.
    Pong(u64),
    /// The server closes the connection.
    Bye(Bye),
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Bad {
    /// The length is 0 or more than is allowed.
    #[display("expected a length from 1 to the limit, found {_0}")]
    Length(u16),
    /// The kind is unknown.
    #[display("expected a kind of packet, found {_0:#04x}")]
    Kind(u8),
    /// Its fields do not fill it exactly, or are invalid.
    #[display("expected the fields of {_0:#04x}, found others")]
    Fields(u8),
}

impl std::error::Error for Bad {}

/// The packet at the front of `bytes`, without its length field, and the number of bytes that it
/// takes; `None` if it is incomplete.
///
/// # Errors
/// [`Bad::Length`].
pub fn front(bytes: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, Bad> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    let length = u16::from_le_bytes(*head);
    if length == 0 || usize::from(length) > most {
        return Err(Bad::Length(length));
    }
    let body = rest.get(..usize::from(length));
    Ok(body.map(|body| (body, HEAD + body.len())))
}

impl Ask {
    /// Reads a packet without its length.
    ///
    /// # Errors
    /// [`Bad::Kind`], [`Bad::Fields`].
    pub fn read(body: &[u8]) -> Result<Ask, Bad> {
        let mut fields = Unread::of(body)?;
        let ask = fields.ask();
        fields.end(ask)
    }

    /// Appends the packet.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Join { version, role, name } => {
                packet(out, 0x01, |out| put_name(name, out.put(*version).put(*role as u8)));
            }
            Ask::Go(to) => packet(out, 0x02, |out| put_place(*to, out)),
            Ask::Stop => packet(out, 0x03, |_| {}),
            Ask::Say { to, text } => packet(out, 0x04, |out| {
                out.put(*to).extend(clipped(text, TEXT_MAX).as_bytes());
            }),
            Ask::Rows { first, count } => packet(out, 0x05, |out| put_place((*first, *count), out)),
            Ask::Who => packet(out, 0x06, |_| {}),
            Ask::Ping(number) => packet(out, 0x07, |out| _ = out.put(*number)),
        }
    }
}

impl Tell {
    /// Reads a packet without its length.
    ///
    /// # Errors
    /// [`Bad::Kind`], [`Bad::Fields`].
    pub fn read(body: &[u8]) -> Result<Tell, Bad> {
        let mut fields = Unread::of(body)?;
        let tell = fields.tell();
        fields.end(tell)
    }

    /// Appends the packet.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Tell::Welcome { version, role, id, size, tick_ms, at } => packet(out, 0x81, |out| {
                put_place(*size, out.put(*version).put(*role as u8).put(*id));
                put_place(*at, out.put(*tick_ms));
            }),
            Tell::Row { row, bits } => packet(out, 0x82, |out| out.put(*row).extend(bits)),
            Tell::Enter { id, role, at, name } => packet(out, 0x83, |out| {
                put_place(*at, out.put(*id).put(*role as u8));
                put_name(name, out);
            }),
            Tell::Leave(id) => packet(out, 0x84, |out| _ = out.put(*id)),
            Tell::Moves { tick, moved } => packet(out, 0x85, |out| {
                out.put(*tick);
                moved.iter().for_each(|one| put_place(one.at, out.put(one.id)));
            }),
            Tell::Path { is_exact, is_cut, steps, turns } => packet(out, 0x86, |out| {
                out.put(u8::from(*is_exact) | u8::from(*is_cut) << 1).put(steps.0).put(steps.1);
                turns.iter().for_each(|turn| put_place(*turn, out));
            }),
            Tell::NoWay(why) => packet(out, 0x87, |out| out.push(*why as u8)),
            Tell::Said { from, to, text } => packet(out, 0x88, |out| {
                out.put(*from).put(*to).extend(clipped(text, TEXT_MAX).as_bytes());
            }),
            Tell::Pong(number) => packet(out, 0x89, |out| _ = out.put(*number)),
            Tell::Bye(why) => packet(out, 0x8a, |out| out.push(*why as u8)),
        }
    }
}

/// Appends a packet: its length, its kind, and the fields that `fill` appends.
fn packet(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0, kind]);
    fill(out);
    let length = out.len() - start - HEAD;
    debug_assert!(length <= TELL_MAX, "a packet of {length} bytes");
    out[start..start + HEAD].copy_from_slice(&(length as u16).to_le_bytes());
}

fn put_place((x, y): Place, out: &mut Vec<u8>) {
    out.put(x).put(y);
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    let name = clipped(name, NAME_MAX);
    out.push(name.len() as u8);
    out.extend(name.as_bytes());
}

/// The longest prefix of a text that fits, cut between two characters.
#[must_use]
pub fn clipped(text: &str, most: usize) -> &str {
    let fits = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..fits.unwrap_or(0)]
}

/// The unread rest of a packet. Reading beyond its end marks the packet as bad.
struct Unread<'a> {
    kind: u8,
    rest: Fields<'a>,
}

impl<'a> Unread<'a> {
    fn of(body: &'a [u8]) -> Result<Unread<'a>, Bad> {
        let (&kind, rest) = body.split_first().ok_or(Bad::Length(0))?;
        Ok(Unread { kind, rest: Fields(rest) })
    }

    fn ask(&mut self) -> Option<Ask> {
        Some(match self.kind {
            0x01 => Ask::Join { version: self.take()?, role: self.one_of()?, name: self.name()? },
            0x02 => Ask::Go(self.place()?),
            0x03 => Ask::Stop,
            0x04 => Ask::Say { to: self.take()?, text: self.text()? },
            0x05 => {
                let (first, count) = self.place()?;
                Ask::Rows { first, count }
            }
            0x06 => Ask::Who,
            0x07 => Ask::Ping(self.take()?),
            _ => return None,
        })
    }

    fn tell(&mut self) -> Option<Tell> {
        Some(match self.kind {
            0x81 => Tell::Welcome {
                version: self.take()?,
                role: self.one_of()?,
                id: self.take()?,
                size: self.place()?,
                tick_ms: self.take()?,
                at: self.place()?,
            },
            0x82 => {
                let row = self.take()?;
                Tell::Row { row, bits: self.rest.take_rest().to_vec() }
            }
            0x83 => Tell::Enter {
                id: self.take()?,
                role: self.one_of()?,
                at: self.place()?,
                name: self.name()?,
            },
            0x84 => Tell::Leave(self.take()?),
            0x85 => {
                let tick = self.take()?;
                let one =
                    |fields: &mut Self| Some(Moved { id: fields.take()?, at: fields.place()? });
                Tell::Moves { tick, moved: self.all(one)? }
            }
            0x86 => {
                let flags = self.take().filter(|&flags: &u8| flags < 4)?;
                let steps = (self.take()?, self.take()?);
                let turns = self.all(Self::place)?;
                Tell::Path { is_exact: flags & 1 != 0, is_cut: flags & 2 != 0, steps, turns }
            }
            0x87 => Tell::NoWay(self.one_of()?),
            0x88 => Tell::Said { from: self.take()?, to: self.take()?, text: self.text()? },
            0x89 => Tell::Pong(self.take()?),
            0x8a => Tell::Bye(self.one_of()?),
            _ => return None,
        })
    }

    /// The packet, if everything was read and nothing is left.
    fn end<T>(self, packet: Option<T>) -> Result<T, Bad> {
        let known = matches!(self.kind, 0x01..=0x07 | 0x81..=0x8a);
        match packet.filter(|_| self.rest.is_empty()) {
            Some(packet) => Ok(packet),
            None if known => Err(Bad::Fields(self.kind)),
            None => Err(Bad::Kind(self.kind)),
        }
    }

    fn take<F: Field>(&mut self) -> Option<F> {
        self.rest.take()
    }

    fn place(&mut self) -> Option<Place> {
        Some((self.take()?, self.take()?))
    }

    fn one_of<T: TryFrom<u8>>(&mut self) -> Option<T> {
        T::try_from(self.take()?).ok()
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::from(self.take::<u8>()?);
        written(self.rest.take_bytes(length)?, NAME_MAX)
    }

    fn text(&mut self) -> Option<String> {
        written(self.rest.take_rest(), TEXT_MAX)
    }

    fn all<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut all = Vec::new();
        while !self.rest.is_empty() {
            all.push(one(self)?);
        }
        Some(all)
    }
}

/// Text without control characters, because those could control a terminal.
fn written(bytes: &[u8], most: usize) -> Option<String> {
    let text = core::str::from_utf8(bytes).ok().filter(|text| text.len() <= most)?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_ask(ask: Ask, bytes: &[u8]) {
        let mut out = Vec::new();
        ask.put(&mut out);
        assert_eq!(out, bytes, "{ask:?}");
        let (body, used) = front(&out, ASK_MAX).expect("a length").expect("whole");
        assert_eq!((Ask::read(body), used), (Ok(ask), bytes.len()));
    }

    fn check_tell(tell: Tell) {
        let mut out = Vec::new();
        tell.put(&mut out);
        for cut in 0..out.len() {
            assert_eq!(front(&out[..cut], TELL_MAX), Ok(None), "{tell:?}, cut at {cut}");
        }
        let (body, _) = front(&out, TELL_MAX).expect("a length").expect("whole");
        for cut in 1..body.len() {
            // A shorter prefix may be a packet, but never the same one.
            assert_ne!(Tell::read(&body[..cut]), Ok(tell.clone()), "cut at {cut}");
        }
        assert_eq!(Tell::read(body), Ok(tell));
    }

    #[test]
    fn what_clients_say_has_these_bytes() {
        let join = Ask::Join { version: 1, role: Role::Spectator, name: "Ada".to_owned() };
        check_ask(join, b"\x07\0\x01\x01\x01\x03Ada");
        check_ask(Ask::Go((0x102, 3)), b"\x05\0\x02\x02\x01\x03\0");
        check_ask(Ask::Stop, b"\x01\0\x03");
        let say = Ask::Say { to: 5, text: "hi".to_owned() };
        check_ask(say, b"\x0b\0\x04\x05\0\0\0\0\0\0\0hi");
        check_ask(Ask::Rows { first: 2, count: 64 }, b"\x05\0\x05\x02\0\x40\0");
        check_ask(Ask::Who, b"\x01\0\x06");
        check_ask(Ask::Ping(1), b"\x09\0\x07\x01\0\0\0\0\0\0\0");
    }

    #[test]
    fn what_servers_say_is_read_back() {
        let (id, at, name) = (0x0123_4567_89ab_cdef, (79, 39), "Grace".to_owned());
        for role in [Role::Player, Role::Spectator] {
            check_tell(Tell::Welcome { version: 1, role, id, size: (80, 40), tick_ms: 50, at });
            check_tell(Tell::Enter { id, role, at, name: name.clone() });
        }
        check_tell(Tell::Row { row: 3, bits: vec![0xff, 0, 1] });
        check_tell(Tell::Leave(id));
        let moved = vec![Moved { id, at }, Moved { id: 1, at: (0, 0) }];
        check_tell(Tell::Moves { tick: 7, moved });
        for (is_exact, is_cut) in [(true, false), (false, true)] {
            let turns = vec![(0, 0), (5, 5), (5, 9)];
            check_tell(Tell::Path { is_exact, is_cut, steps: (4, 5), turns });
        }
        check_tell(Tell::NoWay(NoWay::Outside));
        check_tell(Tell::NoWay(NoWay::Spectator));
        check_tell(Tell::Said { from: id, to: 0, text: "안녕".to_owned() });
        check_tell(Tell::Pong(9));
        (0..5).for_each(|why| check_tell(Tell::Bye(why.try_into().expect("a reason"))));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        assert_eq!(front(b"\0\0", ASK_MAX), Err(Bad::Length(0)));
        assert_eq!(front(b"\x01\x01", ASK_MAX), Err(Bad::Length(257)));
        assert_eq!(front(b"\x01", ASK_MAX), Ok(None));
        for (body, bad) in [
            (&b"\x00"[..], Bad::Kind(0)),
            (b"\x82", Bad::Kind(0x82)),
            (b"\x02\0\0\0", Bad::Fields(2)),
            (b"\x02\0\0\0\0\0", Bad::Fields(2)),
            (b"\x01\x01\x02\0", Bad::Fields(1)),
            (b"\x01\x01\0\x05Ada", Bad::Fields(1)),
            (b"\x01\x01\0\x11seventeen letters", Bad::Fields(1)),
            (b"\x01\x01\0\x01\x1b", Bad::Fields(1)),
            (b"\x04\0\0\0\0\0\0\0\0\xff", Bad::Fields(4)),
        ] {
            let found = Ask::read(body);
            // A kind that belongs to the other direction is unknown here.
            let same = found == Err(bad) || (found.is_err() && bad == Bad::Kind(0x82));
            assert!(same, "{body:?}: {found:?}");
        }
        assert_eq!(clipped("안녕", 4), "안");
    }
}
