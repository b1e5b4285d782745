//! The types of values of settings: how each is read, written and packed into a word.

use super::{Value, Word};
use std::ops::RangeInclusive;
use std::time::Duration;
use sys::xdp::DeviceName;
use wire::conf::{flag_of, span};

macro_rules! numbers {
    ($($type:ty),+) => {
        $(impl Value for $type {
            fn read(text: &str, bounds: &RangeInclusive<u64>) -> Result<$type, String> {
                let number = text.parse().ok().filter(|number| bounds.contains(number));
                let fitting = number.and_then(|number: u64| number.try_into().ok());
                fitting.ok_or_else(|| {
                    let most = (*bounds.end()).min(<$type>::MAX as u64);
                    format!("expected a number from {} to {most}, found `{text}`", bounds.start())
                })
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        })+
    };
}

numbers!(u16, u32, u64, usize);

impl Value for bool {
    fn read(text: &str, _: &RangeInclusive<u64>) -> Result<bool, String> {
        flag_of(text).ok_or_else(|| format!("expected on or off, found `{text}`"))
    }

    fn write(&self) -> Option<String> {
        Some(if *self { "on" } else { "off" }.to_owned())
    }
}

impl Value for Duration {
    fn read(text: &str, _: &RangeInclusive<u64>) -> Result<Duration, String> {
        span(text)
    }

    fn write(&self) -> Option<String> {
        let units = [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms")];
        let ns = self.as_nanos();
        let whole = units.iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
        Some(match whole {
            Some((unit, name)) => format!("{}{name}", ns / unit),
            None if ns == 0 => "0s".to_owned(),
            None => format!("{ns}ns"),
        })
    }
}

impl Value for DeviceName {
    fn read(text: &str, _: &RangeInclusive<u64>) -> Result<DeviceName, String> {
        DeviceName::new(text)
            .ok_or_else(|| format!("expected the name of a network interface, found `{text}`"))
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<T: Value> Value for Option<T> {
    fn read(text: &str, bounds: &RangeInclusive<u64>) -> Result<Option<T>, String> {
        T::read(text, bounds).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(Value::write)
    }
}

impl Word for Duration {
    /// 584 years fit; longer times are cut.
    fn pack(&self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }

    fn unpack(word: u64) -> Duration {
        Duration::from_nanos(word)
    }
}

/// All ones: unset.
impl Word for Option<usize> {
    fn pack(&self) -> u64 {
        self.map_or(u64::MAX, |number| number as u64)
    }

    fn unpack(word: u64) -> Option<usize> {
        (word != u64::MAX).then_some(word as usize)
    }
}
