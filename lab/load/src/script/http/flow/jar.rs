//! The cookies of one user (RFC 6265): kept by name and path, sent back in the order of its section
//! 5.4, longest path first.
//!
//! All requests of a flow go to one server, so `Domain` and `SameSite` decide nothing and are left
//! unread. The caller gives the time, in seconds since 1970; it is read only for cookies that
//! expire.

/// The most cookies of a user, and the longest one (bytes): what a browser keeps at least.
const COOKIES_MAX: usize = 64;
const COOKIE_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Jar(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    is_secure: bool,
    /// The second in which it expires; `u64::MAX`: with the user.
    until: u64,
}

impl Jar {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a `Set-Cookie` of the reply to `asked`, a path with its query.
    pub(super) fn set(&mut self, field: &[u8], asked: &[u8], now: impl Fn() -> u64) {
        let mut parts = field.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let Some((name, value)) = parts.next().and_then(pair) else { return };
        if name.is_empty() || name.len() + value.len() > COOKIE_MAX {
            return;
        }
        let (mut path, mut is_secure) = (folder(asked), false);
        let (mut age, mut date) = (None, None);
        for part in parts {
            let (key, value) = pair(part).unwrap_or((part, b""));
            let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
            if is("path") && value.starts_with(b"/") {
                path = value;
            } else if is("secure") {
                is_secure = true;
            } else if is("max-age") {
                age = str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok()).or(age);
            } else if is("expires") {
                date = seconds(value).or(date);
            }
        }
        let until = match (age, date) {
            // The age wins, whatever their order.
            (Some(age), _) if age <= 0 => 0,
            (Some(age), _) => now().saturating_add(age as u64),
            (None, date) => date.unwrap_or(u64::MAX),
        };
        let known = self.0.iter().position(|cookie| cookie.name == name && cookie.path == path);
        if until != u64::MAX && until <= now() {
            self.0.retain(|cookie| cookie.name != name || cookie.path != path);
        } else if let Some(at) = known {
            let cookie = &mut self.0[at];
            value.clone_into(&mut cookie.value);
            (cookie.is_secure, cookie.until) = (is_secure, until);
        } else if self.0.len() < COOKIES_MAX {
            let at = self.0.partition_point(|cookie| cookie.path.len() >= path.len());
            let [name, value, path] = [name, value, path].map(<[u8]>::to_vec);
            self.0.insert(at, Cookie { name, value, path, is_secure, until });
        }
    }

    /// Appends the field `Cookie` of a request, if it has one.
    pub(super) fn put(&self, asked: &[u8], is_tls: bool, now: impl Fn() -> u64, out: &mut Vec<u8>) {
        let mut joint: &[u8] = b"Cookie: ";
        for cookie in &self.0 {
            let is_alive = cookie.until == u64::MAX || cookie.until > now();
            if is_alive && (is_tls || !cookie.is_secure) && covers(&cookie.path, asked) {
                for part in [joint, &cookie.name, b"=", &cookie.value] {
                    out.extend_from_slice(part);
                }
                joint = b"; ";
            }
        }
        if joint == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The value of a cookie, whatever its path.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|cookie| cookie.name == name.as_bytes()).map(|cookie| &cookie.value[..])
    }
}

fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', text)?;
    Some((text[..at].trim_ascii(), text[at + 1..].trim_ascii()))
}

/// The path without its query.
fn bare(asked: &[u8]) -> &[u8] {
    &asked[..memchr::memchr(b'?', asked).unwrap_or(asked.len())]
}

/// The path that a cookie has by default (RFC 6265 section 5.1.4).
fn folder(asked: &[u8]) -> &[u8] {
    match memchr::memrchr(b'/', bare(asked)) {
        Some(at @ 1..) if asked.starts_with(b"/") => &asked[..at],
        _ => b"/",
    }
}

/// Whether a cookie of `path` belongs to a request of `asked`.
fn covers(path: &[u8], asked: &[u8]) -> bool {
    match bare(asked).strip_prefix(path) {
        Some(rest) => rest.is_empty() || path.ends_with(b"/") || rest.starts_with(b"/"),
        None => false,
    }
}

/// The second of a date; also in the form of Netscape, `Wed, 21-Oct-2015 07:28:00 GMT`.
fn seconds(text: &[u8]) -> Option<u64> {
    let blanks =
        || text.iter().map(|&byte| if byte == b'-' { b' ' } else { byte }).collect::<Vec<u8>>();
    wire::http::date::parse(text).or_else(|| wire::http::date::parse(&blanks()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field of a request after replies to it have set these cookies.
    fn check(asked: &str, set: &[&str], next: &str, is_tls: bool, want: &str) {
        let (mut jar, mut out) = (Jar::default(), Vec::new());
        set.iter().for_each(|field| jar.set(field.as_bytes(), asked.as_bytes(), || 1000));
        jar.put(next.as_bytes(), is_tls, || 1000, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), want, "{set:?} then {next}");
    }

    #[test]
    fn cookies_come_back_by_name_and_path() {
        let one = |set: &[&str], want: &str| check("/a/b?c=/d", set, "/a/x?y", false, want);
        one(&["sid=1", "sid=2; HttpOnly"], "Cookie: sid=2\r\n");
        one(&["b=1; Path=/", "a=2; path=/a"], "Cookie: a=2; b=1\r\n");
        one(&["a=1; Path=/ab", "b=2; Path=/a/"], "Cookie: b=2\r\n");
        one(&["a = b=c ; Domain=x.org"], "Cookie: a=b=c\r\n");
        one(&["", "novalue", "=x"], "");
        check("/a", &["a=1"], "/other", false, "Cookie: a=1\r\n");
        check("/a/b", &["a=1"], "/other", false, "");
        check("/a/b", &["a=1"], "/a?q", false, "Cookie: a=1\r\n");
        check("/", &["a=1; Secure"], "/", false, "");
        check("/", &["a=1; Secure"], "/", true, "Cookie: a=1\r\n");
    }

    #[test]
    fn what_has_expired_is_gone() {
        let gone = |end: &str| check("/", &["a=1", &format!("a=; {end}")], "/", false, "");
        gone("Max-Age=0");
        gone("max-age=-1; Expires=Fri, 31 Dec 9999 23:59:59 GMT");
        gone("Expires=Thu, 01 Jan 1970 00:00:10 GMT");
        gone("Expires=Thu, 01-Jan-1970 00:00:10 GMT");
        let kept = |end: &str| {
            check("/", &[&format!("a=1; {end}")], "/", false, "Cookie: a=1\r\n");
        };
        kept("Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:10 GMT");
        kept("Expires=Fri, 31 Dec 9999 23:59:59 GMT");
        kept("Expires=soon; Max-Age=long");
        let (mut jar, mut out) = (Jar::default(), Vec::new());
        jar.set(b"a=1; Max-Age=5", b"/", || 1000);
        jar.put(b"/", false, || 1005, &mut out);
        assert!(out.is_empty());
        (0..2 * COOKIES_MAX).for_each(|n| jar.set(format!("n{n}=1").as_bytes(), b"/", || 0));
        assert_eq!(jar.0.len(), COOKIES_MAX);
    }
}
