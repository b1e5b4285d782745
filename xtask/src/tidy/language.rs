//! Language: retired words, and sentences without a subject.

use super::{Finding, Tree};

/// The tables of words, which the checks leave out.
const WORDS: &str = "xtask/tidy.toml";

/// A table of [`WORDS`]: each word or phrase, and what to write instead.
fn instead(table: &str) -> Vec<(String, String)> {
    let text: toml::Table = include_str!("../../tidy.toml").parse().expect("a test reads it");
    let rows = text[table].as_table().expect("a table").iter();
    rows.map(|(word, instead)| (word.clone(), instead.as_str().expect("a text").into())).collect()
}

/// Endings of files whose sentences are read by people.
const PROSE: &[&str] = &["rs", "md", "c", "h", "toml", "html"];

/// The history may keep its words.
const HISTORY: &str = "CHANGELOG.md";

/// Words that gave way to the field's own do not come back.
pub(super) fn retired(tree: &Tree) -> Vec<Finding> {
    let retired = instead("retired");
    tree.judge(|file, line, _| {
        let is_read = ![HISTORY, WORDS].contains(&&*file.path);
        let words = retired.iter().filter(|(word, _)| is_read && contains_word(line, word));
        words
            .map(|(word, instead)| format!("`{word}` is retired: write `{instead}`"))
            .collect::<Vec<_>>()
    })
}

/// Sentences have a subject: a thing of the field, not a headless `who` or `what`.
pub(super) fn sentences(tree: &Tree) -> Vec<Finding> {
    let stumbles = instead("stumbles");
    tree.judge(|file, line, _| {
        let is_read = ![HISTORY, WORDS].contains(&&*file.path) && PROSE.contains(&file.ending());
        let prose = if file.is_source() { said(line) } else { Some(line) };
        let Some(prose) = prose.filter(|_| is_read) else { return Vec::new() };
        let padded = format!("{} ", prose.to_lowercase());
        let stumbles = stumbles.iter().filter(|it| padded.contains(&format!(" {}", it.0)));
        let stumbles = stumbles.map(|(phrase, instead)| {
            format!("`{}` makes readers stumble: write {instead}", phrase.trim())
        });
        let is_text = !file.is_source() || line.trim_start().starts_with("//");
        let headless = (is_text && is_headless(prose))
            .then(|| "a sentence begins with its subject: name the thing that is meant".to_owned());
        stumbles.chain(headless).collect()
    })
}

/// The words of a line of source: its comment, or its first string.
fn said(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//").map(|it| it.trim_start_matches(['/', '!']));
    comment.or_else(|| line.split('"').nth(1))
}

/// Whether a sentence in `prose` begins with a bare `Who` or `What` and asks nothing.
fn is_headless(prose: &str) -> bool {
    let begins = ["", ". ", ": ", "; "].into_iter().flat_map(|end| {
        let at = if end.is_empty() { vec![0] } else { ends(prose, end) };
        at.into_iter().map(|at| prose[at..].trim_start())
    });
    let mut bare = begins.filter_map(|it| it.strip_prefix("Who ").or(it.strip_prefix("What ")));
    !prose.contains('?') && bare.any(|rest| rest.starts_with(|it: char| it.is_ascii_lowercase()))
}

/// Where `end` ends in `prose`.
fn ends(prose: &str, end: &str) -> Vec<usize> {
    prose.match_indices(end).map(|(at, _)| at + end.len()).collect()
}

/// Whether `line` contains `word` as a word, or as a part of a compound name.
fn contains_word(line: &str, word: &str) -> bool {
    let is_camel = word.starts_with(|it: char| it.is_ascii_uppercase());
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        let after = line[at + word.len()..].chars().next().unwrap_or(' ');
        let begins = if is_camel { !before.is_ascii_uppercase() } else { !before.is_alphabetic() };
        begins && !after.is_ascii_lowercase()
    })
}
