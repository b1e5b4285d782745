//! From a file request to the reply: which file it is, whether the client already has it, and which
//! of its bytes it wants (RFC 9110 sections 13 and 14).

use std::collections::VecDeque;
use std::ops::Range;
use wire::http::range::{Ranges, ranges};
use wire::http::{Status, choice, date};

use super::dispatch::FileRequest;
use super::options::Options;
use super::platform::{LookupError, Meta, Platform, Resource};
use super::{listing, mime};

/// Codings of precompressed files, in the order of [`FileRequest::likes`], with their extension. If
/// the weights are equal the first wins, because it is usually shorter.
const CODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];
/// The index file of a folder.
const INDEX: &str = "index.html";

/// The object that a path names.
#[derive(Debug)]
pub enum Target<F> {
    /// A file, its coding if it is precompressed, and its media type.
    File(F, Meta, Option<usize>, &'static str),
    /// A folder whose path lacks the final slash.
    Folder,
    /// A folder's listing.
    Listing(Vec<u8>),
    /// Nothing that can be served.
    Missing(LookupError),
}

/// Finds what `request` names without blocking; `None` if that would block.
pub fn try_find<B: Platform>(
    platform: &B,
    request: &FileRequest,
    options: &Options,
) -> Option<Target<B::File>> {
    resolve(request, options, |path| platform.try_find(path), |_| None)
}

/// The same; may block.
pub fn find<B: Platform>(
    platform: &B,
    request: &FileRequest,
    options: &Options,
) -> Target<B::File> {
    let list = |path: &str| Some(platform.list(path));
    let found = resolve(request, options, |path| Some(platform.find(path)), list);
    found.unwrap_or(Target::Missing(LookupError::Broken))
}

/// The entries of a folder, or `None` if listing would block.
type Listed = Option<Result<Vec<super::Entry>, LookupError>>;

fn resolve<F>(
    request: &FileRequest,
    options: &Options,
    look: impl Fn(&str) -> Option<Result<Resource<F>, LookupError>>,
    list: impl Fn(&str) -> Listed,
) -> Option<Target<F>> {
    if request.path.split('/').any(is_hidden) {
        return Some(Target::Missing(LookupError::Absent));
    }
    let names_folder = request.path.ends_with('/');
    // Paths are relative to the root.
    let path = request.path.trim_matches('/');
    let found = match path {
        "" => Ok(Resource::Folder),
        path => look(path)?,
    };
    match found {
        Err(missing) => Some(Target::Missing(missing)),
        // A file is not a folder.
        Ok(Resource::File(..)) if names_folder => Some(Target::Missing(LookupError::Absent)),
        Ok(Resource::File(file, meta)) => packed(request, options, path, (file, meta), look),
        Ok(Resource::Folder) if !names_folder => Some(Target::Folder),
        Ok(Resource::Folder) => {
            let slash = if path.is_empty() { "" } else { "/" };
            let index = format!("{path}{slash}{INDEX}");
            match look(&index)? {
                Ok(Resource::File(file, meta)) => {
                    packed(request, options, &index, (file, meta), look)
                }
                Ok(Resource::Folder) | Err(LookupError::Absent) if options.listing => {
                    Some(match list(if path.is_empty() { "." } else { path })? {
                        Ok(entries) => Target::Listing(listing::page(&request.path, entries)),
                        Err(missing) => Target::Missing(missing),
                    })
                }
                Ok(Resource::Folder) | Err(LookupError::Absent) => {
                    Some(Target::Missing(LookupError::Forbidden))
                }
                Err(missing) => Some(Target::Missing(missing)),
            }
        }
    }
}

/// Names that begin with a dot are not served: they hold passwords and histories. `.well-known` is
/// the exception (RFC 8615).
fn is_hidden(segment: &str) -> bool {
    segment.starts_with('.') && segment != ".well-known"
}

/// The precompressed file beside `path`, if there is one that the client accepts.
fn packed<F>(
    request: &FileRequest,
    options: &Options,
    path: &str,
    (file, meta): (F, Meta),
    look: impl Fn(&str) -> Option<Result<Resource<F>, LookupError>>,
) -> Option<Target<F>> {
    let kind = mime::media_type(path, &options.media_types);
    let mut order = [0, 1];
    if request.likes[1] > request.likes[0] {
        order.reverse();
    }
    for coding in order {
        if request.likes[coding] == 0 || !mime::is_compressible(kind) {
            continue;
        }
        let beside = format!("{path}{}", CODINGS[coding].1);
        if let Ok(Resource::File(file, meta)) = look(&beside)? {
            return Some(Target::File(file, meta, Some(coding), kind));
        }
    }
    Some(Target::File(file, meta, None, kind))
}

/// One piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Text(Vec<u8>),
    /// These bytes of the file.
    Bytes(Range<u64>),
}

impl Piece {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Text(text) => text.len() as u64,
            Piece::Bytes(range) => range.end - range.start,
        }
    }
}

/// A reply about a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The status.
    pub status: Status,
    /// Name and value of each field.
    pub fields: Vec<(&'static str, String)>,
    /// The body; empty for a status without one.
    pub pieces: VecDeque<Piece>,
    /// The length of the body.
    pub len: u64,
}

