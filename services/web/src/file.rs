//! From a file request to the reply: which file it is, whether the client already has it, and which
//! of its bytes it wants (RFC 9110 sections 13 and 14).
//!
//! The first half looks the path up, through the platform's functions only: the file itself, the
//! index of a folder, its listing, or the fallback, then a precompressed neighbour or a form from
//! the cache. `try_find` runs on the loop and gives `None` where it would block; `find` does the
//! same on a helper. The second half, `plan`, is pure: it evaluates the conditions in the order of
//! section 13.2.2, then the range, and returns status, fields and pieces of the body. Tags are
//! strong and differ between the plain and the compressed form, because a range of one must not be
//! joined to the other. A segment of a path that begins with a dot is not served, except
//! `.well-known`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use seam::Instant;
use wire::http::range::{Ranges, ranges};
use wire::http::{Status, choice, date};

use super::compress::{Cache, Key, LEN_MAX, LEN_MIN};
use super::dispatch::FileRequest;
use super::options::Options;
use super::platform::{LookupError, Meta, Platform, Resource};
use super::{listing, mime};

/// Codings of precompressed files, in the order of [`FileRequest::likes`], with their extension. If
/// the weights are equal the first wins, because it is usually shorter.
pub const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];
const INDEX: &[u8] = b"index.html";

/// The object that a path names.
#[derive(Debug)]
pub enum Target<F> {
    File(F, Form),
    /// A folder whose path lacks the final slash.
    Folder,
    /// A folder's listing and its media type.
    Listing(&'static str, Vec<u8>),
    /// Nothing that can be served.
    Missing(LookupError),
}

/// A file as it is sent.
#[derive(Debug, Clone)]
pub struct Form {
    /// Length and modification time.
    pub meta: Meta,
    /// Its coding if it is precompressed.
    pub coding: Option<usize>,
    pub kind: &'static str,
    /// `Cache-Control`, if a rule gives one.
    pub lifetime: Option<String>,
    /// Its path beneath the root.
    pub path: Vec<u8>,
    /// Its bytes in `coding`, if it was compressed on the fly.
    pub packed: Option<Arc<[u8]>>,
}

/// The files of a server as it serves them.
pub struct SiteFiles<'a, B> {
    pub platform: &'a B,
    pub options: &'a Options,
    /// Files compressed on the fly, if the server compresses.
    pub cache: Option<&'a Cache>,
}

/// Finds what `request` names without blocking; `None` if that would block. `turn` is the time at
/// which this turn began.
pub fn try_find<B: Platform>(
    files: &SiteFiles<'_, B>,
    request: &FileRequest,
    turn: Instant,
) -> Option<Target<B::File>> {
    let look = |path: &[u8]| files.platform.try_find(path, Some(turn));
    match (resolve(request, files.options, look, |_| None)?, files.cache) {
        (Target::File(file, form), Some(cache)) => {
            let Some(key) = compressible(request, &form) else {
                return Some(Target::File(file, form));
            };
            let packed = cache.find(&key)?;
            Some(Target::File(file, form.packed_as(key.coding, packed)))
        }
        (target, _) => Some(target),
    }
}

/// The same; may block.
pub fn find<B: Platform>(files: &SiteFiles<'_, B>, request: &FileRequest) -> Target<B::File> {
    let look = |path: &[u8]| Some(files.platform.find(path));
    let list = |path: &[u8]| Some(files.platform.list(path));
    let found = resolve(request, files.options, look, list);
    match (found.unwrap_or(Target::Missing(LookupError::Broken)), files.cache) {
        (Target::File(file, form), Some(cache)) => {
            let Some(key) = compressible(request, &form) else { return Target::File(file, form) };
            let coding = key.coding;
            let packed = match cache.find(&key) {
                Some(packed) => packed,
                // A file that cannot be read, or has changed, is sent as it is.
                None => read_whole(files.platform, &file, form.meta.len)
                    .and_then(|plain| cache.put(key, &plain)),
            };
            Target::File(file, form.packed_as(coding, packed))
        }
        (target, _) => target,
    }
}

