//! Durations as people write them: `150ms`, `2s`, `5m`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// A length of time, kept in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Span(u64);

impl Span {
    /// In milliseconds, rounded down.
    pub fn ms(self) -> u64 {
        self.0 / 1_000_000
    }

    /// In nanoseconds.
    pub fn ns(self) -> u64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let time = humantime::parse_duration(text)
            .map_err(|_| format!("expected a time such as 150ms, 2s or 5m, found `{text}`"))?;
        Ok(Span(time.as_nanos() as u64))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        fn check(text: &str, want: Option<u64>) {
            assert_eq!(text.parse::<Span>().ok().map(Span::ns), want, "{text}");
        }
        check("150ms", Some(150_000_000));
        check("1.5s", Some(1_500_000_000));
        check("5m", Some(300_000_000_000));
        check("20us", Some(20_000));
        check("5", None);
        check("s", None);
        check("-1s", None);
        check("", None);
    }
}
