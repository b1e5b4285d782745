//! Sends files: the head of the reply, then piece by piece as the output has room. A large file
//! that the kernel has in memory is lent to the engine and never copied; a read that would block
//! becomes a job.

use seam::Out;
use std::collections::VecDeque;
use wire::http::Status;

use super::dispatch::{FileRequest, ReplyContext};
use super::file::{self, Piece, Target};
use super::listing::encoded;
use super::platform::{LookupError, Platform};
use super::respond::Summary;
use super::service::{At, Job, Next, Session, Stage, Web};

/// The number of bytes of a file that are read at once.
const PIECE: usize = 64 * 1024;
/// Up to this length a file is read although the engine could send it by itself: copying so few
/// bytes twice costs less than the system calls.
const READ_MAX: u64 = 32 * 1024;
/// The number of bytes of a file that are lent at once. After each stretch we check again whether
/// the next one is in the kernel's memory.
const STRETCH: u64 = 1 << 20;

/// A file being sent. `file` is `None` while a job reads it.
#[derive(Debug)]
pub struct Transfer<F> {
    file: Option<F>,
    pieces: VecDeque<Piece>,
    context: ReplyContext,
    summary: Summary,
}

impl<F> Transfer<F> {
    /// A reply that is appended in full and not sent yet.
    pub fn appended(context: ReplyContext, summary: Summary) -> Transfer<F> {
        Transfer { file: None, pieces: VecDeque::new(), context, summary }
    }

    /// The context and the summary of the part that was sent, if `unsent` bytes were appended and
    /// then dropped.
    pub fn cut(self, unsent: usize) -> (ReplyContext, Summary) {
        let waiting: u64 = self.pieces.iter().map(Piece::len).sum();
        let bytes = self.summary.bytes.saturating_sub(waiting + unsent as u64);
        (self.context, Summary { bytes, ..self.summary })
    }

    /// Continues with `bytes`, which a job has read from `file`.
    pub fn resume(&mut self, file: F, bytes: &[u8], out: &mut Out) {
        self.file = Some(file);
        advance(&mut self.pieces, bytes.len() as u64);
        out.bytes().extend_from_slice(bytes);
    }
}

impl<B: Platform> Web<B> {
    /// Answers with the object that the path names.
    pub(super) fn answer(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        (request, target): (&FileRequest, Target<B::File>),
        context: ReplyContext,
        out: &mut Out,
    ) -> Next<B::File> {
        let mut responder = self.responder(cx, session, context.mode);
        let summary = match target {
            Target::File(file, form) => {
                let now = self.options.second(cx.now);
                let plan = file::plan(request, form, now);
                let fields: Vec<(&str, &str)> =
                    plan.fields.iter().map(|(name, value)| (*name, value.as_ref())).collect();
                if plan.status.0 >= 400 {
                    let why = match plan.status {
                        Status::RANGE => "none of the ranges is within the file",
                        _ => "the conditions of the request do not hold for this file",
                    };
                    responder.refuse(plan.status, &fields, why, out)
                } else {
                    let summary = responder.head(plan.status, &fields, plan.len, out);
                    let pieces = if summary.bytes > 0 { plan.pieces } else { VecDeque::new() };
                    let sending = Transfer { file: Some(file), pieces, context, summary };
                    return self.send(cx, session, Box::new(sending), out);
                }
            }
            Target::Folder => {
                let mut place = format!("{}/", encoded(&request.path));
                // Two leading slashes would name another host.
                place.replace_range(..place.len() - place.trim_start_matches('/').len(), "/");
                if !request.query.is_empty() {
                    place = format!("{place}?{}", request.query);
                }
                responder.refuse(Status::MOVED, &[("Location", &place)], "a folder ends in /", out)
            }
            Target::Listing(kind, page) => {
                let fields = [("Content-Type", kind), ("Vary", "Accept")];
                responder.text(Status::OK, &fields, &page, out)
            }
            Target::Missing(missing) => {
                let (status, why) = match missing {
                    LookupError::Absent => (Status::NOT_FOUND, "there is no such page"),
                    LookupError::Forbidden => {
                        (Status::FORBIDDEN, "access to this file is forbidden")
                    }
                    LookupError::Exhausted => (Status::UNAVAILABLE, "too many files are open"),
                    LookupError::Broken => (Status::INTERNAL, "the file cannot be read"),
                };
                let later = [("Retry-After", "1")];
                let more = if status == Status::UNAVAILABLE { &later[..] } else { &[] };
                responder.refuse(status, more, why, out)
            }
        };
        self.finish(cx, session, context, summary, out)
    }

    /// Sends a file until the output is full or a read would block.
    pub(super) fn send(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        mut sending: Box<Transfer<B::File>>,
        out: &mut Out,
    ) -> Next<B::File> {
        let site = sending.context.mode.chosen.site;
        let platform = self.platform_of(site);
        while let Some(piece) = sending.pieces.front_mut() {
            if out.is_full() {
                session.stage = Stage::Sending(sending);
                return Next::Room;
            }
            let range = match piece {
                Piece::Text(text) => {
                    out.bytes().append(text);
                    sending.pieces.pop_front();
                    continue;
                }
                Piece::Packed(bytes, from) => {
                    let end = bytes.len().min(*from + PIECE);
                    out.bytes().extend_from_slice(&bytes[*from..end]);
                    *from = end;
                    if end == bytes.len() {
                        sending.pieces.pop_front();
                    }
                    continue;
                }
                Piece::Bytes(range) => range,
            };
            let Some(file) = &sending.file else {
                session.stage = Stage::Sending(sending);
                return Next::Close;
            };
            if range.end - range.start > READ_MAX {
                // If the kernel has only part of the file, at least the next piece goes uncopied.
                let lent = [STRETCH, PIECE as u64].into_iter().find_map(|most| {
                    let stretch = range.start..range.end.min(range.start + most);
                    Some((platform.lend(file, stretch.clone())?, stretch))
                });
                if let Some((source, stretch)) = lent {
                    let len = stretch.end - stretch.start;
                    out.file(source, stretch);
                    advance(&mut sending.pieces, len);
                    continue;
                }
            }
            let len = (range.end - range.start).min(PIECE as u64) as usize;
            match platform.read_now(file, range.start, len, out.bytes()) {
                // Content-Length was already sent; only closing the connection can signal the
                // error.
                Some(Ok(0) | Err(_)) => {
                    session.stage = Stage::Sending(sending);
                    return Next::Close;
                }
                Some(Ok(read)) => advance(&mut sending.pieces, read as u64),
                None => {
                    let from = range.start;
                    let Some(file) = sending.file.take() else { return Next::Close };
                    session.stage = Stage::Sending(sending);
                    return Next::Job(Job::Read(site, file, from, len));
                }
            }
        }
        let Transfer { context, summary, .. } = *sending;
        self.finish(cx, session, context, summary, out)
    }
}

/// Drops the sent bytes of the first piece.
fn advance(pieces: &mut VecDeque<Piece>, sent: u64) {
    if let Some(Piece::Bytes(range)) = pieces.front_mut() {
        range.start += sent;
        if range.start >= range.end {
            pieces.pop_front();
        }
    }
}
