//! A small server for fuzzers and tests: a few files in memory, one client, a virtual clock.

use std::io::IoSlice;
use std::time::Duration;

use memory::Region;
use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, Service, SessionId, WorkerId};

use super::{Media, Options, Orders};
use crate::web::MemoryFiles;

/// A mono WAVE file at 8 kHz, with `bits` bits a sample.
pub fn wave(code: u8, bits: u8, data: usize) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    file.extend_from_slice(&[code, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, bits / 8, 0, bits]);
    file.extend_from_slice(b"\0data");
    file.extend_from_slice(&(data as u32).to_le_bytes());
    file.extend((0..data).map(|at| (at * 7) as u8));
    file
}

/// `a.wav`: 1.5 s of μ-law; `l.wav`: 16-bit samples; `bad.txt`: not a media file; lists; and a
/// folder.
pub fn files(cold: bool) -> MemoryFiles {
    let files: [(&str, &[u8]); 7] = [
        ("a.wav", &wave(7, 8, 12_000)),
        ("l.wav", &wave(1, 16, 600_000)),
        ("bad.txt", b"words"),
        ("both.m3u", b"#EXTM3U\na.wav\n\n# again\na.wav\n"),
        ("unlike.m3u", b"a.wav\nl.wav\n"),
        ("self.m3u", b"self.m3u\n"),
        ("d/empty", b""),
    ];
    MemoryFiles::new(&files, cold)
}

/// The start of the virtual clock, which is not zero, as with a real clock.
pub const BEGIN: Instant = Instant::from_ns(1_000_000_000_000);

/// A fresh state.
pub fn orders() -> Region<Orders> {
    Region::<Orders>::alone(&[1, 2, 3, 4])
}

/// All features on, datagrams included.
pub fn options() -> Options {
    Options { ports: Some((6000, 6001)), secret: [7; 16], ..Options::default() }
}

/// One client of a service.
pub struct Guest<'a> {
    media: &'a Media<MemoryFiles>,
    orders: &'a Orders,
    effects: Effects,
    buffers: Buffers,
    conn: Option<Conn<Media<MemoryFiles>>>,
    /// The client's time.
    pub now: Instant,
    /// The maximum number of bytes that the client takes from the server at a time.
    pub sip: usize,
}

/// The client's address.
const PEER: ([u8; 4], u16) = ([10, 0, 0, 9], 40_000);

impl<'a> Guest<'a> {
    /// A client that has just connected.
    pub fn new(media: &'a Media<MemoryFiles>, orders: &'a Orders) -> Guest<'a> {
        let mut guest = Guest {
            media,
            orders,
            effects: Effects::new(false, true),
            buffers: Buffers::new(4),
            conn: None,
            now: BEGIN,
            sip: usize::MAX,
        };
        let cx = cx(guest.now, orders, &guest.effects);
        guest.conn = Some(Conn::open(media, &cx, Peer::Net(PEER.into()), &mut guest.buffers));
        guest
    }

    /// Sends bytes and takes the reply.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let cx = cx(self.now, self.orders, &self.effects);
        if let Some(conn) = &mut self.conn {
            conn.feed(self.media, &cx, bytes);
        }
        self.settle()
    }

    #[cfg(test)]
    /// Sends a request with these fields and takes the answer.
    pub fn ask(&mut self, method: &str, url: &str, fields: &str) -> String {
        let text = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{fields}\r\n");
        String::from_utf8_lossy(&self.send(text.as_bytes())).into_owned()
    }

    /// Advances the time in steps of a millisecond, and returns the output.
    pub fn pass(&mut self, time: Duration) -> Vec<u8> {
        let end = self.now + time;
        let mut heard = Vec::new();
        while self.now < end && self.conn.is_some() {
            let wake = self.conn.as_ref().and_then(|conn| conn.wants().wake);
            let soonest = end.min(self.now + Duration::from_millis(1));
            self.now = wake.unwrap_or(end).clamp(soonest, end);
            let cx = cx(self.now, self.orders, &self.effects);
            if let Some(conn) = &mut self.conn {
                conn.deadline(self.media, &cx);
            }
            heard.extend(self.settle());
        }
        heard
    }

    #[cfg(test)]
    /// True until the server has closed the connection.
    pub fn is_open(&self) -> bool {
        self.conn.is_some()
    }

    /// The client disconnects without a TEARDOWN.
    pub fn leave(mut self) {
        if let Some(mut conn) = self.conn.take() {
            conn.abort(seam::Closed::Reset);
            conn.close(self.media, &cx(self.now, self.orders, &self.effects));
        }
    }

    /// Runs jobs and takes output until there is no more.
    fn settle(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        let cx = cx(self.now, self.orders, &self.effects);
        while let Some(conn) = &mut self.conn {
            let wants = conn.wants();
            if wants.close {
                let conn = self.conn.take().expect("looked at just now");
                conn.close(self.media, &cx);
            } else if wants.job {
                let job = conn.take_job().expect("wanted");
                let outcome = self.media.work(self.orders, job);
                conn.outcome(self.media, &cx, outcome);
            } else if wants.write && self.sip > 0 {
                let mut slices = [IoSlice::new(&[]); 8];
                let filled = conn.out().gather(&mut slices);
                let bytes: Vec<u8> = slices[..filled]
                    .iter()
                    .flat_map(|it| it.iter().copied())
                    .take(self.sip)
                    .collect();
                conn.sent(self.media, &cx, bytes.len());
                heard.extend(bytes);
            } else {
                break;
            }
        }
        heard
    }
}

fn cx<'c>(now: Instant, orders: &'c Orders, effects: &'c Effects) -> Cx<'c, Orders> {
    effects.take_notes();
    effects.take_ring();
    Cx::new(now, SessionId::new(0, 1, 1), WorkerId::new(0, 1), orders, effects)
}
