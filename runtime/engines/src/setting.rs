//! A setting of a server is one row of a table ([`crate::Knobs`]).
//!
//! A row holds the name, the bounds, the default, the unit, the help, and whether a reload changes
//! the setting. Everything else is derived from it: the flag and the key of a configuration file
//! (crate `server`), the field that engines read, the cell of the scoreboard through which workers
//! see a reload, the line of `/status.json`, and the page of flags. A new setting is a row and the
//! place that uses it.

use std::ops::RangeInclusive;
use std::time::Duration;

use sys::uring::Flags;
use wire::conf::{flag_of, span};

/// A setting of `T`.
pub struct SettingRow<T> {
    /// The flag without its dashes, and the key of a configuration file.
    pub name: &'static str,
    /// Other names of both.
    pub aliases: &'static [&'static str],
    /// The heading of its group.
    pub group: &'static str,
    /// The unit or the form of its value; empty for a switch.
    pub unit: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// Most users need it, so the short help shows it.
    pub is_common: bool,
    /// Its value may begin with a hyphen.
    pub takes_hyphens: bool,
    /// Reads its value.
    pub set: fn(&mut T, &str) -> Result<(), String>,
    /// Writes its value; `None`: it is unset.
    pub write: fn(&T) -> Option<String>,
    /// Its cell on the scoreboard, if a reload changes it.
    pub live: Option<LiveSetting<T>>,
}

/// The part of a row that a reload needs.
pub struct LiveSetting<T> {
    /// Its value as a word of the scoreboard.
    pub pack: fn(&T) -> u64,
    /// Writes the value of such a word; `None`: it is unset.
    pub show: fn(u64) -> Option<String>,
    /// Copies the value of the first to the second, unless it is unset.
    pub adopt: fn(&T, &mut T),
}

/// What a row may say about its value.
pub struct Kind<T> {
    /// Other names of the flag and the key.
    pub aliases: &'static [&'static str],
    /// The least and the largest number.
    pub bounds: RangeInclusive<u64>,
    /// Reads it.
    pub read: fn(&str, &RangeInclusive<u64>) -> Result<T, String>,
    /// Most users need it.
    pub is_common: bool,
    /// It may begin with a hyphen.
    pub takes_hyphens: bool,
}

impl<T: Value> Kind<T> {
    /// Any value of its type.
    pub const USUAL: Kind<T> = Kind {
        aliases: &[],
        bounds: 0..=u64::MAX,
        read: T::read,
        is_common: false,
        takes_hyphens: false,
    };
}

/// A value that a person writes and reads.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What was expected and found.
    fn read(text: &str, bounds: &RangeInclusive<u64>) -> Result<Self, String>;

    /// Writes it so that [`Value::read`] reads it again; `None`: it is unset.
    fn write(&self) -> Option<String>;
}

/// A value that fits into a word.
pub trait Word: Value {
    /// The word.
    fn pack(&self) -> u64;

    /// The value of the word.
    fn unpack(word: u64) -> Self;
}

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

impl Value for Flags {
    fn read(text: &str, _: &RangeInclusive<u64>) -> Result<Flags, String> {
        Flags::default().switched(text).map_err(|bad| bad.to_string())
    }

    fn write(&self) -> Option<String> {
        let off = Flags::ALL.minus(*self).words();
        let off: Vec<String> = off.iter().map(|word| format!("-{word}")).collect();
        Some(if off.is_empty() { "+all".to_owned() } else { off.join(",") })
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

/// A count that is written as 0 where there is none.
pub fn none_at_zero(text: &str, bounds: &RangeInclusive<u64>) -> Result<Option<u32>, String> {
    u32::read(text, bounds).map(|count| (count > 0).then_some(count))
}

/// A power of two.
pub fn power_of_two(text: &str, _: &RangeInclusive<u64>) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(count) if count.is_power_of_two() => Ok(count),
        _ => Err(format!("expected a power of two up to 32768, found `{text}`")),
    }
}

