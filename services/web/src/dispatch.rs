//! From the head of a request to the action. A dispatch owns its data, because the head is gone
//! when the body is complete.
//!
//! `service.rs` calls `dispatch` once per head. The checks come in a fixed order: a known method, a
//! body whose end is known, the target, the operator's redirections, demonstration routes, files.
//! The function does no I/O: a file becomes a `FileRequest` with its conditions as received, which
//! `file.rs` resolves later, on the loop or on a helper. A refusal that leaves the input unreadable
//! closes the connection (`Dismiss`), any other keeps it (`Refuse`).

use std::sync::Arc;
use std::time::Duration;
use wire::http::{BadTarget, Head, Status, Target, Version, choice, is_token_byte};

use super::auth::Attempt;
use super::file::CODINGS;
use super::options::Options;
use super::record::RequestLine;
use super::rules::Chosen;
use super::{demo, mime};

/// The longest `/work` and `/sleep`, in milliseconds.
pub const MS_MAX: u64 = 10_000;
/// Known methods: those that we do not allow get 405, unknown ones 501.
const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"];
const ALLOW_FILE: &str = "GET, HEAD, OPTIONS";
/// The methods allowed for a demonstration route.
const ALLOW_DEMO: &str = "GET, HEAD, POST, OPTIONS";

/// The action for a request, and the context of its reply.
#[derive(Debug)]
pub struct Dispatch {
    pub act: Action,
    /// The facts of the request that the reply needs.
    pub context: ReplyContext,
}

/// The facts of a request that its reply needs.
#[derive(Debug)]
pub struct ReplyContext {
    pub mode: ReplyMode,
    /// The request line for the access log, if there is a log.
    pub request_line: Option<RequestLine>,
}

/// How the request shapes the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyMode {
    pub version: Version,
    /// The body is left out, although its length is announced.
    pub head_only: bool,
    pub keep_alive: bool,
    /// The operator's rules that apply.
    pub chosen: Chosen,
}

