//! Replies as bytes: the head with its date, and our own short bodies.

use seam::{Instant, Out};
use wire::http::date::{self, DATE_LEN};
use wire::http::{Reply, Status};

use super::dispatch::{REFUSAL_KIND, ReplyMode, refusal};
use super::options::Options;

/// The most fields of a reply, `Date` and `Server` included.
const FIELDS_MAX: usize = 12;
const SERVER: (&str, &str) = ("Server", "roundhouse");

/// The formatted date, cached for its second.
#[derive(Debug, Clone, Copy)]
pub struct DateCache {
    second: u64,
    text: [u8; DATE_LEN],
}

impl DateCache {
    pub fn new() -> DateCache {
        DateCache { second: u64::MAX, text: [b' '; DATE_LEN] }
    }

    fn at(&mut self, options: &Options, now: Instant) -> &str {
        let second = options.second(now);
        if second != self.second {
            (self.second, self.text) = (second, date::format(second));
        }
        std::str::from_utf8(&self.text).unwrap_or_default()
    }
}

/// Writes the replies of a session.
pub struct Responder<'a> {
    pub options: &'a Options,
    pub clock: &'a mut DateCache,
    pub now: Instant,
    pub mode: ReplyMode,
}

/// The result of a reply, for the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub code: u16,
    /// Bytes of the body, sent or about to be.
    pub bytes: u64,
}

impl Responder<'_> {
    /// Appends the head of a reply whose body has `len` bytes.
    pub fn head(
        &mut self,
        status: Status,
        fields: &[(&str, &str)],
        len: u64,
        out: &mut Out,
    ) -> Summary {
        let mut usual = [("", ""); FIELDS_MAX];
        usual[0] = SERVER;
        usual[1] = ("Date", self.clock.at(self.options, self.now));
        let count = 2 + fields.len();
        usual[2..count].copy_from_slice(fields);
        let ReplyMode { version, head_only, keep_alive, chosen } = self.mode;
        let (mut fields, more): (&[_], Vec<_>);
        fields = &usual[..count];
        let rules = self.options.rules_of(chosen.site);
        if !rules.adds_nothing() {
            more = fields.iter().copied().chain(rules.fields_of(chosen)).collect();
            fields = &more;
        }
        Reply { status, fields, len, keep_alive }.put(version, out.bytes());
        let silent = head_only || status.is_bodiless();
        Summary { code: status.0, bytes: if silent { 0 } else { len } }
    }

    /// Appends a whole reply.
    pub fn text(
        &mut self,
        status: Status,
        fields: &[(&str, &str)],
        words: &[u8],
        out: &mut Out,
    ) -> Summary {
        let summary = self.head(status, fields, words.len() as u64, out);
        if summary.bytes > 0 {
            out.bytes().extend_from_slice(words);
        }
        summary
    }

    /// Appends a refusal: the error page of its status, or the status and the reason.
    #[cold]
    pub fn refuse(
        &mut self,
        status: Status,
        more: &[(&str, &str)],
        why: &str,
        out: &mut Out,
    ) -> Summary {
        let (kind, body) = match self.options.error_page(status) {
            Some(page) => (page.kind, page.body.to_vec()),
            None => (REFUSAL_KIND, refusal(status, why)),
        };
        let mut fields = vec![("Content-Type", kind)];
        fields.extend_from_slice(more);
        self.text(status, &fields, &body, out)
    }
}
