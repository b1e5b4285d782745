//! Every term of the pages with its explanation: shown in place by one click, and again at the end.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// One term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The identifier in templates.
    pub id: String,
    /// The name of the term.
    pub name: String,
    /// The definition, in words that need no other term.
    pub text: String,
}

#[derive(Deserialize)]
struct File {
    term: Vec<Term>,
}

/// All terms, in the order in which a reader meets them.
pub static TERMS: LazyLock<Vec<Term>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("glossary.toml")).expect("a test reads it");
    let folded = |it: Term| Term { text: it.text.replace('\n', " "), ..it };
    file.term.into_iter().map(folded).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_texts_are_sentences() {
        for (at, term) in TERMS.iter().enumerate() {
            assert!(TERMS[..at].iter().all(|other| other.id != term.id), "{}", term.id);
            assert!(term.text.ends_with('.') && term.text.len() > 60, "{}", term.id);
            assert!(!term.text.contains("  "), "{}", term.id);
        }
        assert!(TERMS.iter().any(|term| (&*term.id, &*term.name) == ("ratio", "Ratio")));
    }
}
