//! Words that are forbidden in the tree, or outside their place.

use super::code::{line_of, words};
use super::{Finding, Tree};

/// Crates that may say `unsafe`.
const UNSAFE_USERS: &[&str] = &["base/sys/", "runtime/memory/"];
/// Macros that mark unfinished code. The names are split, because this file is checked too.
const UNFINISHED: &[&str] = &["todo", "unimplemented"];
/// The marker of a known fault that cannot land.
const FAULT: &str = concat!("FIX", "ME");
/// Beginnings of paths that exist on one machine only.
const PRIVATE: &[&str] = &["home", "root", "work", "farm", "Users"];

/// `unsafe` is in `sys` and `memory`; elsewhere only as `unsafe impl Share` (and its trait), for
/// the proof that a worker is dead, and where a descriptor is registered with a reactor.
pub(super) fn no_unsafe(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let checked = |path: &str| !UNSAFE_USERS.iter().any(|folder| path.starts_with(folder));
    for file in tree.files.iter().filter(|file| file.is_rust() && checked(&file.path)) {
        for at in words(&file.code, "unsafe") {
            let rest = file.code[at + "unsafe".len()..].trim_start();
            let head = rest.split('{').next().unwrap_or_default();
            let is_share = head.starts_with("impl") && words(head, "Share").next().is_some();
            let is_trait = head.starts_with("trait Share") || head.starts_with("pub trait Share");
            let is_proof = head.contains("-> Dead") || rest.starts_with("{ Dead::sworn(");
            let is_reactor = rest.starts_with("{ AsyncFd::register");
            if !is_share && !is_trait && !is_proof && !is_reactor {
                let what = format!("`unsafe` belongs into {UNSAFE_USERS:?}, or to `impl Share`");
                let line = line_of(&file.code, at);
                found.push(Finding { path: file.path.clone(), line, what });
            }
        }
    }
    found
}

/// Checks that no unfinished code lands, and that dead code is removed instead of excused.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let mut find = |line: usize, what: String| {
            found.push(Finding { path: file.path.clone(), line, what });
        };
        for (at, _) in file.text.match_indices(FAULT) {
            find(line_of(&file.text, at), format!("{FAULT} cannot land: repair it"));
        }
        for name in UNFINISHED {
            let macros =
                words(&file.code, name).filter(|at| file.code[at + name.len()..].starts_with('!'));
            for at in macros {
                find(line_of(&file.code, at), format!("`{name}!` cannot land: write it"));
            }
        }
        for at in words(&file.code, "dead_code") {
            find(line_of(&file.code, at), "dead code is removed, not excused".to_owned());
        }
    }
    found
}

/// A test runs, or says what the machine lacks (`tests/skips.toml`); none is ignored.
pub(super) fn ignored(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (at, _) in file.code.match_indices("#[ignore") {
            let what = "expected a test that runs: skip what the machine lacks, by `testkit`";
            let (path, line) = (file.path.clone(), line_of(&file.code, at));
            found.push(Finding { path, line, what: what.to_owned() });
        }
    }
    found
}

/// A file that a crate includes lies in its folder: cargo packages no other.
pub(super) fn packaged(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        // Tests are not built from a package, and `testkit` and `xtask` are not published.
        let is_published = !["tests/", "xtask/"].iter().any(|it| file.path.starts_with(it));
        let Some((_, below)) = file.path.split_once("/src/").filter(|_| is_published) else {
            continue;
        };
        for (index, line) in file.text.lines().enumerate() {
            let included =
                line.split_once("include_").and_then(|(_, rest)| rest.split_once("!(\""));
            let climbs = included.and_then(|(_, path)| path.split('"').next());
            let climbs = climbs.map_or(0, |path| path.matches("../").count());
            if climbs > below.matches('/').count() + 1 {
                let what = "expected a path inside the crate: link the file there".to_owned();
                found.push(Finding { path: file.path.clone(), line: index + 1, what });
            }
        }
    }
    found
}

/// No path that exists on one developer's machine only.
pub(super) fn private_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            for name in PRIVATE {
                let path = format!("/{name}/");
                let mut places = line.match_indices(&path).map(|(at, _)| at);
                // After a word, a point or a bracket it is the middle of a longer path or a link.
                let begins = |at: usize| {
                    let before = line[..at].chars().next_back().unwrap_or(' ');
                    !before.is_alphanumeric() && !"._-/}])~".contains(before)
                };
                if places.any(begins) {
                    let what =
                        format!("`{path}…` exists on one machine only: take it as an argument");
                    found.push(Finding { path: file.path.clone(), line: index + 1, what });
                }
            }
        }
    }
    found
}
