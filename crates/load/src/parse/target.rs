//! A server's address: `http://host:8000/index.html`.

use super::Usage;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The stock market.
    Stock,
    /// HTTP/1.1.
    Http,
    /// Packets of ten bytes that come back unchanged.
    Echo,
    /// Requests and replies with a known terminator.
    Line,
}

/// Every scheme with its address form, for messages.
pub const SCHEMES: &str =
    "stock://HOST[:6000], http://HOST[:80][/PATH], echo://HOST[:6001], line://HOST:PORT";

/// A server to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target as written.
    pub text: String,
    /// The protocol.
    pub scheme: Scheme,
    /// The server's address; the first one if a name has several.
    pub address: SocketAddr,
    /// Host and, if given, port.
    pub authority: String,
    /// The rest from the slash on; `/` if there is none.
    pub path: String,
}

impl Scheme {
    /// The default port.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Stock => Some(6000),
            Self::Http => Some(80),
            Self::Echo => Some(6001),
            Self::Line => None,
        }
    }

    /// The scheme's name before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Http => "http",
            Self::Echo => "echo",
            Self::Line => "line",
        }
    }
}

impl FromStr for Scheme {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        match text {
            "stock" => Ok(Self::Stock),
            "http" => Ok(Self::Http),
            "echo" => Ok(Self::Echo),
            "line" => Ok(Self::Line),
            "udp+rtp" | "rtp" | "rtsp" | "rtspt" => Err(Usage(format!(
                "`{text}` is listened to, with `roundhouse load URL -c RECEIVERS` or `roundhouse \
                 play URL`; here there is {SCHEMES}"
            ))),
            "https" | "wss" | "tls" => Err(Usage(format!(
                "not yet: `{text}` is encrypted; load its plain port, or use \
                 {SCHEMES}"
            ))),
            other => Err(Usage(format!("expected one of {SCHEMES}, found the scheme `{other}`"))),
        }
    }
}

impl FromStr for Target {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let (scheme, place) = text
            .split_once("://")
            .ok_or_else(|| Usage(format!("expected a target such as {SCHEMES}, found `{text}`")))?;
        let scheme: Scheme = scheme.parse()?;
        let slash = place.find(['/', '?']).unwrap_or(place.len());
        let (authority, path) = place.split_at(slash);
        let path = match scheme {
            Scheme::Http if path.starts_with('?') => format!("/{path}"),
            // The fragment stays with the client (RFC 9110 section 4.2.5).
            Scheme::Http if !path.is_empty() => {
                path.split('#').next().unwrap_or_default().to_owned()
            }
            _ if path.is_empty() || path == "/" => "/".to_owned(),
            _ => {
                return Err(Usage(format!(
                    "expected {scheme}://HOST:PORT without a path, found `{path}`",
                    scheme = scheme.name()
                )));
            }
        };
        let address = address(authority, scheme.port())?;
        Ok(Self { text: text.to_owned(), scheme, address, authority: authority.to_owned(), path })
    }
}

fn address(place: &str, port: Option<u16>) -> Result<SocketAddr, Usage> {
    let has_port = place.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    match port.filter(|_| !has_port) {
        Some(port) => resolve(&format!("{place}:{port}")),
        None => resolve(place),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn resolve(place: &str) -> Result<SocketAddr, Usage> {
    let found = place.to_socket_addrs().map_err(|e| {
        Usage(format!(
            "expected HOST:PORT, found `{place}`: {e}; is the port there, and the name right?"
        ))
    })?;
    // Loopback names often resolve to ::1 too, where few servers listen.
    let mut all: Vec<SocketAddr> = found.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    all.first().copied().ok_or_else(|| Usage(format!("`{place}` has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, scheme: Scheme, address: &str, path: &str) {
        let target: Target = text.parse().expect(text);
        let found = (target.scheme, target.address.to_string(), target.path.as_str());
        assert_eq!(found, (scheme, address.to_owned(), path), "{text}");
        assert_eq!(target.to_string(), text);
    }

    #[test]
    fn targets() {
        check("stock://127.0.0.1:7", Scheme::Stock, "127.0.0.1:7", "/");
        check("stock://127.0.0.1", Scheme::Stock, "127.0.0.1:6000", "/");
        check("stock://[::1]:7/", Scheme::Stock, "[::1]:7", "/");
        check("echo://[::1]", Scheme::Echo, "[::1]:6001", "/");
        check("line://127.0.0.1:1", Scheme::Line, "127.0.0.1:1", "/");
        check("http://127.0.0.1", Scheme::Http, "127.0.0.1:80", "/");
        check("http://127.0.0.1:8/a/b?c=d#e", Scheme::Http, "127.0.0.1:8", "/a/b?c=d");
        check("http://127.0.0.1?x", Scheme::Http, "127.0.0.1:80", "/?x");
    }

    #[test]
    fn what_is_no_target_is_told_what_there_is() {
        for (bad, part) in [
            ("127.0.0.1:6000", "expected a target such as"),
            ("ftp://127.0.0.1:80", "http://HOST"),
            ("udp+rtp://127.0.0.1:80", "roundhouse play"),
            ("https://127.0.0.1", "not yet"),
            ("line://127.0.0.1", "expected HOST:PORT"),
            ("stock://a:b:c", "expected HOST:PORT"),
            ("echo://127.0.0.1:1/path", "without a path"),
        ] {
            let Err(Usage(why)) = bad.parse::<Target>() else { panic!("{bad} was taken") };
            assert!(why.contains(part) && why.contains("HOST"), "{bad}: {why}");
        }
    }
}
