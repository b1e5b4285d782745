//! Rules of the operator: fields of replies, lifetimes in caches, origins that scripts may read
//! from, redirections, and the file in place of an absent one.
//!
//! The operator's flags are parsed into `Rules`, one set per site. `choose` runs when the head is
//! read and remembers in a few bytes which rules apply (`Chosen`: one bit per field, the index of
//! the origin), because path and head are gone when the reply is written; `fields_of` then lists
//! the fields. A rule cannot set a field that the server itself writes, so a reply never has two
//! lengths. The cross-origin part follows the Fetch standard, section 3.2.

use std::str::FromStr;

use wire::http::host::is_origin;
use wire::http::{Head, Status, is_token_byte};

use super::listing::encoded;

/// The rules.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Fields of replies, at most [`FIELDS_MAX`].
    pub fields: Vec<FieldRule>,
    /// `Cache-Control` of files; the first that matches a file counts.
    pub lifetimes: Vec<LifetimeRule>,
    /// Origins whose scripts may read replies.
    pub origins: Vec<Origin>,
    /// Redirections; the first that matches a path counts.
    pub redirects: Vec<Redirect>,
    /// The path of the file that is served if there is none of the requested name.
    pub fallback: Option<String>,
}

/// The most [`FieldRule`]s: each has a bit in `Chosen`.
pub const FIELDS_MAX: usize = 64;

/// Fields that scripts may read: all, and by name those for requests with credentials, to which `*`
/// is a name like others (Fetch standard, section 3.2.3).
const EXPOSED: &str = "*, Accept-Ranges, Content-Encoding, Content-Range, Date, ETag, Location";

/// The rules that apply to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    pub site: u16,
    fields: u64,
    origin: Option<u16>,
    /// The request asks what another one may do (Fetch standard, section 3.2.2).
    pub preflight: bool,
}

/// A field of replies, everywhere or below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRule {
    prefix: String,
    name: String,
    value: String,
}

/// `Cache-Control` of files by the end or the beginning of their path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifetimeRule {
    pattern: String,
    value: String,
}

/// An origin, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// A redirection of a path, or of all paths below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    status: Status,
    from: String,
    to: String,
    is_prefix: bool,
    /// The rest of the path after the prefix is appended to `to`.
    keeps_rest: bool,
}

impl Rules {
    /// The rules for a request to `path`; without a head, those for a request that was not
    /// understood.
    pub(super) fn choose(&self, path: &[u8], head: Option<&Head<'_>>) -> Chosen {
        let mut chosen = Chosen::default();
        for (at, rule) in self.fields.iter().enumerate() {
            chosen.fields |= u64::from(path.starts_with(rule.prefix.as_bytes())) << at;
        }
        if let Some(head) = head.filter(|_| !self.origins.is_empty()) {
            let origin = head.field("origin");
            let is_it = |it: &Origin| it.0 == "*" || Some(it.0.as_bytes()) == origin;
            chosen.origin = self.origins.iter().position(is_it).map(|at| at as u16);
            chosen.preflight = head.method == "OPTIONS"
                && chosen.origin.is_some()
                && origin.is_some()
                && head.field("access-control-request-method").is_some();
        }
        chosen
    }

    pub(super) fn adds_nothing(&self) -> bool {
        self.fields.is_empty() && self.origins.is_empty()
    }

    pub(super) fn fields_of(&self, chosen: Chosen) -> impl Iterator<Item = (&str, &str)> {
        let is_chosen = move |(at, _): &(usize, &FieldRule)| chosen.fields >> at & 1 == 1;
        let own = self.fields.iter().enumerate().filter(is_chosen);
        let origin = chosen.origin.and_then(|at| self.origins.get(usize::from(at)));
        let allowed = origin.map(|Origin(origin)| ("Access-Control-Allow-Origin", origin.as_str()));
        let exposed = allowed.filter(|_| !chosen.preflight);
        let exposed = exposed.map(|_| ("Access-Control-Expose-Headers", EXPOSED));
        // The reply depends on the origin, also where none is allowed.
        let is_varied = self.origins.first().is_some_and(|Origin(first)| first != "*");
        own.map(|(_, rule)| (rule.name.as_str(), rule.value.as_str()))
            .chain(allowed)
            .chain(exposed)
            .chain(is_varied.then_some(("Vary", "Origin")))
    }

    /// `Cache-Control` of the file at `path`, which is relative to the root.
    pub(super) fn lifetime(&self, path: &[u8]) -> Option<&str> {
        let is_it = |rule: &&LifetimeRule| match rule.pattern.strip_prefix('*') {
            Some(end) => path.ends_with(end.as_bytes()),
            None => path.starts_with(&rule.pattern.as_bytes()[1..]),
        };
        self.lifetimes.iter().find(is_it).map(|rule| rule.value.as_str())
    }

