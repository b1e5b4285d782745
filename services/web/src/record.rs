//! One request as an access-log line: the common or combined log format, or a JSON object.
//!
//! Clients may send quotes, backslashes and bytes that are not text. Each is escaped, so a client
//! can neither forge a line nor control the terminal that shows it.

use seam::{Instant, Peer};
use std::io::Write;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use wire::decimal;
use wire::http::date::{self, DATE_LEN};
use wire::http::{Head, Version};

/// The format of a line.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{name}")]
pub struct Format {
    /// The name, or the pattern itself.
    name: Arc<str>,
    /// One object a line, with Referer, User-Agent and the time in the server in microseconds;
    /// `None`: the parts of a pattern.
    parts: Option<Arc<[Part]>>,
    /// The fields of requests that it shows.
    fields: Arc<[String]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// What `%` and this letter name.
    Fact(u8),
    Field(usize),
}

/// The directives of Apache's mod_log_config that we know, besides `%{NAME}i`.
const FACTS: &str = "%% %h %a %l %u %t %r %m %U %q %H %s %b %B %D %T %v";
/// The common log format. It shows no body as 0 bytes (`%B`).
const COMMON: &str = "%h %l %u %t \"%r\" %s %B";
const COMBINED: &str = " \"%{Referer}i\" \"%{User-Agent}i\"";

impl Default for Format {
    fn default() -> Format {
        "common".parse().expect("a format")
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let fields = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (name, pattern) = match text {
            "json" => {
                let fields = fields(&["Referer", "User-Agent"]);
                return Ok(Format { name: text.into(), parts: None, fields });
            }
            "common" => (text, COMMON.to_owned()),
            "combined" => (text, [COMMON, COMBINED].concat()),
            _ if text.contains('%') => (text, text.to_owned()),
            _ => {
                return Err(format!(
                    "expected common, combined, json or a pattern such as '%h %r', found `{text}`"
                ));
            }
        };
        let (parts, fields) = parts(&pattern)?;
        Ok(Format { name: name.into(), parts: Some(parts.into()), fields: fields.into() })
    }
}

fn parts(pattern: &str) -> Result<(Vec<Part>, Vec<String>), String> {
    let (mut parts, mut fields) = (Vec::new(), Vec::new());
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        parts.push(Part::Text(rest[..at].to_owned()));
        rest = &rest[at + 1..];
        let unknown = || {
            let found: String = rest.chars().take(2).collect();
            format!("expected one of {FACTS} %{{NAME}}i, found `%{found}`")
        };
        // Of several requests inside the server the last counts, and there is one.
        rest = rest.strip_prefix('>').unwrap_or(rest);
        if let Some(named) = rest.strip_prefix('{') {
            let (name, after) = named.split_once('}').ok_or_else(unknown)?;
            rest = after.strip_prefix('i').ok_or_else(unknown)?;
            parts.push(Part::Field(fields.len()));
            fields.push(name.to_owned());
            continue;
        }
        let is_known = |it: &char| FACTS.split(' ').any(|fact| fact[1..].starts_with(*it));
        let letter = rest.chars().next().filter(is_known).ok_or_else(unknown)?;
        parts.push(Part::Fact(letter as u8));
        rest = &rest[1..];
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok((parts, fields))
}

/// The facts of a request that are known when it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// When its head was whole.
    pub at: Instant,
    /// Method, target and version, separated by blanks; for a head that was not understood its
    /// first line as received, `-` if that is empty.
    pub text: String,
    /// The first name of the site, or `default`, if there are several sites.
    pub site: Option<Arc<str>>,
    /// The client's address, if a trusted proxy names it.
    pub client: Option<IpAddr>,
    /// The name of the user that the client gave.
    pub user: Option<String>,
    /// The values of the fields that the format shows.
    pub fields: Vec<Option<String>>,
}

/// The longest part of a line that was not understood, in bytes.
const RAW_MAX: usize = 256;

impl RequestLine {
    pub fn read(format: Option<&Format>, at: Instant, head: &Head<'_>) -> RequestLine {
        let version = if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        let text = format!("{} {} {version}", head.method, head.target);
        let value = |name: &String| {
            Some(String::from_utf8_lossy(head.field(&name.to_ascii_lowercase())?).into_owned())
        };
        let fields = format.map_or(&[][..], |format| &format.fields).iter().map(value).collect();
        RequestLine { fields, ..RequestLine::new(at, text) }
    }

