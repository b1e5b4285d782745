//! TLS around any service, without a change to the service or to any engine.
//!
//! A session holds a TLS connection and, once the handshake is done, a [`Conn`] of the inner
//! service. Input from the engine is decrypted and fed to it; its output is encrypted and appended
//! to the engine's. [`Conn`] is the whole contract of an engine, so this module is one more engine,
//! without a socket.
//!
//! The inner service must not append files that an engine sends by itself, because those bytes
//! would not be encrypted. Signing takes some hundred microseconds and happens in the step.

mod keys;

pub use keys::{BadKeys, KeyPair, Keys};

use std::io::{BufRead, IoSlice, Write};
use std::time::Duration;

use rustls::ServerConnection;
use seam::{
    Buffers, Closed, Conn, Cx, Event, Instant, Limits, Out, Peer, PushRefused, Service, Step, Then,
    Wants,
};

/// The maximum number of bytes that are decrypted or encrypted at once: a TLS record (RFC 8446
/// section 5.1).
const RECORD: usize = 16 * 1024;
/// A session must accept more input at once than one encrypted record.
const INPUT_MIN: usize = 2 * RECORD;
/// Plaintext in bytes from which the service waits: what is sealed at once, with its records, is in
/// the processor's cache, and the buffers stay as small as a thread keeps them.
const PLAIN_OUTPUT: usize = 32 * 1024;
/// The maximum number of pieces of output that are encrypted at once.
const SLICES: usize = 16;
/// The time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A service over TLS.
#[derive(Debug)]
pub struct Tls<S> {
    inner: S,
    keys: Keys,
    /// Connections that do not begin as TLS belong to the inner service.
    takes_plain: bool,
}

impl<S> Tls<S> {
    /// Wraps `inner` in TLS with these keys.
    pub fn new(inner: S, keys: Keys) -> Tls<S> {
        Tls { inner, keys, takes_plain: false }
    }

    /// Gives connections that do not begin as TLS to the inner service too, which learns of each
    /// ([`Service::unsealed`]).
    #[must_use]
    pub fn taking_plain(self) -> Tls<S> {
        Tls { takes_plain: true, ..self }
    }

    /// The keys, which can be replaced.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }
}

/// The first byte of TLS: the type of a record of the handshake (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// One connection.
pub enum Session<S: Service> {
    /// It sent nothing, and owes its first byte by this time.
    Fresh(Peer, Instant),
    /// TLS.
    Sealed(Box<Talk<S>>),
    /// Without TLS.
    Plain(S::Session),
    /// No TLS session could be made.
    Failed,
}

/// A connection of TLS.
pub struct Talk<S: Service> {
    tls: ServerConnection,
    /// The session of the inner service, once the handshake is done.
    conn: Option<Conn<S::Session, S::Job>>,
    peer: Peer,
    /// The deadline of the handshake.
    until: Instant,
    /// The peer has sent `close_notify` or ended the connection.
    ended: bool,
    /// The peer violated the protocol; an alert ends the connection.
    broken: bool,
    drained: bool,
}

impl<S: Service + 'static> Service for Tls<S> {
    inner_service!();

    type Session = Session<S>;

    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        Limits { input_max: limits.input_max.max(INPUT_MIN), ..limits }
    }

    fn patience(&self) -> Option<Duration> {
        Some(HANDSHAKE)
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, _out: &mut Out) -> Session<S> {
        match self.takes_plain {
            true => Session::Fresh(peer, cx.now + HANDSHAKE),
            false => self.seal(cx, peer),
        }
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let inner = &self.inner;
        if let (&mut Session::Fresh(peer, _), Event::Bytes(input)) = (&mut *session, &event) {
            *session = if input[0] == HANDSHAKE_RECORD {
                self.seal(cx, peer)
            } else {
                let mut plain = inner.open(cx, peer, out);
                inner.unsealed(&mut plain);
                Session::Plain(plain)
            };
        }
        let talk = match session {
            Session::Sealed(talk) => talk,
            Session::Plain(plain) => return inner.step(cx, plain, event, out),
            Session::Fresh(_, until) if cx.now < *until => {
                let is_over = matches!(event, Event::Eof | Event::Drain);
                return if is_over { Step::close(0) } else { Step::read(0).wake_at(*until) };
            }
            Session::Fresh(..) | Session::Failed => return Step::close(0),
        };
        let mut used = 0;
        match (event, &mut talk.conn) {
            (Event::Bytes(input), _) => used = talk.hear(inner, cx, input, out),
            (Event::Eof, _) => talk.ended = true,
            (Event::Drain, _) => talk.drained = true,
            (Event::Deadline, Some(conn)) => conn.deadline(inner, cx),
            (Event::Outcome(outcome), Some(conn)) => conn.outcome(inner, cx, outcome),
            (Event::Deadline, None) if talk.until <= cx.now => return Step::close(0),
            (Event::Deadline | Event::Outcome(_) | Event::Room, _) => {}
        }
        talk.exchange(inner, cx, out);
        talk.answer(used, out)
    }

    fn push(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        let talk = match session {
            Session::Sealed(talk) => talk,
            Session::Plain(plain) => return self.inner.push(cx, plain, bytes, out),
            Session::Fresh(..) | Session::Failed => return Err(PushRefused),
        };
        let conn = talk.conn.as_mut().ok_or(PushRefused)?;
        // Output that waits goes first, when the outer one has room: the next step moves both.
        let is_next = conn.out().is_empty();
        conn.push(&self.inner, cx, bytes)?;
        while is_next && !out.is_full() && say(&mut talk.tls, conn, &self.inner, cx) {
            put(&mut talk.tls, out);
        }
        Ok(())
    }

    fn close(&self, cx: &Cx<'_, S::State>, session: Session<S>, why: Closed) {
        let talk = match session {
            Session::Sealed(talk) => talk,
            Session::Plain(plain) => return self.inner.close(cx, plain, why),
            Session::Fresh(..) | Session::Failed => return,
        };
        if let Some(conn) = talk.conn {
            crate::close(conn, &self.inner, cx, why);
        }
    }
}

