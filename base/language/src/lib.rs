//! The texts that people read: their language, and which of them are printed ([`level`]).
//!
//! Every text is written in English where it arises; records, JSON and logs stay English. Where a
//! text meets a person, [`tr`] translates it by a catalogue, `lang/ko.po`, in the format of
//! gettext. The key is the English text. A text with values in it is recognised by its template: in
//!
//! ```text
//! msgid "{service} on {v}: {w}, {workers}, pid {n}"
//! msgstr "{service} 서비스: {v}, {w}, {workers}, pid {n}"
//! ```
//!
//! the first letter of a hole says what it takes: `n` a number, `w` a word, `v` any text, which all
//! stay as they are, `l` a list (`a, b and c`) whose items of several words are texts, `t` a text
//! that the catalogue knows, and every other letter a text that is translated if it can be. So a
//! place that prints needs one call, and old records speak Korean too. A Korean particle such as
//! `은(는)` takes the form that the word before it demands.
//!
//! In English nothing is unpacked, and [`tr`] returns its argument.

mod catalogue;
#[cfg(feature = "korean")]
mod korean;
pub mod level;
mod particle;

pub use catalogue::{Catalogue, Translation};
#[cfg(feature = "korean")]
pub use korean::{choose, korean};
pub use level::Level;

use std::borrow::Cow;
use std::sync::OnceLock;

/// The languages, as `--lang` names them; the first is that of the sources.
pub const LANGUAGES: [&str; 2] = ["en", "ko"];

/// The catalogue of this process. It is set once, before the first text.
static CHOSEN: OnceLock<Option<Catalogue>> = OnceLock::new();

/// The chosen catalogue; none in English.
pub fn chosen() -> Option<&'static Catalogue> {
    CHOSEN.get().and_then(Option::as_ref)
}

/// The code of the chosen language, for the attribute `lang` of pages.
pub fn code() -> &'static str {
    if chosen().is_some() { "ko" } else { "en" }
}

/// `text` in the chosen language; English where the catalogue does not know it.
pub fn tr(text: &str) -> Cow<'_, str> {
    chosen().map_or(Cow::Borrowed(text), |catalogue| catalogue.text(text))
}

/// The text segments and labels of an HTML template in the chosen language.
pub fn template(source: &str) -> Cow<'_, str> {
    chosen().map_or(Cow::Borrowed(source), |catalogue| Cow::Owned(catalogue.template(source).0))
}

/// A script whose texts, in calls of its function `T`, are in the chosen language.
pub fn script(source: &str) -> Cow<'_, str> {
    let put = |catalogue: &Catalogue| catalogue.script(source, &mut Vec::new());
    chosen().map_or(Cow::Borrowed(source), |catalogue| Cow::Owned(put(catalogue)))
}

/// A Korean text whose pairs of particles, such as `은(는)`, have the form that the word before each
/// demands.
pub fn with_particles(text: String) -> String {
    particle::resolved(text)
}

/// Prints a line on stdout in the chosen language.
#[macro_export]
macro_rules! println {
    () => { ::std::println!() };
    ($($words:tt)*) => { ::std::println!("{}", $crate::tr(&::std::format!($($words)*))) };
}
