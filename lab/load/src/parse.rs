//! The values of flags: parses text, or explains what was expected.

mod target;

pub use target::{Proxy, SCHEMES, Scheme, Target, Via};

use std::str::FromStr;

/// An invalid value, with a message that says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct Usage(pub String);

/// The weights of the market's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Weight of `show`.
    pub show: u32,
    /// Weight of `buy`.
    pub buy: u32,
    /// Weight of `sell`.
    pub sell: u32,
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

/// A rate per second, such as `5000`, `5k`, `100/s`, `1.5M/s`.
///
/// # Errors
/// The text is no rate, or not above zero.
pub fn rate(text: &str) -> Result<f64, Usage> {
    let bad = || Usage(format!("expected a rate such as 5000, 5k or 100/s, found `{text}`"));
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    let (number, factor) = match number.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |millions| (millions, 1e6)),
    };
    let rate = factor * number.parse::<f64>().map_err(|_| bad())?;
    if (1e-6..=1e9).contains(&rate) { Ok(rate) } else { Err(bad()) }
}

/// Names with weights, such as `/=90,/big=10`; a name alone has weight 1.
///
/// # Errors
/// A weight is invalid or too large, or all are zero.
pub fn weights(text: &str) -> Result<Vec<(String, u32)>, Usage> {
    let bad = || {
        Usage(format!(
            "expected names with whole weights up to 1000000, at least one above zero, such as \
             /=90,/big=10, found `{text}`"
        ))
    };
    let part = |part: &str| {
        let (name, weight) = part.trim().rsplit_once('=').unwrap_or((part.trim(), "1"));
        let weight = weight.parse().ok().filter(|&n: &u32| n <= 1_000_000).ok_or_else(bad)?;
        if name.is_empty() { Err(bad()) } else { Ok((name.to_owned(), weight)) }
    };
    let mut parts = text.split(',').map(part).collect::<Result<Vec<_>, _>>()?;
    parts.retain(|(_, weight)| *weight > 0);
    if parts.is_empty() { Err(bad()) } else { Ok(parts) }
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

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn escapes() {
        assert_eq!(bytes(r"INCR x\r\n"), Ok(b"INCR x\r\n".to_vec()));
        assert_eq!(bytes(r"\x41\\\0\té"), Ok("A\\\0\té".as_bytes().to_vec()));
        for bad in [r"\", r"\q", r"\x", r"\x4", r"\xgg", r"\x+4", r"\xé1"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        for (text, per_second) in
            [("5000", 5e3), ("5k", 5e3), ("100/s", 100.0), ("1.5M/s", 1.5e6), ("0.1", 0.1)]
        {
            assert_eq!(rate(text), Ok(per_second), "{text}");
        }
        for bad in ["", "0", "-5", "fast", "5k/m", "nan", "inf", "k"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn weighted_names() {
        let found = weights("/=90, /a=b=10,/c,/d=0").expect("four names");
        let expected = [("/", 90), ("/a=b", 10), ("/c", 1)];
        assert_eq!(found, expected.map(|(name, weight)| (name.to_owned(), weight)));
        for bad in ["", "=1", "/a=0", "/a=x", "/a=-1", "/a=1000001", "/a,,"] {
            assert!(weights(bad).is_err(), "{bad}");
        }
    }
}