#[derive(Debug)]
pub enum Action {
    /// Reply with this content of this media type.
    Say(&'static str, Content),
    Echo,
    Compute(Duration),
    Sleep(Duration),
    File(Box<FileRequest>),
    /// List the allowed methods, and to a preflight the fields that its request may have.
    Options(&'static str, Option<String>),
    Redirect(Status, String),
    /// Serve what is asked for once the password is right.
    Guarded(Box<Attempt>),
    /// Ask for a name and a password.
    Unauthorized(usize),
    /// Refuse the method and list the allowed ones.
    NotAllowed(&'static str),
    /// Refuse with a reason; the connection persists.
    Refuse(Status, &'static str),
    Overloaded,
    /// Refuse with a reason and close the connection.
    Dismiss(Status, &'static str),
}

#[derive(Debug)]
pub enum Content {
    /// The same for every request.
    Fixed(&'static str),
    Made(Vec<u8>),
}

impl Action {
    /// Whether a guard keeps it from clients without a password. The others tell nothing.
    fn is_guarded(&self) -> bool {
        self.is_costly() || matches!(self, Action::Say(..))
    }

    /// Whether it costs more than a refusal.
    pub fn is_costly(&self) -> bool {
        match self {
            Action::Compute(_)
            | Action::Sleep(_)
            | Action::File(_)
            | Action::Echo
            | Action::Guarded(_) => true,
            Action::Say(_, content) => matches!(content, Content::Made(_)),
            _ => false,
        }
    }
}

impl Content {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Content::Fixed(text) => text.as_bytes(),
            Content::Made(bytes) => bytes,
        }
    }
}

/// A requested file and the conditions of the request. Field values are as received.
#[derive(Debug, Default)]
pub struct FileRequest {
    pub site: u16,
    /// The decoded path, beginning with `/`.
    pub path: Vec<u8>,
    /// The query, for redirections.
    pub query: String,
    pub if_match: Option<Vec<u8>>,
    pub if_none_match: Option<Vec<u8>>,
    pub if_modified: Option<Vec<u8>>,
    pub if_unmodified: Option<Vec<u8>>,
    pub if_range: Option<Vec<u8>>,
    /// `Range`, if the method is GET.
    pub range: Option<Vec<u8>>,
    /// The client's weights of the codings in `Accept-Encoding`, in thousandths.
    pub likes: [u16; CODINGS.len()],
    /// A listing of a folder is wanted as JSON.
    pub json: bool,
}

pub fn dispatch(
    options: &Options,
    head: &Head<'_>,
    is_unsealed: bool,
    mut request_line: Option<RequestLine>,
) -> Dispatch {
    let target = Target::read(head.target);
    let named = target.as_ref().ok().and_then(|target| target.host);
    let (site, name) = site(options, named, head);
    if let Some(line) = &mut request_line {
        line.site = name;
    }
    let path = target.as_ref().map_or(&b""[..], |target| &target.path);
    let mut chosen = options.rules_of(site).choose(path, Some(head));
    chosen.site = site;
    let mode = ReplyMode {
        version: head.version,
        head_only: head.method == "HEAD",
        keep_alive: head.keep_alive,
        chosen,
    };
    let guard = options.guard_of(path);
    let mut act = match options.https.filter(|_| is_unsealed) {
        Some(port) if !path.starts_with(CHALLENGES) => https(port, head, &target),
        _ => act(options, site, head, target),
    };
    if let Some(guard) = guard.filter(|_| act.is_guarded()) {
        act = match Attempt::read(guard, head, act) {
            Ok(attempt) => {
                if let Some(line) = &mut request_line {
                    line.user = Some(attempt.user().to_owned());
                }
                Action::Guarded(Box::new(attempt))
            }
            Err(_) => Action::Unauthorized(guard),
        };
    }
    Dispatch { act, context: ReplyContext { mode, request_line } }
}

/// Where an authority looks for the answer to its challenge, on port 80 and without a password (RFC
/// 8555 section 8.3).
pub const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// The redirection of a request without TLS to the same target over HTTPS.
fn https(port: u16, head: &Head<'_>, target: &Result<Target<'_>, BadTarget>) -> Action {
    let named = target.as_ref().ok().and_then(|target| target.host);
    let field = || head.field("host").and_then(|host| std::str::from_utf8(host).ok());
    let (Ok(_), Some(host)) = (target, named.or_else(field).filter(|host| !host.is_empty())) else {
        let why = "this server speaks HTTPS here, and the request names no place to go to";
        return Action::Dismiss(Status::BAD_REQUEST, why);
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |it| it.0);
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    // As it was sent: an absolute target begins with a scheme and an authority.
    let rest = head.target.split_once("://").filter(|_| !head.target.starts_with('/'));
    let rest =
        rest.map_or(head.target, |(_, rest)| &rest[rest.find(['/', '?']).unwrap_or(rest.len())..]);
    let slash = if rest.starts_with('/') { "" } else { "/" };
    Action::Redirect(Status::PERMANENT, format!("https://{host}{port}{slash}{rest}"))
}

/// The site of a request, and its name for the log, by the host of an absolute target or the `Host`
/// field.
fn site(options: &Options, named: Option<&str>, head: &Head<'_>) -> (u16, Option<Arc<str>>) {
    if options.names.is_empty() {
        return (0, None);
    }
    let field = || head.field("host").and_then(|host| std::str::from_utf8(host).ok());
    let found = named.or_else(field).and_then(|host| options.names.find(host));
    found.map_or_else(|| (0, Some("default".into())), |(site, name)| (site, Some(name)))
}

fn act(
    options: &Options,
    site: u16,
    head: &Head<'_>,
    target: Result<Target<'_>, BadTarget>,
) -> Action {
    if !METHODS.contains(&head.method) {
        return Action::Dismiss(Status::NOT_IMPLEMENTED, "expected a known method");
    }
    if head.version == Version::Http10 && lacks_length(head) {
        return Action::Dismiss(Status::LENGTH, "expected a Content-Length");
    }
    if head.target == "*" && head.method == "OPTIONS" {
        return allowed(head, if options.demo { ALLOW_DEMO } else { ALLOW_FILE });
    }
    if head.method == "CONNECT" {
        return Action::NotAllowed(if options.demo { ALLOW_DEMO } else { ALLOW_FILE });
    }
    let Ok(target) = target else {
        return Action::Dismiss(
            Status::BAD_REQUEST,
            "expected a path below the root, well encoded, without hidden slashes",
        );
    };
    let moved = options.rules_of(site).redirect(&target.path, target.query);
    if let Some((status, place)) = moved.filter(|_| head.method != "OPTIONS") {
        return Action::Redirect(status, place);
    }
    if options.demo
        && let Some(route) = demo::route(&target.path)
    {
        return match head.method {
            "OPTIONS" => allowed(head, ALLOW_DEMO),
            "GET" | "HEAD" | "POST" => route(head, target.query),
            _ => Action::NotAllowed(ALLOW_DEMO),
        };
    }
    match head.method {
        "OPTIONS" => allowed(head, ALLOW_FILE),
        "GET" | "HEAD" if !options.files => {
            Action::Refuse(Status::NOT_FOUND, "there is no such page")
        }
        "GET" | "HEAD" => Action::File(Box::new(request(site, head, target))),
        _ => Action::NotAllowed(ALLOW_FILE),
    }
}

/// The answer to OPTIONS. A preflight gets the names back that it asks for, because `*` covers
/// neither `Authorization` nor a request with credentials (Fetch standard, section 3.2.3).
fn allowed(head: &Head<'_>, allow: &'static str) -> Action {
    let is_names = |byte: &u8| is_token_byte(byte) || b", ".contains(byte);
    let asked = head.field("access-control-request-headers").filter(|it| it.iter().all(is_names));
    let asked = asked.filter(|asked| !asked.is_empty());
    Action::Options(allow, asked.map(|asked| String::from_utf8_lossy(asked).into_owned()))
}

/// Whether the end of the body is unknown: in HTTP/1.0 a missing length does not mean no body.
fn lacks_length(head: &Head<'_>) -> bool {
    matches!(head.method, "POST" | "PUT" | "PATCH") && head.field("content-length").is_none()
}

fn request(site: u16, head: &Head<'_>, target: Target<'_>) -> FileRequest {
    let mut request = FileRequest {
        site,
        path: target.path.into_owned(),
        query: target.query.to_owned(),
        ..FileRequest::default()
    };
    let (mut accept, mut kinds) = (None, None);
    for (name, value) in head.fields() {
        let slot = match name.len() {
            6 if name.eq_ignore_ascii_case("accept") => {
                kinds = kinds.or(Some(value));
                continue;
            }
            5 if name.eq_ignore_ascii_case("range") => &mut request.range,
            8 if name.eq_ignore_ascii_case("if-match") => &mut request.if_match,
            8 if name.eq_ignore_ascii_case("if-range") => &mut request.if_range,
            13 if name.eq_ignore_ascii_case("if-none-match") => &mut request.if_none_match,
            15 if name.eq_ignore_ascii_case("accept-encoding") => {
                accept = accept.or(Some(value));
                continue;
            }
            17 if name.eq_ignore_ascii_case("if-modified-since") => &mut request.if_modified,
            19 if name.eq_ignore_ascii_case("if-unmodified-since") => &mut request.if_unmodified,
            _ => continue,
        };
        // Repeated list fields are joined; of other fields only the first counts.
        if let Some(first) = slot {
            if name.len() == 8 || name.len() == 13 {
                first.extend_from_slice(b", ");
                first.extend_from_slice(value);
            }
        } else {
            *slot = Some(value.to_vec());
        }
    }
    if head.method != "GET" {
        request.range = None;
    }
    let weight = |coding| choice::quality(accept, coding);
    // A client that lists the plain form prefers it to codings of less weight.
    let likes = CODINGS.map(|(coding, _)| weight(coding));
    request.likes = likes.map(|it| if it < weight("identity") { 0 } else { it });
    // Browsers name HTML, and scripts that want data name JSON.
    let kind = |kind| choice::quality(kinds, kind);
    request.json = request.path.ends_with(b"/") && kind("application/json") > kind("text/html");
    request
}

/// The body of a refusal without an error page.
pub fn refusal(status: Status, why: &str) -> Vec<u8> {
    let Status(code, reason) = status;
    format!("{code} {reason}\n{why}\n").into_bytes()
}

/// The media type of [`refusal`].
pub const REFUSAL_KIND: &str = mime::TEXT;