/// The reply to `request` for this file. `now` is in seconds since 1970.
pub fn plan(
    request: &FileRequest,
    meta: Meta,
    coding: Option<usize>,
    kind: &'static str,
    now: u64,
) -> Plan {
    // Never later than `Date` (RFC 9110 section 8.8.2.1).
    let modified = (meta.modified_ns / 1_000_000_000).min(now);
    let tag = tag(meta, coding);
    let stamp = date::format(modified);
    let stamp = String::from_utf8_lossy(&stamp).into_owned();
    let mut fields = vec![("ETag", tag.clone()), ("Last-Modified", stamp)];
    if mime::is_compressible(kind) {
        fields.push(("Vary", "Accept-Encoding".to_owned()));
    }
    let bare = |status, fields| Plan { status, fields, pieces: VecDeque::new(), len: 0 };
    match condition(request, &tag, modified) {
        Some(Status::NOT_MODIFIED) => return bare(Status::NOT_MODIFIED, fields),
        Some(status) => return bare(status, Vec::new()),
        None => {}
    }
    fields.push(("Accept-Ranges", "bytes".to_owned()));
    if let Some(coding) = coding {
        fields.push(("Content-Encoding", CODINGS[coding].0.to_owned()));
    }
    let wanted = match &request.range {
        Some(range) if is_same(request, &tag, modified, now) => ranges(range, meta.len),
        _ => Ranges::Whole,
    };
    match wanted {
        Ranges::Unsatisfiable => {
            bare(Status::RANGE, vec![("Content-Range", format!("bytes */{}", meta.len))])
        }
        Ranges::Whole => {
            fields.push(("Content-Type", kind.to_owned()));
            let pieces = VecDeque::from([Piece::Bytes(0..meta.len)]);
            Plan { status: Status::OK, fields, pieces, len: meta.len }
        }
        Ranges::Parts(parts) if parts.len() == 1 => {
            let part = parts[0].clone();
            fields.push(("Content-Type", kind.to_owned()));
            fields.push(("Content-Range", content_range(&part, meta.len)));
            let len = part.end - part.start;
            Plan {
                status: Status::PARTIAL,
                fields,
                pieces: VecDeque::from([Piece::Bytes(part)]),
                len,
            }
        }
        Ranges::Parts(parts) => multipart(&parts, meta.len, kind, &tag, fields),
    }
}

fn content_range(part: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", part.start, part.end - 1)
}

/// A strong tag: modification time and length. A precompressed file is another representation, so
/// its tag differs even if both were written in the same nanosecond.
fn tag(meta: Meta, coding: Option<usize>) -> String {
    let coding = coding.map_or("", |coding| CODINGS[coding].0);
    let dash = if coding.is_empty() { "" } else { "-" };
    format!("\"{:x}-{:x}{dash}{coding}\"", meta.modified_ns, meta.len)
}

/// Evaluates the conditions in their order of precedence (RFC 9110 section 13.2.2); returns the
/// status that answers the request, if one does.
fn condition(request: &FileRequest, tag: &str, modified: u64) -> Option<Status> {
    let moment = |value: &Option<Vec<u8>>| value.as_ref().and_then(|text| date::parse(text));
    if let Some(list) = &request.if_match {
        if !choice::names_tag(list, tag, false) {
            return Some(Status::PRECONDITION);
        }
    } else if moment(&request.if_unmodified).is_some_and(|limit| modified > limit) {
        return Some(Status::PRECONDITION);
    }
    if let Some(list) = &request.if_none_match {
        return choice::names_tag(list, tag, true).then_some(Status::NOT_MODIFIED);
    }
    let unchanged = moment(&request.if_modified).is_some_and(|since| modified <= since);
    unchanged.then_some(Status::NOT_MODIFIED)
}

/// Whether a range may be sent: `If-Range` is absent or names exactly this file.
fn is_same(request: &FileRequest, tag: &str, modified: u64, now: u64) -> bool {
    match &request.if_range {
        None => true,
        Some(value) if value.starts_with(b"\"") => choice::names_tag(value, tag, false),
        // A date is a strong validator only if it was at least a second old when it was sent
        // (section 8.8.2.2).
        Some(value) => date::parse(value) == Some(modified) && now > modified + 1,
    }
}

/// Several ranges in one body (section 14.6). The boundary is derived from the tag, so it is the
/// same in every engine and process.
fn multipart(
    parts: &[Range<u64>],
    len: u64,
    kind: &str,
    tag: &str,
    mut fields: Vec<(&'static str, String)>,
) -> Plan {
    let boundary = format!("roundhouse-{}", tag.trim_matches('"'));
    let mut pieces = VecDeque::new();
    let mut total = 0;
    for (index, part) in parts.iter().enumerate() {
        let break_before = if index == 0 { "" } else { "\r\n" };
        let range = content_range(part, len);
        let text = format!(
            "{break_before}--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n"
        );
        total += text.len() as u64 + part.end - part.start;
        pieces.push_back(Piece::Text(text.into_bytes()));
        pieces.push_back(Piece::Bytes(part.clone()));
    }
    let end = format!("\r\n--{boundary}--\r\n").into_bytes();
    total += end.len() as u64;
    pieces.push_back(Piece::Text(end));
    fields.push(("Content-Type", format!("multipart/byteranges; boundary={boundary}")));
    Plan { status: Status::PARTIAL, fields, pieces, len: total }
}
