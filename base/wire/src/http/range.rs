//! Byte ranges (RFC 9110 section 14): the parts of a body that a client requests.

use std::ops::Range;

/// The most ranges of one request. More, or overlapping ones, would make the server send a body
/// many times for one small request (CVE-2011-3192), so they are ignored.
pub const RANGES_MAX: usize = 16;

/// The meaning of a `Range` field for a body of a given length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The field is malformed or asks for too much: the whole body is sent.
    Whole,
    /// No range is within the body: 416.
    Unsatisfiable,
    /// These, in the order of the request; at least one, none empty.
    Parts(Vec<Range<u64>>),
}

/// Reads a `Range` field for a body of `len` bytes.
pub fn ranges(value: &[u8], len: u64) -> Ranges {
    let Some(specs) = std::str::from_utf8(value).ok().and_then(specs) else {
        return Ranges::Whole;
    };
    let mut parts = Vec::new();
    for spec in specs.split(',').map(|spec| spec.trim_matches([' ', '\t'])) {
        if spec.is_empty() {
            continue;
        }
        let Some(part) = part(spec, len) else { return Ranges::Whole };
        if !part.is_empty() {
            parts.push(part);
        }
        if parts.len() > RANGES_MAX {
            return Ranges::Whole;
        }
    }
    if parts.is_empty() {
        return Ranges::Unsatisfiable;
    }
    let asked = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.end - part.start));
    if parts.len() > 1 && asked > len { Ranges::Whole } else { Ranges::Parts(parts) }
}

/// The text after `bytes=`.
fn specs(value: &str) -> Option<&str> {
    let (unit, specs) = value.split_once('=')?;
    unit.eq_ignore_ascii_case("bytes").then_some(specs).filter(|specs| !specs.trim().is_empty())
}

/// `first-`, `first-last` or `-suffix`; empty if it is outside the body.
fn part(spec: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?;
        return Some(len.saturating_sub(suffix)..len);
    }
    let first = number(first)?;
    let end = match last {
        "" => len,
        last => number(last).filter(|last| *last >= first)?.saturating_add(1).min(len),
    };
    Some(if first < end { first..end } else { 0..0 })
}

/// Digits only; too large a number saturates.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_what_they_come_to() {
        fn check(value: &str, want: &[(u64, u64)]) {
            let found = ranges(value.as_bytes(), 1000);
            assert_eq!(
                found,
                Ranges::Parts(want.iter().map(|&(from, to)| from..to).collect()),
                "{value}"
            );
        }
        check("bytes=0-0", &[(0, 1)]);
        check("Bytes=0-499", &[(0, 500)]);
        check("bytes=990-", &[(990, 1000)]);
        check("bytes=-10", &[(990, 1000)]);
        check("bytes=-5000", &[(0, 1000)]);
        check("bytes=999-5000", &[(999, 1000)]);
        check("bytes=0-1, 998- ,\t4-4", &[(0, 2), (998, 1000), (4, 5)]);
        check("bytes=2000-,1-1", &[(1, 2)]);
        check("bytes=1-99999999999999999999999", &[(1, 1000)]);
    }

    #[test]
    fn what_is_not_granted() {
        fn check(value: &str, want: Ranges) {
            assert_eq!(ranges(value.as_bytes(), 1000), want, "{value}");
        }
        check("bytes=1000-", Ranges::Unsatisfiable);
        check("bytes=-0", Ranges::Unsatisfiable);
        check("bytes=", Ranges::Whole);
        check("bytes=5-4", Ranges::Whole);
        check("bytes=a-b", Ranges::Whole);
        check("bytes=+1-2", Ranges::Whole);
        check("bytes=1", Ranges::Whole);
        check("lines=1-2", Ranges::Whole);
        check("bytes=0-,0-", Ranges::Whole);
        check(&format!("bytes={}", "1-1,".repeat(RANGES_MAX + 1)), Ranges::Whole);
        assert_eq!(ranges(b"bytes=0-", 0), Ranges::Unsatisfiable);
    }
}