    /// The first line of `input`, which is not an understood head.
    pub fn raw(at: Instant, input: &[u8]) -> RequestLine {
        let line = input.trim_ascii_start().split(|byte| matches!(byte, b'\r' | b'\n')).next();
        let line = line.unwrap_or_default();
        let text = String::from_utf8_lossy(&line[..line.len().min(RAW_MAX)]).into_owned();
        RequestLine::new(at, if text.is_empty() { "-".to_owned() } else { text })
    }

    fn new(at: Instant, text: String) -> RequestLine {
        RequestLine { at, text, site: None, client: None, user: None, fields: Vec::new() }
    }

    fn field(&self, at: usize) -> Option<&str> {
        self.fields.get(at)?.as_deref()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The time since the server's start.
    pub at: Instant,
    /// The time since 1970.
    pub wall_ns: u64,
    pub status: u16,
    /// The bytes of the body that were sent.
    pub bytes: u64,
}

pub fn put(format: &Format, peer: Peer, line: &RequestLine, end: End, out: &mut Vec<u8>) {
    let peer = line.client.map_or(peer, |client| Peer::Net((client, 0).into()));
    match &format.parts {
        Some(parts) => {
            for part in parts.iter() {
                match part {
                    Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                    Part::Field(at) => escape(line.field(*at).unwrap_or("-"), out),
                    Part::Fact(letter) => put_fact(*letter, peer, line, end, out),
                }
            }
            out.push(b'\n');
        }
        None => put_object(peer, line, end, out),
    }
}

/// Appends what a directive of a pattern names.
fn put_fact(letter: u8, peer: Peer, line: &RequestLine, end: End, out: &mut Vec<u8>) {
    let took = u64::try_from(end.at.since(line.at).as_micros()).unwrap_or(u64::MAX);
    let mut words = line.text.split(' ');
    let mut word = |at: usize| words.nth(at).unwrap_or("-");
    match letter {
        b'h' | b'a' => put_host(peer, out),
        b'u' => escape(line.user.as_deref().unwrap_or("-"), out),
        b't' => put_common_time(end.wall_ns / 1_000_000_000, out),
        b'r' => escape(&line.text, out),
        b'm' => escape(word(0), out),
        b'U' => escape(word(1).split('?').next().unwrap_or_default(), out),
        b'q' => {
            let target = word(1);
            escape(target.find('?').map_or("", |at| &target[at..]), out);
        }
        b'H' => escape(word(2), out),
        b's' => decimal::push(out, end.status.into()),
        b'b' if end.bytes == 0 => out.push(b'-'),
        b'b' | b'B' => decimal::push(out, end.bytes),
        b'D' => decimal::push(out, took),
        b'T' => decimal::push(out, took / 1_000_000),
        b'v' => escape(line.site.as_deref().unwrap_or("-"), out),
        b'%' => out.push(b'%'),
        // %l, the name of the client's user by RFC 1413, which nobody asks for.
        _ => out.push(b'-'),
    }
}

fn put_object(peer: Peer, line: &RequestLine, end: End, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    put_iso_time(end.wall_ns, out);
    out.extend_from_slice(b"\",\"host\":\"");
    put_host(peer, out);
    out.extend_from_slice(b"\",\"request\":\"");
    put_json(&line.text, out);
    out.extend_from_slice(b"\",\"status\":");
    decimal::push(out, end.status.into());
    out.extend_from_slice(b",\"bytes\":");
    decimal::push(out, end.bytes);
    let values = [("site", line.site.as_deref()), ("user", line.user.as_deref())];
    let fields = [("referer", line.field(0)), ("agent", line.field(1))];
    for (name, value) in values.into_iter().chain(fields) {
        if let Some(value) = value {
            write!(out, ",\"{name}\":\"").expect("a Vec takes every byte");
            put_json(value, out);
            out.push(b'"');
        }
    }
    out.extend_from_slice(b",\"us\":");
    let took = end.at.since(line.at).as_micros();
    decimal::push(out, u64::try_from(took).unwrap_or(u64::MAX));
    out.extend_from_slice(b"}\n");
}

fn put_host(peer: Peer, out: &mut Vec<u8>) {
    match peer {
        Peer::Net(address) => write!(out, "{}", address.ip()).expect("a Vec takes every byte"),
        Peer::Local => out.extend_from_slice(b"local"),
    }
}

/// Day, name of the month, year and time of day in a formatted date.
fn pieces(date: &[u8; DATE_LEN]) -> [&[u8]; 4] {
    [&date[5..7], &date[8..11], &date[12..16], &date[17..25]]
}

fn put_common_time(seconds: u64, out: &mut Vec<u8>) {
    let date = date::format(seconds);
    let [day, month, year, time] = pieces(&date);
    for part in [b"[", day, b"/", month, b"/", year, b":", time, b" +0000]"] {
        out.extend_from_slice(part);
    }
}

fn put_iso_time(wall_ns: u64, out: &mut Vec<u8>) {
    put_stamp(wall_ns / 1_000_000_000, b'T', out);
    let micros = wall_ns / 1000 % 1_000_000;
    write!(out, ".{micros:06}Z").expect("a Vec takes every byte");
}

/// Appends date and time of day as in RFC 3339, with `between` between them.
pub fn put_stamp(seconds: u64, between: u8, out: &mut Vec<u8>) {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = date::format(seconds);
    let [day, month, year, time] = pieces(&date);
    let number = 1 + MONTHS.chunks(3).position(|name| name == month).unwrap_or_default();
    out.extend_from_slice(year);
    write!(out, "-{number:02}-").expect("a Vec takes every byte");
    out.extend_from_slice(day);
    out.push(between);
    out.extend_from_slice(time);
}

/// As Apache does: quotes and backslashes get a backslash, unprintable bytes become hexadecimal.
fn escape(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => write!(out, "\\x{byte:02x}").expect("a Vec takes every byte"),
        }
    }
}

