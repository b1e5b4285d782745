//! The work of an arrival: the number of batches, the think time between them, and whether it has a
//! connection of its own.

use crate::arrive::{exponential, unit};
use crate::parse::Usage;
use rand_pcg::Pcg64Mcg;
use std::str::FromStr;
use std::time::Duration;
use wire::conf::span;

/// Batches of a session that ends when its script is through.
pub const UNTIL_THROUGH: u64 = u64::MAX - 1;

/// The work of each arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Batch after batch on a separate connection: a user (endless rounds) or a session.
    Own {
        /// Batches before the user leaves; [`u64::MAX`]: never.
        rounds: u64,
        /// Requests in a batch: they are sent in one write, and the next batch waits for all
        /// replies.
        depth: u32,
        /// The pause between the last reply and the next batch.
        think: Think,
    },
    /// One request on any connection with room.
    Shared {
        /// Requests that a connection may have outstanding (pipelining); 1: one at a time.
        depth: u32,
    },
}

/// The distribution of pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// No pause.
    None,
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Uniform between the two.
    Even(Duration, Duration),
}

impl Work {
    /// Whether users have separate connections.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Own { .. })
    }

    /// Requests sent together, or outstanding on a connection.
    pub fn depth(self) -> u32 {
        match self {
            Self::Own { depth, .. } | Self::Shared { depth } => depth,
        }
    }

    /// The pause between two batches.
    pub fn think(self) -> Think {
        match self {
            Self::Own { think, .. } => think,
            Self::Shared { .. } => Think::None,
        }
    }
}

impl Think {
    pub(crate) fn draw(self, random: &mut Pcg64Mcg) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(pause) => pause,
            Self::Exponential(mean) => mean.mul_f64(exponential(random)),
            Self::Even(least, most) => least + (most - least).mul_f64(unit(random)),
        }
    }
}

impl FromStr for Think {
    type Err = Usage;

    /// `100ms`, `exp:100ms` or `50ms..150ms`.
    fn from_str(text: &str) -> Result<Self, Usage> {
        let bad = |_: String| {
            Usage(format!(
                "expected a pause such as 100ms, exp:100ms (mean) or 50ms..150ms, found `{text}`"
            ))
        };
        if let Some(mean) = text.strip_prefix("exp:") {
            return span(mean).map(Self::Exponential).map_err(bad);
        }
        let Some((least, most)) = text.split_once("..") else {
            let pause = span(text).map_err(bad)?;
            return Ok(if pause.is_zero() { Self::None } else { Self::Fixed(pause) });
        };
        let (least, most) = (span(least).map_err(bad)?, span(most).map_err(bad)?);
        if least > most { Err(bad(String::new())) } else { Ok(Self::Even(least, most)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_are_read_and_drawn() {
        for (text, think, mean_ms) in [
            ("0s", Think::None, 0.0),
            ("40ms", Think::Fixed(40 * MS), 40.0),
            ("exp:10ms", Think::Exponential(10 * MS), 10.0),
            ("10ms..30ms", Think::Even(10 * MS, 30 * MS), 20.0),
        ] {
            let found: Think = text.parse().expect(text);
            assert_eq!(found, think);
            let mut random = Pcg64Mcg::seed_from_u64(3);
            let sum: f64 = (0..10_000).map(|_| think.draw(&mut random).as_secs_f64()).sum();
            // Five standard errors of the widest of them are half a millisecond.
            assert!((sum / 10.0 - mean_ms).abs() <= 0.5, "{text}: mean {} ms", sum / 10.0);
        }
        for bad in ["", "exp:", "20ms..10ms", "fast", "1ms..", "-1s"] {
            assert!(bad.parse::<Think>().is_err(), "{bad}");
        }
    }
}
