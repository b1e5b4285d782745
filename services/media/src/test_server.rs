//! A small server for tests: a few files in memory, one client, a virtual clock.

use std::time::Duration;

use memory::Region;
use seam::{Closed, Conn, Cx, Instant, Peer, Service};
use sim::Talk;

use super::{Media, Options, Orders};
use web::MemoryFiles;

/// A mono WAVE file at 8 kHz, with `bits` bits a sample.
pub fn wave(code: u8, bits: u8, data: usize) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    file.extend_from_slice(&[code, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, bits / 8, 0, bits]);
    file.extend_from_slice(b"\0data");
    file.extend_from_slice(&(data as u32).to_le_bytes());
    file.extend((0..data).map(|at| (at * 7) as u8));
    file
}

/// `a.wav`: 1.5 s of μ-law; `l.wav`: 16-bit samples; `bad.txt`: not a media file; and a folder.
pub fn files(cold: bool) -> MemoryFiles {
    let files: [(&str, &[u8]); 4] = [
        ("a.wav", &wave(7, 8, 12_000)),
        ("l.wav", &wave(1, 16, 600_000)),
        ("bad.txt", b"words"),
        ("d/empty", b""),
    ];
    MemoryFiles::new(&files, cold)
}

/// The start of the virtual clock, which is not zero, as with a real clock.
pub const BEGIN: Instant = Instant::from_ns(1_000_000_000_000);

pub fn orders() -> Region<Orders> {
    Region::<Orders>::alone(&[1, 2, 3, 4])
}

/// All features on, datagrams included.
pub fn options() -> Options {
    Options { ports: Some((6000, 6001)), secret: [7; 16], ..Options::default() }
}

/// One client of a service, with its own time.
pub struct Guest<'a> {
    talk: Option<Talk<'a, Media<MemoryFiles>>>,
    pub now: Instant,
    /// The maximum number of bytes that the client takes from the server at a time.
    pub sip: usize,
}

const PEER: ([u8; 4], u16) = ([10, 0, 0, 9], 40_000);

impl<'a> Guest<'a> {
    pub fn new(media: &'a Media<MemoryFiles>, orders: &'a Orders) -> Guest<'a> {
        Guest::from(Peer::Net(PEER.into()), media, orders)
    }

    pub fn from(peer: Peer, media: &'a Media<MemoryFiles>, orders: &'a Orders) -> Guest<'a> {
        let talk = Talk::at(BEGIN, peer, media, orders);
        Guest { talk: Some(talk), now: BEGIN, sip: usize::MAX }
    }

    /// Sends bytes and takes the reply.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.hear(|conn, media, cx| conn.feed(media, cx, bytes))
    }

    /// Sends a request with these fields and takes the answer.
    pub fn ask(&mut self, method: &str, url: &str, fields: &str) -> String {
        let text = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{fields}\r\n");
        String::from_utf8_lossy(&self.send(text.as_bytes())).into_owned()
    }

    /// Advances the time in steps of a millisecond, and returns the output.
    pub fn pass(&mut self, time: Duration) -> Vec<u8> {
        let end = self.now + time;
        let mut heard = Vec::new();
        while self.now < end
            && let Some(talk) = &self.talk
        {
            let soonest = end.min(self.now + Duration::from_millis(1));
            self.now = talk.wants().wake.unwrap_or(end).clamp(soonest, end);
            heard.extend(self.hear(Conn::deadline));
        }
        heard
    }

    pub fn is_open(&self) -> bool {
        self.talk.is_some()
    }

    /// The client disconnects without a TEARDOWN.
    pub fn leave(self) {
        self.talk.map(|talk| talk.leaves(Closed::Reset));
    }

    /// Triggers an event, and takes output until there is no more.
    fn hear(
        &mut self,
        event: impl FnOnce(&mut Film, &Media<MemoryFiles>, &Context<'_>),
    ) -> Vec<u8> {
        let mut heard = Vec::new();
        let Some(talk) = &mut self.talk else { return heard };
        talk.now = self.now;
        talk.quietly(event);
        while self.sip > 0 && talk.waiting() > 0 {
            heard.extend(talk.sip(self.sip));
        }
        if talk.closes() {
            self.talk.take().map(|talk| talk.leaves(Closed::Service));
        }
        heard
    }
}

type Film = Conn<<Media<MemoryFiles> as Service>::Session, <Media<MemoryFiles> as Service>::Job>;
type Context<'c> = Cx<'c, Orders>;

/// The name of the session that an answer begins.
pub fn session(answer: &str) -> String {
    let (_, behind) = answer.split_once("Session: ").expect("an answer that begins a session");
    behind.split([';', '\r']).next().unwrap_or("").to_owned()
}
