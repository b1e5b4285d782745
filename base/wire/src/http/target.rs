//! Request targets (RFC 9112 section 3.2), decoded and normalized.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::head::is_host;

/// A target that names a path of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// The path: percent-decoded, without `.` and `..`, starting with `/`. Its bytes may be no
    /// UTF-8, because names of files need not be. Encoded slashes are refused.
    pub path: Cow<'a, [u8]>,
    /// The host of an absolute target, perhaps with a port: it counts instead of the `Host` field.
    pub host: Option<&'a str>,
    /// The text after the first `?`, as sent; empty without one.
    pub query: &'a str,
}

/// Why a target is refused. The answer is 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
pub enum BadTarget {
    /// Neither `/path` nor `http://host/path`.
    #[display("expected a target such as /path, found another form")]
    Form,
    /// A `%` without two hexadecimal digits.
    #[display("expected %XX escapes with two hexadecimal digits, found another encoding")]
    Encoding,
    /// An encoded `/`, `\` or NUL: two readers would see two different paths.
    #[display("expected no encoded slash, backslash or NUL in the path")]
    Hidden,
    /// `..` above the root.
    #[display("expected a path below the root, found one that climbs above it")]
    Climbs,
}

impl<'a> Target<'a> {
    /// Reads an origin-form or absolute-form target. `*` and the authority form are refused.
    ///
    /// # Errors
    /// See [`BadTarget`].
    #[inline]
    pub fn read(target: &'a str) -> Result<Target<'a>, BadTarget> {
        // Nearly all targets have no byte that could mean anything but itself.
        let is_special = |byte: &u8| matches!(byte, b'#' | b'%' | b'.' | b'?' | b'\\');
        if target.starts_with('/') && !target.as_bytes().iter().any(is_special) {
            return Ok(Target { path: Cow::Borrowed(target.as_bytes()), host: None, query: "" });
        }
        Target::read_any(target)
    }

    fn read_any(target: &'a str) -> Result<Target<'a>, BadTarget> {
        if let Some((path, query)) = plain(target) {
            return Ok(Target { path: Cow::Borrowed(path.as_bytes()), host: None, query });
        }
        let (host, local) = match target.starts_with('/') {
            true => (None, target),
            false => {
                let rest = behind_scheme(target).ok_or(BadTarget::Form)?;
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, local) = rest.split_at(end);
                // No host at all is an error here (RFC 9110 section 4.2.1), as is a user name.
                let is_named = !authority.is_empty() && !authority.starts_with(':');
                if !is_named || !is_host(authority.as_bytes()) {
                    return Err(BadTarget::Form);
                }
                (Some(authority), local)
            }
        };
        if local.contains('#') {
            return Err(BadTarget::Form);
        }
        let (path, query) = local.split_once('?').unwrap_or((local, ""));
        Ok(Target { path: normal(path)?, host, query })
    }
}

/// Path and query of a target that needs neither decoding nor normalizing.
fn plain(target: &str) -> Option<(&str, &str)> {
    let (mut last, mut mark) = (0, None);
    for (at, byte) in target.bytes().enumerate() {
        match (byte, mark) {
            (b'#', _) | (b'%' | b'\\', None) => return None,
            // Only a segment that begins with a dot can be `.` or `..`.
            (b'.', None) if last == b'/' => return None,
            (b'?', None) => mark = Some(at),
            _ => last = byte,
        }
    }
    let (path, query) = mark.map_or((target, ""), |at| (&target[..at], &target[at + 1..]));
    path.starts_with('/').then_some((path, query))
}

/// The text after `http://`, whatever its case (RFC 3986 section 3.1).
fn behind_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("://")?;
    let known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    known.then_some(rest)
}

/// Decodes each segment, then removes dots (RFC 3986 section 5.2.4).
fn normal(path: &str) -> Result<Cow<'_, [u8]>, BadTarget> {
    if path.is_empty() {
        return Ok(Cow::Borrowed(b"/"));
    }
    let mut kept: Vec<Vec<u8>> = Vec::new();
    // A trailing slash or dot segment names a directory and keeps its slash.
    let mut directory = false;
    for segment in path.split('/').skip(1) {
        let name = decoded(segment)?;
        directory = name == b"." || name == b"..";
        match name.as_slice() {
            b"." => {}
            b".." => {
                kept.pop().ok_or(BadTarget::Climbs)?;
            }
            _ => kept.push(name),
        }
    }
    let mut out = [&b"/"[..], &kept.join(&b'/')].concat();
    if directory && !out.ends_with(b"/") {
        out.push(b'/');
    }
    Ok(Cow::Owned(out))
}

fn decoded(segment: &str) -> Result<Vec<u8>, BadTarget> {
    let is_digits = |two: &[u8]| two.iter().all(u8::is_ascii_hexdigit);
    let mut escapes = segment.as_bytes().split(|byte| *byte == b'%').skip(1);
    // `percent_decode_str` would leave a `%` without two digits as it is.
    if !escapes.all(|behind| behind.get(..2).is_some_and(is_digits)) {
        return Err(BadTarget::Encoding);
    }
    let name: Vec<u8> = percent_decode_str(segment).collect();
    if name.iter().any(|byte| b"/\\\0".contains(byte)) { Err(BadTarget::Hidden) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        fn check(target: &str, path: &str, query: &str) {
            let found = Target::read(target).expect(target);
            assert_eq!((found.path.as_ref(), found.query), (path.as_bytes(), query), "{target}");
        }
        check("/", "/", "");
        check("/a/b?x=1?y", "/a/b", "x=1?y");
        check("/a//b/", "/a//b/", "");
        check("/%61%2e%2E/%EC%A3%BC", "/a../\u{c8fc}", "");
        check("/a/./b/../c", "/a/c", "");
        check("/a/%2e%2e/", "/", "");
        check("/a/b/..", "/a/", "");
        check("http://host:1/a?b", "/a", "b");
        check("HTTP://host/x", "/x", "");
        check("http://host", "/", "");
        check("https://host?q", "/", "q");
        check("http://[::1]:80/a", "/a", "");
        let latin = Target::read("/caf%e9/..%ff").expect("names need not be UTF-8");
        assert_eq!(latin.path.as_ref(), b"/caf\xe9/..\xff");
    }

    #[test]
    fn no_places() {
        fn check(target: &str, want: BadTarget) {
            assert_eq!(Target::read(target), Err(want), "{target}");
        }
        check("*", BadTarget::Form);
        check("host:80", BadTarget::Form);
        check("", BadTarget::Form);
        check("http:///a", BadTarget::Form);
        check("http://:80/", BadTarget::Form);
        check("http://]]:99999x/", BadTarget::Form);
        check("http://user:word@host/", BadTarget::Form);
        check("http://a%zz/", BadTarget::Form);
        check("/a#b", BadTarget::Form);
        check("/%", BadTarget::Encoding);
        check("/%4", BadTarget::Encoding);
        check("/%zz", BadTarget::Encoding);
        check("/a%2Fb", BadTarget::Hidden);
        check("/a%5cb", BadTarget::Hidden);
        check("/a\\b", BadTarget::Hidden);
        check("/a%00", BadTarget::Hidden);
        check("/..", BadTarget::Climbs);
        check("/a/../%2e%2e/etc", BadTarget::Climbs);
    }
}
