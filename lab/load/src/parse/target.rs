//! A server's address: `http://host:8000/index.html`.
//!
//! The command line becomes a `Target` here, before anything connects: scheme, layers (`+tls`,
//! `+ws`), addresses, path. A name may have several addresses; `settled` keeps the one that accepts
//! a connection. Several places separated by commas are nodes of one market. `path_of` answers
//! whether a URL of a recording belongs to the target, by its origin (RFC 6454): requests to other
//! origins are not sent. A target that does not fit its scheme is refused with the form that was
//! expected.

use super::Usage;
use crate::tls::TlsOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use sys::resolve;
use wire::websocket::MessageKind;

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The stock market.
    Stock,
    /// HTTP/1.1, or HTTP/2.
    Http,
    /// Packets of ten bytes that come back unchanged.
    Echo,
    /// Requests and replies with a known terminator.
    Line,
}

/// Every scheme with its address form, for messages.
pub const SCHEMES: &str = "stock://HOST[:6000][,HOST...], http://HOST[:80][/PATH], https://HOST[:443][/PATH], grpc://HOST:PORT/SERVICE/METHOD (grpcs:// over TLS), echo://HOST[:6001], \
     line://HOST:PORT; stock+tls://, echo+tls:// and line+tls:// are encrypted, +ws:// is a \
     WebSocket, and +wss:// both";

/// Where connections go in place of the target's own host; `Host` and SNI stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// HOST:PORT.
    Place(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A proxy: it makes tunnels for TLS, and else is asked for whole URLs (RFC 9112 section 3.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// The value of `Proxy-Authorization`, if it wants one.
    pub login: Option<String>,
}

/// A server to load.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct Target {
    /// The target as written.
    pub text: String,
    /// The protocol.
    pub scheme: Scheme,
    /// Encryption; `None`: plain TCP.
    pub tls: Option<TlsOptions>,
    /// HTTP/2: by ALPN over TLS, else by prior knowledge.
    pub http2: bool,
    /// Calls of gRPC.
    pub is_grpc: bool,
    /// Messages of a WebSocket of this type; `None`: bytes.
    pub websocket: Option<MessageKind>,
    /// The server's address; the first one if a name has several, until [`Target::settled`].
    pub address: SocketAddr,
    /// The socket in the file system to connect to, in place of the address.
    pub unix: Option<PathBuf>,
    /// The address is that of this proxy.
    pub proxy: Option<Proxy>,
    /// The further addresses of the same name.
    pub spares: Vec<SocketAddr>,
    /// Further nodes that serve the same.
    pub others: Vec<SocketAddr>,
    /// Host and, if given, port, of the first.
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
                "`{text}` is received by `roundhouse play URL -c N`; here there is {SCHEMES}"
            ))),
            other => Err(Usage(format!("expected one of {SCHEMES}, found the scheme `{other}`"))),
        }
    }
}

impl FromStr for Target {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        Self::via(text, None)
    }
}

impl Target {
    /// The target `text`, whose connections go `via` another place.
    ///
    /// # Errors
    /// The text is no target, or a name has no address.
    pub fn via(text: &str, via: Option<&Via>) -> Result<Self, Usage> {
        let (name, authority, path) = parts(text)
            .ok_or_else(|| Usage(format!("expected a target such as {SCHEMES}, found `{text}`")))?;
        // Schemes are case-insensitive (RFC 3986 section 3.1).
        let name = name.to_ascii_lowercase();
        let name = name.as_str();
        if authority.contains('@') {
            return Err(Usage(format!(
                "expected {name}://HOST, found a user before the host; name the user by -H \
                 'Authorization: Basic BASE64'"
            )));
        }
        if !authority.is_ascii() {
            return Err(Usage(format!(
                "expected a HOST of ASCII, found `{authority}`; write its form with xn--"
            )));
        }
        let is_grpc = name == "grpc" || name == "grpcs";
        if is_grpc && path.split('/').filter(|part| !part.is_empty()).count() != 2 {
            return Err(Usage(format!(
                "expected {name}://HOST:PORT/PACKAGE.SERVICE/METHOD, found `{text}`"
            )));
        }
        let (name, is_tls, is_websocket) = layers(name);
        let scheme: Scheme = name.parse()?;
        let kind = if scheme == Scheme::Echo { MessageKind::Binary } else { MessageKind::Text };
        let websocket = is_websocket.then_some(kind);
        if scheme != Scheme::Http && !path.is_empty() && path != "/" {
            return Err(Usage(format!(
                "expected {name}://HOST:PORT without a path, found `{path}`"
            )));
        }
        let tls = is_tls.then(TlsOptions::default);
        let several = if scheme == Scheme::Http { '/' } else { ',' };
        let mut nodes = authority.split(several);
        let authority = nodes.next().unwrap_or_default();
        let port = port(scheme, is_tls);
        let (mut spares, unix) = match via {
            None => (self::addresses(authority, port)?, None),
            Some(Via::Place(place)) => (self::addresses(place, port)?, None),
            Some(Via::Unix(path)) => (vec![([0, 0, 0, 0], 0).into()], Some(path.clone())),
        };
        let address = spares.remove(0);
        let others = nodes.map(|it| Ok(self::addresses(it, port)?[0]));
        let others: Vec<SocketAddr> = others.collect::<Result<_, _>>()?;
        if via.is_some() && !others.is_empty() {
            return Err(Usage(format!(
                "expected one node with --unix or --connect-to, found {}",
                others.len() + 1
            )));
        }
        let (text, authority, path) = (text.to_owned(), authority.to_owned(), whole(path));
        Ok(Self {
            text,
            scheme,
            tls,
            http2: is_grpc,
            is_grpc,
            websocket,
            address,
            unix,
            proxy: None,
            spares,
            others,
            authority,
            path,
        })
    }

