//! Objectives and conditions, in one grammar for every command and plan:
//! `[ARM] METRIC OP VALUE [at POINT]`.
//!
//! A value has a unit (`5ms`, `10k/s`, `0.1%`, `2MB`) or is a multiple of an arm's (`1.10x old`).
//! The reader of an objective decides whether it must hold or must not.

use crate::words::nearest;
use std::fmt;

/// The quantity that a metric measures; it has units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Nanoseconds.
    Time,
    /// A number a second.
    Rate,
    /// A fraction.
    Share,
    /// Bytes.
    Memory,
    /// A number.
    Count,
}

/// The limit of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// A value in the base unit of its [`Dimension`].
    Value(f64),
    /// A multiple of an arm's value.
    Times(f64, String),
}

/// An objective or a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The arm in question; `None`: the only one, or every other one.
    pub arm: Option<String>,
    /// The metric: `p99.9`, or one of [`METRICS`].
    pub metric: String,
    /// The quantity of the metric.
    pub dimension: Dimension,
    /// Whether the value should lie above the limit, not below.
    pub is_above: bool,
    /// The limit.
    pub limit: Limit,
    /// The load point; `None`: every one.
    pub point: Option<String>,
    /// Whether the text has an older form; `Objective::to_string` gives the present one.
    pub is_old: bool,
}

/// The metrics next to the percentiles `p50`, `p99.9` and so on.
pub const METRICS: [(&str, Dimension); 10] = [
    ("mean", Dimension::Time),
    ("max", Dimension::Time),
    ("rate", Dimension::Rate),
    ("errors", Dimension::Share),
    ("cpu", Dimension::Time),
    ("switches", Dimension::Count),
    ("memory", Dimension::Memory),
    ("connection_memory", Dimension::Memory),
    ("capacity", Dimension::Rate),
    ("recovery", Dimension::Time),
];

impl Dimension {
    /// The units with their sizes, smallest first.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time => {
                &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)]
            }
            Self::Rate => &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)],
            Self::Share => &[("%", 0.01)],
            Self::Memory => &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
            Self::Count => &[("", 1.0), ("k", 1e3), ("M", 1e6)],
        }
    }

    /// Reads a number with its unit; whether it is of the older form, in which rates had no unit.
    fn value(self, text: &str, takes_bare: bool) -> Result<(f64, bool), String> {
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let unit = match text[split..].trim() {
            "µs" => "us",
            "KB" => "kB",
            "K/s" => "k/s",
            "m" if self == Self::Time => "min",
            unit => unit,
        };
        let number = text[..split].parse::<f64>().ok();
        let find = |unit: &str| self.units().iter().find(|it| it.0 == unit).map(|it| it.1);
        let bare = || find(&format!("{unit}/s")).filter(|_| takes_bare && self == Self::Rate);
        let size = find(unit).map(|size| (size, false)).or_else(|| Some((bare()?, true)));
        number.zip(size).map(|(number, (size, is_old))| (number * size, is_old)).ok_or_else(|| {
            let units: Vec<&str> = self.units().iter().map(|it| it.0).collect();
            let units = units.join(", ");
            let kind = match self {
                Self::Time => "a duration",
                Self::Rate => "a rate",
                Self::Share => "a share",
                Self::Memory => "a size",
                Self::Count => return format!("expected a number, found `{text}`"),
            };
            format!("expected {kind} with a unit ({units}), found `{text}`")
        })
    }

    fn write(self, value: f64) -> String {
        let fits = |unit: &&(&str, f64)| value >= unit.1 && !["min", "h"].contains(&unit.0);
        let units = self.units();
        let (unit, size) = units.iter().rev().find(fits).unwrap_or(&units[0]);
        // Rounding removes binary fraction noise: 0.001 / 0.01 is 0.09999999999999999.
        format!("{}{unit}", (value / size * 1e6).round() / 1e6)
    }
}

fn percent(name: &str) -> Option<f64> {
    let percent = name.strip_prefix('p')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent)
}