impl<S: Service> Tls<S> {
    fn seal(&self, cx: &Cx<'_, S::State>, peer: Peer) -> Session<S> {
        let Ok(tls) = ServerConnection::new(self.keys.config()) else {
            // Only an unusable configuration can fail here; the connection is closed.
            cx.note(|note| note.push_str("no TLS session could be made"));
            return Session::Failed;
        };
        let until = cx.now + HANDSHAKE;
        let (conn, ended, broken, drained) = (None, false, false, false);
        Session::Sealed(Box::new(Talk { tls, conn, peer, until, ended, broken, drained }))
    }
}

impl<S: Service> Talk<S> {
    /// Decrypts input as far as the session can take it; returns how much it used.
    fn hear(&mut self, inner: &S, cx: &Cx<'_, S::State>, input: &[u8], out: &mut Out) -> usize {
        let mut rest = input;
        if self.ended {
            // Input after `close_notify` is ignored.
            return input.len();
        }
        // Plaintext that is not taken yet stops decryption, and then no more is read from the peer.
        while !rest.is_empty() && !self.broken && self.tls.wants_read() {
            match self.tls.read_tls(&mut rest) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if self.tls.process_new_packets().is_err() {
                self.broken = true;
            }
            self.exchange(inner, cx, out);
        }
        if self.broken { input.len() } else { input.len() - rest.len() }
    }

    /// Moves data in both directions until nothing more moves.
    fn exchange(&mut self, inner: &S, cx: &Cx<'_, S::State>, out: &mut Out) {
        self.welcome(inner, cx);
        loop {
            put(&mut self.tls, out);
            let mut moved = false;
            if let Some(conn) = &mut self.conn {
                if self.broken {
                    conn.abort(Closed::Reset);
                }
                if self.drained {
                    conn.drain(inner, cx);
                }
                moved |= take(&mut self.tls, conn, inner, cx, &mut self.ended);
                moved |= !out.is_full() && say(&mut self.tls, conn, inner, cx);
            }
            if !moved {
                break;
            }
        }
    }

    /// Opens the inner session once the handshake is done.
    fn welcome(&mut self, inner: &S, cx: &Cx<'_, S::State>) {
        if self.conn.is_none() && !self.tls.is_handshaking() && !self.broken {
            let limits = inner.limits().within_output(PLAIN_OUTPUT);
            let buffers = &mut Buffers::new(0);
            self.conn = Some(Conn::open_within(inner, limits, cx, self.peer, buffers));
        }
    }

    /// The next step, and its deadline.
    fn answer(&mut self, used: usize, out: &mut Out) -> Step<S::Job> {
        let Some(conn) = &mut self.conn else {
            let over = self.broken || self.ended || self.drained;
            return if over { Step::close(used) } else { Step::read(used).wake_at(self.until) };
        };
        out.note_kept(conn.held());
        let Wants { read, job, wake, close, .. } = conn.wants();
        if let Some(job) = job.then(|| conn.take_job()).flatten() {
            return Step::offload(used, job);
        }
        if close {
            self.tls.send_close_notify();
            put(&mut self.tls, out);
            return Step::close(used);
        }
        conn.reclaim_spare();
        let then = if read { Then::Read } else { Then::Pause };
        Step { used, then, wake }
    }
}

/// Appends encrypted bytes to the output.
fn put(tls: &mut ServerConnection, out: &mut Out) {
    // Writing to a vector cannot fail.
    while tls.wants_write() && tls.write_tls(out.bytes()).is_ok() {}
}

/// Feeds plaintext to the inner session while it takes it; true if anything moved.
fn take<S: Service>(
    tls: &mut ServerConnection,
    conn: &mut Conn<S::Session, S::Job>,
    inner: &S,
    cx: &Cx<'_, S::State>,
    ended: &mut bool,
) -> bool {
    let mut moved = false;
    while conn.wants().read {
        // A chunk is at most a record long.
        match tls.reader().into_first_chunk() {
            // The peer has sent `close_notify`.
            Ok([]) => *ended = true,
            Ok(opened) => {
                conn.lend_spare();
                conn.feed(inner, cx, opened);
                let len = opened.len();
                tls.reader().consume(len);
                moved = true;
                continue;
            }
            Err(_) => {}
        }
        if *ended {
            conn.eof(inner, cx);
            moved = true;
        }
        break;
    }
    moved
}

/// Encrypts output of the inner session, once; true if there was any.
fn say<S: Service>(
    tls: &mut ServerConnection,
    conn: &mut Conn<S::Session, S::Job>,
    inner: &S,
    cx: &Cx<'_, S::State>,
) -> bool {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let filled = conn.out().gather(&mut slices);
    let sealed = tls.writer().write_vectored(&slices[..filled]).unwrap_or(0);
    if sealed > 0 {
        conn.sent(inner, cx, sealed);
    } else if conn.out().has_file() {
        // A file that only an engine could send cannot be encrypted.
        conn.abort(Closed::Reset);
    }
    sealed > 0
}
