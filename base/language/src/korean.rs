//! The Korean catalogue, and the choice of a language.

use std::ffi::OsString;
use std::io::Read;

use flate2::read::GzDecoder;

use crate::{CHOSEN, Catalogue};

/// The variables that choose a language, in the order of POSIX.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

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
    GzDecoder::new(packed).read_to_string(&mut text).expect("packed by this crate");
    Catalogue::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Translation, catalogue};

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