    pub(super) fn redirect(&self, path: &[u8], query: &str) -> Option<(Status, String)> {
        self.redirects.iter().find_map(|it| Some((it.status, it.target(path, query)?)))
    }
}

impl Redirect {
    fn target(&self, path: &[u8], query: &str) -> Option<String> {
        let rest = path.strip_prefix(self.from.as_bytes())?;
        if !rest.is_empty() && !self.is_prefix {
            return None;
        }
        let rest = if self.keeps_rest { rest } else { b"" };
        let mut target = format!("{}{}", self.to, encoded(rest));
        // Two leading slashes would name another host.
        if target.starts_with('/') {
            target = format!("/{}", target.trim_start_matches('/'));
        }
        if !query.is_empty() && !target.contains('?') {
            target = format!("{target}?{query}");
        }
        Some(target)
    }
}

/// Fields that each reply has already, or whose value only the server knows.
const RESERVED: &str = "accept-ranges connection content-encoding content-length content-range \
    content-type date etag last-modified location server trailer transfer-encoding upgrade";

/// Whether a field may have this value (RFC 9110 section 5.5, without `obs-text`).
fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

impl FromStr for FieldRule {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldRule, String> {
        let is_prefixed = text.starts_with('/');
        let (prefix, field) = text.split_once(' ').filter(|_| is_prefixed).unwrap_or(("", text));
        let is_token = |name: &str| !name.is_empty() && name.bytes().all(|it| is_token_byte(&it));
        let parsed = field.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = parsed.filter(|(name, value)| is_token(name) && is_value(value))
        else {
            return Err(format!(
                "expected NAME: VALUE, or /PREFIX NAME: VALUE, such as X-Frame-Options: DENY, \
                 found `{text}`"
            ));
        };
        if RESERVED.split(' ').any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(format!("expected a field that the server does not write, found `{name}`"));
        }
        let [prefix, name, value] = [prefix, name, value].map(str::to_owned);
        Ok(FieldRule { prefix, name, value })
    }
}

impl FromStr for LifetimeRule {
    type Err = String;

    fn from_str(text: &str) -> Result<LifetimeRule, String> {
        let parsed = text.split_once('=').filter(|(pattern, value)| {
            let is_end = pattern.starts_with('*') && pattern.len() > 1;
            (pattern.starts_with('/') || is_end) && is_value(value)
        });
        let (pattern, value) = parsed.ok_or_else(|| {
            format!(
                "expected *.EXT=VALUE or /PREFIX=VALUE, such as *.js=max-age=31536000, found \
                 `{text}`"
            )
        })?;
        Ok(LifetimeRule { pattern: pattern.to_owned(), value: value.to_owned() })
    }
}

impl FromStr for Origin {
    type Err = String;

    /// `*`, or an origin in the form in which browsers send it (RFC 6454 section 6.2).
    fn from_str(text: &str) -> Result<Origin, String> {
        if text != "*" && !is_origin(text) {
            return Err(format!(
                "expected * or an origin without a path, in lower case, such as \
                 https://example.org, found `{text}`"
            ));
        }
        Ok(Origin(text.to_owned()))
    }
}

impl FromStr for Redirect {
    type Err = String;

    fn from_str(text: &str) -> Result<Redirect, String> {
        let (status, rule) = match text.split_once(' ') {
            Some(("301", rule)) => (Status::MOVED, rule),
            Some(("302", rule)) => (Status::FOUND, rule),
            Some(("307", rule)) => (Status::TEMPORARY, rule),
            Some(("308", rule)) => (Status::PERMANENT, rule),
            _ => (Status::MOVED, text),
        };
        let parsed = rule.split_once('=').and_then(|(from, to)| {
            let prefix = |text: &str| text.strip_suffix("/*").map(|stem| format!("{stem}/"));
            let (is_prefix, keeps_rest) = (prefix(from).is_some(), prefix(to).is_some());
            let [from, to] = [from, to].map(|text| prefix(text).unwrap_or(text.to_owned()));
            let is_place = to.starts_with('/') || to.contains("://");
            let is_rule = from.starts_with('/')
                && is_place
                && to.bytes().all(|byte| byte.is_ascii_graphic())
                && !from.contains('*')
                && !to.contains('*')
                && (is_prefix || !keeps_rest);
            is_rule.then_some(Redirect { status, from, to, is_prefix, keeps_rest })
        });
        parsed.ok_or_else(|| {
            format!(
                "expected FROM=TO, such as /old=/new, /old/*=/new/* or 308 /*=https://example.org/*, \
                 with a status of 301, 302, 307 or 308, found `{text}`"
            )
        })
    }
}
