//! A second reader of request heads, byte by byte from the ABNF of RFC 9112 and RFC 9110, for
//! tests.
//!
//! It shares no code with [`super::head`], so a mistake must be made twice to go unnoticed. It says
//! *whether* a head is bad, not for which of several reasons.

use super::Body;

/// The grammar's verdict on some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More bytes may make it a head.
    Unfinished,
    /// It cannot become a head.
    Bad,
    /// A head, in the terms of [`super::Head`].
    Head {
        len: usize,
        method: String,
        target: String,
        body: Body,
        keep_alive: bool,
        fields: Vec<(String, Vec<u8>)>,
    },
}

/// Reads the front of `bytes`, which are fewer than any limit.
pub(crate) fn read(bytes: &[u8]) -> Verdict {
    let begin = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    match lines(&bytes[begin..]) {
        Lines::Unfinished => Verdict::Unfinished,
        Lines::Broken => Verdict::Bad,
        Lines::Whole(lines, len) => head(&lines, begin + len).unwrap_or(Verdict::Bad),
    }
}

enum Lines<'a> {
    Unfinished,
    Broken,
    Whole(Vec<&'a [u8]>, usize),
}

/// The lines up to an empty one, and their total length.
fn lines(bytes: &[u8]) -> Lines<'_> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\n', _) => return Lines::Broken,
            (b'\r', Some(b'\n')) => {
                let line = &bytes[begin..at];
                at += 2;
                begin = at;
                if line.is_empty() {
                    // The request line is not optional.
                    let any = !found.is_empty();
                    return if any { Lines::Whole(found, at) } else { Lines::Broken };
                }
                found.push(line);
            }
            // Bytes after a bare CR are judged when their line is complete.
            (b'\r', Some(_)) if bytes[at..].contains(&b'\n') => return Lines::Broken,
            _ => at += 1,
        }
    }
    Lines::Unfinished
}

fn head(lines: &[&[u8]], len: usize) -> Option<Verdict> {
    let mut words = lines[0].split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !is_token(method) || target.is_empty() {
        return None;
    }
    if !target.iter().all(|byte| (0x21..=0x7e).contains(byte)) {
        return None;
    }
    let is_new = match version {
        b"HTTP/1.0" => false,
        // A later minor version means what 1.1 means (RFC 9110 section 2.5).
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => true,
        _ => return None,
    };
    let fields: Vec<(String, Vec<u8>)> =
        lines[1..].iter().map(|line| field(line)).collect::<Option<_>>()?;
    let all = |name: &str| -> Vec<&[u8]> {
        let named = |(found, _): &&(String, Vec<u8>)| found.to_ascii_lowercase() == name;
        fields.iter().filter(named).map(|(_, value)| value.as_slice()).collect()
    };
    if !all("content_length").is_empty() || !all("transfer_encoding").is_empty() {
        return None;
    }
    match all("host")[..] {
        [] if !is_new => {}
        [host] if is_host(&String::from_utf8_lossy(host)) => {}
        _ => return None,
    }
    if is_new && !all("expect").iter().all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return None;
    }
    let body = match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => Body::Length(0),
        ([length], []) => Body::Length(decimal(length)?),
        ([], [coding]) if is_new && coding.eq_ignore_ascii_case(b"chunked") => Body::Chunked,
        _ => return None,
    };
    let options = all("connection").join(&b","[..]).to_ascii_lowercase();
    let says = |word: &[u8]| options.split(|byte| *byte == b',').any(|it| it.trim_ascii() == word);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Verdict::Head {
        len,
        method: text(method),
        target: text(target),
        body,
        keep_alive: !says(b"close") && (is_new || says(b"keep-alive")),
        fields,
    })
}

/// `field-name ":" OWS field-value OWS`.
fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, mut value) = (&line[..colon], &line[colon + 1..]);
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    let good = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..=0xff));
    (is_token(name) && good).then(|| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
}

fn is_token(text: &[u8]) -> bool {
    let tchar =
        |byte: &u8| byte.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char::from(*byte));
    !text.is_empty() && text.iter().all(tchar)
}

/// `IP-literal / reg-name`, and a port, each letter of which RFC 3986 lists.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let good_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_reg_name(host.as_bytes()),
    };
    let good_port = match port.strip_prefix(':') {
        Some(digits) => digits.chars().all(|it| it.is_ascii_digit()),
        None => port.is_empty(),
    };
    good_host && good_port
}

/// `*( unreserved / pct-encoded / sub-delims )`.
fn is_reg_name(mut text: &[u8]) -> bool {
    loop {
        text = match text {
            [] => return true,
            [b'%', high, low, rest @ ..] if [high, low].iter().all(|it| it.is_ascii_hexdigit()) => {
                rest
            }
            [one, rest @ ..] if one.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(one) => {
                rest
            }
            _ => return false,
        }
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for byte in text {
        let digit = char::from(*byte).to_digit(10)?;
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!text.is_empty()).then_some(number)
}
