//! The values of flags: text to what it means, or a sentence that says what was expected.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// A value that makes no sense, in words that say what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The stock market.
    Stock,
    /// A constant request and a reply with a known end.
    Line,
}

/// A server to load: `stock://HOST[:PORT]` or `line://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it was written.
    pub text: String,
    /// Which protocol is spoken.
    pub scheme: Scheme,
    /// Where the server listens; of several addresses of a name the first.
    pub address: SocketAddr,
}

/// How often each command of the market is asked, as weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Weight of `show`.
    pub show: u32,
    /// Weight of `buy`.
    pub buy: u32,
    /// Weight of `sell`.
    pub sell: u32,
}

/// Where a market listens if nothing else is said.
const STOCK_PORT: u16 = 6000;

impl FromStr for Target {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let (scheme, place) = text.split_once("://").ok_or_else(|| {
            Usage(format!(
                "expected a target such as stock://127.0.0.1:6000 or line://127.0.0.1:6379, found \
                 `{text}`"
            ))
        })?;
        let scheme = match scheme {
            "stock" => Scheme::Stock,
            "line" => Scheme::Line,
            other => {
                return Err(Usage(format!("expected the scheme stock or line, found `{other}`")));
            }
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let address = match scheme {
            Scheme::Stock => resolve(place).or_else(|e| match place.contains(':') {
                true => Err(e),
                false => resolve(&format!("{place}:{STOCK_PORT}")),
            }),
            Scheme::Line => resolve(place),
        };
        Ok(Self { text: text.to_owned(), scheme, address: address? })
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
    // Loopback names often stand for ::1 too, where few servers listen.
    let mut all: Vec<SocketAddr> = found.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    all.first().copied().ok_or_else(|| Usage(format!("`{place}` has no address")))
}

impl Mix {
    /// Sum of the weights, at least 1.
    pub fn total(self) -> u32 {
        self.show + self.buy + self.sell
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self { show: 5, buy: 50, sell: 45 }
    }
}

impl FromStr for Mix {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let bad = || {
            Usage(format!(
                "expected a mix of whole weights up to 1000000, at least one above zero, such as \
                 show=5,buy=50,sell=45, found `{text}`"
            ))
        };
        let mut mix = Self { show: 0, buy: 0, sell: 0 };
        for part in text.split(',') {
            let (name, weight) = part.trim().split_once('=').ok_or_else(bad)?;
            let weight = weight.parse().ok().filter(|&n| n <= 1_000_000).ok_or_else(bad)?;
            match name {
                "show" => mix.show = weight,
                "buy" => mix.buy = weight,
                "sell" => mix.sell = weight,
                _ => return Err(bad()),
            }
        }
        if mix.total() == 0 { Err(bad()) } else { Ok(mix) }
    }
}

/// A span of time such as `300ms`, `1.5s`, `2m`, `40us`, `1h`; a bare number is seconds.
///
/// # Errors
/// If it is none, is negative, or is longer than a day.
pub fn span(text: &str) -> Result<Duration, Usage> {
    let bad = || Usage(format!("expected a time such as 300ms, 1.5s, 2m, found `{text}`"));
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let seconds = seconds * number.trim().parse::<f64>().map_err(|_| bad())?;
    let day = 86_400.0;
    if (0.0..=day).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(bad()) }
}

/// Bytes written as text with `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH`.
///
/// # Errors
/// For any other use of the backslash.
pub fn bytes(text: &str) -> Result<Vec<u8>, Usage> {
    let bad = |what: &str| {
        Usage(format!("expected one of \\r \\n \\t \\0 \\\\ \\xHH, found `\\{what}` in `{text}`"))
    };
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let mut chars = after.chars();
        match chars.next() {
            Some('r') => out.push(b'\r'),
            Some('n') => out.push(b'\n'),
            Some('t') => out.push(b'\t'),
            Some('0') => out.push(0),
            Some('\\') => out.push(b'\\'),
            Some('x') => {
                let hex = chars.as_str().get(..2).unwrap_or_default();
                let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
                let byte = u8::from_str_radix(hex, 16).ok().filter(|_| digits);
                out.push(byte.ok_or_else(|| bad("x"))?);
                chars = chars.as_str()[2..].chars();
            }
            other => return Err(bad(&other.map(String::from).unwrap_or_default())),
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let target = |text: &str| text.parse::<Target>().map(|t| (t.scheme, t.address.to_string()));
        let stock = |address: &str| Ok((Scheme::Stock, address.to_owned()));
        assert_eq!(target("stock://127.0.0.1:6000"), stock("127.0.0.1:6000"));
        assert_eq!(target("stock://127.0.0.1"), stock("127.0.0.1:6000"));
        assert_eq!(target("stock://[::1]:7/"), stock("[::1]:7"));
        assert_eq!(target("line://127.0.0.1:1"), Ok((Scheme::Line, "127.0.0.1:1".to_owned())));
        for bad in ["127.0.0.1:6000", "http://127.0.0.1:80", "line://127.0.0.1", "stock://a:b:c"] {
            let Err(Usage(why)) = target(bad) else { panic!("{bad} was taken") };
            assert!(why.contains("expected") && why.contains("found"), "{why}");
        }
    }

    #[test]
    fn mixes() {
        let mix = |show, buy, sell| Ok(Mix { show, buy, sell });
        assert_eq!("show=5,buy=50,sell=45".parse(), mix(5, 50, 45));
        assert_eq!("buy=1".parse(), mix(0, 1, 0));
        for bad in ["", "buy", "buy=0", "buy=-1", "bye=1", "buy=1,", "buy=1000001"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn spans() {
        for (text, ms) in [("300ms", 300), ("1.5s", 1500), ("2", 2000), ("1m", 60_000), ("0s", 0)] {
            assert_eq!(span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(span("40us"), Ok(Duration::from_micros(40)));
        for bad in ["", "s", "1d", "-1s", "1e300s", "nan", "25h", "1 2s"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(bytes(r"INCR x\r\n"), Ok(b"INCR x\r\n".to_vec()));
        assert_eq!(bytes(r"\x41\\\0\té"), Ok("A\\\0\té".as_bytes().to_vec()));
        for bad in [r"\", r"\q", r"\x", r"\x4", r"\xgg", r"\x+4", r"\xé1"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
