//! HTTP/2 on one connection of a client (RFC 9113): its greeting, its requests, and the replies.

use std::io;

use wire::http2::{
    Frame, HeadReader, Kind, PREFACE, ReplyHead, Setting, code_name, flag, next, put_frame,
    put_head, put_settings, put_window_update,
};

use crate::client::Reply;

/// A request: the block of its head, and its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) block: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    heads: HeadReader,
    /// Requests so far.
    asked: u32,
    /// A head that is not whole: its stream, whether nothing follows it, its bytes.
    block: (u32, bool, Vec<u8>),
    /// Streams whose reply has begun, with the bytes of their bodies.
    open: Vec<(u32, ReplyHead, usize)>,
    /// The server has said GOAWAY.
    leaves: bool,
}

impl Call {
    /// Appends the request on a stream.
    pub(crate) fn put(&self, stream: u32, out: &mut Vec<u8>) {
        put_head(stream, self.body.is_empty(), &self.block, out);
        if !self.body.is_empty() {
            put_frame(Kind::Data, flag::END_STREAM, stream, &self.body, out);
        }
    }
}

/// The first bytes of a client.
pub(crate) fn greeting() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    put_settings(&[(Setting::Push, 0)], &mut out);
    out
}

impl Talk {
    /// Appends the next request.
    pub(crate) fn ask(&mut self, call: &Call, out: &mut Vec<u8>) {
        self.asked += 1;
        call.put(2 * self.asked - 1, out);
    }

    /// Takes frames from the front of `ahead` up to the end of a reply, and appends the answers
    /// that they need to `out`.
    ///
    /// # Errors
    /// GOAWAY with a code, RST_STREAM, and bytes that are no frames.
    pub(crate) fn reply(
        &mut self,
        ahead: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<Option<Reply>> {
        let broken = |what: &str| io::Error::other(what.to_owned());
        let mut used = 0;
        let mut reply = Ok(None);
        while matches!(reply, Ok(None))
            && let Some((frame, len)) =
                next(&ahead[used..]).map_err(|_| broken("bytes that are no frame of HTTP/2"))?
        {
            used += len;
            reply = self.take(&frame, out).map_err(|what| broken(&what));
        }
        ahead.drain(..used);
        reply
    }

    fn take(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Reply>, String> {
        let unread = |_| "a head that HPACK cannot read".to_owned();
        match frame.kind {
            Some(Kind::Settings) if !frame.has(flag::ACK) => {
                put_frame(Kind::Settings, flag::ACK, 0, &[], out);
            }
            Some(Kind::Ping) if !frame.has(flag::ACK) => {
                put_frame(Kind::Ping, flag::ACK, 0, frame.payload, out);
            }
            Some(Kind::GoAway) => {
                let code = code_name(frame.payload.get(4..).unwrap_or_default());
                if code != "NO_ERROR" {
                    return Err(format!("GOAWAY {code}"));
                }
                self.leaves = true;
            }
            Some(Kind::Reset) => return Err(format!("RST_STREAM {}", code_name(frame.payload))),
            Some(Kind::Data) => {
                let len = frame.payload.len();
                if len > 0 {
                    put_window_update(0, len as u32, out);
                    put_window_update(frame.stream, len as u32, out);
                }
                if let Some(open) = self.open.iter_mut().find(|it| it.0 == frame.stream) {
                    open.2 += len;
                }
                return Ok(self.ended(frame.stream, frame.has(flag::END_STREAM)));
            }
            Some(Kind::Headers | Kind::Continuation) => {
                if frame.kind == Some(Kind::Headers) {
                    self.block = (frame.stream, frame.has(flag::END_STREAM), Vec::new());
                }
                let (bytes, _) = frame.content().map_err(|_| "a head without its end")?;
                self.block.2.extend_from_slice(bytes);
                if !frame.has(flag::END_HEADERS) {
                    return Ok(None);
                }
                let (stream, is_last, block) = std::mem::take(&mut self.block);
                match self.open.iter_mut().find(|it| it.0 == stream) {
                    Some(open) => {
                        let status = self.heads.grpc_status(&block).map_err(unread)?;
                        open.1.grpc = open.1.grpc.or(status);
                    }
                    None => match self.heads.reply(&block).map_err(unread)? {
                        Some(head) if head.status >= 200 => self.open.push((stream, head, 0)),
                        Some(_) => {}
                        None => return Err("a head without a status".to_owned()),
                    },
                }
                return Ok(self.ended(stream, is_last));
            }
            _ => {}
        }
        Ok(None)
    }

    fn ended(&mut self, stream: u32, is_last: bool) -> Option<Reply> {
        let place = self.open.iter().position(|it| it.0 == stream).filter(|_| is_last)?;
        let (_, head, len) = self.open.remove(place);
        let (words, status) = match head.grpc.filter(|_| head.status == 200) {
            Some(status) => ("gRPC", status),
            None => ("HTTP/2", head.status),
        };
        Some(Reply { status, head: format!("{words} {status}"), len, closes: self.leaves })
    }
}
