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
pub mod level;
mod particle;

pub use catalogue::{Catalogue, Translation};
pub use level::Level;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Read;
use std::sync::OnceLock;

/// The languages, as `--lang` names them; the first is that of the sources.
pub const LANGUAGES: [&str; 2] = ["en", "ko"];

/// The variables that choose a language, in the order of POSIX.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// The catalogue of this process. It is set once, before the first text.
static CHOSEN: OnceLock<Option<Catalogue>> = OnceLock::new();

/// Chooses the language of this process: by `--lang` among the words of its command line, or else
/// by the environment.
pub fn choose(words: impl IntoIterator<Item = OsString>) {
    let said = named(words).or_else(|| {
        let values = VARIABLES.iter().filter_map(std::env::var_os);
        values.map(|value| value.to_string_lossy().into_owned()).find(|value| !value.is_empty())
    });
    let is_korean = said.is_some_and(|code| code.starts_with("ko"));
    let _ = CHOSEN.set(is_korean.then(korean));
}

/// The value of `--lang`, the last one if there are several.
fn named(words: impl IntoIterator<Item = OsString>) -> Option<String> {
    let mut words = words.into_iter().take_while(|word| word != "--");
    let mut found = None;
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        match word.strip_prefix("--lang") {
            Some("") => found = words.next().map(|code| code.to_string_lossy().into_owned()),
            Some(rest) if rest.starts_with('=') => found = Some(rest[1..].to_owned()),
            _ => {}
        }
    }
    found
}

/// The Korean catalogue.
///
/// # Panics
/// Never: a test unpacks and reads it.
pub fn korean() -> Catalogue {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ko.po.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("packed by this crate");
    Catalogue::parse(&text)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_and_the_last_one_counts() {
        let check = |line: &str, want: Option<&str>| {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(named(words).as_deref(), want, "{line}");
        };
        check("roundhouse --lang ko race", Some("ko"));
        check("roundhouse race --lang=ko --lang=en", Some("en"));
        check("roundhouse race -- --lang ko", None);
        check("roundhouse race --language ko", None);
    }

    #[test]
    fn each_translation_has_the_holes_of_its_english() {
        let catalogue = korean();
        assert!(catalogue.entries().len() > 100);
        for Translation { id, to } in catalogue.entries() {
            let holes = |text: &str| {
                // The words in an expression of a page are translated, but not the first: its id.
                let known = |hole: &str| match hole.trim_start().starts_with("term(") {
                    true => hole.split('"').nth(1).unwrap_or_default().to_owned(),
                    false => hole.split('"').next().unwrap_or_default().to_owned(),
                };
                let mut all: Vec<String> = catalogue::holes(text).map(known).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(holes(id), holes(to), "{id}");
            assert!(!to.is_empty() && (to != id || id.contains('{')), "{id}");
            assert_eq!(id.trim(), id, "the catalogue needs no blanks at the ends of `{id}`");
        }
    }

    #[test]
    fn the_answer_of_a_race_is_not_taken_for_that_of_two_servers() {
        let check = |text: &str, want: &str| assert_eq!(korean().text(text), want);
        check(
            "At depth 1 `uring` uses the least CPU time per request: 5.96 % [2.78, 8.89] less than \
             `epoll`",
            "depth 1에서 `uring`이 요청당 CPU 시간을 가장 적게 씀: `epoll`보다 5.96 % [2.78, 8.89] 적음",
        );
        check("42 % [39, 54] less CPU time per request", "요청당 CPU 42 % [39, 54] 덜 사용");
    }

    #[test]
    fn a_key_stands_once() {
        let catalogue = korean();
        let mut ids: Vec<&str> = catalogue.entries().iter().map(|it| it.id.as_str()).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            panic!("`{}` stands twice", twice[0]);
        }
    }
}
