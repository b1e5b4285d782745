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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, derive_more::Display)]
pub enum Format {
    /// `HOST - - [06/Nov/1994:08:49:37 +0000] "GET / HTTP/1.1" 200 1024`.
    #[default]
    #[display("common")]
    Common,
    /// The same, then Referer and User-Agent in quotes, `-` where the request has none.
    #[display("combined")]
    Combined,
    /// One object a line, with Referer, User-Agent and the time in the server in microseconds.
    #[display("json")]
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "common" => Ok(Format::Common),
            "combined" => Ok(Format::Combined),
            "json" => Ok(Format::Json),
            _ => Err(format!("expected common, combined or json, found `{text}`")),
        }
    }
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
    /// `Referer`, if the format shows it.
    pub referer: Option<String>,
    /// `User-Agent`, if the format shows it.
    pub agent: Option<String>,
}

/// The longest part of a line that was not understood, in bytes.
const RAW_MAX: usize = 256;

impl RequestLine {
    /// The line of an understood head.
    pub fn read(format: Format, at: Instant, head: &Head<'_>) -> RequestLine {
        let version = if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        let field = |name| {
            let value = head.field(name).filter(|_| format != Format::Common)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let text = format!("{} {} {version}", head.method, head.target);
        RequestLine {
            at,
            text,
            site: None,
            client: None,
            referer: field("referer"),
            agent: field("user-agent"),
        }
    }

    /// The first line of `input`, which is not an understood head.
    pub fn raw(at: Instant, input: &[u8]) -> RequestLine {
        let line = input.trim_ascii_start().split(|byte| matches!(byte, b'\r' | b'\n')).next();
        let line = line.unwrap_or_default();
        let text = String::from_utf8_lossy(&line[..line.len().min(RAW_MAX)]).into_owned();
        let text = if text.is_empty() { "-".to_owned() } else { text };
        RequestLine { at, text, site: None, client: None, referer: None, agent: None }
    }
}

/// Appends the line of one request. `wall_ns` is the time of its end since 1970.
pub fn put(
    format: Format,
    peer: Peer,
    request_line: &RequestLine,
    (now, wall_ns): (Instant, u64),
    (status, bytes): (u16, u64),
    out: &mut Vec<u8>,
) {
    let peer = request_line.client.map_or(peer, |client| Peer::Net((client, 0).into()));
    match format {
        Format::Common | Format::Combined => {
            put_host(peer, out);
            out.extend_from_slice(b" - - [");
            put_common_time(wall_ns / 1_000_000_000, out);
            out.extend_from_slice(b"] \"");
            escape(&request_line.text, out);
            out.extend_from_slice(b"\" ");
            decimal::push(out, status.into());
            out.push(b' ');
            decimal::push(out, bytes);
            if format == Format::Combined {
                for value in [&request_line.referer, &request_line.agent] {
                    out.extend_from_slice(b" \"");
                    escape(value.as_deref().unwrap_or("-"), out);
                    out.push(b'"');
                }
            }
            out.push(b'\n');
        }
        Format::Json => {
            out.extend_from_slice(b"{\"time\":\"");
            put_iso_time(wall_ns, out);
            out.extend_from_slice(b"\",\"host\":\"");
            put_host(peer, out);
            out.extend_from_slice(b"\",\"request\":\"");
            escape_json(&request_line.text, out);
            out.extend_from_slice(b"\",\"status\":");
            decimal::push(out, status.into());
            out.extend_from_slice(b",\"bytes\":");
            decimal::push(out, bytes);
            let RequestLine { site, referer, agent, .. } = request_line;
            let values = [("site", site.as_deref()), ("referer", referer.as_deref())];
            for (name, value) in values.into_iter().chain([("agent", agent.as_deref())]) {
                if let Some(value) = value {
                    write!(out, ",\"{name}\":\"").expect("a Vec takes every byte");
                    escape_json(value, out);
                    out.push(b'"');
                }
            }
            out.extend_from_slice(b",\"us\":");
            let took = now.since(request_line.at).as_micros();
            decimal::push(out, u64::try_from(took).unwrap_or(u64::MAX));
            out.extend_from_slice(b"}\n");
        }
    }
}

fn put_host(peer: Peer, out: &mut Vec<u8>) {
    match peer {
        Peer::Net(address) => write!(out, "{}", address.ip()).expect("a Vec takes every byte"),
        Peer::Local => out.extend_from_slice(b"local"),
    }
}

/// Day, name of the month, year and time of day in a formatted date.
fn parts(date: &[u8; DATE_LEN]) -> [&[u8]; 4] {
    [&date[5..7], &date[8..11], &date[12..16], &date[17..25]]
}

fn put_common_time(seconds: u64, out: &mut Vec<u8>) {
    let date = date::format(seconds);
    let [day, month, year, time] = parts(&date);
    for part in [day, b"/", month, b"/", year, b":", time, b" +0000"] {
        out.extend_from_slice(part);
    }
}

fn put_iso_time(wall_ns: u64, out: &mut Vec<u8>) {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = date::format(wall_ns / 1_000_000_000);
    let [day, month, year, time] = parts(&date);
    let number = 1 + MONTHS.chunks(3).position(|name| name == month).unwrap_or_default();
    let micros = wall_ns / 1000 % 1_000_000;
    out.extend_from_slice(year);
    write!(out, "-{number:02}-").expect("a Vec takes every byte");
    out.extend_from_slice(day);
    out.push(b'T');
    out.extend_from_slice(time);
    write!(out, ".{micros:06}Z").expect("a Vec takes every byte");
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

fn escape_json(text: &str, out: &mut Vec<u8>) {
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
        fn check(format: Format, line: &str, want: &str) {
            let peer = Peer::Net("[::1]:80".parse().expect("an address"));
            let request_line = RequestLine {
                at: Instant::from_ns(1_000),
                text: line.to_owned(),
                site: Some("*.a.org".into()),
                client: None,
                referer: Some("http://a/\"".to_owned()),
                agent: None,
            };
            let now = (Instant::from_ns(43_000), 784_111_777_000_045_000);
            let mut out = Vec::new();
            put(format, peer, &request_line, now, (200, 7), &mut out);
            assert_eq!(String::from_utf8(out).expect("text"), want);
        }
        check(
            Format::Common,
            "GET /\"\\\u{7f} HTTP/1.1",
            "::1 - - [06/Nov/1994:08:49:37 +0000] \"GET /\\\"\\\\\\x7f HTTP/1.1\" 200 7\n",
        );
        check(
            Format::Json,
            "GET /\"\u{1f600} HTTP/1.1",
            "{\"time\":\"1994-11-06T08:49:37.000045Z\",\"host\":\"::1\",\
             \"request\":\"GET /\\\"\\ud83d\\ude00 HTTP/1.1\",\"status\":200,\"bytes\":7,\
             \"site\":\"*.a.org\",\"referer\":\"http://a/\\\"\",\"us\":42}\n",
        );
        check(
            Format::Combined,
            "GET / HTTP/1.1",
            "::1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 7 \
             \"http://a/\\\"\" \"-\"\n",
        );
    }
}