fn read_whole<B: Platform>(platform: &B, file: &B::File, len: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    while (plain.len() as u64) < len {
        let rest = (len - plain.len() as u64) as usize;
        match platform.read(file, plain.len() as u64, rest, &mut plain) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
    Some(plain)
}

/// The form to compress a file to, if the client accepts one and it is worth it. Ranges are those
/// of the file itself.
fn compressible(request: &FileRequest, form: &Form) -> Option<Key> {
    let fits = (LEN_MIN..=LEN_MAX).contains(&form.meta.len) && mime::is_compressible(form.kind);
    if !fits || form.coding.is_some() || request.range.is_some() {
        return None;
    }
    let coding = codings(request).into_iter().find(|coding| request.likes[*coding] > 0)?;
    Some(Key { site: request.site, path: form.path.clone(), meta: form.meta, coding })
}

/// The indices of [`CODINGS`], the client's favourite first.
fn codings(request: &FileRequest) -> [usize; CODINGS.len()] {
    let mut order = std::array::from_fn(|coding| coding);
    order.sort_by_key(|coding| std::cmp::Reverse(request.likes[*coding]));
    order
}

impl Form {
    fn packed_as(self, coding: usize, packed: Option<Arc<[u8]>>) -> Form {
        let coding = packed.is_some().then_some(coding).or(self.coding);
        Form { coding, packed, ..self }
    }
}

/// The entries of a folder, or `None` if listing would block.
type Listed = Option<Result<Vec<super::Entry>, LookupError>>;

fn resolve<F>(
    request: &FileRequest,
    options: &Options,
    look: impl Fn(&[u8]) -> Option<Result<Resource<F>, LookupError>>,
    list: impl Fn(&[u8]) -> Listed,
) -> Option<Target<F>> {
    if request.path.split(|byte| *byte == b'/').any(is_hidden) {
        return Some(Target::Missing(LookupError::Absent));
    }
    let found = locate(request, options, &request.path, &look, &list)?;
    match (&options.rules_of(request.site).fallback, found) {
        (Some(path), Target::Missing(LookupError::Absent)) => {
            locate(request, options, path.as_bytes(), &look, &list)
        }
        (_, found) => Some(found),
    }
}

/// What `whole` names, which is the path of the request or the fallback.
fn locate<F>(
    request: &FileRequest,
    options: &Options,
    whole: &[u8],
    look: &impl Fn(&[u8]) -> Option<Result<Resource<F>, LookupError>>,
    list: &impl Fn(&[u8]) -> Listed,
) -> Option<Target<F>> {
    let names_folder = whole.ends_with(b"/");
    // Paths are relative to the root.
    let path = trimmed(whole);
    let found = match path {
        b"" => Ok(Resource::Folder),
        path => look(path)?,
    };
    match found {
        Err(missing) => Some(Target::Missing(missing)),
        // A file is not a folder.
        Ok(Resource::File(..)) if names_folder => Some(Target::Missing(LookupError::Absent)),
        Ok(Resource::File(file, meta)) => packed(request, options, path, (file, meta), look),
        Ok(Resource::Folder) if !names_folder => Some(Target::Folder),
        Ok(Resource::Folder) => {
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let index = [path, slash, INDEX].concat();
            match look(&index)? {
                Ok(Resource::File(file, meta)) => {
                    packed(request, options, &index, (file, meta), look)
                }
                Ok(Resource::Folder) | Err(LookupError::Absent) if options.listing => {
                    Some(match list(if path.is_empty() { b"." } else { path })? {
                        Ok(entries) if request.json => {
                            Target::Listing(mime::JSON, listing::json(entries))
                        }
                        Ok(entries) => Target::Listing(mime::HTML, listing::page(whole, entries)),
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
fn is_hidden(segment: &[u8]) -> bool {
    segment.starts_with(b".") && segment != b".well-known"
}

/// A path without the slashes at its ends.
fn trimmed(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"/").or_else(|| path.strip_suffix(b"/")) {
        path = rest;
    }
    path
}

/// The precompressed file next to `path`, if there is one that the client accepts.
fn packed<F>(
    request: &FileRequest,
    options: &Options,
    path: &[u8],
    (file, meta): (F, Meta),
    look: &impl Fn(&[u8]) -> Option<Result<Resource<F>, LookupError>>,
) -> Option<Target<F>> {
    let kind = mime::media_type(&String::from_utf8_lossy(path), &options.media_types);
    let lifetime = options.rules_of(request.site).lifetime(path).map(str::to_owned);
    let form =
        |meta, coding| Form { meta, coding, kind, lifetime, path: path.into(), packed: None };
    for coding in codings(request) {
        if request.likes[coding] == 0 || !mime::is_compressible(kind) {
            continue;
        }
        let beside = [path, CODINGS[coding].1.as_bytes()].concat();
        if let Ok(Resource::File(file, meta)) = look(&beside)? {
            return Some(Target::File(file, form(meta, Some(coding))));
        }
    }
    Some(Target::File(file, form(meta, None)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(Vec<u8>),
    Bytes(Range<u64>),
    /// The bytes of a compressed file from this offset on.
    Packed(Arc<[u8]>, usize),
}

impl Piece {
    pub fn len(&self) -> u64 {
        match self {
            Piece::Text(text) => text.len() as u64,
            Piece::Bytes(range) => range.end - range.start,
            Piece::Packed(bytes, from) => (bytes.len() - from) as u64,
        }
    }
}

type Field = (&'static str, Cow<'static, str>);

/// A reply about a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    pub status: Status,
    pub fields: Vec<Field>,
    /// The body; empty for a status without one.
    pub pieces: VecDeque<Piece>,
    pub len: u64,
}

/// The reply to `request` for this file. `now` is in seconds since 1970.
pub fn plan(request: &FileRequest, form: Form, now: u64) -> Plan {
    let Form { meta, coding, kind, lifetime, packed, .. } = form;
    let modified = modified(meta, now);
    let tag = tag(meta, coding);
    // As many as a whole file has.
    let mut fields: Vec<Field> = Vec::with_capacity(7);
    fields.push(("ETag", tag.clone().into()));
    if let Some(modified) = modified {
        let stamp = String::from_utf8_lossy(&date::format(modified)).into_owned();
        fields.push(("Last-Modified", stamp.into()));
    }
    if mime::is_compressible(kind) {
        fields.push(("Vary", "Accept-Encoding".into()));
    }
    fields.extend(lifetime.map(|lifetime| ("Cache-Control", lifetime.into())));
    let bare = |status, fields| Plan { status, fields, pieces: VecDeque::new(), len: 0 };
    match condition(request, &tag, modified) {
        Some(Status::NOT_MODIFIED) => return bare(Status::NOT_MODIFIED, fields),
        Some(status) => return bare(status, Vec::new()),
        None => {}
    }
    fields.push(("Accept-Ranges", "bytes".into()));
    if let Some(coding) = coding {
        fields.push(("Content-Encoding", CODINGS[coding].0.into()));
    }
    let wanted = match &request.range {
        Some(range) if is_same(request, &tag, modified, now) => ranges(range, meta.len),
        _ => Ranges::Whole,
    };
    match wanted {
        Ranges::Unsatisfiable => {
            let whole = format!("bytes */{}", meta.len);
            bare(Status::RANGE, vec![("Content-Range", whole.into())])
        }
        Ranges::Whole => {
            fields.push(("Content-Type", kind.into()));
            let whole = match packed {
                Some(bytes) => Piece::Packed(bytes, 0),
                None => Piece::Bytes(0..meta.len),
            };
            let len = whole.len();
            Plan { status: Status::OK, fields, pieces: VecDeque::from([whole]), len }
        }
        Ranges::Parts(parts) if parts.len() == 1 => {
            let part = parts[0].clone();
            fields.push(("Content-Type", kind.into()));
            fields.push(("Content-Range", content_range(&part, meta.len).into()));
            let len = part.end - part.start;
            Plan {
                status: Status::PARTIAL,
                fields,
                pieces: VecDeque::from([Piece::Bytes(part)]),
                len,
            }
        }
        Ranges::Parts(parts) => multipart(&parts, meta, kind, fields),
    }
}

fn content_range(part: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", part.start, part.end - 1)
}

/// When the file was modified, in seconds since 1970, never later than `Date` (RFC 9110 section
/// 8.8.2.1). `None` for the two times that images and package stores give to every file.
fn modified(meta: Meta, now: u64) -> Option<u64> {
    const CONSTANT_MAX_S: u64 = 1;
    let seconds = meta.modified_ns / 1_000_000_000;
    (seconds > CONSTANT_MAX_S).then_some(seconds.min(now))
}

/// A strong tag changes with the content (RFC 9110 section 8.8.1): modification time, length, and
/// the version, because images and package stores give every file one time. A precompressed file is
/// another representation, so its tag differs even if both were written in the same nanosecond.
fn tag(meta: Meta, coding: Option<usize>) -> String {
    let mut tag = format!("\"{:x}-{:x}", meta.modified_ns, meta.len);
    if meta.version != 0 {
        // Writing to a string cannot fail.
        let _ = write!(tag, "-{:x}", meta.version);
    }
    if let Some(coding) = coding {
        tag.extend(["-", CODINGS[coding].0]);
    }
    tag + "\""
}

/// Evaluates the conditions in their order of precedence (RFC 9110 section 13.2.2); returns the
/// status that answers the request, if one does.
fn condition(request: &FileRequest, tag: &str, modified: Option<u64>) -> Option<Status> {
    // Without a date of the file, dates in conditions are ignored (section 13.1.3).
    let moment = |value: &Option<Vec<u8>>| {
        let limit = value.as_ref().and_then(|text| date::parse(text))?;
        Some((modified?, limit))
    };
    if let Some(list) = &request.if_match {
        if !choice::names_tag(list, tag, false) {
            return Some(Status::PRECONDITION);
        }
    } else if moment(&request.if_unmodified).is_some_and(|(modified, limit)| modified > limit) {
        return Some(Status::PRECONDITION);
    }
    if let Some(list) = &request.if_none_match {
        return choice::names_tag(list, tag, true).then_some(Status::NOT_MODIFIED);
    }
    let unchanged = moment(&request.if_modified).is_some_and(|(modified, since)| modified <= since);
    unchanged.then_some(Status::NOT_MODIFIED)
}

/// Whether a range may be sent: `If-Range` is absent or names exactly this file.
fn is_same(request: &FileRequest, tag: &str, modified: Option<u64>, now: u64) -> bool {
    match &request.if_range {
        None => true,
        Some(value) if value.starts_with(b"\"") => choice::names_tag(value, tag, false),
        // A date is a strong validator only if it was at least a second old when it was sent
        // (section 8.8.2.2).
        Some(value) => modified
            .is_some_and(|modified| date::parse(value) == Some(modified) && now > modified + 1),
    }
}

/// Several ranges in one body (section 14.6). The boundary is derived from the file's time and
/// length, so it is the same in every engine and process.
fn multipart(parts: &[Range<u64>], meta: Meta, kind: &str, mut fields: Vec<Field>) -> Plan {
    let len = meta.len;
    let boundary = format!("roundhouse-{:x}-{len:x}", meta.modified_ns);
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
    let kind = format!("multipart/byteranges; boundary={boundary}");
    fields.push(("Content-Type", kind.into()));
    Plan { status: Status::PARTIAL, fields, pieces, len: total }
}