    /// The addresses of all nodes.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        std::iter::once(self.address).chain(self.others.iter().copied()).collect()
    }

    /// The same with the address of its name that accepts a connection, if one does.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let all = [&[self.address], &self.spares[..]].concat();
        self.address = resolve::answering(&all).unwrap_or(self.address);
        self
    }

    /// The host without its port.
    pub fn host(&self) -> String {
        origin(&self.authority).0
    }

    /// Speaks HTTP/2.
    ///
    /// # Errors
    /// The target is no web server.
    pub fn speak_http2(&mut self) -> Result<(), Usage> {
        self.http2 = self.scheme == Scheme::Http;
        match self.http2 {
            true => Ok(()),
            false => Err(Usage(format!(
                "expected --http2 with http:// or https://, found {self}; leave it out"
            ))),
        }
    }

    /// Goes through `proxy`, whose address this target has.
    ///
    /// # Errors
    /// The target is neither plain HTTP/1.1 nor TLS.
    pub fn ask_proxy(&mut self, proxy: Proxy) -> Result<(), Usage> {
        let is_plain = self.scheme == Scheme::Http && !self.http2;
        if !is_plain && self.tls.is_none() {
            return Err(Usage(format!(
                "expected --proxy with https:// or another target over TLS, or with http:// in \
                 HTTP/1.1, found {self}; leave it out"
            )));
        }
        self.proxy = Some(proxy);
        Ok(())
    }

    /// The origin before the path of a request, if a proxy is asked for whole URLs; else nothing.
    pub fn prefix(&self) -> String {
        match self.proxy.is_some() && self.tls.is_none() {
            true => format!("http://{}", self.authority),
            false => String::new(),
        }
    }

    /// Host and port of the first node.
    pub(crate) fn authority_with_port(&self) -> String {
        match (origin(&self.authority).1, port(self.scheme, self.tls.is_some())) {
            (None, Some(port)) => format!("{}:{port}", self.authority),
            _ => self.authority.clone(),
        }
    }

    /// Checks certificates by `options`.
    ///
    /// # Errors
    /// Options for a target without TLS.
    pub fn trust(&mut self, options: TlsOptions) -> Result<(), Usage> {
        match &mut self.tls {
            Some(tls) => *tls = options,
            None if options != TlsOptions::default() => {
                return Err(Usage(format!(
                    "expected --cacert, --insecure, --no-resume, --cert and --key with https:// or \
                     another target over TLS, found {self}"
                )));
            }
            None => {}
        }
        Ok(())
    }

    /// The path of a URL of this server, or of a path; `None` for a URL of another origin: scheme,
    /// host or port differ (RFC 6454 section 4).
    pub fn path_of(&self, url: &str) -> Option<String> {
        if url.starts_with('/') && !url.starts_with("//") {
            return Some(whole(url));
        }
        let (name, authority, path) = parts(url)?;
        let (own, theirs) = (origin(&self.authority), origin(authority));
        let is_tls = self.tls.is_some();
        let usual = port(self.scheme, is_tls);
        let is_own = name.eq_ignore_ascii_case(if is_tls { "https" } else { "http" })
            && own.0.eq_ignore_ascii_case(&theirs.0)
            && own.1.or(usual) == theirs.1.or(usual);
        is_own.then(|| whole(path))
    }
}

/// The name of the protocol under its layers, and whether they are TLS and WebSocket.
fn layers(name: &str) -> (&str, bool, bool) {
    match name.split_once('+') {
        _ if name == "https" || name == "grpcs" => ("http", true, false),
        _ if name == "grpc" => ("http", false, false),
        Some((name, "tls")) => (name, true, false),
        Some((name @ ("stock" | "echo" | "line"), "ws")) => (name, false, true),
        Some((name @ ("stock" | "echo" | "line"), "wss")) => (name, true, true),
        _ => (name, false, false),
    }
}