/// Appends the inside of a text of JSON.
pub fn put_json(text: &str, out: &mut Vec<u8>) {
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend_from_slice(&[b'\\', letter as u8]),
            ' '..='~' => out.push(letter as u8),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("a Vec takes every byte");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        fn check(format: &str, line: &str, want: &str) {
            let format: Format = format.parse().expect("a format");
            let peer = Peer::Net("[::1]:80".parse().expect("an address"));
            let (referer, user) = (Some("http://a/\"".to_owned()), Some("me".to_owned()));
            let request_line = RequestLine {
                site: Some("*.a.org".into()),
                user: user.filter(|_| format.name.contains("%u")),
                fields: vec![referer, None],
                ..RequestLine::new(Instant::from_ns(1_000), line.to_owned())
            };
            let at = Instant::from_ns(43_000);
            let end = End { at, wall_ns: 784_111_777_000_045_000, status: 200, bytes: 7 };
            let mut out = Vec::new();
            put(&format, peer, &request_line, end, &mut out);
            assert_eq!(String::from_utf8(out).expect("text"), want);
        }
        check(
            "common",
            "GET /\"\\\u{7f} HTTP/1.1",
            "::1 - - [06/Nov/1994:08:49:37 +0000] \"GET /\\\"\\\\\\x7f HTTP/1.1\" 200 7\n",
        );
        check(
            "json",
            "GET /\"\u{1f600} HTTP/1.1",
            "{\"time\":\"1994-11-06T08:49:37.000045Z\",\"host\":\"::1\",\
             \"request\":\"GET /\\\"\\ud83d\\ude00 HTTP/1.1\",\"status\":200,\"bytes\":7,\
             \"site\":\"*.a.org\",\"referer\":\"http://a/\\\"\",\"us\":42}\n",
        );
        check(
            "combined",
            "GET / HTTP/1.1",
            "::1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 7 \
             \"http://a/\\\"\" \"-\"\n",
        );
        check(
            "%a %u|%m %U%q %H|%>s %b %D %T %v 100%% %{X-A}i %{b}i",
            "PUT /a?b=c HTTP/1.1",
            "::1 me|PUT /a?b=c HTTP/1.1|200 7 42 0 *.a.org 100% http://a/\\\" -\n",
        );
    }

    #[test]
    fn unknown_directives_are_refused_with_a_list() {
        for text in ["%h %z", "%{Referer}o", "%{Referer", "%"] {
            let why = text.parse::<Format>().expect_err(text);
            assert!(why.starts_with("expected one of %% %h") && why.contains("found `%"), "{why}");
        }
        let why = "apache".parse::<Format>().expect_err("no name");
        assert!(why.contains("or a pattern such as"), "{why}");
        assert_eq!("%h %r".parse::<Format>().expect("a pattern").to_string(), "%h %r");
    }
}
