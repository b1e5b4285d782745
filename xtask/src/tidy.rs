//! The rules of the tree that the compiler does not check: imports, sizes, dependencies, words.
//!
//! A check is a pure function from a [`Tree`] to findings, so each has a test with a violation that
//! it must report. The checks run as tests (`xtask/tests/tidy.rs`) and as `cargo xtask tidy`.
//! No check can be switched off for one place.

mod code;
mod cycles;
mod dependencies;
mod imports;
mod language;
mod links;
mod sizes;
mod tree;
mod words;

pub use code::{blank, words};
pub use tree::{Dependency, File, Package, Tree};

use anyhow::bail;
use std::fmt;

/// A place that breaks a rule, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path below the root, with `/`.
    pub path: String,
    /// The line, from 1; 0 where the whole file or package is meant.
    pub line: usize,
    /// The expectation, the finding and the remedy.
    pub what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: String) -> Finding {
        Finding { path: path.to_owned(), line, what }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A rule of the tree.
pub type Check = fn(&Tree) -> Vec<Finding>;

/// All rules by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("imports", imports::imports),
    ("floors", imports::floors),
    ("runtimes", imports::runtimes),
    ("sans-io", imports::sans_io),
    ("cycles", cycles::cycles),
    ("columns", sizes::columns),
    ("files", sizes::files),
    ("names", sizes::names),
    ("argued", dependencies::argued),
    ("used", dependencies::used),
    ("inherited", dependencies::inherited),
    ("unsafe", words::no_unsafe),
    ("unfinished", words::unfinished),
    ("ignored", words::ignored),
    ("packaged", words::packaged),
    ("private-paths", words::private_paths),
    ("retired", language::retired),
    ("sentences", language::sentences),
    ("links", links::links),
];

/// Everything that all checks find in `tree`, as `(check, finding)`.
pub fn check(tree: &Tree) -> Vec<(&'static str, Finding)> {
    let all = CHECKS.iter();
    all.flat_map(|(name, check)| check(tree).into_iter().map(|found| (*name, found))).collect()
}

/// `cargo xtask tidy`.
///
/// # Errors
/// If the tree cannot be read or breaks a rule.
pub fn run(_args: &[String]) -> anyhow::Result<()> {
    let found = check(&Tree::load(&crate::root())?);
    for (name, finding) in &found {
        println!("{finding} [{name}]");
    }
    if !found.is_empty() {
        bail!("expected a tidy tree, found {} places that are not", found.len());
    }
    eprintln!("tidy: {} checks, nothing found", CHECKS.len());
    Ok(())
}