/// Makes of a table of settings the structs that hold their values, the rows
/// ([`SettingRow`]), and the view of those in force.
///
/// A group is `struct FIELD: TYPE = "HEADING" { rows }`, whose type is made here, or `use FIELD:
/// TYPE` for a type that exists. A row is `live "NAME" FIELD: TYPE = DEFAULT, "UNIT", more: of
/// [`Kind`];`, with `live` if a reload changes it; its comment is its help.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $made:tt $group:ident: $set:ident = $heading:literal {
            $(
                $(#[doc = $help:literal])+
                $($live:ident)? $name:literal $field:ident: $type:ty $(= $default:expr)?,
                    $unit:literal $(, $key:ident: $value:expr)*;
            )+
        }
    )+) => {
        $($crate::setting::group!($made $set [$($about)+] {
            $([$($help)+] $field: $type [$($default)?])+
        });)+

        /// The settings of any point of the space, in groups.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Knobs {
            $($(#[doc = $about])+ pub $group: $set,)+
        }

        impl Knobs {
            /// All settings.
            pub const ROWS: &'static [SettingRow<Knobs>] = &[$($({
                const KIND: Kind<$type> = Kind { $($key: $value,)* ..Kind::USUAL };
                SettingRow {
                    name: $name,
                    aliases: KIND.aliases,
                    group: $heading,
                    unit: $unit,
                    help: concat!($($help),+).trim_ascii_start(),
                    is_common: KIND.is_common,
                    takes_hyphens: KIND.takes_hyphens,
                    set: |knobs, text| {
                        knobs.$group.$field = (KIND.read)(text, &KIND.bounds)?;
                        Ok(())
                    },
                    write: |knobs| Value::write(&knobs.$group.$field),
                    live: $crate::setting::live!($group $field $type $(, $live)?),
                }
            },)+)+];
        }

        impl InForce<'_> {
            $($($crate::setting::accessor!([$($help)+] $name $field $type $(, $live)?);)+)+
        }
    };
}

/// The struct of a group, with its defaults.
macro_rules! group {
    (use $($rest:tt)*) => {};
    (struct $set:ident [$($about:literal)+] {
        $([$($help:literal)+] $field:ident: $type:ty [$($default:expr)?])+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $set {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl Default for $set {
            fn default() -> $set {
                $set { $($field: $crate::setting::or_default!($($default)?),)+ }
            }
        }
    };
}

macro_rules! or_default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

/// The part of a row that a reload needs.
macro_rules! live {
    ($group:ident $field:ident $type:ty) => {
        None
    };
    ($group:ident $field:ident $type:ty, live) => {
        Some(LiveSetting {
            pack: |knobs| Word::pack(&knobs.$group.$field),
            show: |word| Value::write(&<$type as Word>::unpack(word)),
            adopt: |from, to| {
                if Value::write(&from.$group.$field).is_some() {
                    to.$group.$field = from.$group.$field;
                }
            },
        })
    };
}

/// Reads a setting in force.
macro_rules! accessor {
    ([$($help:literal)+] $name:literal $field:ident $type:ty) => {};
    ([$($help:literal)+] $name:literal $field:ident $type:ty, live) => {
        $(#[doc = $help])+
        #[inline]
        pub fn $field(&self) -> $type {
            const CELL: usize = cell($name);
            Word::unpack(self.0.get(CELL))
        }
    };
}

pub(crate) use {accessor, group, live, or_default, settings};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_read() {
        fn check<T: Value + PartialEq + std::fmt::Debug>(text: &str, value: T) {
            assert_eq!(T::read(text, &(0..=u64::MAX)), Ok(value));
            let written = T::read(text, &(0..=u64::MAX)).expect("just read").write();
            assert_eq!(written.as_deref(), Some(text));
        }
        check("1h", Duration::from_secs(3600));
        check("90s", Duration::from_secs(90));
        check("1500ms", Duration::from_millis(1500));
        check("1500ns", Duration::from_nanos(1500));
        check("0s", Duration::ZERO);
        check("on", true);
        check("17", 17_u16);
        check("17", Some(17_usize));
        check("+all", Flags::ALL);
        check("-no-sqarray", Flags::ALL.switched("-no-sqarray").expect("a flag"));
    }

    #[test]
    fn numbers_outside_their_bounds_are_refused_with_the_bounds() {
        let words = |text| u32::read(text, &(16..=64)).expect_err("refused");
        assert_eq!(words("65"), "expected a number from 16 to 64, found `65`");
        assert_eq!(words("many"), "expected a number from 16 to 64, found `many`");
        let most = u16::read("65536", &(0..=u64::MAX)).expect_err("refused");
        assert_eq!(most, "expected a number from 0 to 65535, found `65536`");
        assert!(power_of_two("3", &(0..=9)).is_err() && power_of_two("64", &(0..=9)) == Ok(64));
        assert_eq!(none_at_zero("0", &(0..=9)), Ok(None));
    }

    #[test]
    fn words_hold_what_was_packed() {
        assert!(Duration::unpack(Duration::MAX.pack()) > Duration::from_secs(1 << 33));
        assert_eq!(Option::<usize>::unpack(None.pack()), None);
        assert_eq!(Option::<usize>::unpack(Some(17).pack()), Some(17));
    }
}