/// Scheme, authority, and the rest from the path or the query on.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, place) = url.split_once("://")?;
    let (authority, rest) = place.split_at(place.find(['/', '?', '#']).unwrap_or(place.len()));
    Some((scheme, authority, rest))
}

/// The path to ask for: begins with a slash and has no fragment, which stays with the client (RFC
/// 9110 section 4.2.5).
fn whole(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Host without brackets, and port.
fn origin(authority: &str) -> (String, Option<u16>) {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, None),
    };
    (host.trim_matches(['[', ']']).to_owned(), port)
}

fn port(scheme: Scheme, is_tls: bool) -> Option<u16> {
    if scheme == Scheme::Http && is_tls { Some(443) } else { scheme.port() }
}

fn addresses(place: &str, port: Option<u16>) -> Result<Vec<SocketAddr>, Usage> {
    let has_port = place.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    match port.filter(|_| !has_port) {
        Some(port) => resolved(&format!("{place}:{port}")),
        None => resolved(place),
    }
}

fn resolved(place: &str) -> Result<Vec<SocketAddr>, Usage> {
    resolve::addresses(place).map_err(|e| {
        Usage(format!(
            "expected HOST:PORT, found `{place}`: {e}; is the port there, and the name right?"
        ))
    })
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
        check("https://127.0.0.1/a", Scheme::Http, "127.0.0.1:443", "/a");
        check("line+tls://[::1]:1", Scheme::Line, "[::1]:1", "/");
        check("stock://127.0.0.1:7,127.0.0.2", Scheme::Stock, "127.0.0.1:7", "/");
        check("stock+ws://[::1]", Scheme::Stock, "[::1]:6000", "/");
        check("echo+wss://127.0.0.1", Scheme::Echo, "127.0.0.1:6001", "/");
        check("grpc://127.0.0.1:5/a.B/C", Scheme::Http, "127.0.0.1:5", "/a.B/C");
        check("HTTP://127.0.0.1/A", Scheme::Http, "127.0.0.1:80", "/A");
        check("Stock+TLS://127.0.0.1", Scheme::Stock, "127.0.0.1:6000", "/");
    }

    #[test]
    fn connections_can_go_elsewhere() {
        let via = |text: &str, via: &Via| Target::via(text, Some(via));
        let place = Via::Place("127.0.0.2:7".to_owned());
        let target = via("https://no.such.name/a", &place).expect("a name that is not looked up");
        let found = (target.address.to_string(), target.host(), target.unix.is_none());
        assert_eq!(found, ("127.0.0.2:7".to_owned(), "no.such.name".to_owned(), true));
        let path = Via::Unix("/run/a".into());
        let target = via("http://no.such.name", &path).expect("a path");
        assert_eq!(target.unix, Some("/run/a".into()));
        let why = via("stock://127.0.0.1,127.0.0.2", &path).expect_err("two nodes").to_string();
        assert!(why.contains("found 2"), "{why}");
    }

    #[test]
    fn urls_of_one_origin_have_a_path() {
        fn check(target: &str, url: &str, path: Option<&str>) {
            let target: Target = target.parse().expect(target);
            assert_eq!(target.path_of(url).as_deref(), path, "{target} {url}");
        }
        check("http://127.0.0.1:8", "/a?b#c", Some("/a?b"));
        check("http://127.0.0.1", "http://127.0.0.1:80", Some("/"));
        check("https://localhost:443", "https://LOCALHOST?a", Some("/?a"));
        check("https://[::1]", "https://[::1]/#a", Some("/"));
        check("http://127.0.0.1", "HTTP://127.0.0.1/a", Some("/a"));
        check("https://127.0.0.1", "http://127.0.0.1/", None);
        check("http://127.0.0.1", "http://127.0.0.2/", None);
        check("http://127.0.0.1", "http://127.0.0.1:81/", None);
        check("http://127.0.0.1", "//127.0.0.1/", None);
        check("http://127.0.0.1", "a.html", None);
    }

    #[test]
    fn what_is_no_target_is_told_what_there_is() {
        for (bad, part) in [
            ("127.0.0.1:6000", "expected a target such as"),
            ("ftp://127.0.0.1:80", "http://HOST"),
            ("udp+rtp://127.0.0.1:80", "roundhouse play"),
            ("wss://127.0.0.1", "https://HOST"),
            ("https+tls://127.0.0.1", "https://HOST"),
            ("http+ws://127.0.0.1", "+ws://"),
            ("http://u:secret@127.0.0.1/", "Authorization: Basic"),
            ("http://münchen.example/", "xn--"),
            ("line://127.0.0.1", "expected HOST:PORT"),
            ("stock://a:b:c", "expected HOST:PORT"),
            ("echo://127.0.0.1:1/path", "without a path"),
        ] {
            let Err(Usage(why)) = bad.parse::<Target>() else { panic!("{bad} was taken") };
            assert!(why.contains(part) && why.contains("HOST"), "{bad}: {why}");
        }
    }
}
