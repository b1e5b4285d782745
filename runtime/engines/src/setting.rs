//! A setting of a server is one row of a table ([`crate::Knobs`]).
//!
//! A row holds the name, the bounds, the default, the unit, the help, and whether a reload changes
//! the setting. Everything else is derived from it: the flag and the key of a configuration file
//! (crate `server`), the field that engines read, the cell of the scoreboard through which workers
//! see a reload, the line of `/status.json`, and the page of flags. A new setting is a row and the
//! place that uses it.

mod values;

use std::ops::RangeInclusive;

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
    /// Its effect, in one sentence.
    pub help: &'static str,
    /// Most users need it, so the short help shows it.
    pub is_common: bool,
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

/// The properties of a row's value.
pub struct Kind<T> {
    /// Other names of the flag and the key.
    pub aliases: &'static [&'static str],
    /// The least and the largest number.
    pub bounds: RangeInclusive<u64>,
    /// Reads it.
    pub read: fn(&str, &RangeInclusive<u64>) -> Result<T, String>,
    /// Most users need it.
    pub is_common: bool,
}

impl<T: Value> Kind<T> {
    /// Any value of its type.
    pub const USUAL: Kind<T> =
        Kind { aliases: &[], bounds: 0..=u64::MAX, read: T::read, is_common: false };
}

/// A value that a person writes and reads.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// The value that was expected and the one that was found.
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
mod tests;
