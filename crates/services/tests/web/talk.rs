//! One connection; the test sets its clock, and its jobs finish at once.

use super::memory_files::MemoryFiles;
use memory::Region;
use seam::{Buffers, Closed, Conn, Cx, Effects, Instant, Peer, Service, SessionId, WorkerId};
use services::web::{Journal, Options, Web};
use std::io::IoSlice;
use std::time::Duration;

const ME: SessionId = SessionId::new(0, 0, 1);
const WORKER: WorkerId = WorkerId::new(0, 1);

/// The time of every test: 100 s after the files were changed.
pub const NOW_NS: u64 = super::memory_files::CHANGED_NS + 100_000_000_000;

/// A private journal.
pub fn journal() -> Region<Journal> {
    Region::<Journal>::alone(&[])
}

/// Options with files, routes and a clock.
pub fn options() -> Options {
    Options { demo: true, files: true, wall: (Instant::ZERO, NOW_NS), ..Options::default() }
}

/// The connection.
pub struct Talk<'a> {
    web: &'a Web<MemoryFiles>,
    journal: &'a Journal,
    effects: Effects,
    conn: Conn<Web<MemoryFiles>>,
    pub now: Instant,
}

impl<'a> Talk<'a> {
    pub fn new(web: &'a Web<MemoryFiles>, journal: &'a Journal) -> Talk<'a> {
        let effects = Effects::new(false, false);
        let now = Instant::ZERO;
        let cx = Cx::new(now, ME, WORKER, journal, &effects);
        let conn = Conn::open(web, &cx, Peer::Local, &mut Buffers::new(1));
        Talk { web, journal, effects, conn, now }
    }

    /// The engine finds itself overloaded, or not any more.
    pub fn overloaded(&self, overloaded: bool) {
        self.effects.set_overloaded(overloaded);
    }

    /// Triggers an event, runs the jobs, and leaves the output in place.
    pub fn quietly(
        &mut self,
        event: impl FnOnce(&mut Conn<Web<MemoryFiles>>, &Web<MemoryFiles>, &Cx<'_, Journal>),
    ) {
        let cx = Cx::new(self.now, ME, WORKER, self.journal, &self.effects);
        event(&mut self.conn, self.web, &cx);
        while let Some(job) = self.conn.take_job() {
            let outcome = self.web.work(self.journal, job);
            self.conn.outcome(self.web, &cx, outcome);
        }
    }

    /// Bytes waiting to be sent.
    pub fn waiting(&mut self) -> usize {
        self.conn.out().len()
    }

    /// The capacity of the output in bytes.
    pub fn held(&mut self) -> usize {
        self.conn.out().bytes().capacity()
    }

    /// Sends at most `len` waiting bytes.
    pub fn sip(&mut self, len: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = self.conn.out().gather(&mut slices);
        let bytes: Vec<u8> =
            slices[..filled].iter().flat_map(|slice| slice.iter().copied()).take(len).collect();
        self.quietly(|conn, web, cx| conn.sent(web, cx, bytes.len()));
        bytes
    }

    /// Sends everything and returns it.
    pub fn drink(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.waiting() > 0 {
            bytes.extend(self.sip(usize::MAX));
        }
        bytes
    }

    pub fn say(&mut self, bytes: &[u8]) -> String {
        self.quietly(|conn, web, cx| conn.feed(web, cx, bytes));
        String::from_utf8_lossy(&self.drink()).into_owned()
    }

    pub fn after(&mut self, span: Duration) -> String {
        self.now = self.now + span;
        self.quietly(|conn, web, cx| conn.deadline(web, cx));
        String::from_utf8_lossy(&self.drink()).into_owned()
    }

    pub fn ends(&mut self) -> String {
        self.quietly(|conn, web, cx| conn.eof(web, cx));
        String::from_utf8_lossy(&self.drink()).into_owned()
    }

    pub fn drains(&mut self) -> String {
        self.quietly(|conn, web, cx| conn.drain(web, cx));
        String::from_utf8_lossy(&self.drink()).into_owned()
    }

    /// Ends the connection and drops what is not sent.
    pub fn leaves(mut self, why: Closed) {
        let cx = Cx::new(self.now, ME, WORKER, self.journal, &self.effects);
        if !self.conn.wants().close {
            self.conn.abort(why);
        }
        self.conn.close(self.web, &cx);
    }

    pub fn wake(&self) -> Option<Instant> {
        self.conn.wants().wake
    }

    pub fn closes(&self) -> bool {
        self.conn.wants().close
    }
}

/// The replies of one connection to `input`, which must be the same warm and cold, and whether it
/// persists.
#[track_caller]
pub fn reply(files: &[(&str, &str)], options: &Options, input: &[u8]) -> (String, bool) {
    let journal = journal();
    let replies = [false, true].map(|cold| {
        let web = Web::new(options.clone(), MemoryFiles::new(files, cold));
        let mut talk = Talk::new(&web, &journal);
        (talk.say(input), !talk.closes())
    });
    assert_eq!(replies[0], replies[1], "warm and cold differ");
    replies[0].clone()
}

/// A request without a body.
pub fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// The body after the first head.
pub fn body(reply: &str) -> &str {
    reply.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