impl Objective {
    /// Reads one; `known` are the metrics that apply, `p` among them for every percentile.
    ///
    /// # Errors
    /// The expected form, with the nearest metric or the units.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let wrong = |what: &str| {
            let sample = "`p99 < 5ms`, `rate > 10k/s` or `new p99 > 1.10x old at depth 16`";
            format!("{what}: expected METRIC OP VALUE such as {sample}, found `{text}`")
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("no comparison"))?;
        let is_above = text[at..].starts_with('>');
        let right = text[at + 1..].trim_start_matches('=').trim();
        let (arm, name) = match text[..at].trim() {
            // The older form of `p99 < 5ms` is `99%<5ms`.
            left if left.ends_with('%') => (None, left),
            left => left.rsplit_once(' ').map_or((None, left), |(arm, name)| (Some(arm), name)),
        };
        if name.is_empty() {
            return Err(wrong("no metric"));
        }
        let (metric, mut is_old) = match name {
            "rps" | "throughput" | "requests/s" => ("rate".to_owned(), true),
            "p999" => ("p99.9".to_owned(), true),
            _ => match name.strip_suffix('%') {
                Some(percent) => (format!("p{}", percent.trim()), true),
                None => (name.to_owned(), false),
            },
        };
        let is_known = known.contains(&&*metric);
        let dimension = match METRICS.iter().find(|it| it.0 == metric) {
            Some(&(_, dimension)) if is_known => dimension,
            _ if percent(&metric).is_some() && (is_known || known.contains(&"p")) => {
                Dimension::Time
            }
            _ => return Err(unknown(name, known)),
        };
        let (right, point) = match right.split_once(" at ") {
            Some((right, point)) => (right.trim(), Some(point.trim().to_owned())),
            None => (right, None),
        };
        let limit = match right.split_once(' ') {
            Some((factor, other)) if factor.ends_with(['x', '×']) => {
                let factor = factor.trim_end_matches(['x', '×']).parse::<f64>();
                let factor = factor.ok().filter(|it| *it > 0.0);
                Limit::Times(factor.ok_or_else(|| wrong("no factor"))?, other.trim().to_owned())
            }
            _ => {
                // Only names that are older than units may still go without.
                let value = dimension.value(right, is_old || metric == "capacity");
                let (value, is_bare) = value.map_err(|why| format!("{why} in `{text}`"))?;
                is_old |= is_bare;
                Limit::Value(value)
            }
        };
        let arm = arm.map(|arm| arm.trim().to_owned());
        Ok(Self { arm, metric, dimension, is_above, limit, point, is_old })
    }

    /// The fraction of a percentile.
    pub fn share(&self) -> Option<f64> {
        // Divided only once, so that 99.9 % equals the float 0.999.
        percent(&self.metric).map(|percent| (percent * 1e6).round() / 1e8)
    }

    /// The present form of a text of an older one, as a hint.
    pub fn hint(&self) -> Option<String> {
        self.is_old.then(|| format!("hint: the present form is '{self}'"))
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let shown =
        |name: &&str| if *name == "p" { "p50, p99, p99.9".to_owned() } else { (*name).into() };
    let names = known.iter().map(shown).collect::<Vec<String>>().join(", ");
    let advice = nearest(name, known.iter().copied().filter(|it| *it != "p"));
    let advice = advice.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    format!("expected a metric out of {names}, found `{name}`{advice}")
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(arm) = &self.arm {
            write!(f, "{arm} ")?;
        }
        write!(f, "{} {} ", self.metric, if self.is_above { '>' } else { '<' })?;
        match &self.limit {
            Limit::Value(value) => f.write_str(&self.dimension.write(*value))?,
            Limit::Times(factor, arm) => write!(f, "{factor}x {arm}")?,
        }
        self.point.iter().try_for_each(|point| write!(f, " at {point}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["p", "mean", "max", "rate", "errors", "memory", "switches"];

    #[test]
    fn objectives_are_read_and_written() {
        fn check(text: &str, want: &str) {
            let found = Objective::parse(text, KNOWN).expect(text);
            assert_eq!((found.to_string().as_str(), found.hint()), (want, None), "{text}");
            assert_eq!(Objective::parse(want, KNOWN).map(|it| it.limit), Ok(found.limit), "{text}");
        }
        check("p99 < 5ms", "p99 < 5ms");
        check("p99.9<=0.02s", "p99.9 < 20ms");
        check("mean < 1500us", "mean < 1.5ms");
        check("max < 2min", "max < 120s");
        check("rate > 10k/s", "rate > 10k/s");
        check("rate > 12500/s", "rate > 12.5k/s");
        check("errors < 0.1%", "errors < 0.1%");
        check("memory < 2MB", "memory < 2MB");
        check("switches < 0.5", "switches < 0.5");
        check("p99 < 1.10x old", "p99 < 1.1x old");
        check("new p99 >= 1.10× old at depth 16", "new p99 > 1.1x old at depth 16");
        check("epoll (twin) rate < 0.9x epoll", "epoll (twin) rate < 0.9x epoll");
    }

    #[test]
    fn older_forms_are_read_with_a_hint() {
        fn check(text: &str, want: &str) {
            let found = Objective::parse(text, KNOWN).expect(text);
            assert_eq!(found.hint(), Some(format!("hint: the present form is '{want}'")), "{text}");
        }
        check("99%<5ms", "p99 < 5ms");
        check("99.9 % < 5us", "p99.9 < 5us");
        check("epoll rps > 2k", "epoll rate > 2k/s");
        check("new throughput < 0.9x old", "new rate < 0.9x old");
        check("a p999 > 1s", "a p99.9 > 1s");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        fn check(text: &str, want: &str) {
            let found = Objective::parse(text, KNOWN).expect_err(text);
            assert!(found.contains(want), "{text}: {found}");
        }
        check("", "no comparison");
        check("< 5ms", "no metric");
        check("p99 < 5", "a duration with a unit (ns, us, ms, s, min, h), found `5`");
        check("rate > 5000", "a rate with a unit (/s, k/s, M/s), found `5000`");
        check("errors < 0.1", "a share with a unit (%)");
        check("p99 < soon", "found `soon`");
        check("p99 < -5ms", "found `-5ms`");
        check("switches < many", "expected a number");
        check("p99 > -1x old", "no factor");
        check("p100 < 5ms", "expected a metric out of p50, p99, p99.9, mean");
        check("eror < 1%", "found `eror`; did you mean errors?");
        check("cpu < 1ms", "expected a metric out of");
    }
}
