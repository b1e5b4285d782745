//! One stream: a request, the session that answers it, and its reply.

use std::io::IoSlice;

use seam::{Buffers, Conn, Cx, Instant, Out, Peer, Service};
use wire::http2::{
    Code, FRAME_MAX, Kind, ReplyPiece, ReplyReader, RequestHead, WINDOW, flag, put_frame, put_head,
    put_reset,
};

use super::STREAM_OUTPUT;

/// The surroundings of a step: the inner service, its context, and the output.
pub struct Io<'p, 'c, S: Service> {
    pub inner: &'p S,
    pub cx: &'p Cx<'c, S::State>,
    pub out: &'p mut Out,
    /// The block of the last head.
    pub block: Vec<u8>,
}

impl<S: Service> Io<'_, '_, S> {
    /// Opens a session.
    pub fn open(&self, peer: Peer) -> Conn<S::Session, S::Job> {
        let limits = self.inner.limits().within_output(STREAM_OUTPUT);
        Conn::open_within(self.inner, limits, self.cx, peer, &mut Buffers::new(0))
    }
}

/// A stream that is open in at least one direction.
pub struct H2Stream<S: Service> {
    pub id: u32,
    pub conn: Conn<S::Session, S::Job>,
    reply: ReplyReader,
    /// Bytes that the peer takes.
    pub window: i64,
    /// Bytes that the peer may send.
    pub input_window: i64,
    /// Input for the session, in HTTP/1.1, that it has not taken.
    pub input: Vec<u8>,
    /// Bytes of DATA in `input`: the window of the peer grows when the session has taken them.
    pub owed: usize,
    /// The rest of the body, if the head has said its length.
    left: Option<u64>,
    is_chunked: bool,
    /// The peer has sent its last frame.
    pub has_ended: bool,
    /// Since when a reply waits for a window; never if it does not.
    pub blocked_since: Instant,
    /// Our last frame was sent.
    pub is_over: bool,
    /// That frame was a reset.
    pub is_reset: bool,
}

impl<S: Service> H2Stream<S> {
    /// Begins a request, which `conn` answers.
    pub fn new(
        id: u32,
        conn: Conn<S::Session, S::Job>,
        window: i64,
        head: RequestHead,
        has_body: bool,
    ) -> H2Stream<S> {
        H2Stream {
            id,
            conn,
            reply: ReplyReader::new(head.is_head),
            window,
            input_window: i64::from(WINDOW),
            input: head.text,
            owed: 0,
            left: head.length,
            is_chunked: head.is_chunked,
            has_ended: !has_body,
            blocked_since: Instant::NEVER,
            is_over: false,
            is_reset: false,
        }
    }

    /// Bytes that the stream holds.
    pub fn held(&self) -> usize {
        self.conn.held() + self.input.len()
    }

    /// Takes a piece of the body; `is_last`: there is no more.
    ///
    /// # Errors
    /// The body has another length than the head says.
    pub fn take(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Code> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(bytes.len() as u64).ok_or(Code::Protocol)?;
            if is_last && *left > 0 {
                return Err(Code::Protocol);
            }
        }
        if self.is_chunked && !bytes.is_empty() {
            self.input.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        }
        self.input.extend_from_slice(bytes);
        if self.is_chunked && !bytes.is_empty() {
            self.input.extend_from_slice(b"\r\n");
        }
        if self.is_chunked && is_last {
            self.input.extend_from_slice(b"0\r\n\r\n");
        }
        self.owed += bytes.len();
        self.has_ended |= is_last;
        Ok(())
    }

    /// Feeds the session what it takes; returns the bytes of DATA among them.
    pub fn feed(&mut self, io: &mut Io<'_, '_, S>) -> usize {
        if self.input.is_empty() || !self.conn.wants().read {
            return 0;
        }
        self.conn.lend_spare();
        self.conn.feed(io.inner, io.cx, &self.input);
        match self.has_ended {
            // The memory is for the next head.
            true => self.input.clear(),
            false => self.input = Vec::new(),
        }
        std::mem::take(&mut self.owed)
    }

    /// Appends one frame of the reply. Returns the bytes of DATA in it, and whether anything moved.
    pub fn send(&mut self, connection_window: i64, io: &mut Io<'_, '_, S>) -> (usize, bool) {
        let room = connection_window.min(self.window).clamp(0, FRAME_MAX as i64) as usize;
        let mut slices = [IoSlice::new(&[])];
        self.conn.out().gather(&mut slices);
        if slices[0].is_empty() {
            return (0, self.end(io.out));
        }
        io.block.clear();
        let Some((piece, used)) = self.reply.next(&slices[0], room, &mut io.block) else {
            self.reset(Code::Internal, io.out);
            return (0, true);
        };
        let mut sent = 0;
        match piece {
            ReplyPiece::Nothing => {}
            ReplyPiece::Head { is_last } => {
                put_head(self.id, is_last, &io.block, io.out.bytes());
                self.is_over = is_last;
            }
            ReplyPiece::Body { bytes, is_last } => {
                let flags = if is_last { flag::END_STREAM } else { 0 };
                put_frame(Kind::Data, flags, self.id, bytes, io.out.bytes());
                self.is_over = is_last;
                sent = bytes.len();
            }
        }
        self.window -= sent as i64;
        let is_blocked = used == 0 && room == 0;
        self.blocked_since =
            if is_blocked { self.blocked_since.min(io.cx.now) } else { Instant::NEVER };
        if used > 0 {
            self.conn.sent(io.inner, io.cx, used);
        }
        (sent, used > 0)
    }

    /// Follows a session that has no output: whether its end was a frame.
    fn end(&mut self, out: &mut Out) -> bool {
        if self.is_over {
            return false;
        }
        if self.conn.out().has_file() || self.conn.out().front_file().is_some() {
            // A file that only an engine could send cannot be framed.
            self.reset(Code::Internal, out);
            return true;
        }
        if !self.conn.wants().close {
            self.blocked_since = Instant::NEVER;
            return false;
        }
        if self.reply.end() {
            put_frame(Kind::Data, flag::END_STREAM, self.id, &[], out.bytes());
            self.is_over = true;
        } else {
            self.reset(Code::Internal, out);
        }
        true
    }

    /// Ends the stream with a code.
    pub fn reset(&mut self, code: Code, out: &mut Out) {
        put_reset(self.id, code, out.bytes());
        self.is_over = true;
        self.is_reset = true;
        self.has_ended = true;
    }

    /// Whether the session waits for another request, as that of a connection that is kept alive
    /// does: it can have the next stream.
    pub fn is_reusable(&self) -> bool {
        let wants = self.conn.wants();
        self.is_over
            && self.has_ended
            && !self.is_reset
            && wants.read
            && !wants.write
            && !wants.job
            && self.conn.held() == 0
    }
}
